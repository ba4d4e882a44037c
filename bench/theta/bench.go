package main

import (
	"fmt"
	"os"
	"syscall"
)

// The processor time of the process, that of the collector's threads included.
func nowNs() int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

// The conversation with `bifrost bench theta`, as in bench.h.
func main() {
	var n int64
	for {
		if _, err := fmt.Scanln(&n); err != nil {
			return
		}
		start := nowNs()
		result := run(n)
		fmt.Println(nowNs()-start, result)
	}
}
