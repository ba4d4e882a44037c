#include "bench.h"

// A continuation on the heap for each request, which is called later with the answer.
struct asker {
  int64_t sum;
};
struct continuation {
  void (*resume)(struct continuation *, int64_t);
  struct asker *asker;
};
struct holder {
  struct continuation *held;
};

static void ask_goes_on(struct continuation *k, int64_t v) {
  k->asker->sum = add(k->asker->sum, v);
  free(k);
}

__attribute__((noinline)) static void ask(struct asker *a, struct holder *h) {
  struct continuation *k = allocate(sizeof *k);
  *k = (struct continuation){ask_goes_on, a};
  h->held = k;
}

__attribute__((noinline)) static void give(struct holder *h, int64_t v) {
  struct continuation *k = h->held;
  h->held = NULL;
  k->resume(k, v);
}

static int64_t run(int64_t n) {
  struct asker a = {0};
  struct holder h = {NULL};
  for (int64_t i = 1; i <= n; i++) {
    ask(&a, &h);
    give(&h, i & 7);
  }
  return a.sum;
}
