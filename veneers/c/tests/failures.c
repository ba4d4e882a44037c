/* The ends of connections: each is a status with a text, within a second; over QUIC within its silence of 30 s.
 *
 * failures killed|cut|token|stranger|thread. BIFROST_SERVER is the process of the server, BIFROST_TOKEN_OF_TEST the
 * token that it asks for. */

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#include "check.h"

#include "bifrost_stubs.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static bf_session *open_session(void) {
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  if (!s) fprintf(stderr, "%s\n", bf_error_text(NULL));
  CHECK(s);
  return s;
}

/** Checks that the session has ended, and says so for all stubs. */
static void is_closed(bf_session *s, Probe p, double from) {
  bf_int x = Probe_same_int(p, bf_i(1));
  IS(s, BF_CLAIM_INT(x, NULL), BF_E_CLOSED);
  CHECK(now() - from < (strncmp(getenv("BIFROST_URL"), "quic", 4) == 0 ? 90.0 : 1.0));
  printf("%s\n", bf_error_text(s));
  CHECK(strlen(bf_error_text(s)) > 10);
  IS(s, BF_CLAIM_INT(x, NULL), BF_E_CLOSED);
  IS(s, Item_claim(Probe_fresh(p)), BF_E_CLOSED);
  IS(s, BF_FLUSH(s), BF_E_CLOSED);
  CHECK(!bf_is_open(s));
}

static void killed(bool waits) {
  bf_session *s = open_session();
  Probe p = Probe_lookup(s, "probe");
  OK(s, Probe_claim(p));
  CHECK(bf_is_open(s));
  double from = now();
  /* With a batch under way, or without. */
  if (waits) {
    Probe_endless(p);
    OK(s, bf_flush_start(s, BF_HERE));
  }
  CHECK(kill((pid_t)atoi(getenv("BIFROST_SERVER")), SIGKILL) == 0);
  is_closed(s, p, from);
  bf_close(s);
}

static void a_connection_that_is_cut(void) {
  bf_session *s = open_session();
  Probe p = Probe_lookup(s, "probe");
  OK(s, Probe_claim(p));
  double from = now();
  CHECK(bf_fd(s) >= 0 && shutdown(bf_fd(s), SHUT_RDWR) == 0);
  is_closed(s, p, from);
  bf_close(s);
}

static void token(void) {
  bf_options options;
  memset(&options, 0, sizeof options);
  double from = now();
  options.token = "wrong";
  CHECK(!bf_connect(getenv("BIFROST_URL"), &stubs_interface, &options));
  CHECK(now() - from < 1.5);
  printf("%s\n", bf_error_text(NULL));
  CHECK(bf_error_status(bf_connect_error()) == BF_E_CONNECT && strstr(bf_error_text(NULL), "token"));
  CHECK(!stubs_connect(getenv("BIFROST_URL")));
  options.token = getenv("BIFROST_TOKEN_OF_TEST");
  bf_session *s = bf_connect(getenv("BIFROST_URL"), &stubs_interface, &options);
  CHECK(s);
  IS_INT(s, Probe_same_int(Probe_lookup(s, "probe"), bf_i(7)), 7);
  bf_close(s);
}

static void stranger(void) {
  static const char *const urls[] = {"unix:///nowhere/at/all", "nonsense", "", "trader://host/DataBase", NULL};
  for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
    CHECK(!stubs_connect(urls[i]));
    CHECK(bf_error_status(bf_connect_error()) == BF_E_CONNECT && strlen(bf_error_text(NULL)) > 5);
    printf("%s\n", bf_error_text(NULL));
    /* What may be written instead, and the variable that is seldom set. */
    if (!urls[i]) CHECK(strstr(bf_error_text(NULL), "BIFROST_URL"));
    if (urls[i] && !strstr(urls[i], "://"))
      CHECK(strstr(bf_error_text(NULL), "`quic://host:port`") &&
            strstr(bf_error_text(NULL), "`trader://host/Service`"));
  }
  CHECK(!bf_connect(getenv("BIFROST_URL"), NULL, NULL));
  bf_options options;
  memset(&options, 0, sizeof options);
  options.certificate = "certificate.pem";
  CHECK(!bf_connect(getenv("BIFROST_URL"), &stubs_interface, &options) && strstr(bf_error_text(NULL), "key"));
  memset(&options, 0, sizeof options);
  options.token = "\xff";
  CHECK(!bf_connect(getenv("BIFROST_URL"), &stubs_interface, &options) && strstr(bf_error_text(NULL), "token"));
  memset(&options, 0, sizeof options);
  options.trace_parent = "nonsense";
  CHECK(!bf_connect(getenv("BIFROST_URL"), &stubs_interface, &options) && strstr(bf_error_text(NULL), "nonsense"));
  /* Functions of no session. */
  CHECK(bf_flush(NULL, BF_HERE) == BF_E_NO_SESSION && bf_fd(NULL) == -1 && !bf_error_last(NULL));
  bf_close(NULL);
}

static void *elsewhere(void *s) {
  IS((bf_session *)s, BF_FLUSH((bf_session *)s), BF_E_OTHER_THREAD);
  return NULL;
}

static void thread(void) {
  bf_session *s = open_session();
  pthread_t other;
  CHECK(pthread_create(&other, NULL, elsewhere, s) == 0 && pthread_join(other, NULL) == 0);
  OK(s, BF_FLUSH(s));
  bf_close(s);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "killed") == 0)
    killed(false);
  else if (strcmp(what, "killed_waiting") == 0)
    killed(true);
  else if (strcmp(what, "cut") == 0)
    a_connection_that_is_cut();
  else if (strcmp(what, "token") == 0)
    token();
  else if (strcmp(what, "stranger") == 0)
    stranger();
  else if (strcmp(what, "thread") == 0)
    thread();
  else
    return 2;
  printf("case %s ok\n", what);
  return 0;
}
