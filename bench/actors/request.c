#include "bench.h"

// A call through the object's table for each request.
struct counter;
struct methods {
  int64_t (*add)(struct counter *, int64_t by);
};
struct counter {
  const struct methods *methods;
  int64_t sum;
};

static int64_t counter_add(struct counter *c, int64_t by) {
  c->sum = add(c->sum, by);
  return c->sum;
}
static const struct methods of_counter = {counter_add};

__attribute__((noinline)) static int64_t asks(struct counter *c, int64_t n) {
  int64_t last = 0;
  for (int64_t i = 1; i <= n; i++) last = c->methods->add(c, add(last, i) & 7);
  return last;
}

static int64_t run(int64_t n) {
  struct counter c = {&of_counter, 0};
  // The compiler does not know whose table it is.
  __asm__ volatile("" : : "r"(&c) : "memory");
  return asks(&c, n);
}
