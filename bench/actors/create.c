#include "bench.h"

// malloc and free for each object.
struct cell {
  const void *methods;
  int64_t first, second;
};

__attribute__((noinline)) static struct cell *new_cell(int64_t v) {
  struct cell *cell = allocate(sizeof *cell);
  *cell = (struct cell){&new_cell, v, add(v, 1)};
  return cell;
}

static int64_t run(int64_t n) {
  struct cell *last = new_cell(0);
  for (int64_t i = 1; i <= n; i++) {
    free(last);
    last = new_cell(i);
  }
  int64_t value = add(last->first, last->second);
  free(last);
  return value;
}
