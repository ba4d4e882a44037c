#include "bench.h"

typedef struct Shape Shape;

// What an object can do is a table of functions, its first word the table's address.
typedef struct {
  int64_t (*area)(const Shape *);
  int64_t (*outline)(const Shape *);
  void (*grow)(Shape *, int64_t by);
  void (*end)(Shape *);
} Table;

struct Shape {
  const Table *table;
};

static int64_t area(const Shape *s) { return s->table->area(s); }
static int64_t outline(const Shape *s) { return s->table->outline(s); }
static void grow(Shape *s, int64_t by) { s->table->grow(s, by); }
static void end(Shape *s) { s->table->end(s); }

static void end_plain(Shape *s) { free(s); }

typedef struct {
  Shape shape;
  int64_t size;
} Sized;

static void sized_grow(Shape *s, int64_t by) {
  Sized *self = (Sized *)s;
  self->size = add(self->size, by);
}

static int64_t square_area(const Shape *s) {
  const Sized *self = (const Sized *)s;
  return mul(self->size, self->size);
}
static int64_t square_outline(const Shape *s) { return mul(4, ((const Sized *)s)->size); }
static const Table square = {square_area, square_outline, sized_grow, end_plain};

static int64_t triangle_area(const Shape *s) {
  const Sized *self = (const Sized *)s;
  return mul(mul(6, self->size), self->size);
}
static int64_t triangle_outline(const Shape *s) { return mul(12, ((const Sized *)s)->size); }
static const Table triangle = {triangle_area, triangle_outline, sized_grow, end_plain};

static int64_t circle_area(const Shape *s) {
  const Sized *self = (const Sized *)s;
  return mul(mul(355, self->size), self->size) / 113;
}
static int64_t circle_outline(const Shape *s) { return mul(710, ((const Sized *)s)->size) / 113; }
static const Table circle = {circle_area, circle_outline, sized_grow, end_plain};

typedef struct {
  Shape shape;
  int64_t width, height;
} Oblong;

static int64_t oblong_area(const Shape *s) {
  const Oblong *self = (const Oblong *)s;
  return mul(self->width, self->height);
}
static int64_t oblong_outline(const Shape *s) {
  const Oblong *self = (const Oblong *)s;
  return mul(2, add(self->width, self->height));
}
static void oblong_grow(Shape *s, int64_t by) {
  Oblong *self = (Oblong *)s;
  self->width = add(self->width, by);
  self->height = add(self->height, by);
}
static const Table oblong = {oblong_area, oblong_outline, oblong_grow, end_plain};

typedef struct {
  Shape shape;
  Shape *outer, *inner;
} Frame;

static int64_t frame_area(const Shape *s) {
  const Frame *self = (const Frame *)s;
  return sub(area(self->outer), area(self->inner));
}
static int64_t frame_outline(const Shape *s) {
  const Frame *self = (const Frame *)s;
  return add(outline(self->outer), outline(self->inner));
}
static void frame_grow(Shape *s, int64_t by) {
  Frame *self = (Frame *)s;
  grow(self->outer, by);
  grow(self->inner, by);
}
static void frame_end(Shape *s) {
  Frame *self = (Frame *)s;
  end(self->outer);
  end(self->inner);
  free(self);
}
static const Table frame = {frame_area, frame_outline, frame_grow, frame_end};

static Shape *new_sized(const Table *table, int64_t size) {
  Sized *s = allocate(sizeof(Sized));
  *s = (Sized){{table}, size};
  return &s->shape;
}

static Shape *new_shape(int64_t kind, int64_t size) {
  switch (kind) {
  case 0:
    return new_sized(&square, size);
  case 1: {
    Oblong *o = allocate(sizeof(Oblong));
    *o = (Oblong){{&oblong}, size, add(size, 3)};
    return &o->shape;
  }
  case 2:
    return new_sized(&triangle, size);
  case 3:
    return new_sized(&circle, size);
  default: {
    Frame *f = allocate(sizeof(Frame));
    *f = (Frame){{&frame}, new_shape(1, add(size, 2)), new_shape(0, size)};
    return &f->shape;
  }
  }
}

typedef struct {
  int64_t length;
  Shape **at;
} Shapes;

static inline Shape *item(Shapes a, int64_t i) {
  CHECK_BOUNDS((uint64_t)i < (uint64_t)a.length);
  return a.at[i];
}

static int64_t run(int64_t n) {
  Shapes shapes = {1000, allocate(1000 * sizeof(Shape *))};
  int64_t seed = 1;
  for (int64_t i = 0; i < shapes.length; i++) {
    seed = mul(seed, 16807) % 2147483647;
    shapes.at[i] = new_shape(seed % 5, add(seed % 11, 1));
  }
  int64_t sum = 0;
  for (int64_t round = 1; round <= n; round++) {
    int64_t by = sub(round % 3, 1);
    for (int64_t i = 0; i < shapes.length; i++) {
      Shape *s = item(shapes, i);
      grow(s, by);
      sum = add(add(sum, area(s)), outline(s));
    }
  }
  for (int64_t i = 0; i < shapes.length; i++) end(shapes.at[i]);
  free(shapes.at);
  return sum;
}
