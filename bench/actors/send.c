#include "bench.h"

// A call through the object's table for each message.
struct counter;
struct methods {
  void (*add)(struct counter *, int64_t by);
  int64_t (*value)(struct counter *);
};
struct counter {
  const struct methods *methods;
  int64_t sum;
};

static void counter_add(struct counter *c, int64_t by) { c->sum = add(c->sum, by); }
static int64_t counter_value(struct counter *c) { return c->sum; }
static const struct methods of_counter = {counter_add, counter_value};

__attribute__((noinline)) static int64_t sends(struct counter *c, int64_t n) {
  for (int64_t i = 1; i <= n; i++) c->methods->add(c, i & 7);
  return c->methods->value(c);
}

static int64_t run(int64_t n) {
  struct counter c = {&of_counter, 0};
  // The compiler does not know whose table it is.
  __asm__ volatile("" : : "r"(&c) : "memory");
  return sends(&c, n);
}
