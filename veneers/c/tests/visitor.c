/* A client among many of one server: `visitor_c NAME TIMES` visits Ann and a person of its own, so many times.
   veneers/together.sh runs it beside clients in other languages, over other media. */

#include <inttypes.h>
#include <stdlib.h>

#include "bifrost_stubs.h"
#include "check.h"

int main(int count, char **arguments) {
  CHECK(count == 3);
  const char *name = arguments[1];
  int64_t times = atoll(arguments[2]), last = -1, visits = 0;
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  if (!s) fprintf(stderr, "%s\n", bf_error_text(NULL));
  CHECK(s);
  DataBase db = DataBase_lookup(s, "database");
  DataElem own;
  bf_status status;
  BF_TRANSACTION(s, NULL, &status) own = DataBase_new_user(db, bf_s(name));
  CHECK(status == BF_OK);
  for (int64_t i = 0; i < times; i++) {
    bf_int seen;
    BF_TRANSACTION(s, NULL, &status) {
      DataElem ann = DataBase_fetch(db, bf_s("ann"));
      DataElem_touch(ann);
      DataElem_touch(own);
      seen = DataElem_visits(ann);
    }
    CHECK(status == BF_OK);
    CHECK(BF_CLAIM(seen, &visits) == BF_OK);
    CHECK(visits > last);
    last = visits;
  }
  CHECK(BF_CLAIM(DataElem_visits(own), &visits) == BF_OK);
  printf("%s: %" PRId64 " visits, Ann at least %" PRId64 "\n", name, visits, last);
  bf_close(s);
  return 0;
}
