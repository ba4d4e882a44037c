package veneer

import (
	"regexp"
	"slices"
	"strconv"
)

// This file has the way of a batch to the server, and its answer back. Read beginFlush and
// handleBytes first. A flush has these steps:
//
//  1. the caller sends the rest of the batch;
//  2. it hands in the bytes of the reply;
//  3. the slots of the futures are filled;
//  4. failures go to the history and to the account.
//
// A batch is under way from beginFlush until handleBytes returns true for it; answers come in
// order. The next batch is recorded meanwhile, and may use the stubs of those under way if their
// flush was kept.
//
// Bytes of the server are not trusted: they are decoded and checked, positions and counts are
// compared with those of the batch, and no more than replyBytesMax are kept. A wrong reply closes
// the session.

// replies are the bytes of replies, in whatever pieces they come.
type replies struct {
	// kept are the bytes of a reply that is not whole yet, and those behind one that was taken.
	kept     []byte
	bytesMax int
	// needed is the number of bytes that the reply at the front has at least.
	needed int
}

// next takes further bytes. It returns the reply at the front; nil if that is not whole.
func (p *replies) next(data []byte) (reply, *BadBytes) {
	p.kept = append(p.kept, data...)
	if len(p.kept) == 0 || len(p.kept) < p.needed {
		return nil, nil
	}
	whole := string(p.kept)
	decoded, length, err := decodeReply(whole, p.bytesMax)
	switch err := err.(type) {
	case *needError:
		p.needed = err.length
		return nil, nil
	case *BadBytes:
		return nil, err
	}
	p.kept, p.needed = append(p.kept[:0], p.kept[length:]...), 0
	return decoded, nil
}

// lastWords looks for the reason that a server gives before it closes a session. It returns nil if
// there is none, and true if more bytes are needed.
func (p *replies) lastWords(data []byte) (Closed, bool) {
	came, bad := p.next(data)
	if bad != nil {
		return nil, false
	}
	if end, isEnd := came.(*errorReply); isEnd {
		return &ClosedByServer{end.number, end.position, end.text}, false
	}
	return nil, came == nil
}

// Bytes out.

// takeBytes takes the bytes that can be sent now, and counts them as sent: those of flushed
// batches, or else, unless only those are wanted, those of the recorded one. It takes none of the
// latter while a structure is open or a batch that is a transaction is recorded.
func (r *recorder) takeBytes(onlyFlushed bool) []byte {
	var data []byte
	switch {
	case len(r.unsent) > 0:
		data, r.unsent = r.unsent, nil
	case len(r.scopes) > 0 || r.isShipping || onlyFlushed || len(r.batch) == 0:
		return nil
	default:
		data, r.batch = r.batch, nil
		r.published += len(data)
	}
	r.sentBytes += uint64(len(data))
	return data
}

// giveBack takes the room of bytes that were sent, for further ones.
func (r *recorder) giveBack(data []byte) {
	switch {
	case r.broken != nil:
	case r.batch == nil:
		r.batch = data[:0]
	case r.unsent == nil:
		r.unsent = data[:0]
	}
}

// The end of a session.

// close closes the session, and returns the failure that every stub without a result has now, and
// every later one.
func (r *recorder) close(why Closed) Failure {
	if r.broken != nil {
		return r.broken
	}
	failure := &Ended{why}
	r.endFutures(0, failure)
	for _, b := range r.underWay {
		for _, f := range b.futures {
			if f.slot != nil && f.slot.holders > 0 {
				r.settleFailed(f.slot, failure)
			}
		}
	}
	r.futures, r.underWay, r.answered = nil, nil, nil
	r.batch, r.unsent = nil, nil
	r.wanted, r.commands = 0, 0
	r.broken = failure
	r.attend()
	return failure
}

// leave ends the session without an answer: commands that were recorded and never flushed are to
// be sent, and run. It returns false if the session is closed already; otherwise the caller sends
// the bytes and closes the session.
func (r *recorder) leave() bool {
	if r.broken != nil {
		return false
	}
	for len(r.scopes) > 0 {
		r.abandon()
	}
	r.isShipping = false
	r.batch = appendWord(r.batch, opBye)
	return true
}

// Flushing.

