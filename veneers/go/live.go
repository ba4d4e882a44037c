package veneer

import (
	"errors"
	"iter"
	"slices"
	"time"
)

// Claimable is a result that can be claimed: a promise, a table, contents.
type Claimable[V any] interface {
	Object
	Claim() (V, error)
}

// Live runs a batch again whenever its result may have changed: when others have committed changes
// of objects that it has read. The block is called for each run, and returns what is claimed. A
// result that equals the one before is left out. A failure ends the loop. Give a live batch a session
// of its own: the loop is left by break between two results.
//
//	for rows, err := range bf.Live(s, func() bf.Rows2[...] { return leaders(scores) }) {
//		...
//	}
func Live[V any, R Claimable[V]](s *Session, block func() R) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		run := liveRun{session: s, readAt: -1}
		defer run.last.Release()
		for {
			var result R
			isNew, err := run.next(func() Ref {
				result = block()
				return result.ref()
			})
			var value V
			if err == nil && isNew {
				value, err = result.Claim()
			}
			if err != nil {
				s.core.tellSince(run.mark)
				yield(value, err)
				return
			}
			if isNew && !yield(value, nil) {
				return
			}
		}
	}
}

// liveRun is a live batch.
type liveRun struct {
	session *Session
	// last is the last result, which is released when there is another one.
	last Ref
	// readAt is the number of ends of transactions when the last run was answered; -1 if the
	// transaction with what it has read is gone.
	readAt int
	// mark is the first failure of the run.
	mark uint64
}

// next runs the batch once. It returns true if its result is another one than before.
func (l *liveRun) next(block func() Ref) (bool, error) {
	s := l.session
	r := s.core
	for {
		if len(r.underWay) > 0 {
			if wrong := s.synchronize("live", s.place()); wrong != nil {
				return false, asError(wrong)
			}
		}
		r.batchEnd, l.mark = nil, r.account.order
		scope := s.Scope()
		var waited Bool
		isWaiting := l.readAt == r.transactionEnds
		if isWaiting {
			waited = s.Wait(longestWait)
		}
		result := block()
		scope.Keep(result)
		wrong := s.synchronize("live", s.place())
		var end error = asError(wrong)
		if end == nil && r.batchEnd != nil {
			end = r.batchEnd
		}
		if end == nil && isWaiting && waited.slot.state == slotFailed {
			end = waited.slot.failure
		}
		scope.Close()
		l.readAt = r.transactionEnds
		if end == nil {
			isNew := !IsSame(l.last, result)
			l.last.Release()
			l.last = result
			return isNew, nil
		}
		result.Release()
		r.tellSince(l.mark)
		if wrong != nil || !isOvertaken(end) {
			return false, end
		}
		l.readAt = -1
	}
}

// longestWait is the time of a wait for which the server has its own limit.
const longestWait = 1 << 31 * time.Millisecond

// isOvertaken returns true for the end of a batch whose transaction is gone, and with it all that it
// has read.
func isOvertaken(end error) bool {
	var refused *Refused
	return errors.As(end, &refused) &&
		slices.Contains([]ErrorNumber{ErrorConflict, ErrorTransactionExpired}, refused.Number)
}
