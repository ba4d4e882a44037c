"""Actors: requests that run at the same time, and messages; with
``examples/auctions/auctions.theta``.
"""

import os

from bifrost_stubs import House, TooLow, connect

import bifrost_veneer as bf


def main() -> None:
    with connect(os.environ["BIFROST_URL"]) as s:
        # Two auctions. Their references are used before they are known, and the first two bids run
        # at the same time.
        house = s.lookup("house", House)
        lamp, clock = house.open("lamp", 10), house.open("clock", 50)
        first, second = lamp.bid(12), clock.bid(60)
        print(f"bids: {first.claim()} and {second.claim()}")

        # A bid that is too low is an exception of the call; the rest goes on.
        low, price = lamp.bid(11), clock.price()
        try:
            low.claim()
        except TooLow as error:
            print(f"too low: {error.values[0]} is offered")
        print(f"the clock: {price.claim()}")

        # Bids in a loop: all are sent before the first is awaited. Each failure says its round.
        with s.foreach(s.value(1).to(5)) as n:
            lamp.bid(n * 5)
        price = lamp.price()
        try:
            price.claim()
        except bf.Unseen as unseen:
            for failure in unseen.failures:
                assert isinstance(failure, TooLow)
                assert failure.call is not None
                print(f"round {failure.call.rounds[0]}: {failure.signal} ({failure.values[0]})")
        print(f"the lamp: {price.claim()}")

        # Nobody waits for a message. Messages of a session to an actor arrive in their order.
        clock.send.bid(70)
        clock.send.bid(65)
        print(f"the clock: {clock.price().claim()}")


if __name__ == "__main__":
    main()