// isUnanswered returns true if a batch was not answered yet, by its number.
func (r *recorder) isUnanswered(number uint64) bool {
	if len(r.underWay) > 0 {
		return number >= r.underWay[0].number
	}
	return number >= r.batchNumber
}

// isCrowded returns true if a flush has to wait for an answer first: too many batches are under
// way, or their results and those of this batch are too many.
func (r *recorder) isCrowded() bool {
	count := uint64(len(r.underWay))
	return count > 0 && (count >= r.bounds.underWay ||
		uint64(r.wanted+len(r.futures)) > r.bounds.futures)
}

// waitMs returns the milliseconds that the batches under way may wait for changes of others: a
// client waits so much longer for the answers.
func (r *recorder) waitMs() uint64 {
	total := r.batchWaitMs
	for _, b := range r.underWay {
		total += b.waitMs
	}
	return total
}

// beginFlush ends the batch: it records the frees and the flush. It returns false if there is
// nothing to send; otherwise the batch is under way: the bytes are to be sent, and the answer is to
// be handed in. If its results are kept, batches that are recorded before the answer may use them.
func (r *recorder) beginFlush(isKept bool) (bool, Failure) {
	if r.broken != nil {
		return false, r.broken
	}
	if len(r.scopes) > 0 {
		return false, misused(MisuseOpenStructure)
	}
	r.pruneFrees()
	if r.commands == 0 && len(r.frees) == 0 {
		return false, nil
	}
	if r.isCrowded() {
		return false, misused(MisuseUnderWay)
	}
	r.appendFrees()
	r.putUnderWay(isKept)
	r.attend()
	return true, nil
}

// beginFlushFor begins a flush for the program, which cannot while a batch that is a transaction
// is recorded. name is the program's call: "claim", "flush".
func (r *recorder) beginFlushFor(name string, isKept bool, source uintptr) (bool, Failure) {
	if r.isShipping && r.broken == nil && len(r.scopes) == 0 {
		failure := r.refuse(name, source, misused(MisuseInTransaction))
		r.tell(failure)
		return false, failure
	}
	return r.beginFlush(isKept)
}

// appendFrees records the handles to give back.
func (r *recorder) appendFrees() {
	// An answer under way may name a handle again: then the server does not take it back.
	unanswered := uint32(len(r.underWay))
	// Leaves room for the first word.
	most := int(min(max(r.bounds.frameBytes/8, 2)-1, uint64(max(len(r.frees), 1))))
	for some := range slices.Chunk(r.frees, most) {
		r.batch = appendWord(r.batch, head(opFree, unanswered, uint32(len(some))))
		for _, handle := range some {
			r.batch = appendWord(r.batch, uint64(handle))
			delete(r.handles, handle)
		}
	}
	r.frees = nil
}

func (r *recorder) putUnderWay(isKept bool) {
	wanted := r.keepWanted()
	a := &r.account
	b := &batch{
		number: r.batchNumber, futures: r.futures, errorHandles: r.errorHandles,
		structures: r.structures, firstTransaction: a.firstTransaction,
		lastTransaction: a.transaction, forgiven: a.forgiven, isKept: isKept,
		wanted: len(wanted), waitMs: r.batchWaitMs,
	}
	r.futures, r.spareFutures = r.spareFutures, nil
	r.errorHandles, r.structures = nil, nil
	a.firstTransaction, a.forgiven, r.batchWaitMs = a.transaction, 0, 0
	for _, position := range wanted {
		s := b.futures[position-1].slot
		s.state, s.batch = slotUnderWay, b.number
	}
	flags := uint32(0)
	if isKept {
		flags = flushKeptFlags(len(r.underWay))
	} else {
		// Such a flush ends the results of earlier batches that the server has kept.
		for _, earlier := range r.underWay {
			earlier.isKept = false
		}
	}
	r.batch = appendFlush(r.batch, wanted, flags)
	r.profile = nil
	r.crossings++
	r.calls += uint64(r.commands)
	r.batchNumber++
	r.published, r.tables, r.commands = 0, 0, 0
	r.unsent = append(r.unsent, r.batch...)
	r.batch = r.batch[:0]
	b.endsAt = r.sentBytes + uint64(len(r.unsent))
	r.wanted += b.wanted
	r.underWay = append(r.underWay, b)
}

// Bytes in.

