#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "bench.h"

// A ring between two threads. Who has to wait makes way: there may be fewer cores.
enum { SIZE = 4096 };

static struct {
  int64_t slots[SIZE];
  _Alignas(64) _Atomic uint64_t written;
  _Alignas(64) _Atomic uint64_t read;
} ring;

static void *receive(void *count) {
  int64_t sum = 0;
  uint64_t n = *(const int64_t *)count, at = 0;
  while (at < n) {
    uint64_t to = atomic_load_explicit(&ring.written, memory_order_acquire);
    if (at == to) sched_yield();
    while (at < to) sum = add(sum, ring.slots[at++ % SIZE]);
    atomic_store_explicit(&ring.read, at, memory_order_release);
  }
  *(int64_t *)count = sum;
  return NULL;
}

static int64_t run(int64_t n) {
  int64_t result = n;
  pthread_t receiver;
  atomic_store(&ring.written, 0);
  atomic_store(&ring.read, 0);
  if (pthread_create(&receiver, NULL, receive, &result)) fail("no thread");
  uint64_t room = SIZE;
  for (int64_t i = 1; i <= n; i++) {
    while ((uint64_t)i > room) {
      room = atomic_load_explicit(&ring.read, memory_order_acquire) + SIZE;
      if ((uint64_t)i > room) sched_yield();
    }
    ring.slots[(uint64_t)(i - 1) % SIZE] = i & 7;
    atomic_store_explicit(&ring.written, (uint64_t)i, memory_order_release);
  }
  pthread_join(receiver, NULL);
  return result;
}
