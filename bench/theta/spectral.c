#include "bench.h"

typedef struct {
  int64_t length;
  double *at;
} Reals;

static Reals reals(int64_t length, double v) {
  Reals a = {length, allocate(length * sizeof(double))};
  for (int64_t i = 0; i < length; i++) a.at[i] = v;
  return a;
}

static inline double *item(Reals a, int64_t i) {
  CHECK_BOUNDS((uint64_t)i < (uint64_t)a.length);
  return &a.at[i];
}

static double a(int64_t i, int64_t j) {
  int64_t both = add(i, j);
  return 1.0 / (double)add(add(mul(both, add(both, 1)) / 2, i), 1);
}

static void multiply(Reals v, Reals product) {
  for (int64_t i = 0; i < v.length; i++) {
    double sum = 0.0;
    for (int64_t j = 0; j < v.length; j++) sum += a(i, j) * *item(v, j);
    *item(product, i) = sum;
  }
}

static void multiply_transposed(Reals v, Reals product) {
  for (int64_t i = 0; i < v.length; i++) {
    double sum = 0.0;
    for (int64_t j = 0; j < v.length; j++) sum += a(j, i) * *item(v, j);
    *item(product, i) = sum;
  }
}

static int64_t run(int64_t n) {
  Reals u = reals(n, 1.0), v = reals(n, 0.0), w = reals(n, 0.0);
  for (int64_t round = 0; round < 10; round++) {
    multiply(u, w);
    multiply_transposed(w, v);
    multiply(v, w);
    multiply_transposed(w, u);
  }
  double uv = 0.0, vv = 0.0;
  for (int64_t i = 0; i < u.length; i++) {
    uv += *item(u, i) * *item(v, i);
    vv += *item(v, i) * *item(v, i);
  }
  free(u.at);
  free(v.at);
  free(w.at);
  return llround(sqrt(uv / vv) * 1000000000.0);
}
