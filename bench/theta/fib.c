#include "bench.h"

#ifdef CALLS
// No call is taken out: each is one, as in the source.
__attribute__((noinline, noclone, optimize("no-optimize-sibling-calls")))
#endif
static int64_t fib(int64_t n) {
  if (n < 2) return n;
  return add(fib(sub(n, 1)), fib(sub(n, 2)));
}

static int64_t run(int64_t n) { return fib(n); }
