package main

func flip(a []int64) {
	for low, high := 0, len(a)-1; low < high; low, high = low+1, high-1 {
		a[low], a[high] = a[high], a[low]
	}
}

func flips(a []int64) int64 {
	count := int64(0)
	for a[0] != 1 {
		flip(a[:a[0]])
		count++
	}
	return count
}

func rotate(a []int64) {
	first := a[0]
	for i := range len(a) - 1 {
		a[i] = a[i+1]
	}
	a[len(a)-1] = first
}

func run(n int64) int64 {
	permutation, turns, work := make([]int64, n), make([]int64, n), make([]int64, n)
	for i := range permutation {
		permutation[i] = int64(i) + 1
	}
	checksum, most, even := int64(0), int64(0), true
	for {
		for i := range work {
			work[i] = permutation[i]
		}
		count := flips(work)
		most = max(most, count)
		if even {
			checksum += count
		} else {
			checksum -= count
		}
		even = !even
		at := int64(2)
		for at <= n {
			rotate(permutation[:at])
			turns[at-1]++
			if turns[at-1] < at {
				break
			}
			turns[at-1] = 0
			at++
		}
		if at > n {
			return checksum*1000 + most
		}
	}
}
