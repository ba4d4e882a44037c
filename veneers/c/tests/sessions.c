/* The cases of cases/sessions.yaml: several sessions at one server. BIFROST_URL is a server of
 * cases/programs/hermitage.theta. Each case begins with two new rows, of the values 10 and 20. */

#include <pthread.h>

#include "check.h"

#include "bifrost_stubs.h"

enum { NO_SUCH_HANDLE = 1, CONFLICT = 26 };

/** A session, with the table and its rows. */
typedef struct seat {
  bf_session *s;
  Table t;
  Row one, two;
} seat;

static seat take(void) {
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  CHECK(s);
  Table t = Table_lookup(s, "table");
  seat taken = {s, t, Table_row(t, bf_i(1)), Table_row(t, bf_i(2))};
  OK(s, BF_CLAIM_NIL(BF_ABORT(s)));
  return taken;
}

static void flush(seat *a) { OK(a->s, BF_FLUSH(a->s)); }

static void commit(seat *a) { OK(a->s, BF_CLAIM_NIL(BF_COMMIT(a->s))); }

static void is_refused(seat *a, bf_status status, uint32_t number) {
  IS(a->s, status, BF_E_REFUSED);
  CHECK(bf_error_number(bf_error_root(bf_error_last(a->s))) == number);
}

static void conflicts(seat *a) { is_refused(a, BF_CLAIM_NIL(BF_COMMIT(a->s)), CONFLICT); }

static void has_values(seat *a, int64_t first, int64_t second) {
  bf_int one = Row_value(a->one), two = Row_value(a->two);
  IS_INT(a->s, one, first);
  IS_INT(a->s, two, second);
}

static void g0_write_cycles(seat *a, seat *b, seat *c) {
  (void)c;
  Row_put(a->one, bf_i(11));
  flush(a);
  Row_put(b->one, bf_i(12));
  flush(b);
  Row_put(a->two, bf_i(21));
  commit(a);
  Row_put(b->two, bf_i(22));
  conflicts(b);
  has_values(b, 11, 21);
}

static void g1a_aborted_reads(seat *a, seat *b, seat *c) {
  (void)c;
  Row_put(a->one, bf_i(101));
  flush(a);
  IS_INT(b->s, Row_value(b->one), 10);
  OK(a->s, BF_CLAIM_NIL(BF_ABORT(a->s)));
  IS_INT(b->s, Row_value(b->one), 10);
  commit(b);
}

static void g1b_intermediate_reads(seat *a, seat *b, seat *c) {
  (void)c;
  Row_put(a->one, bf_i(101));
  flush(a);
  IS_INT(b->s, Row_value(b->one), 10);
  Row_put(a->one, bf_i(11));
  commit(a);
  IS_INT(b->s, Row_value(b->one), 10);
  conflicts(b);
  IS_INT(b->s, Row_value(b->one), 11);
}

static void g1c_circular_information_flow(seat *a, seat *b, seat *c) {
  (void)c;
  Row_put(a->one, bf_i(11));
  flush(a);
  Row_put(b->two, bf_i(22));
  flush(b);
  IS_INT(a->s, Row_value(a->two), 20);
  IS_INT(b->s, Row_value(b->one), 10);
  commit(a);
  conflicts(b);
  has_values(b, 11, 20);
}

static void otv_observed_transaction_vanishes(seat *a, seat *b, seat *c) {
  Row_put(a->one, bf_i(11));
  Row_put(a->two, bf_i(19));
  flush(a);
  Row_put(b->one, bf_i(12));
  flush(b);
  commit(a);
  IS_INT(c->s, Row_value(c->one), 11);
  Row_put(b->two, bf_i(18));
  conflicts(b);
  IS_INT(c->s, Row_value(c->two), 19);
  has_values(c, 11, 19);
  commit(c);
}

static void pmp_predicate_many_preceders(seat *a, seat *b, seat *c) {
  (void)c;
  IS_INT(a->s, Table_with_value(a->t, bf_i(30)), 0);
  Row_release(Table_insert(b->t, bf_i(3), bf_i(30)));
  commit(b);
  IS_INT(a->s, Table_divisible(a->t, bf_i(3)), 0);
  conflicts(a);
  IS_INT(a->s, Table_divisible(a->t, bf_i(3)), 1);
  commit(a);
}

