package veneer

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Closed sessions, and those that were never opened, leave no goroutine.
func TestSessionsLeaveNothing(t *testing.T) {
	urls := startServer(t, "database", append(anywhere(everywhere()...), "--anonymous-loopback")...)
	visit := func() {
		for _, url := range urls {
			s, err := Connect(context.Background(), url, Options{})
			if err != nil {
				t.Fatal(err)
			}
			expectInt(t, s.Value(IntValue(7)), 7)
			if err := s.Flush(); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			// The address of another kind of server, and a limit that is past at once.
			other := "ws" + url[strings.Index(url, ":"):]
			if !strings.HasPrefix(url, "ws") && !strings.HasSuffix(url, "/socket") {
				refusedWith(t, other, Options{Timeout: wait}, "")
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
			if _, err := Connect(ctx, url, Options{}); err == nil {
				t.Errorf("%s: a session is open behind its time", url)
			}
			cancel()
		}
	}
	// What the first sessions make stays: tables of certificates, the poller of the network.
	visit()
	before := runtime.NumGoroutine()
	for range 3 {
		visit()
	}
	deadline := time.Now().Add(wait)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			stacks = stacks[:runtime.Stack(stacks, true)]
			t.Fatalf("%d goroutines were there, and %d are:\n%s", before, runtime.NumGoroutine(), stacks)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
