// An array of ints with its length.
typedef struct {
  int64_t length;
  int64_t *at;
} Ints;

static Ints ints(int64_t length) {
  return (Ints){length, allocate(length * sizeof(int64_t))};
}

// The element at i, counted from 0.
static inline int64_t *item(Ints a, int64_t i) {
  CHECK_BOUNDS((uint64_t)i < (uint64_t)a.length);
  return &a.at[i];
}
