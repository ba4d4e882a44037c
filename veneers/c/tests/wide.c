/* BIFROST_URL is a server of cases/programs/wide.theta. */

#include "check.h"

#include "bifrost_stubs.h"

static void a_wide_call(bf_session *s) {
  bf_int sum = stubs_wide_sum(s, bf_i(1), bf_i(2), bf_i(3), bf_i(4), bf_i(5), bf_i(6), bf_i(7), bf_i(8), bf_i(9),
                              bf_i(10), bf_i(11), bf_i(12), bf_i(13), bf_i(14), bf_i(15), bf_i(16), bf_i(17), bf_i(18),
                              bf_i(19), bf_i(20), bf_i(21), bf_i(22));
  IS_INT(s, sum, 24151);
}

int main(void) {
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  CHECK(s);
  a_wide_call(s);
  bf_close(s);
  printf("case a_wide_call ok\n");
  return 0;
}