// handleBytes takes bytes of the server, cut anywhere. It returns true if the oldest batch under
// way has been answered with them; its stubs then have their objects, values or failures. Bytes
// behind the answer are kept: if more batches are under way, the caller hands in no bytes for the
// next answer. The failure is that of a session that is closed.
func (r *recorder) handleBytes(data []byte) (bool, Failure) {
	if r.broken != nil {
		return false, r.broken
	}
	came, bad := r.replies.next(data)
	if bad != nil {
		return false, r.close(&ClosedByBadReply{bad})
	}
	var why Closed
	switch came := came.(type) {
	case nil:
		return false, nil
	case *errorReply:
		why = &ClosedByServer{came.number, came.position, came.text}
	case *flushed:
		why = r.apply(came)
	default:
		why = &ClosedByWrongReply{"an answer to flush"}
	}
	if why != nil {
		return false, r.close(why)
	}
	return true, nil
}

// apply fills the slots of a batch's futures from its answer. It returns the reason for which the
// session is to be closed, or nil.
func (r *recorder) apply(f *flushed) Closed {
	if len(r.underWay) == 0 || r.underWay[0].endsAt > r.sentBytes {
		return &ClosedByWrongReply{"none, since none was due"}
	}
	b := r.underWay[0]
	r.underWay = r.underWay[1:]
	r.wanted -= b.wanted
	var signalled []int64
	why := r.fill(b, f, &signalled)
	for _, handle := range signalled {
		r.dropHandle(handle)
	}
	if why != nil {
		// Its stubs get the failure with which the session is closed.
		r.underWay = slices.Insert(r.underWay, 0, b)
		return why
	}
	for _, future := range b.futures {
		if s := future.slot; s != nil && s.holders == 0 {
			r.empty(s)
			s.leave()
		} else if s != nil && s.isUnasked && s.state == slotValue {
			// A stub whose slot is another's by now is that of a call that is done.
			s.use++
			r.recycle(s)
		}
	}
	clear(b.futures)
	r.spareFutures = b.futures[:0]
	r.answered = slices.DeleteFunc(r.answered, func(one answered) bool {
		return one.last <= b.number
	})
	r.boundUntold()
	r.attend()
	return nil
}

func (r *recorder) fill(b *batch, f *flushed, signalled *[]int64) Closed {
	hasFailures := len(f.exceptions) > 0 || f.omitted > 0
	failures, byCall, end, endAt := r.takeExceptions(b, f, signalled)
	r.noteAnswer(hasFailures)
	r.executed += uint64(f.calls)
	if b.number == r.batchNumber-1 {
		r.profile = f.profile
	}
	next := 0
	for index := range b.futures {
		s := b.futures[index].slot
		if s == nil {
			continue
		}
		if s.isUnasked {
			r.settleUnasked(b, s, uint32(index)+1, byCall, end, endAt, uint64(f.omitted))
			continue
		}
		if next == len(f.outcomes) {
			return wrongCount()
		}
		outcome := f.outcomes[next]
		next++
		switch from := b.futures[index].made; outcome.tag {
		case tagRef:
			r.settleObject(s, outcome.handle(), from)
		case tagRows:
			r.settleRows(s, outcome, from)
		case tagException:
			if outcome.word >= uint64(len(failures)) {
				return &ClosedByWrongReply{"an exception that is listed"}
			}
			r.settleFailed(s, failures[outcome.word])
		case tagAbsent:
			call := r.callName(b, uint32(index)+1, nil)
			r.settleFailed(s, &NotReached{end, call})
		default:
			r.settleValue(s, outcome)
		}
	}
	if next < len(f.outcomes) {
		return wrongCount()
	}
	return nil
}

// settleUnasked fills the slot of a call without results: its outcome follows from the exceptions.
func (r *recorder) settleUnasked(
	b *batch, s *slot, position uint32, byCall map[uint32]Failure, end Failure, endAt uint32,
	omitted uint64,
) {
	failure := byCall[position]
	switch {
	case failure != nil:
	case end != nil && position > endAt:
		failure = &NotReached{end, r.callName(b, position, nil)}
	case omitted > 0:
		failure = &Unseen{nil, omitted, nil}
	default:
		r.settleValue(s, NilValue())
		return
	}
	r.settleFailed(s, failure)
}

func wrongCount() Closed {
	return &ClosedByWrongReply{"an outcome for each wanted result"}
}

