/* The cases of cases/clients.yaml with the program `database`: one name is one case. BIFROST_URL is a server of
 * cases/programs/database.theta, or for the last case of database_other.theta. */

#include "check.h"

#include "bifrost_stubs.h"

static void a_table_of_rows(bf_session *s, DataBase db) {
  bf_table table = BF_ROWS(s, BF_TYPE(DataElem), BF_TYPE(bf_str), BF_TYPE(bf_int));
  BF_FOREACH(s, DataElem, e, DataBase_users(db)) {
    DataElem_touch(e);
    BF_PUSH(table, bf_arg_DataElem(e), bf_arg_bf_str(DataElem_name(e)), bf_arg_bf_int(DataElem_visits(e)));
  }
  const bf_items *rows;
  OK(s, BF_CLAIM_TABLE(table, &rows));
  CHECK(bf_items_rows(rows) == 3 && bf_items_columns(rows) == 3);
  static const char *const names[] = {"ann", "bob", "eve"};
  for (size_t i = 0; i < 3; i++) {
    CHECK(bf_is_object(bf_value_ref(bf_table_cell(rows, i, 0))));
    CHECK(strcmp(bf_value_str(bf_table_cell(rows, i, 1)), names[i]) == 0);
    CHECK(bf_value_int(bf_table_cell(rows, i, 2)) == 1);
  }
  bf_items_free(s, (bf_items *)rows);
  CHECK(crossings(s) == 1);
  BF_PUSH(table, bf_arg_DataElem(DataBase_fetch(db, bf_s("ann"))), bf_arg_bf_str(bf_s("ann")), bf_arg_bf_int(bf_i(1)));
  IS(s, BF_FLUSH(s), BF_E_UNSEEN);
  CHECK(bf_error_status(bf_error_part(bf_error_last(s), 0)) == BF_E_ENDED_TABLE);
  OK(s, BF_CLAIM_NIL(BF_ABORT(s)));
}

static void transactions_commit_and_abort(bf_session *s, DataBase db) {
  DataElem e = DataBase_fetch(db, bf_s("eve"));
  DataElem_touch(e);
  bf_nil done = BF_COMMIT(s);
  DataElem_touch(e);
  bf_int two = DataElem_visits(e);
  bf_nil undone = BF_ABORT(s);
  bf_int one = DataElem_visits(e);
  OK(s, BF_CLAIM_NIL(done));
  IS_INT(s, two, 2);
  OK(s, BF_CLAIM_NIL(undone));
  IS_INT(s, one, 1);
  CHECK(crossings(s) == 1);
}

static void a_commit_names_unseen_failures(bf_session *s, DataBase db) {
  DataElem_release(DataBase_fetch(db, bf_s("nobody")));
  IS(s, BF_CLAIM_NIL(BF_COMMIT(s)), BF_E_UNSEEN);
  const bf_error *part = bf_error_part(bf_error_last(s), 0);
  CHECK(strcmp(bf_error_name(part), "not_found") == 0 && strcmp(bf_error_call(part), "DataBase.fetch") == 0);
  SIGNALS(s, DataElem_claim(DataBase_fetch(db, bf_s("nobody"))), "not_found");
  OK(s, BF_CLAIM_NIL(BF_COMMIT(s)));
}

static void a_batch_is_a_transaction(bf_session *s, DataBase db) {
  OK(s, BF_FLUSH(s));
  bf_status status;
  bf_how how = {3, false, {0, 0}, 0};
  DataElem e = {{NULL, 0, 0}}, again = e;
  bf_int one = bf_i(0);
  BF_TRANSACTION(s, &how, &status) {
    e = DataBase_new_user(db, bf_s("zoe"));
    DataElem_touch(e);
    one = DataElem_visits(e);
  }
  OK(s, status);
  IS_INT(s, one, 1);
  CHECK(crossings(s) == 2);
  BF_TRANSACTION(s, NULL, &status) {
    DataElem_touch(e);
    again = DataBase_new_user(db, bf_s("zoe"));
  }
  IS(s, status, BF_E_UNSEEN);
  CHECK(strcmp(bf_error_name(bf_error_part(bf_error_last(s), 0)), "not_possible") == 0);
  SIGNALS(s, DataElem_claim(again), "not_possible");
  bf_exceptions_clear(s, BF_HERE);
  IS_INT(s, DataElem_visits(e), 1);
  /* A claim in it is refused, and with it the whole batch. */
  BF_TRANSACTION(s, NULL, &status) IS(s, BF_CLAIM_INT(DataElem_visits(e), NULL), BF_E_IN_TRANSACTION);
  IS(s, status, BF_E_UNSEEN);
}

