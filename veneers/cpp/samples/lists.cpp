// A client of examples/lists/lists.theta: a WHILE whose end depends on the data.

#include <iostream>

#include "bifrost_stubs.hpp"

using stubs::IntList;

int main() {
  auto s = stubs::connect(std::getenv("BIFROST_URL"));

  // Ten steps along the list, one crossing: every step uses a result that does not exist yet.
  auto list = s.lookup<IntList>("squares");
  IntList at = list;
  for (int i = 1; i < 10; ++i) at = at.next();
  std::cout << "the 10th is " << at.first().claim() << "\n";
  std::cout << "crossings: " << s.counters().crossings << "\n";

  // How far the list goes is not known here: a WHILE finds out over there.
  auto rest = s.cell_with<IntList>(list);
  auto count = s.cell_with<std::int64_t>(0);
  s.while_([&] { return rest.get().not_empty(); },
           [&] {
             count.put(count.get() + 1);
             rest.put(rest.get().next());
           });
  std::cout << "it has " << count.get().claim() << " elements\n";

  // The same as a routine that the program has.
  auto tenth = stubs::nth(s, list, 10), none = stubs::nth(s, list, 101);
  std::cout << "the 10th is " << tenth.claim() << "\n";
  try {
    none.claim();
  } catch (const stubs::signals::Bounds &error) {
    std::cout << "the 101st: " << error.signal() << "\n";
  }
  std::cout << "crossings: " << s.counters().crossings << "\n";
  s.close();
}
