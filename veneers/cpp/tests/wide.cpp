// BIFROST_URL is a server of cases/programs/wide.theta.

#include "check.hpp"

#include "bifrost_stubs.hpp"

static void a_wide_call(const bf::Session &s) {
  auto sum = stubs::wide_sum(s, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22);
  SAME(sum.claim(), 24151);
}

int main() {
  a_wide_call(stubs::connect(std::getenv("BIFROST_URL")));
  std::cout << "case a_wide_call ok\n";
}
