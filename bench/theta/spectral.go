package main

import "math"

func a(i, j int64) float64 {
	return 1.0 / float64((i+j)*(i+j+1)/2+i+1)
}

func multiply(v, product []float64) {
	for i := range v {
		sum := 0.0
		for j := range v {
			sum += a(int64(i), int64(j)) * v[j]
		}
		product[i] = sum
	}
}

func multiplyTransposed(v, product []float64) {
	for i := range v {
		sum := 0.0
		for j := range v {
			sum += a(int64(j), int64(i)) * v[j]
		}
		product[i] = sum
	}
}

func run(n int64) int64 {
	u, v, w := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range u {
		u[i] = 1.0
	}
	for range 10 {
		multiply(u, w)
		multiplyTransposed(w, v)
		multiply(v, w)
		multiplyTransposed(w, u)
	}
	uv, vv := 0.0, 0.0
	for i := range u {
		uv += u[i] * v[i]
		vv += v[i] * v[i]
	}
	return int64(math.Round(math.Sqrt(uv/vv) * 1000000000.0))
}
