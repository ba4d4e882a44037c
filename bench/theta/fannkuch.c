#include "bench.h"
#include "ints.h"

static void flip(Ints a, int64_t count) {
  int64_t low = 0, high = sub(count, 1);
  while (low < high) {
    int64_t at_low = *item(a, low);
    *item(a, low) = *item(a, high);
    *item(a, high) = at_low;
    low = add(low, 1);
    high = sub(high, 1);
  }
}

static int64_t flips(Ints a) {
  int64_t count = 0;
  while (*item(a, 0) != 1) {
    flip(a, *item(a, 0));
    count = add(count, 1);
  }
  return count;
}

static void rotate(Ints a, int64_t at) {
  int64_t first = *item(a, 0);
  for (int64_t i = 0; i < at - 1; i++) *item(a, i) = *item(a, add(i, 1));
  *item(a, sub(at, 1)) = first;
}

static int64_t run(int64_t n) {
  Ints permutation = ints(n), turns = ints(n), work = ints(n);
  for (int64_t i = 0; i < n; i++) {
    *item(permutation, i) = i + 1;
    *item(turns, i) = 0;
  }
  int64_t checksum = 0, most = 0, at;
  bool even = true;
  do {
    for (int64_t i = 0; i < n; i++) *item(work, i) = *item(permutation, i);
    int64_t count = flips(work);
    if (count > most) most = count;
    checksum = even ? add(checksum, count) : sub(checksum, count);
    even = !even;
    at = 2;
    while (at <= n) {
      rotate(permutation, at);
      int64_t *turn = item(turns, sub(at, 1));
      *turn = add(*turn, 1);
      if (*turn < at) break;
      *turn = 0;
      at = add(at, 1);
    }
  } while (at <= n);
  free(permutation.at);
  free(turns.at);
  free(work.at);
  return add(mul(checksum, 1000), most);
}
