#include "bench.h"

// An iterator calls the body of the loop with each value, and the loop's variables are in `loop`.
typedef void Body(void *loop, int64_t value);

static void numbers(int64_t n, Body *body, void *loop) {
  for (int64_t i = 1; i <= n; i++) body(loop, i);
}

typedef struct {
  Body *body;
  void *loop;
} Outer;

static void even(void *loop, int64_t value) {
  Outer *outer = loop;
  if (value % 2 == 0) outer->body(outer->loop, value);
}

static void evens(int64_t n, Body *body, void *loop) {
  Outer outer = {body, loop};
  numbers(n, even, &outer);
}

static void times_three(void *loop, int64_t value) {
  Outer *outer = loop;
  outer->body(outer->loop, add(mul(value, 3), 1));
}

static void tripled(int64_t n, Body *body, void *loop) {
  Outer outer = {body, loop};
  evens(n, times_three, &outer);
}

static void add_up(void *loop, int64_t value) {
  int64_t *sum = loop;
  *sum = add(*sum, value);
}

static int64_t run(int64_t n) {
  int64_t sum = 0;
  tripled(n, add_up, &sum);
  return sum;
}
