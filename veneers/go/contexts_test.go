package veneer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"bifrost.dev/veneer"
)

// soon is the time within which the end of a wait is noticed.
const soon = 5 * time.Second

func TestAClaimEndsWithItsContext(t *testing.T) {
	stop := errors.New("enough")
	for name, limit := range map[string]func() (context.Context, context.CancelFunc){
		"a deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 100*time.Millisecond)
		},
		"a cancellation": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(context.Background())
			timer := time.AfterFunc(100*time.Millisecond, func() { cancel(stop) })
			return ctx, func() { timer.Stop() }
		},
	} {
		s, probe := probeOf(t)
		ctx, cancel := limit()
		started := time.Now()
		err := probe.Endless().ClaimContext(ctx)
		if took := time.Since(started); took > soon {
			t.Errorf("%s: it took %v", name, took)
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, stop) {
			t.Errorf("%s: found %v", name, err)
		}
		var closed *veneer.ClosedByConnection
		if !errors.As(s.Err(), &closed) {
			t.Errorf("%s: the session has %v", name, s.Err())
		}
		cancel()
		// One that has ended already sends nothing.
		s, probe = probeOf(t)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := probe.SameInt(1).ClaimContext(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("found %v", err)
		}
		if s.Err() == nil {
			t.Error("the session goes on")
		}
	}
	// A context that is still there changes nothing.
	s, probe := probeOf(t)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	for number := range int64(100) {
		if found, err := probe.SameInt(number).ClaimContext(ctx); found != number || err != nil {
			t.Errorf("found %d, %v", found, err)
		}
	}
	cancel()
	if found, err := probe.SameInt(7).Claim(); found != 7 || err != nil || s.Err() != nil {
		t.Errorf("found %d, %v, %v", found, err, s.Err())
	}
}

func TestASessionIsOfOneGoroutineAtATime(t *testing.T) {
	s, probe := probeOf(t)
	known := s.Int(7)
	waited := make(chan error, 1)
	go func() { waited <- probe.Endless().Claim() }()
	time.Sleep(200 * time.Millisecond)
	_, claimed := probe.SameInt(1).Claim()
	total := veneer.NewIntCell(s, 0)
	_, read := total.Get().Claim()
	for name, err := range map[string]error{
		"a claim": claimed, "a cell": read, "a call without results": probe.Nothing().Claim(),
		"a flush": s.Flush(), "a batch": s.SendBatch(), "a commit": s.Commit(), "an abort": s.Abort(),
		"a transaction": s.Transaction(func(*veneer.Scope) { t.Error("it runs") }),
	} {
		var refused *veneer.InUse
		if !errors.As(err, &refused) {
			t.Errorf("%s: found %v", name, err)
		}
	}
	if found, err := known.Claim(); found != 7 || err != nil {
		t.Errorf("a value that is known: found %d, %v", found, err)
	}
	select {
	case err := <-waited:
		t.Fatalf("the first one does not wait: %v", err)
	default:
	}
	// It may be closed by another goroutine, which ends the wait.
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	var closed *veneer.ClosedByConnection
	if err := <-waited; !errors.As(err, &closed) {
		t.Errorf("found %v", err)
	}
	if entries, omitted := s.Exceptions(); len(entries) != 0 || omitted != 0 {
		t.Errorf("found %v", entries)
	}
}
