#include "bench.h"

#define PI 3.141592653589793

static double f(double x, double often) {
  if (x <= 5.0 * PI) return 1000.0;
  return fabs(1000.0 * sin(often * x) + 1000.0);
}

static double simpson(double a, double b, double often) {
  return (b - a) / 6.0 * (f(a, often) + 4.0 * f((a + b) / 2.0, often) + f(b, often));
}

static double area(double a, double b, double often, double bound) {
  double m = (a + b) / 2.0;
  double halves = simpson(a, m, often) + simpson(m, b, often);
  if (fabs(halves - simpson(a, b, often)) <= bound || m <= a || m >= b) return halves;
  return area(a, m, often, bound / 2.0) + area(m, b, often, bound / 2.0);
}

static int64_t run(int64_t n) {
  double often = 7.3 * (double)n, step = 5.2 * PI / 8.0, total = 0.0;
  for (int i = 0; i < 8; i++) {
    double lo = step * i;
    total += area(lo, lo + step, often, 0.01);
  }
  return llround(total);
}
