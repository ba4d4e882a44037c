#include "bench.h"

// A queue of calls, which are made when a thousand are in it.
struct counter {
  int64_t sum;
};
struct message {
  void (*method)(struct counter *, int64_t);
  struct counter *receiver;
  int64_t argument;
};

static struct message queue[1024];
static uint64_t first, last;

static void counter_add(struct counter *c, int64_t by) { c->sum = add(c->sum, by); }

__attribute__((noinline)) static void send(struct counter *c, int64_t by) {
  if (last - first == 1024) fail("the queue is full");
  queue[last++ % 1024] = (struct message){counter_add, c, by};
}

__attribute__((noinline)) static void take_all(void) {
  while (first != last) {
    struct message *m = &queue[first++ % 1024];
    m->method(m->receiver, m->argument);
  }
}

static int64_t run(int64_t n) {
  struct counter c = {0};
  for (int64_t flood = 1; flood <= n / 1000; flood++) {
    for (int64_t i = 1; i <= 1000; i++) send(&c, i & 7);
    take_all();
  }
  return c.sum;
}
