// A client of examples/auctions/auctions.theta: a service of actors.

#include <iostream>

#include "bifrost_stubs.hpp"

using stubs::House;

int main() {
  auto s = stubs::connect(std::getenv("BIFROST_URL"));

  // Two auctions. Their references are used before they are known, and the first two bids run at the same time.
  auto house = s.lookup<House>("house");
  auto lamp = house.open("lamp", 10);
  auto clock = house.open("clock", 50);
  auto first = lamp.bid(12), second = clock.bid(60);
  std::cout << "bids: " << first.claim() << " and " << second.claim() << "\n";

  // A bid that is too low is an exception of the call, and the rest goes on.
  auto low = lamp.bid(11);
  auto price = clock.price();
  try {
    low.claim();
  } catch (const stubs::signals::TooLow &error) {
    std::cout << "too low: " << std::get<0>(error.values()) << " is offered\n";
  }
  std::cout << "clock: " << price.claim() << "\n";

  // Bids in a loop: all are sent before the first is awaited. Each failure is told with its round.
  s.foreach(s.value(1).to(5), [&](auto n) { lamp.bid(n * 5); });
  auto best = lamp.price();
  try {
    best.claim();
  } catch (const bf::Unseen &error) {
    for (const auto &part : error.parts())
      std::cout << "round " << part.rounds().at(0) << ": " << part.signal() << "\n";
  }
  std::cout << "lamp: " << best.claim() << "\n";

  // Nobody waits for a message, and messages of a session to an actor arrive in the order in which they were sent.
  clock.send().bid(70);
  clock.send().bid(65);
  std::cout << "clock: " << clock.price().claim() << "\n";
  s.close();
}
