/* Imports and services, against the trader and the servers of services.sh. */

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "bifrost_stubs.h"
#include "check.h"

static const char *folder;

/** The URL of databases at the trader, with a query. */
static const char *url(const char *query) {
  static char text[512];
  snprintf(text, sizeof text, "trader+unix://%s/trader?service=DataBase&%s", folder, query);
  return text;
}

static const char *socket_of(int number) {
  static char text[512];
  snprintf(text, sizeof text, "unix://%s/server%d", folder, number);
  return text;
}

static pid_t process(int number) {
  char file[512];
  snprintf(file, sizeof file, "%s/pid%d", folder, number);
  FILE *stream = fopen(file, "r");
  CHECK(stream);
  int pid = 0;
  CHECK(fscanf(stream, "%d", &pid) == 1);
  fclose(stream);
  return pid;
}

static void say(int number, int signal) { CHECK(kill(process(number), signal) == 0); }

static void nap(void) {
  struct timespec pause = {0, 10000000};
  nanosleep(&pause, NULL);
}

/** Stops a server, and waits until it stands. */
static void stop(int number) {
  say(number, SIGSTOP);
  char file[512], state = ' ';
  snprintf(file, sizeof file, "/proc/%d/stat", (int)process(number));
  while (state != 'T') {
    FILE *stream = fopen(file, "r");
    CHECK(stream && fscanf(stream, "%*d %*s %c", &state) == 1);
    fclose(stream);
    nap();
  }
}

/** Kills the server of a session, and waits until that is known. */
static void end(bf_session *s, int number) {
  say(number, SIGKILL);
  for (int i = 0; bf_is_open(s); ++i) {
    CHECK(i < 1000);
    nap();
  }
}

static bool has(const bf_error *error, const char *text) {
  if (strstr(bf_error_message(error), text)) return true;
  fprintf(stderr, "%s\n", bf_error_message(error));
  return false;
}

