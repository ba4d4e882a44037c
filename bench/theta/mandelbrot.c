#include "bench.h"

static bool stays(double cx, double cy) {
  double x = 0.0, y = 0.0;
  for (int64_t i = 0; i < 50; i++) {
    double xx = x * x, yy = y * y;
    if (xx + yy > 4.0) return false;
    y = 2.0 * x * y + cy;
    x = xx - yy + cx;
  }
  return true;
}

static int64_t run(int64_t n) {
  double step = 2.0 / (double)n;
  int64_t inside = 0;
  for (int64_t row = 0; row < n; row++) {
    double cy = (double)row * step - 1.0;
    for (int64_t column = 0; column < n; column++) {
      if (stays((double)column * step - 1.5, cy)) inside = add(inside, 1);
    }
  }
  return inside;
}
