#include "bench.h"

// A chain of n additions, each of which needs the one before: a cycle each, on every processor of the last twenty years.
static int64_t run(int64_t n) {
  uint64_t sum = 0, one = 1;
  __asm__ volatile("" : "+r"(one));
  for (int64_t i = 0; i < n; i += 16) {
#define STEP sum += one; __asm__ volatile("" : "+r"(sum));
#define FOUR STEP STEP STEP STEP
    FOUR FOUR FOUR FOUR
  }
  return (int64_t)sum;
}