#define RUN_OK(service, status)                                                                                        \
  do {                                                                                                                 \
    if ((status) != BF_OK) {                                                                                           \
      fprintf(stderr, "%s:%d: status %u: %s\n", __FILE__, __LINE__, (unsigned)(status),                                \
              bf_error_message(bf_service_error(service)));                                                            \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static void imports(void) {
  bf_session *s = stubs_connect(url("number=2"));
  CHECK(s);
  CHECK(strcmp(bf_imported_name(s), "database") == 0);
  CHECK(strcmp(bf_imported_address(s), socket_of(2)) == 0);
  DataElem zoe = DataBase_new_user(DataBase_lookup(s, bf_imported_name(s)), bf_s("zoe"));
  IS_INT(s, DataElem_visits(zoe), 0);
  bf_close(s);

  DataBase db = DataBase_import(url("prefer=max(number)&number<9"), &s);
  CHECK(s && strcmp(bf_imported_address(s), socket_of(3)) == 0);
  OK(s, DataBase_claim(db));
  CHECK(crossings(s) == 1);
  bf_close(s);

  s = stubs_connect(socket_of(1));
  CHECK(s && strcmp(bf_imported_name(s), "") == 0 && strcmp(bf_imported_address(s), "") == 0);
  bf_close(s);
}

static void what_there_is_no_server_for(void) {
  bf_options options;
  memset(&options, 0, sizeof options);
  options.timeout_ms = 500;
  CHECK(!bf_connect(url("number=77"), &stubs_interface, &options));
  CHECK(bf_error_status(bf_connect_error()) == BF_E_CONNECT);
  CHECK(has(bf_connect_error(), "cannot import `DataBase`: "));
  bf_ref ref = {NULL, 1, 1};
  CHECK(!bf_import("trader://host", &stubs_interface, BF_TYPE(DataBase), NULL, &ref) && !ref.slot);
  CHECK(has(bf_connect_error(), "names no service"));
  CHECK(!bf_import(url(""), &stubs_interface, BF_TYPE(bf_any), NULL, &ref));
  CHECK(has(bf_connect_error(), "a type of the program"));
  options.certificate = "file";
  CHECK(!DataBase_service(url(""), &options));
  CHECK(has(bf_connect_error(), "needs its key"));

  options.certificate = NULL;
  bf_service *service = DataBase_service(url("number=77"), &options);
  CHECK(service && !bf_service_object(service).session && strcmp(bf_service_address(service), "") == 0);
  bf_status status;
  BF_RUN(service, s, &status) CHECK(false && "a run without a server");
  CHECK(status == BF_E_CONNECT && has(bf_service_error(service), "cannot import"));
  CHECK(bf_service_ran(service) == BF_RAN_NO);
  bf_service_free(service);
  bf_service_free(NULL);
}

/** Makes a user, and commits. */
static bf_status make(bf_session *s, DataBase db, const char *name) {
  DataBase_new_user(db, bf_s(name));
  return BF_CLAIM_NIL(BF_COMMIT(s));
}

static void runs(void) {
  bf_options options;
  memset(&options, 0, sizeof options);
  options.timeout_ms = 2000;
  bf_service *service = DataBase_service(url("prefer=min(number)&number<9"), &options);
  CHECK(service);
  bf_status status;
  int calls = 0;
  BF_RUN(service, s, &status) {
    ++calls;
    status = make(s, DataBase_of_service(service), "zoe");
  }
  RUN_OK(service, status);
  CHECK(calls == 1 && strcmp(bf_service_address(service), socket_of(1)) == 0);
  CHECK(strcmp(bf_service_name(service), "database") == 0);

  /* A run that has failed: what it has not committed is undone, and the session goes on. */
  BF_RUN(service, s, &status) {
    DataBase db = DataBase_of_service(service);
    DataBase_new_user(db, bf_s("una"));
    status = DataElem_claim(DataBase_fetch(db, bf_s("nobody")));
    if (status != BF_OK) break;
  }
  CHECK(status == BF_E_SIGNAL && bf_service_ran(service) == BF_RAN_BEGAN);
  CHECK(has(bf_service_error(service), "not_found"));
  const char *name = NULL;
  BF_RUN(service, s, &status) {
    DataBase db = DataBase_of_service(service);
    SIGNALS(s, DataElem_claim(DataBase_fetch(db, bf_s("una"))), "not_found");
    status = BF_CLAIM(DataElem_name(DataBase_fetch(db, bf_s("zoe"))), &name);
    CHECK(crossings(s) > 1);
    CHECK(bf_stubs_alive(s) > 1);
  }
  RUN_OK(service, status);
  CHECK(strcmp(name, "zoe") == 0);

  /* A block that is left: as a run that has failed. */
  calls = 0;
  while (calls++ == 0) {
    BF_RUN(service, s, &status) {
      CHECK(bf_stubs_alive(s) == 1);
      DataBase_new_user(DataBase_of_service(service), bf_s("una"));
      goto left;
    }
  }
left:
#if defined(__GNUC__)
  CHECK(status == BF_E_LEFT_OPEN && has(bf_service_error(service), "left by a jump"));
#endif
  BF_RUN(service, s, &status) {
    SIGNALS(s, DataElem_claim(DataBase_fetch(DataBase_of_service(service), bf_s("una"))), "not_found");
  }
  RUN_OK(service, status);

  /* Lost in a run before anything of it was sent: the block runs again, with another server. */
  calls = 0;
  BF_RUN(service, s, &status) {
    if (++calls == 1) end(s, 1);
    status = make(s, DataBase_of_service(service), "zoe");
  }
  RUN_OK(service, status);
  CHECK(calls == 2 && strcmp(bf_service_address(service), socket_of(2)) == 0);

  /* A transaction is sent, and there is no other server of its store: nobody knows. */
  bf_int visits;
  int64_t counted = -1;
  calls = 0;
  BF_RUN_TRANSACTION(service, s, NULL, &status) {
    ++calls;
    DataElem zoe = DataBase_fetch(DataBase_of_service(service), bf_s("zoe"));
    DataElem_touch(zoe);
    visits = DataElem_visits(zoe);
  }
  RUN_OK(service, status);
  CHECK(calls == 1);
  OK(visits.session, BF_CLAIM(visits, &counted));
  CHECK(counted == 1);
  BF_RUN_TRANSACTION(service, s, NULL, &status) {
    DataBase_fetch(DataBase_of_service(service), bf_s("nobody"));
  }
  CHECK(status == BF_E_SIGNAL || status == BF_E_UNSEEN);

  /* Stopped while a run waits for its answer: it is not begun again. */
  calls = 0;
  BF_RUN(service, s, &status) {
    ++calls;
    stop(2);
    visits = DataElem_visits(DataBase_fetch(DataBase_of_service(service), bf_s("zoe")));
    status = BF_CLAIM(visits, &counted);
  }
  CHECK(calls == 1 && status == BF_E_LOST && bf_service_ran(service) == BF_RAN_UNKNOWN);
  CHECK(has(bf_service_error(service), "the server is lost, and nobody knows if the run was done: "));
  /* Stubs of the block live until the next run. */
  CHECK(BF_CLAIM(visits, &counted) == BF_E_CLOSED);
  say(2, SIGKILL);

  /* The last server. */
  BF_RUN(service, s, &status) {
    status = make(s, DataBase_of_service(service), "zoe");
  }
  RUN_OK(service, status);
  CHECK(strcmp(bf_service_address(service), socket_of(3)) == 0);
  bf_service_free(service);
}

/** Counts a visit of a user, and returns their number; -1 if that has failed. */
static int64_t count(bf_service *service, const char *user) {
  bf_status status;
  bf_int visits;
  int64_t counted = -1;
  BF_RUN_TRANSACTION(service, s, NULL, &status) {
    DataElem elem = DataBase_fetch(DataBase_of_service(service), bf_s(user));
    DataElem_touch(elem);
    visits = DataElem_visits(elem);
  }
  if (status != BF_OK || BF_CLAIM(visits, &counted) != BF_OK)
    fprintf(stderr, "%s\n", bf_error_message(bf_service_error(service)));
  return counted;
}

/** A named batch is done once, over a loss of its server, which is there again with the same store. */
static void a_transaction_is_done_once(void) {
  bf_service *service = DataBase_service(url("number=9"), NULL);
  CHECK(service);
  bf_status status;
  BF_RUN(service, s, &status) {
    status = make(s, DataBase_of_service(service), "zoe");
  }
  RUN_OK(service, status);
  bf_int visits;
  int calls = 0;
  BF_RUN_TRANSACTION(service, s, NULL, &status) {
    if (++calls == 1) say(9, SIGKILL);
    DataElem zoe = DataBase_fetch(DataBase_of_service(service), bf_s("zoe"));
    DataElem_touch(zoe);
    visits = DataElem_visits(zoe);
  }
  RUN_OK(service, status);
  int64_t counted = -1;
  OK(visits.session, BF_CLAIM(visits, &counted));
  CHECK(calls >= 1 && counted == 1);

  /* The same name: it is not done again. */
  bf_how how;
  memset(&how, 0, sizeof how);
  how.named = true;
  how.client[0] = 7;
  how.number = 1;
  for (int i = 0; i < 2; ++i) {
    BF_RUN_TRANSACTION(service, s, &how, &status) {
      DataElem_touch(DataBase_fetch(DataBase_of_service(service), bf_s("zoe")));
    }
    RUN_OK(service, status);
  }
  BF_RUN(service, s, &status) {
    IS_INT(s, DataElem_visits(DataBase_fetch(DataBase_of_service(service), bf_s("zoe"))), 2);
  }
  RUN_OK(service, status);
  CHECK(count(service, "zoe") == 3 && count(service, "nobody") == -1 && count(service, "zoe") == 4);
  bf_service_free(service);
}

int main(void) {
  folder = getenv("BIFROST_FOLDER");
  CHECK(folder);
  imports();
  what_there_is_no_server_for();
  a_transaction_is_done_once();
  runs();
  puts("services passed");
  return 0;
}
