/* A client of examples/lists/lists.theta: a WHILE whose end depends on the data. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bifrost_stubs.h"

static void ok(bf_session *s, bf_status status) {
  if (status == BF_OK) return;
  fprintf(stderr, "%s\n", bf_error_text(s));
  exit(1);
}

static uint64_t crossings(bf_session *s) {
  bf_counts counts;
  bf_counters(s, &counts);
  return counts.crossings;
}

int main(void) {
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  if (!s) {
    fprintf(stderr, "%s\n", bf_error_text(NULL));
    return 1;
  }
  int64_t n;

  /* Ten steps along the list, one crossing: every step uses a result that does not exist yet. */
  IntList list = IntList_lookup(s, "squares"), at = list;
  for (int i = 1; i < 10; i++) at = IntList_next(at);
  ok(s, BF_CLAIM(IntList_first(at), &n));
  printf("the 10th is %" PRId64 "\n", n);
  printf("crossings: %" PRIu64 "\n", crossings(s));

  /* How far the list goes is not known here: a WHILE finds out over there. */
  IntList_cell rest = IntList_cell_new(s, list);
  bf_int_cell count = bf_int_cell_new(s, bf_i(0));
  BF_WHILE(s, IntList_not_empty(IntList_cell_get(rest))) {
    bf_int_cell_put(count, bf_int_add(bf_int_cell_get(count), bf_i(1)));
    IntList_cell_put(rest, IntList_next(IntList_cell_get(rest)));
  }
  ok(s, BF_CLAIM(bf_int_cell_get(count), &n));
  printf("it has %" PRId64 " elements\n", n);

  /* The same as a routine that the program has. */
  bf_int tenth = stubs_nth(s, list, bf_i(10)), none = stubs_nth(s, list, bf_i(101));
  ok(s, BF_CLAIM(tenth, &n));
  printf("the 10th is %" PRId64 "\n", n);
  if (BF_CLAIM(none, &n) == BF_E_SIGNAL) printf("the 101st: %s\n", bf_error_name(bf_error_last(s)));
  printf("crossings: %" PRIu64 "\n", crossings(s));
  ok(s, bf_finish(s, BF_HERE));
  bf_close(s);
  return 0;
}
