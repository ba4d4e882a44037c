package main

// A leaf has neither left nor right.
type tree struct {
	left, right *tree
}

func newTree(depth int64) *tree {
	if depth == 0 {
		return &tree{}
	}
	return &tree{newTree(depth - 1), newTree(depth - 1)}
}

func (t *tree) count() int64 {
	if t.left == nil {
		return 1
	}
	return 1 + t.left.count() + t.right.count()
}

func run(n int64) int64 {
	nodes := newTree(n + 1).count()
	longLived := newTree(n)
	for depth := int64(4); depth <= n; depth += 2 {
		for range int64(1) << (n - depth + 4) {
			nodes += newTree(depth).count()
		}
	}
	return nodes + longLived.count()
}
