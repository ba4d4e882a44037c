/* A client of examples/database/database.theta, as the Rust one in that folder. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bifrost_stubs.h"

/** Ends the program if a claim has failed. */
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
  DataBase db = DataBase_lookup(s, "database");
  int64_t visits;
  const char *text;

  /* Calls are recorded; a claim sends all of them at once and waits for the value. */
  DataElem eve = DataBase_fetch(db, bf_s("eve"));
  DataElem_touch(eve);
  DataElem_touch(eve);
  ok(s, BF_CLAIM(DataElem_visits(eve), &visits));
  printf("eve: %" PRId64 " visits\n", visits);
  bf_counts counts;
  bf_counters(s, &counts);
  printf("commands: %" PRIu64 ", crossings: %" PRIu64 "\n", counts.calls, counts.crossings);

  /* A loop over an iterator of the server. It crosses as a whole; the block runs once, here. */
  bf_int_cell total = bf_int_cell_new(s, bf_i(0));
  BF_FOREACH(s, DataElem, e, DataBase_users(db)) {
    BF_IF(s, bf_int_gt(DataElem_visits(e), bf_i(0))) {
      bf_int_cell_put(total, bf_int_add(bf_int_cell_get(total), DataElem_visits(e)));
    }
  }
  ok(s, BF_CLAIM(bf_int_cell_get(total), &visits));
  printf("visits in all: %" PRId64 "\n", visits);

  /* A loop whose state is in a cell at the server. */
  bf_int_cell round = bf_int_cell_new(s, bf_i(0));
  BF_WHILE(s, bf_int_lt(bf_int_cell_get(round), bf_i(1000))) {
    DataElem_touch(eve);
    bf_int_cell_put(round, bf_int_add(bf_int_cell_get(round), bf_i(1)));
  }
  ok(s, BF_CLAIM(DataElem_visits(eve), &visits));
  printf("eve: %" PRId64 " visits\n", visits);

  /* A claim tells a failure, which can also be handled at the server. */
  bf_status status = BF_CLAIM(DataElem_name(DataBase_fetch(db, bf_s("zoe"))), &text);
  if (status == BF_E_SIGNAL) printf("zoe: %s\n", bf_error_name(bf_error_root(bf_error_last(s))));
  DataElem_cell found = BF_CELL(s, DataElem_cell);
  BF_EXCEPT(s) DataElem_cell_put(found, DataBase_fetch(db, bf_s("zoe")));
  BF_WHEN(s, not_found, none) DataElem_cell_put(found, DataBase_new_user(db, bf_s("zoe")));
  ok(s, BF_CLAIM(DataElem_name(DataElem_cell_get(found)), &text));
  printf("%s is there now\n", text);

  /* A table of all users: one crossing, whatever their number. */
  bf_table users = BF_ROWS(s, BF_TYPE(bf_str), BF_TYPE(bf_int));
  BF_FOREACH(s, DataElem, e, DataBase_users(db)) {
    BF_PUSH(users, bf_arg_bf_str(DataElem_name(e)), bf_arg_bf_int(DataElem_visits(e)));
  }
  const bf_items *rows;
  ok(s, BF_CLAIM_TABLE(users, &rows));
  for (size_t i = 0; i < bf_items_rows(rows); i++) {
    printf("%s: %" PRId64 " visits\n", bf_value_str(bf_table_cell(rows, i, 0)),
           bf_value_int(bf_table_cell(rows, i, 1)));
  }
  bf_items_free(s, (bf_items *)rows);

  /* A struct as argument and a sequence as result: values cross with all their items. */
  bf_contents often = SequenceOfString_get(DataBase_matching(db, QueryRef_of(bf_s("e"), bf_i(2))));
  ok(s, BF_CLAIM(often, &rows));
  bf_values names = bf_items_values(rows);
  printf("often here: [");
  for (size_t i = 0; i < names.count; i++) printf("%s\"%s\"", i ? ", " : "", bf_value_str(names.items[i]));
  printf("]\n");
  bf_items_free(s, (bf_items *)rows);

  /* The root directory has objects of any type. A cast inside a loop makes them what they are. */
  bf_directory root = stubs_root(s);
  bf_table eves = BF_ROWS(s, BF_TYPE(bf_str), BF_TYPE(bf_int));
  BF_FOREACH2(s, bf_str, name, bf_str, type, bf_directory_list(root)) {
    bf_any object = bf_directory_lookup(root, name);
    BF_IF(s, BF_IS(DataBase, object)) {
      bf_int by = DataElem_visits(DataBase_fetch(BF_AS(DataBase, object), bf_s("eve")));
      BF_PUSH(eves, bf_arg_bf_str(name), bf_arg_bf_int(by));
    }
  }
  ok(s, BF_CLAIM_TABLE(eves, &rows));
  printf("eve's visits, by database: [");
  for (size_t i = 0; i < bf_items_rows(rows); i++) {
    printf("%s(\"%s\", %" PRId64 ")", i ? ", " : "", bf_value_str(bf_table_cell(rows, i, 0)),
           bf_value_int(bf_table_cell(rows, i, 1)));
  }
  printf("]\n");
  bf_items_free(s, (bf_items *)rows);

  /* Others see what this session has done when it commits. A failure that nobody was told of would prevent that. */
  ok(s, BF_CLAIM_NIL(BF_COMMIT(s)));
  ok(s, bf_finish(s, BF_HERE));
  bf_close(s);
  return 0;
}
