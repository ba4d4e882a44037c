#include "bench.h"

static int64_t comp(int64_t col, int64_t diag1, int64_t diag2, int64_t maxcol) {
  int64_t c = col | diag1 | diag2;
  int64_t sols = 0;
  for (int64_t c1 = add(c, 1) & ~c; c1 <= maxcol; c1 = add(c1 << 1, c) & ~c) {
    if ((col | c1) == maxcol)
      sols = add(sols, 1);
    else
      sols = add(sols, comp(col | c1, ((diag1 | c1) << 1) & maxcol, (diag2 | c1) >> 1, maxcol));
  }
  return sols;
}

static int64_t run(int64_t n) { return comp(0, 0, 0, ((int64_t)1 << n) - 1); }
