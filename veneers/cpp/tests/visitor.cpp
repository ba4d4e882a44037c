// A client among many of one server: `visitor_cpp NAME TIMES` visits Ann and a person of its own, so many times.
// veneers/together.sh runs it beside clients in other languages, over other media.

#include <cstdlib>
#include <iostream>
#include <string>

#include "bifrost_stubs.hpp"

int main(int count, char **arguments) {
  if (count != 3) return 2;
  const std::string name = arguments[1];
  const long times = std::atol(arguments[2]);
  auto s = stubs::connect(std::getenv("BIFROST_URL"));
  auto db = s.lookup<stubs::DataBase>("database");
  auto own = s.transaction([&] { return db.new_user(name); });
  std::int64_t last = -1;
  for (long i = 0; i < times; i++) {
    auto seen = s.transaction([&] {
      auto ann = db.fetch("ann");
      ann.touch();
      own.touch();
      return ann.visits();
    });
    const auto visits = seen.claim();
    if (visits <= last) {
      std::cerr << "Ann had " << last << " visits, and has " << visits << "\n";
      return 1;
    }
    last = visits;
  }
  std::cout << name << ": " << own.visits().claim() << " visits, Ann at least " << last << "\n";
}
