package main

import "iter"

func numbers(n int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for i := int64(1); i <= n; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

func evens(n int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for i := range numbers(n) {
			if i%2 == 0 && !yield(i) {
				return
			}
		}
	}
}

func tripled(n int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for i := range evens(n) {
			if !yield(i*3 + 1) {
				return
			}
		}
	}
}

func run(n int64) int64 {
	sum := int64(0)
	for i := range tripled(n) {
		sum += i
	}
	return sum
}