static void remove_twenty(seat *b) {
  BF_FOREACH(b->s, Row, row, Table_rows(b->t)) {
    BF_IF(b->s, bf_int_equal(Row_value(row), bf_i(20))) Table_remove(b->t, Row_id(row));
  }
}

static void pmp_with_changes(seat *a, seat *b, seat *c) {
  (void)c;
  BF_FOREACH(a->s, Row, row, Table_rows(a->t)) Row_add(row, bf_i(10));
  flush(a);
  remove_twenty(b);
  flush(b);
  commit(a);
  conflicts(b);
  remove_twenty(b);
  commit(b);
  IS_INT(b->s, Table_total(b->t), 30);
}

static void p4_lost_update(seat *a, seat *b, seat *c) {
  (void)c;
  bf_int first = Row_value(a->one), second = Row_value(b->one);
  IS_INT(a->s, first, 10);
  IS_INT(b->s, second, 10);
  Row_put(a->one, bf_int_add(first, bf_i(1)));
  OK(a->s, BF_CLAIM_NIL(BF_COMMIT(a->s)));
  Row_put(b->one, bf_int_add(second, bf_i(1)));
  is_refused(b, BF_CLAIM_NIL(BF_COMMIT(b->s)), CONFLICT);
  /* The same again, with the value that is there now. */
  Row_put(b->one, bf_int_add(Row_value(b->one), bf_i(1)));
  OK(b->s, BF_CLAIM_NIL(BF_COMMIT(b->s)));
  IS_INT(b->s, Row_value(b->one), 12);
}

static void g_single_read_skew(seat *a, seat *b, seat *c) {
  (void)c;
  IS_INT(a->s, Row_value(a->one), 10);
  Row_put(b->one, bf_i(12));
  Row_put(b->two, bf_i(18));
  commit(b);
  IS_INT(a->s, Row_value(a->two), 20);
  Row_put(a->two, bf_i(0));
  conflicts(a);
  has_values(a, 12, 18);
  commit(a);
}

static void g2_item_write_skew(seat *a, seat *b, seat *c) {
  (void)c;
  has_values(a, 10, 20);
  has_values(b, 10, 20);
  Row_put(a->one, bf_i(11));
  flush(a);
  Row_put(b->two, bf_i(21));
  flush(b);
  commit(a);
  conflicts(b);
  IS_INT(b->s, Table_total(b->t), 31);
}

static void g2_anti_dependency_cycles(seat *a, seat *b, seat *c) {
  (void)c;
  IS_INT(a->s, Table_divisible(a->t, bf_i(3)), 0);
  IS_INT(b->s, Table_divisible(b->t, bf_i(3)), 0);
  Row_release(Table_insert(a->t, bf_i(3), bf_i(30)));
  flush(a);
  Row_release(Table_insert(b->t, bf_i(4), bf_i(42)));
  flush(b);
  commit(a);
  conflicts(b);
  BF_IF(b->s, bf_int_equal(Table_divisible(b->t, bf_i(3)), bf_i(0))) Row_release(Table_insert(b->t, bf_i(4), bf_i(42)));
  commit(b);
  IS_INT(b->s, Table_divisible(b->t, bf_i(3)), 1);
}

static void g2_two_edges(seat *a, seat *b, seat *c) {
  IS_INT(a->s, Table_total(a->t), 30);
  Row_add(b->two, bf_i(5));
  commit(b);
  IS_INT(c->s, Table_total(c->t), 35);
  commit(c);
  Row_put(a->one, bf_i(0));
  conflicts(a);
  IS_INT(a->s, Table_total(a->t), 35);
}

