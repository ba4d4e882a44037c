// What every program has: arithmetic and bounds as Theta checks them (with -DCHECKED), and the conversation with
// `bifrost bench theta`. A line `N` on the input runs the kernel with N; the answer is its processor time in
// nanoseconds and its result.
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((noinline, cold, noreturn)) static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

#ifdef CHECKED
static inline int64_t add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) fail("overflow");
  return r;
}
static inline int64_t sub(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_sub_overflow(a, b, &r)) fail("overflow");
  return r;
}
static inline int64_t mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) fail("overflow");
  return r;
}
#define CHECK_BOUNDS(inside) \
  if (!(inside)) fail("bounds")
#else
static inline int64_t add(int64_t a, int64_t b) { return a + b; }
static inline int64_t sub(int64_t a, int64_t b) { return a - b; }
static inline int64_t mul(int64_t a, int64_t b) { return a * b; }
#define CHECK_BOUNDS(inside)
#endif

static inline void *allocate(size_t bytes) {
  void *memory = malloc(bytes);
  if (!memory) fail("out of memory");
  return memory;
}

static int64_t run(int64_t n);

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(void) {
  int64_t n;
  while (scanf("%" SCNd64, &n) == 1) {
    int64_t start = now_ns();
    int64_t result = run(n);
    printf("%" PRId64 " %" PRId64 "\n", now_ns() - start, result);
    fflush(stdout);
  }
}
