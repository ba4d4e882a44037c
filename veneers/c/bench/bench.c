/* Figures of the veneer of C: JSON lines with `bench`, `case`, `peer`, `n`, `value` (median), `min`, `max`, `unit`.
 *
 * BIFROST_URL is a server of cases/programs/conformance.theta. The raw ping-pong is one of the same bytes
 * that a claimed call needs, between two threads over a pair of sockets. */

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bifrost_stubs.h"

enum { SAMPLES = 101, RECORDED = 1000, BATCH = 10000, ROWS = 10000, PAIRS = 200, MESSAGE = 64 };

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print(const char *name, const char *peer, int n, double *samples, size_t count, const char *unit) {
  qsort(samples, count, sizeof *samples, compare);
  printf("{\"bench\":\"veneers\",\"case\":\"%s\",\"peer\":\"%s\",\"n\":%d,\"value\":%.1f,\"min\":%.1f,\"max\":%.1f,"
         "\"unit\":\"%s\"}\n",
         name, peer, n, samples[count / 2], samples[0], samples[count - 1], unit);
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

static void raw(double *samples) {
  int ends[2];
  pthread_t other;
  char bytes[MESSAGE] = {0};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || pthread_create(&other, NULL, answer, &ends[1]) != 0) exit(1);
  for (int i = 0; i < SAMPLES; i++) {
    double from = now_ns();
    for (int n = 0; n < PAIRS; n++) {
      if (send(ends[0], bytes, sizeof bytes, 0) < 0) exit(1);
      if (recv(ends[0], bytes, sizeof bytes, MSG_WAITALL) != (ssize_t)sizeof bytes) exit(1);
    }
    samples[i] = (now_ns() - from) / PAIRS / 1000;
  }
  close(ends[0]);
  pthread_join(other, NULL);
  close(ends[1]);
}

int main(void) {
  static double samples[SAMPLES];
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  if (!s) {
    fprintf(stderr, "%s\n", bf_error_text(NULL));
    return 1;
  }
  Probe p = Probe_lookup(s, "probe");
  ok(s, Probe_claim(p));

  /* Recording alone: calls whose results are not wanted. */
  for (int i = 0; i < SAMPLES; i++) {
    double from = now_ns();
    for (int n = 0; n < RECORDED; n++) bf_release(bf_ref_bf_int(Probe_same_int(p, bf_i(n))));
    samples[i] = (now_ns() - from) / RECORDED;
    ok(s, BF_FLUSH(s));
  }
  print("record", "c", RECORDED, samples, SAMPLES, "ns");

  /* From recording to the last result. */
  for (int i = 0; i < SAMPLES / 4; i++) {
    static bf_int results[BATCH];
    double from = now_ns();
    for (int n = 0; n < BATCH; n++) results[n] = Probe_same_int(p, bf_i(n));
    int64_t value;
    ok(s, BF_CLAIM_INT(results[BATCH - 1], &value));
    samples[i] = (now_ns() - from) / BATCH;
    for (int n = 0; n < BATCH; n++) {
      ok(s, BF_CLAIM_INT(results[n], &value));
      if (value != n) return 1;
      bf_release(bf_ref_bf_int(results[n]));
    }
  }
  print("batch", "c", BATCH, samples, SAMPLES / 4, "ns");

  for (int i = 0; i < SAMPLES; i++) {
    double from = now_ns();
    for (int n = 0; n < PAIRS; n++) {
      int64_t value;
      bf_int result = Probe_same_int(p, bf_i(n));
      ok(s, BF_CLAIM_INT(result, &value));
      bf_release(bf_ref_bf_int(result));
    }
    samples[i] = (now_ns() - from) / PAIRS / 1000;
  }
  print("pair", "c", PAIRS, samples, SAMPLES, "us");

  for (int i = 0; i < SAMPLES / 4; i++) {
    const bf_items *items;
    double from = now_ns();
    BF_SCOPE(s) {
      bf_table table = BF_ROWS(s, BF_TYPE(bf_int), BF_TYPE(bf_str));
      BF_FOREACH2(s, bf_int, n, bf_str, text, Probe_pairs(p, bf_i(ROWS))) {
        BF_PUSH(table, bf_arg_bf_int(n), bf_arg_bf_str(text));
      }
      ok(s, BF_CLAIM_TABLE(table, &items));
    }
    int64_t sum = 0;
    for (size_t row = 0; row < bf_items_rows(items); row++) sum += bf_value_int(bf_table_cell(items, row, 0));
    if (sum != (int64_t)ROWS * (ROWS + 1) / 2) return 1;
    bf_items_free(s, (bf_items *)items);
    samples[i] = (now_ns() - from) / ROWS;
  }
  print("table", "c", ROWS, samples, SAMPLES / 4, "ns");

  raw(samples);
  print("pair", "raw", PAIRS, samples, SAMPLES, "us");
  bf_close(s);
  return 0;
}
