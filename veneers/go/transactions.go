package veneer

import (
	"math"
)

// This file records the ends of transactions, waits, and batches that are transactions.
//
//	batch that is a transaction: beginTransaction, calls, endTransactionBatch, beginFlush,
//	handleBytes, finishTransaction

// commitDue checks that a transaction can end here, and returns the work that a commit needs
// before it is recorded.
func (r *recorder) commitDue() (due, Failure) {
	switch {
	case len(r.scopes) > 0:
		return dueNothing, misused(MisuseOpenStructure)
	case r.isShipping:
		return dueNothing, misused(MisuseInTransaction)
	case r.commitNeedsFlush():
		return dueFlush, nil
	}
	return dueNothing, nil
}

// commitNeedsFlush returns true if a flush is due before a commit is recorded.
func (r *recorder) commitNeedsFlush() bool {
	if r.account.isPrevented() {
		// The call and the commit belong into one batch.
		return len(r.futures)+2 > r.attentionFutures || uint64(r.commands)+3 > r.bounds.commands
	}
	// Told in the middle of a batch, whose own failures must not be cleared with them.
	return r.account.isServerUnseen && r.account.isAllTold()
}

func (r *recorder) mayEnd(admitted Failure) Failure {
	if admitted != nil {
		return admitted
	}
	_, wrong := r.commitDue()
	return wrong
}

// beforeCommit makes sure that a commit behind the recorded commands is refused if any failure was
// not seen, and only then.
func (r *recorder) beforeCommit(source uintptr) {
	if r.account.isPrevented() {
		r.appendCommand(opCall, 0)
		r.skipResult(makerRefused, source)
	} else {
		r.clearTold()
	}
}

// nextTransaction ends the transaction at the current place of recording; it returns its number.
func (r *recorder) nextTransaction() uint64 {
	ended := r.account.transaction
	r.account.transaction++
	r.transactionEnds++
	return uint64(ended)
}

// commit records the commit of the transaction, which has one result. The work that is due was
// done before.
func (r *recorder) commit(admitted Failure, source uintptr) recorded {
	if wrong := r.mayEnd(admitted); wrong != nil {
		return recorded{failure: r.refuse("commit", source, wrong)}
	}
	r.beforeCommit(source)
	ended := r.nextTransaction()
	r.appendCommand(opCommit)
	return recorded{maker: makerCommit | ended}
}

// abort records the abort of the transaction, which has one result.
func (r *recorder) abort(admitted Failure, source uintptr) recorded {
	if wrong := r.mayEnd(admitted); wrong != nil {
		return recorded{failure: r.refuse("abort", source, wrong)}
	}
	ended := r.nextTransaction()
	r.appendCommand(opAbort)
	return recorded{maker: makerAbort | ended}
}

// wait records a wait of at most so many milliseconds, which has one result: true if others have
// changed an object that the transaction has read.
func (r *recorder) wait(admitted Failure, ms uint32, source uintptr) recorded {
	if wrong := r.mayEnd(admitted); wrong != nil {
		return recorded{failure: r.refuse("wait", source, wrong)}
	}
	ms = min(ms, r.bounds.waitMs)
	r.batchWaitMs += uint64(ms)
	r.appendCommand(head(opWait, 0, ms))
	return recorded{maker: makerWait}
}

// isIdle returns true if nothing is recorded, and no batch is under way.
func (r *recorder) isIdle() bool { return r.commands == 0 && len(r.underWay) == 0 }

// batchName is the name of a batch that is a transaction: 128 bits of the client's, and a number.
type batchName struct {
	low, high uint64
	number    uint64
}

// beginTransaction begins a batch that is a transaction, and returns the slot of its outcome. The
// caller has flushed before. The name may be nil.
func (r *recorder) beginTransaction(
	tries uint32, name *batchName, source uintptr,
) (*slot, Failure) {
	if r.broken != nil {
		return nil, r.broken
	}
	if !r.isIdle() {
		return nil, misused(MisuseUnderWay)
	}
	if lost := r.surface(true); lost != nil {
		return nil, lost
	}
	if unseen := r.unseenNow(transactionName(source)); unseen != nil {
		return nil, unseen
	}
	r.clearTold()
	r.transactionEnds++
	// The number of tries has 16 bits.
	flags := min(tries, math.MaxUint16) << 8
	if name == nil {
		r.appendCommand(head(opTransaction, flags, 0))
	} else {
		first := head(opTransaction, flags|transactionNamed, 0)
		r.appendCommand(first, name.low, name.high, name.number)
	}
	r.isShipping = true
	done := r.newResult(recorded{maker: makerTransaction}, source)
	r.shippedFrom = r.account.order
	return done, nil
}

func transactionName(source uintptr) CallName {
	return CallName{"transaction", 1, nil, source}
}

// endTransactionBatch ends the recording of the batch; it returns the calls that were not sent,
// for which the server refuses the batch.
func (r *recorder) endTransactionBatch() []Failure {
	r.isShipping = false
	refusals := r.takeShippedRefusals()
	if len(refusals) > 0 {
		r.refuseBatch()
	}
	return refusals
}

// abandonTransaction ends the recording of a batch that was left by a panic: the server refuses
// it. The caller flushes, and calls tellTransaction.
func (r *recorder) abandonTransaction() {
	r.isShipping = false
	r.takeShippedRefusals()
	r.refuseBatch()
	// The panic tells that nothing of the batch was done. Commands recorded behind it are a batch
	// of their own.
	r.shippedFrom = r.account.order
}

// refuseBatch has the server refuse a batch that is a transaction: none has an abort.
func (r *recorder) refuseBatch() { r.appendCommand(opAbort) }

// tellTransaction tells the program of the failures of the last batch that was a transaction.
func (r *recorder) tellTransaction() { r.tellSince(r.shippedFrom) }

// finishTransaction returns the outcome of a transaction whose batch was answered: nil, or its
// failure. done is that of its slot, and refusals are the calls that were not sent.
func (r *recorder) finishTransaction(done Failure, refusals []Failure, source uintptr) Failure {
	if done == nil && len(refusals) == 0 {
		return nil
	}
	// Nothing of it was done, and so no failure of it is left to be told.
	r.tellTransaction()
	if len(refusals) == 0 {
		return done
	}
	call := transactionName(source)
	return &Unseen{refusals, 0, &call}
}
