// A client of examples/points/points.theta: small mutable objects, a batched procedure, a cell.

#include <iostream>

#include "bifrost_stubs.hpp"

using stubs::ListOfInt;
using stubs::Point;

int main() {
  auto s = stubs::connect(std::getenv("BIFROST_URL"));

  // Swap the coordinates of a point, step by step: one crossing.
  auto p = s.lookup<Point>("home");
  auto t = p.x();
  p.set_x(p.y());
  p.set_y(t);
  auto x = p.x(), y = p.y();
  std::cout << "swapped: " << x.claim() << ", " << y.claim() << "\n";

  // A procedure is a batch with a name: defined once, called like a routine.
  auto move = s.procedure<void(Point, std::int64_t)>("move", [](auto &, Point q, auto by) {
    q.set_x(q.x() + by);
    q.set_y(q.y() + by);
  });
  move(p, 10);
  move(p, 100);
  x = p.x(), y = p.y();
  std::cout << "moved: " << x.claim() << ", " << y.claim() << "\n";

  // The sum of a list, with a WHILE over a cell.
  auto at = s.cell_with<ListOfInt>(s.lookup<ListOfInt>("primes"));
  auto sum = s.cell_with<std::int64_t>(0);
  BF_WHILE(s, at.get().not_empty()) {
    sum.put(sum.get() + at.get().first());
    at.put(at.get().next());
  };
  std::cout << "sum: " << sum.get().claim() << "\n";
  std::cout << "crossings: " << s.counters().crossings << "\n";
  s.close();
}
