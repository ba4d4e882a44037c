#include "bench.h"

// Objects from malloc, each with its table and the one before.
struct cell {
  const void *methods;
  struct cell *before;
  int64_t own;
};

static struct cell *last;

static int64_t run(int64_t n) {
  for (int64_t i = 1; i <= n; i++) {
    struct cell *cell = allocate(sizeof *cell);
    *cell = (struct cell){&run, last, i};
    last = cell;
  }
  return last->own;
}