static void changes_are_seen_after_the_commit(seat *a, seat *b, seat *c) {
  (void)c;
  Row three = Table_insert(a->t, bf_i(3), bf_i(30));
  flush(a);
  SIGNALS(b->s, Row_claim(Table_row(b->t, bf_i(3))), "not_found");
  IS_INT(b->s, Table_total(b->t), 30);
  commit(b);
  commit(a);
  Row same = Table_row(b->t, bf_i(3));
  IS_INT(b->s, Table_total(b->t), 60);
  Row_add(same, bf_i(1));
  commit(b);
  IS_INT(a->s, Row_value(three), 31);
}

static void changes_of_different_objects_do_not_conflict(seat *a, seat *b, seat *c) {
  (void)c;
  Row_add(a->one, bf_i(1));
  flush(a);
  Row_add(b->two, bf_i(1));
  flush(b);
  commit(a);
  commit(b);
  IS_INT(a->s, Table_total(a->t), 32);
}

static void commands_behind_a_conflict_are_not_reached(seat *a, seat *b, seat *c) {
  (void)c;
  IS_INT(b->s, Row_value(b->one), 10);
  Row_add(a->one, bf_i(1));
  commit(a);
  Row_add(b->one, bf_i(1));
  bf_nil done = BF_COMMIT(b->s);
  Row_add(b->one, bf_i(1));
  bf_int value = Row_value(b->one);
  is_refused(b, BF_CLAIM_NIL(done), CONFLICT);
  /* The status is that of the commit, from whose failure this one follows. */
  is_refused(b, BF_CLAIM_INT(value, NULL), CONFLICT);
  CHECK(bf_error_root(bf_error_last(b->s)) != bf_error_last(b->s));
  IS_INT(b->s, Row_value(b->one), 11);
}

static void a_conflict_undoes_objects(seat *a, seat *b, seat *c) {
  (void)c;
  IS_INT(a->s, Table_total(a->t), 30);
  Row three = Table_insert(a->t, bf_i(3), bf_i(1));
  flush(a);
  Row_release(Table_insert(b->t, bf_i(3), bf_i(2)));
  commit(b);
  conflicts(a);
  is_refused(a, BF_CLAIM_INT(Row_value(three), NULL), NO_SUCH_HANDLE);
  IS_INT(a->s, Row_value(Table_row(a->t, bf_i(3))), 2);
  commit(a);
}

static void *add_often(void *nothing) {
  (void)nothing;
  seat mine = take();
  bf_how how = {30, false, {0, 0}, 0};
  bf_status status;
  BF_TRANSACTION(mine.s, &how, &status) {
    BF_FOREACH(mine.s, bf_int, i, bf_int_to(bf_int_stub(mine.s, 1), bf_i(1000))) {
      (void)i;
      BF_FOREACH(mine.s, Row, row, Table_rows(mine.t)) Row_add(row, bf_i(1));
    }
  }
  OK(mine.s, status);
  bf_close(mine.s);
  return NULL;
}

static void conflicts_are_run_again_by_the_server(seat *a, seat *b, seat *c) {
  (void)b, (void)c;
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, add_often, NULL) == 0);
  for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  IS_INT(a->s, Table_total(a->t), 6030);
}

static void a_wait_is_ended_by_a_change(seat *a, seat *b, seat *c) {
  (void)c;
  IS_INT(a->s, Row_value(a->one), 10);
  bf_bool changed = bf_of_bf_bool(bf_wait(a->s, 60000, BF_HERE));
  bf_int after = Row_value(a->one);
  bf_nil done = BF_COMMIT(a->s);
  OK(a->s, bf_flush_start(a->s, BF_HERE));
  Row_put(b->one, bf_i(11));
  OK(b->s, BF_CLAIM_NIL(BF_ABORT(b->s)));
  Row_put(b->one, bf_i(12));
  OK(b->s, BF_CLAIM_NIL(BF_COMMIT(b->s)));
  IS_BOOL(a->s, changed, true);
  IS_INT(a->s, after, 12);
  OK(a->s, BF_CLAIM_NIL(done));
}

