#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "bench.h"

// A word each way between two threads. Who waits looks again and again, and makes way: there may be fewer cores.
static struct {
  _Alignas(64) _Atomic int64_t asked;
  int64_t by;
  _Alignas(64) _Atomic int64_t answered;
  int64_t sum;
} line;

static void until(_Atomic int64_t *word, int64_t i) {
  while (atomic_load_explicit(word, memory_order_acquire) != i) sched_yield();
}

static void *answer(void *count) {
  int64_t n = *(const int64_t *)count;
  for (int64_t i = 1; i <= n; i++) {
    until(&line.asked, i);
    line.sum = add(line.sum, line.by);
    atomic_store_explicit(&line.answered, i, memory_order_release);
  }
  return NULL;
}

static int64_t run(int64_t n) {
  int64_t last = 0;
  pthread_t answerer;
  atomic_store(&line.asked, 0);
  atomic_store(&line.answered, 0);
  line.sum = 0;
  if (pthread_create(&answerer, NULL, answer, &n)) fail("no thread");
  for (int64_t i = 1; i <= n; i++) {
    line.by = add(last, i) & 7;
    atomic_store_explicit(&line.asked, i, memory_order_release);
    until(&line.answered, i);
    last = line.sum;
  }
  pthread_join(answerer, NULL);
  return last;
}