// Exceptions.

// takeExceptions returns the batch's exceptions as failures, which go into the history, also by
// the positions of their calls, and the one that ended the batch with its position.
func (r *recorder) takeExceptions(
	b *batch, f *flushed, signalled *[]int64,
) (failures []Failure, byCall map[uint32]Failure, end Failure, endAt uint32) {
	r.account.omitted += uint64(f.omitted)
	byCall = map[uint32]Failure{}
	for index := range f.exceptions {
		e := &f.exceptions[index]
		maker := makerRefused
		isKnown := e.call > 0 && int64(e.call) <= int64(len(b.futures))
		if isKnown {
			maker = b.futures[e.call-1].made.maker
		}
		failure, isUnseen := r.failureOf(b, e, maker, isKnown, byCall, signalled)
		if e.kind == exceptionRefused && e.number.endsBatch() {
			end, endAt = failure, e.call
			r.transactionEnds++
			r.batchEnd = end
		}
		byCall[e.call] = failure
		failures = append(failures, failure)
		if isKnown && maker == makerRefused {
			// The calls that it stands for are noted.
			continue
		}
		if isUnseen {
			r.noteUnseen(failure, b, e.call)
		} else {
			r.noteFailure(failure, b, e.call)
		}
		r.remember(failure, b.number)
	}
	r.historyOmitted += uint64(f.omitted)
	if len(byCall) > 0 {
		r.answered = append(r.answered, answered{b.number, r.batchNumber, byCall})
	}
	return failures, byCall, end, endAt
}

// failureOf returns an exception as a failure; isUnseen is true if it stands for failures that the
// program was not told of.
func (r *recorder) failureOf(
	b *batch, e *exception, maker uint64, isKnown bool, byCall map[uint32]Failure,
	signalled *[]int64,
) (failure Failure, isUnseen bool) {
	call := r.callName(b, e.call, e.rounds)
	if e.kind == exceptionSignal {
		values := make([]Value, len(e.values))
		for index, value := range e.values {
			values[index] = r.exceptionValue(value, signalled)
		}
		return &Signal{e.name, values, e.places, e.morePlaces, call, r, nil}, false
	}
	// A structure that is not run has the position of its first call, and none of its calls is to
	// blame.
	if name, isStructure := b.structureName(e.call); isStructure {
		call = name
	}
	if e.kind == exceptionUnhandled {
		return &Unhandled{int(e.argument), r.causeOf(b, e, byCall), call}, false
	}
	if e.number == ErrorUnseen && isKnown {
		var unseen Failure
		switch makerKind(maker) {
		case makerCommit:
			unseen = r.unseen(call, uint32(maker))
		case makerTransaction:
			unseen = r.unseen(call, ^uint32(0))
		}
		if unseen != nil {
			return unseen, true
		}
	}
	return &Refused{e.number, r.withNames(e.text), call}, false
}

// causeOf returns the failure for which a call was not run; nil if it is not known.
func (r *recorder) causeOf(b *batch, e *exception, byCall map[uint32]Failure) Failure {
	var known Failure
	if e.back == 0 {
		known = byCall[e.cause]
	} else {
		for _, one := range r.answered {
			if one.batch+uint64(e.back) == b.number {
				known = one.failures[e.cause]
				break
			}
		}
	}
	if known != nil {
		return asCause(known)
	}
	return b.errorHandle(e.call, int(e.argument))
}

// exceptionValue returns a value of an exception as failures have it. Objects in it are held until
// all stubs of the batch hold theirs.
func (r *recorder) exceptionValue(value Value, signalled *[]int64) Value {
	hold := func(handle int64) {
		r.hold(handle, made{})
		*signalled = append(*signalled, handle)
	}
	switch value.tag {
	case tagRef:
		hold(value.handle())
	case tagCompound:
		value.eachReference(hold)
		return NilValue()
	}
	return value
}

var handleText = regexp.MustCompile(`handle h([0-9]+)`)

// withNames returns a text of the server with names for the handles in it.
func (r *recorder) withNames(text string) string {
	return handleText.ReplaceAllStringFunc(text, func(found string) string {
		number, err := strconv.ParseInt(found[len("handle h"):], 10, 64)
		if err != nil {
			return found
		}
		if name := r.handleName(number); name != "" {
			return name
		}
		return found
	})
}
