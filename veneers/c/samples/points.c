/* A client of examples/points/points.theta: small mutable objects, a batched procedure, a cell. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bifrost_stubs.h"

static void ok(bf_session *s, bf_status status) {
  if (status == BF_OK) return;
  fprintf(stderr, "%s\n", bf_error_text(s));
  exit(1);
}

int main(void) {
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  if (!s) {
    fprintf(stderr, "%s\n", bf_error_text(NULL));
    return 1;
  }
  int64_t n, m;

  /* Swap the coordinates of a point, step by step: one crossing. */
  Point p = Point_lookup(s, "home");
  bf_int t = Point_x(p);
  Point_set_x(p, Point_y(p));
  Point_set_y(p, t);
  bf_int x = Point_x(p), y = Point_y(p);
  ok(s, BF_CLAIM(x, &n));
  ok(s, BF_CLAIM(y, &m));
  printf("swapped: %" PRId64 ", %" PRId64 "\n", n, m);

  /* A procedure is a batch with a name: defined once, called like a routine. */
  bf_ref given[2];
  bf_types types = BF_TYPES(BF_TYPE(Point), BF_TYPE(bf_int));
  uint32_t move = bf_procedure(s, "move", types, NULL, bf_refs_(given, 2), BF_HERE);
  Point q = bf_of_Point(given[0]);
  bf_int by = bf_of_bf_int(given[1]);
  Point_set_x(q, bf_int_add(Point_x(q), by));
  Point_set_y(q, bf_int_add(Point_y(q), by));
  bf_procedure_end(s, move, NULL, BF_HERE);
  bf_release(BF_CALL(s, move, bf_arg_Point(p), bf_arg_bf_int(bf_i(10))));
  bf_release(BF_CALL(s, move, bf_arg_Point(p), bf_arg_bf_int(bf_i(100))));
  x = Point_x(p);
  y = Point_y(p);
  ok(s, BF_CLAIM(x, &n));
  ok(s, BF_CLAIM(y, &m));
  printf("moved: %" PRId64 ", %" PRId64 "\n", n, m);

  /* The sum of a list, with a WHILE over a cell. */
  ListOfInt_cell at = ListOfInt_cell_new(s, ListOfInt_lookup(s, "primes"));
  bf_int_cell sum = bf_int_cell_new(s, bf_i(0));
  BF_WHILE(s, ListOfInt_not_empty(ListOfInt_cell_get(at))) {
    bf_int_cell_put(sum, bf_int_add(bf_int_cell_get(sum), ListOfInt_first(ListOfInt_cell_get(at))));
    ListOfInt_cell_put(at, ListOfInt_next(ListOfInt_cell_get(at)));
  }
  ok(s, BF_CLAIM(bf_int_cell_get(sum), &n));
  printf("sum: %" PRId64 "\n", n);
  bf_counts counts;
  bf_counters(s, &counts);
  printf("crossings: %" PRIu64 "\n", counts.crossings);
  ok(s, bf_finish(s, BF_HERE));
  bf_close(s);
  return 0;
}
