/* BIFROST_URL is a server of cases/programs/actors.theta. */

#include "check.h"

#include "bifrost_stubs.h"

static void actors_answer_and_are_sent_to(bf_session *s) {
  Adder adder = Adder_lookup(s, "adder");
  bf_int one = Adder_add(adder, bf_i(1));
  AdderSend_add(adder, bf_i(10));
  bf_int value = Adder_value(adder), wrong = Adder_add(adder, bf_i(-5));
  IS_INT(s, one, 1);
  IS_INT(s, value, 11);
  SIGNALS(s, BF_CLAIM_INT(wrong, NULL), "negative");
  CHECK(bf_value_int(bf_error_values(bf_error_last(s)).items[0]) == -5);
  CHECK(crossings(s) == 1);
}

int main(void) {
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  CHECK(s);
  actors_answer_and_are_sent_to(s);
  bf_close(s);
  printf("case actors_answer_and_are_sent_to ok\n");
  return 0;
}