static void a_named_batch_is_done_once(bf_session *s, DataBase db) {
  DataElem e = DataBase_fetch(db, bf_s("bob"));
  bf_status status;
  bf_how how = {0, true, {0x0706050403020100, 0x0f0e0d0c0b0a0908}, 1};
  bf_int before = DataElem_visits(e);
  int64_t visits;
  OK(s, BF_CLAIM(before, &visits));
  for (int i = 0; i < 2; i++) {
    BF_TRANSACTION(s, &how, &status) DataElem_touch(e);
    OK(s, status);
  }
  IS_INT(s, DataElem_visits(e), visits + 1);
}

static void a_wait_without_changes(bf_session *s, DataBase db) {
  bf_int visits = DataElem_visits(DataBase_fetch(db, bf_s("ann")));
  bf_bool changed = bf_of_bf_bool(bf_wait(s, 10, BF_HERE));
  OK(s, BF_CLAIM_INT(visits, NULL));
  IS_BOOL(s, changed, false);
}

/* The server lacks some methods, and has others under other numbers. */
static void another_interface_at_the_server(bf_session *s, DataBase db) {
  DataElem e = DataBase_fetch(db, bf_s("eve"));
  DataElem_touch(e);
  bf_int visits = DataElem_visits(e);
  bf_str name = DataElem_name(e);
  IS_INT(s, visits, 1);
  IS_STR(s, name, "eve");
  CHECK(crossings(s) == 1);
  DataElem renamed = DataBase_new_user(db, bf_s("zoe"));
  bf_nil other = bf_at_DataBase_loop_fetch(db, bf_s("eve"), bf_i(1), BF_HERE);
  bf_str after = DataElem_name(renamed);
  IS(s, DataElem_claim(renamed), BF_E_MISSING);
  CHECK(strcmp(bf_error_name(bf_error_root(bf_error_last(s))), "DataBase.new_user") == 0);
  IS(s, BF_CLAIM_NIL(other), BF_E_MISSING);
  IS(s, BF_CLAIM_STR(after, NULL), BF_E_MISSING);
  BF_FOREACH(s, DataElem, user, DataBase_users(db)) DataElem_touch(user);
  IS(s, BF_FLUSH(s), BF_E_UNSEEN);
  CHECK(bf_error_status(bf_error_part(bf_error_last(s), 0)) == BF_E_MISSING);
  CHECK(crossings(s) == 1);
}

typedef struct test {
  const char *name;
  void (*run)(bf_session *, DataBase);
} test;

#define TEST(name)                                                                                                     \
  { #name, name }

static const test TESTS[] = {
    TEST(a_table_of_rows),
    TEST(transactions_commit_and_abort),
    TEST(a_commit_names_unseen_failures),
    TEST(a_batch_is_a_transaction),
    TEST(a_named_batch_is_done_once),
    TEST(a_wait_without_changes),
    TEST(another_interface_at_the_server),
};

int main(int argc, char **argv) {
  for (size_t i = 0; argc > 1 && i < sizeof TESTS / sizeof TESTS[0]; i++) {
    if (strcmp(argv[1], TESTS[i].name) != 0) continue;
    bf_session *s = stubs_connect(getenv("BIFROST_URL"));
    CHECK(s);
    TESTS[i].run(s, DataBase_lookup(s, "database"));
    bf_close(s);
    printf("case %s ok\n", TESTS[i].name);
    return 0;
  }
  return 2;
}
