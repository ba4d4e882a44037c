package auctions;

import auctions.Auctions.Auction;
import auctions.Auctions.House;
import auctions.Auctions.TooLow;
import org.bifrost.veneer.Failure;
import org.bifrost.veneer.Int;
import org.bifrost.veneer.Session;
import org.bifrost.veneer.UnseenException;

/**
 * Actors: requests that run at the same time, and messages; with {@code
 * examples/auctions/auctions.theta}.
 */
public final class Main {
  private Main() {}

  /** Runs the sample with the server at {@code BIFROST_URL}. */
  public static void main(String[] arguments) {
    try (Session s = Auctions.connect(System.getenv("BIFROST_URL"))) {
      // Two auctions. Their references are used before they are known, and the first two bids run
      // at the same time.
      House house = s.lookup("house", House.TYPE);
      Auction lamp = house.open("lamp", 10);
      Auction clock = house.open("clock", 50);
      Int first = lamp.bid(12);
      Int second = clock.bid(60);
      System.out.println("bids: " + first.claim() + " and " + second.claim());

      // A bid that is too low is an exception of the call; the rest goes on.
      Int low = lamp.bid(11);
      Int price = clock.price();
      try {
        low.claim();
      } catch (TooLow error) {
        System.out.println("too low: " + error.first() + " is offered");
      }
      System.out.println("the clock: " + price.claim());

      // Bids in a loop: all are sent before the first is awaited. Each failure says its round.
      s.foreach(s.value(1).to(5), n -> lamp.bid(n.times(5)));
      Int last = lamp.price();
      try {
        last.claim();
      } catch (UnseenException unseen) {
        for (Throwable one : unseen.getSuppressed()) {
          TooLow error = (TooLow) one;
          Failure.CallName call = error.failure().call();
          System.out.println(
              "round "
                  + (call == null ? "?" : call.rounds().get(0))
                  + ": "
                  + error.signal()
                  + " ("
                  + error.first()
                  + ")");
        }
      }
      System.out.println("the lamp: " + last.claim());

      // Nobody waits for a message. Messages of a session to an actor arrive in their order.
      clock.sendBid(70);
      clock.sendBid(65);
      System.out.println("the clock: " + clock.price().claim());
    }
  }
}
