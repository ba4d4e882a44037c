#include "bench.h"

// A leaf has neither left nor right.
typedef struct Tree {
  struct Tree *left, *right;
} Tree;

static int64_t count(const Tree *t) {
  if (!t->left) return 1;
  return add(add(1, count(t->left)), count(t->right));
}

static Tree *new_tree(int64_t depth) {
  Tree *t = allocate(sizeof(Tree));
  if (depth == 0) {
    *t = (Tree){NULL, NULL};
  } else {
    t->left = new_tree(sub(depth, 1));
    t->right = new_tree(sub(depth, 1));
  }
  return t;
}

static void free_tree(Tree *t) {
  if (t->left) {
    free_tree(t->left);
    free_tree(t->right);
  }
  free(t);
}

static int64_t counted(int64_t depth) {
  Tree *t = new_tree(depth);
  int64_t nodes = count(t);
  free_tree(t);
  return nodes;
}

static int64_t run(int64_t n) {
  int64_t nodes = counted(add(n, 1));
  Tree *long_lived = new_tree(n);
  for (int64_t depth = 4; depth <= n; depth += 2) {
    int64_t trees = (int64_t)1 << add(sub(n, depth), 4);
    for (int64_t i = 0; i < trees; i++) nodes = add(nodes, counted(depth));
  }
  nodes = add(nodes, count(long_lived));
  free_tree(long_lived);
  return nodes;
}
