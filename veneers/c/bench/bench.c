/* The measured client of `bifrost bench veneers` in C.
 *
 * It connects to BIFROST_URL, a server of cases/programs/conformance.theta, and answers lines `CASE N` by the
 * nanoseconds and the result of N steps (bench/veneers/README.md). The raw ping-pong is one of the same bytes that a
 * claimed call needs, between two threads over a pair of sockets. */

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bifrost_stubs.h"

enum { BATCH_MAX = 10000, MESSAGE = 64 };

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void ok(bf_session *s, bf_status status) {
  if (status == BF_OK) return;
  fprintf(stderr, "%s\n", bf_error_text(s));
  exit(1);
}

/** Answers each message until the other end is closed. */
static void *answer(void *socket) {
  char bytes[MESSAGE];
  int fd = *(int *)socket;
  while (recv(fd, bytes, sizeof bytes, MSG_WAITALL) == (ssize_t)sizeof bytes) {
    if (send(fd, bytes, sizeof bytes, 0) < 0) break;
  }
  return NULL;
}

static int64_t claimed(bf_session *s, bf_int promise) {
  int64_t value;
  ok(s, BF_CLAIM_INT(promise, &value));
  bf_release(bf_ref_bf_int(promise));
  return value;
}

/* The time that a case takes; other work may follow before the next line. */
static int64_t begin, end;

/** Calls whose results are not wanted: the recording alone. */
static int64_t record(bf_session *s, Probe p, int64_t count) {
  int64_t sum = 0;
  for (int64_t n = 0; n < count; n++) {
    bf_release(bf_ref_bf_int(Probe_same_int(p, bf_i(n))));
    sum += n;
  }
  end = now_ns();
  ok(s, BF_FLUSH(s));
  return sum;
}

/** From recording to the last result. */
static int64_t batch(bf_session *s, Probe p, int64_t count) {
  static bf_int results[BATCH_MAX];
  int64_t sum = 0, last;
  if (count < 1 || count > BATCH_MAX) {
    fprintf(stderr, "a batch has 1 to %d calls\n", BATCH_MAX);
    exit(1);
  }
  for (int64_t n = 0; n < count; n++) results[n] = Probe_same_int(p, bf_i(n));
  ok(s, BF_CLAIM_INT(results[count - 1], &last));
  end = now_ns();
  for (int64_t n = 0; n < count; n++) sum += claimed(s, results[n]);
  return sum;
}

static int64_t table(bf_session *s, Probe p, int64_t count) {
  const bf_items *items;
  int64_t sum = 0;
  BF_SCOPE(s) {
    bf_table table = BF_ROWS(s, BF_TYPE(bf_int), BF_TYPE(bf_str));
    BF_FOREACH2(s, bf_int, n, bf_str, text, Probe_pairs(p, bf_i(count))) {
      BF_PUSH(table, bf_arg_bf_int(n), bf_arg_bf_str(text));
    }
    ok(s, BF_CLAIM_TABLE(table, &items));
  }
  for (size_t row = 0; row < bf_items_rows(items); row++) {
    sum += bf_value_int(bf_table_cell(items, row, 0)) + (int64_t)bf_table_cell(items, row, 1).text.length;
  }
  bf_items_free(s, (bf_items *)items);
  return sum;
}

static int64_t ping(int fd, int64_t count) {
  char bytes[MESSAGE] = {0};
  for (int64_t n = 0; n < count; n++) {
    if (send(fd, bytes, sizeof bytes, 0) < 0) exit(1);
    if (recv(fd, bytes, sizeof bytes, MSG_WAITALL) != (ssize_t)sizeof bytes) exit(1);
  }
  return count;
}

int main(void) {
  char name[16];
  int64_t count;
  int ends[2];
  pthread_t other;
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  if (!s) {
    fprintf(stderr, "%s\n", bf_error_text(NULL));
    return 1;
  }
  Probe p = Probe_lookup(s, "probe");
  ok(s, Probe_claim(p));
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || pthread_create(&other, NULL, answer, &ends[1]) != 0) return 1;

  while (scanf("%15s %" SCNd64, name, &count) == 2) {
    int64_t result = 0;
    end = 0;
    begin = now_ns();
    if (strcmp(name, "record") == 0) {
      result = record(s, p, count);
    } else if (strcmp(name, "batch") == 0) {
      result = batch(s, p, count);
    } else if (strcmp(name, "null") == 0) {
      for (; result < count; result++) {
        bf_nil nothing = bf_at_Probe_nothing(p, BF_HERE);
        ok(s, BF_CLAIM_NIL(nothing));
        bf_drop_(nothing);
      }
    } else if (strcmp(name, "pair") == 0) {
      for (int64_t n = 0; n < count; n++) result += claimed(s, Probe_same_int(p, bf_i(n)));
    } else if (strcmp(name, "two") == 0) {
      for (int64_t n = 0; n < count; n++) {
        Probe itself = Probe_itself(p);
        bf_int same = Probe_same_int(itself, bf_i(n));
        Probe_release(itself);
        result += claimed(s, same);
      }
    } else if (strcmp(name, "table") == 0) {
      result = table(s, p, count);
    } else if (strcmp(name, "raw") == 0) {
      result = ping(ends[0], count);
    } else {
      fprintf(stderr, "no case %s\n", name);
      return 1;
    }
    if (end == 0) end = now_ns();
    printf("%" PRId64 " %" PRId64 "\n", end - begin, result);
    fflush(stdout);
  }
  close(ends[0]);
  pthread_join(other, NULL);
  close(ends[1]);
  bf_close(s);
  return 0;
}
