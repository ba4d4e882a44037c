// What must not compile: each CASE is one. CASE 0 compiles.

#include "bifrost_stubs.hpp"

using namespace stubs;

void record(const bf::Session &s, const Probe &p) {
  bf::Promise<bool> yes = p.same_bool(true);
  bf::Promise<std::int64_t> n = p.same_int(1);
#if CASE == 0
  BF_FOREACH(s, p.items(), Item item) {
    BF_IF(s, yes) {
      item.rename("x");
    };
  };
  p.same_real(1);
#elif CASE == 1
  if (yes) s.flush();
#elif CASE == 2
  BF_IF(s, yes && p.same_bool(false)) {
  };
#elif CASE == 3
  BF_IF(s, yes || p.same_bool(false)) {
  };
#elif CASE == 4
  BF_FOREACH(s, p.items(), Item item) {
    item.rename("x");
    break;
  };
#elif CASE == 5
  while (true)
    BF_IF(s, yes) {
      continue;
    };
#elif CASE == 6
  BF_FOREACH(s, p.numbers(3), Item item) {
    item.rename("x");
  };
#elif CASE == 7
  p.same_int("text");
#elif CASE == 8
  p.same_int(true);
#elif CASE == 9
  p.name_of(p);
#elif CASE == 10
  s.if_(n, [] {});
#elif CASE == 11
  std::int64_t value = n;
#elif CASE == 12
  s.except([] {}).when<Item>([] {});
#elif CASE == 13
  p.same_int(std::uint64_t{1});
#elif CASE == 14
  if (n == 1) s.flush();
#endif
  (void)n;
}
