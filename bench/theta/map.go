package main

func run(n int64) int64 {
	var keys []int64
	key := int64(1)
	for range n {
		key = key * 16807 % 2147483647
		keys = append(keys, key)
	}
	places := map[int64]int64{}
	for i, k := range keys {
		places[k] = int64(i) + 1
	}
	sum := int64(0)
	for _, k := range keys {
		sum += places[k]
	}
	for _, k := range keys {
		if _, found := places[k+2147483647]; found {
			sum++
		}
	}
	for i := int64(0); i < n; i += 2 {
		delete(places, keys[i])
	}
	for i, k := range keys {
		if _, found := places[k]; found {
			sum += int64(i) + 1
		}
	}
	return sum + int64(len(places))
}