static void a_wait_misses_no_change(seat *a, seat *b, seat *c) {
  (void)c;
  IS_INT(a->s, Row_value(a->one), 10);
  Row_put(b->two, bf_i(21));
  commit(b);
  IS_BOOL(a->s, bf_of_bf_bool(bf_wait(a->s, 10, BF_HERE)), false);
  Row_put(b->one, bf_i(11));
  commit(b);
  IS_BOOL(a->s, bf_of_bf_bool(bf_wait(a->s, 60000, BF_HERE)), true);
  IS_INT(a->s, Row_value(a->one), 11);
}

static void a_live_batch_is_run_again(seat *a, seat *b, seat *c) {
  (void)c;
  static const int64_t expected[3][4] = {{1, 10, 2, 20}, {1, 10, 2, 22}, {2, 22, 3, 30}};
  uint64_t before = crossings(a->s);
  bf_live_batch *live = bf_live();
  for (int round = 0; round < 3; round++) {
    OK(a->s, bf_live_begin(live, a->s, BF_HERE));
    bf_table table = BF_ROWS(a->s, BF_TYPE(bf_int), BF_TYPE(bf_int));
    BF_FOREACH(a->s, Row, row, Table_rows(a->t)) {
      BF_PUSH(table, bf_arg_bf_int(Row_id(row)), bf_arg_bf_int(Row_value(row)));
    }
    bf_ref results[] = {table.ref};
    OK(a->s, bf_live_end(live, a->s, bf_refs_(results, 1), BF_HERE));
    const bf_items *rows;
    OK(a->s, BF_CLAIM_TABLE(table, &rows));
    CHECK(bf_items_rows(rows) == 2);
    for (size_t i = 0; i < 4; i++) CHECK(bf_value_int(bf_table_cell(rows, i / 2, i % 2)) == expected[round][i]);
    bf_items_free(a->s, (bf_items *)rows);
    if (round == 0) Row_put(b->two, bf_i(22));
    if (round == 1) {
      Row_release(Table_insert(b->t, bf_i(3), bf_i(30)));
      Table_remove(b->t, bf_i(1));
    }
    commit(b);
  }
  bf_live_free(live, a->s);
  CHECK(crossings(a->s) == before + 3);
}

typedef struct test {
  const char *name;
  void (*run)(seat *, seat *, seat *);
} test;

#define TEST(name)                                                                                                     \
  { #name, name }

static const test TESTS[] = {
    TEST(g0_write_cycles),
    TEST(g1a_aborted_reads),
    TEST(g1b_intermediate_reads),
    TEST(g1c_circular_information_flow),
    TEST(otv_observed_transaction_vanishes),
    TEST(pmp_predicate_many_preceders),
    TEST(pmp_with_changes),
    TEST(p4_lost_update),
    TEST(g_single_read_skew),
    TEST(g2_item_write_skew),
    TEST(g2_anti_dependency_cycles),
    TEST(g2_two_edges),
    TEST(changes_are_seen_after_the_commit),
    TEST(changes_of_different_objects_do_not_conflict),
    TEST(commands_behind_a_conflict_are_not_reached),
    TEST(a_conflict_undoes_objects),
    TEST(conflicts_are_run_again_by_the_server),
    TEST(a_wait_is_ended_by_a_change),
    TEST(a_wait_misses_no_change),
    TEST(a_live_batch_is_run_again),
};

/** Removes all rows, and makes those with which a case begins. */
static void renew(void) {
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  CHECK(s);
  Table t = Table_lookup(s, "table");
  BF_FOREACH(s, Row, row, Table_rows(t)) Table_remove(t, Row_id(row));
  Row_release(Table_insert(t, bf_i(1), bf_i(10)));
  Row_release(Table_insert(t, bf_i(2), bf_i(20)));
  OK(s, BF_CLAIM_NIL(BF_COMMIT(s)));
  bf_close(s);
}

int main(void) {
  for (size_t i = 0; i < sizeof TESTS / sizeof TESTS[0]; i++) {
    renew();
    seat a = take(), b = take(), c = take();
    TESTS[i].run(&a, &b, &c);
    bf_close(a.s);
    bf_close(b.s);
    bf_close(c.s);
    printf("case %s ok\n", TESTS[i].name);
  }
  return 0;
}
