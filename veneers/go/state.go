package veneer

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
)

// This file has the tables of a session. slot is the type to read first: the knowledge about one
// stub.

// Makers of futures, for messages: a method is its number, the others have a kind above it.
const (
	makerBits = 32

	makerRoutine uint64 = (iota + 1) << makerBits
	makerProcedure
	makerCommit
	makerAbort
	makerLookup
	makerConstant
	makerCell
	makerRows
	makerEmit
	makerAs
	makerIs
	makerGet
	makerVariable
	makerTransaction
	makerWait
	makerRefused
)

var makerNames = map[uint64]string{
	makerCommit: "commit", makerAbort: "abort", makerLookup: "lookup", makerConstant: "constant",
	makerCell: "cell", makerRows: "rows", makerEmit: "emit", makerAs: "as", makerIs: "is",
	makerGet: "get", makerVariable: "variable", makerTransaction: "transaction",
	makerWait: "wait", makerRefused: "refused",
}

// makerKind returns the kind of a maker, without its number.
func makerKind(maker uint64) uint64 { return maker >> makerBits << makerBits }

// made is the call that has made a result: its maker, and the caller's word for its place.
type made struct {
	maker  uint64
	source uintptr
}

// slotState is the state of a stub.
type slotState byte

const (
	// slotFuture is a result of the recorded batch.
	slotFuture slotState = iota
	// slotUnderWay is a result of a batch without an answer.
	slotUnderWay
	// slotObject is an object.
	slotObject
	// slotValue is a value or a table.
	slotValue
	// slotFailed is a failure.
	slotFailed
)

// slot is the knowledge about a stub. Copies of a stub share their slot, which counts them as its
// holders. The last holder gives the slot's handles back.
type slot struct {
	core    *recorder
	state   slotState
	holders int
	// position is that of a future, and of a result under way, in its batch, from 1.
	position uint32
	// batch is the number of the batch of a result under way.
	batch uint64
	// handle is the handle of an object.
	handle int64
	// value is the value, or the table.
	value Value
	// failure is the failure.
	failure Failure
	// held are the handles that the slot holds.
	held []int64
	// use is the number of releases of a slot: a typed stub has that of its making.
	use uint32
	// isPooled is true for a slot of a typed stub, which is used again when it is free.
	isPooled bool
	// isUnasked is true for the result of a call without results until it is claimed: the flush does
	// not ask for it.
	isUnasked bool
}

// isPending returns true if the result is not known yet.
func (s *slot) isPending() bool { return s.state == slotFuture || s.state == slotUnderWay }

// isUnusable returns true for the result of a call that was not sent.
func (s *slot) isUnusable() bool {
	if s.state != slotFailed {
		return false
	}
	switch s.failure.(type) {
	case *NotSent, *Misused:
		return true
	}
	return false
}

// isErrorHandle returns true if the error-handle stands for the slot as an operand.
func (s *slot) isErrorHandle() bool {
	return s.state == slotFailed || s.state == slotValue && s.value.tag == tagRows
}

// isSame returns true if two slots are known to have the same result.
func (s *slot) isSame(other *slot) bool {
	switch {
	case s.state != other.state:
		return false
	case s.state == slotObject:
		return s.handle == other.handle
	}
	return s.state == slotValue && s.value.equal(other.value)
}

// retain counts a further holder.
func (s *slot) retain() *slot {
	s.holders++
	return s
}

// release counts a holder less.
func (s *slot) release() {
	s.holders--
	if s.holders == 0 {
		s.core.empty(s)
		if s.isPooled {
			s.use++
			if !s.isPending() {
				s.core.recycle(s)
			}
		}
	}
}

// held is a handle of the session: the number of its holders, and the call that made it.
type held struct {
	holders int
	made    made
}

// bounds are the limits of a batch, which the server tells.
type bounds struct {
	frameBytes uint64
	batchBytes uint64
	commands   uint64
	futures    uint64
	depth      uint64
	waitMs     uint32
	underWay   uint64
	// hasProfiles is true if the server makes profiles.
	hasProfiles bool
}

// defaultBounds returns the limits of a server that tells none.
func defaultBounds() bounds {
	var b bounds
	for _, row := range limitTable {
		if row.number != limitProfileEntries {
			b.set(row.number, row.defaultValue)
		}
	}
	return b
}

// set notes a limit of the server; limits that concern no batch are ignored.
func (b *bounds) set(limit uint32, value uint64) {
	switch limit {
	case limitFrameBytes:
		b.frameBytes = value
	case limitBatchBytes:
		b.batchBytes = value
	case limitBatchCommands:
		b.commands = value
	case limitFutures:
		b.futures = value
	case limitDepth:
		b.depth = value
	case limitWaitMs:
		b.waitMs = uint32(min(value, math.MaxUint32))
	case limitBatchesUnderWay:
		// References count back in a byte.
		b.underWay = min(max(value, 1), math.MaxUint8)
	case limitProfileEntries:
		b.hasProfiles = true
	}
}

// settings are the settings of a recorder.
type settings struct {
	// replyBytesMax is the length of the longest reply that is read.
	replyBytesMax int
	// remapFutures is the number of futures after which a flush is due, at most.
	remapFutures uint64
	// trace is the program's place in a trace, or empty.
	trace string
	// place shows the caller's word for a place.
	place func(source uintptr) string
}

// defaultSettings returns the settings of a program that chooses none.
func defaultSettings() settings {
	return settings{
		replyBytesMax: replyBytesMax, remapFutures: remapFutures, place: placeOfCounter,
	}
}

// placeOfCounter returns the file and the line of a program counter.
func placeOfCounter(source uintptr) string {
	file, line, ok := CallName{source: source}.Source()
	if !ok {
		return "an unknown place"
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// future is a position of a batch. Its slot is nil if nobody wants the result.
type future struct {
	slot *slot
	made made
}

// scope is an open structure, and the places in the batch where it starts.
type scope struct {
	kind          structure
	source        uintptr
	batchStart    int
	futuresStart  int
	commandsStart int
	batch         uint64
}

// outermost is a whole structure that is in no other one, by the first position behind its begin
// marker.
type outermost struct {
	position uint32
	kind     structure
	source   uintptr
}

// errorHandle is an operand that the server knows as the error-handle only: the position of its
// call, the argument, its failure.
type errorHandle struct {
	position uint32
	argument int
	failure  Failure
}

// batch is a batch under way.
type batch struct {
	// number is its number in the session, from 1.
	number       uint64
	futures      []future
	errorHandles []errorHandle
	structures   []outermost
	// firstTransaction and lastTransaction are the transactions at its begin and at its end.
	firstTransaction uint32
	lastTransaction  uint32
	// forgiven is the position up to which failures of calls need not be told.
	forgiven uint32
	// isKept is true if later batches may name its results.
	isKept bool
	// wanted is the number of results that its answer has.
	wanted int
	// endsAt is the number of bytes of the session up to its end.
	endsAt uint64
	// waitMs are the milliseconds that it may wait for changes of others.
	waitMs uint64
}

// transactionAt returns the transaction that a call belongs to.
func (b *batch) transactionAt(position uint32) uint32 {
	if b.firstTransaction == b.lastTransaction {
		return b.lastTransaction
	}
	before := min(max(int(position)-1, 0), len(b.futures))
	for index := before - 1; index >= 0; index-- {
		maker := b.futures[index].made.maker
		if kind := makerKind(maker); kind == makerCommit || kind == makerAbort {
			return uint32(maker) + 1
		}
	}
	return b.firstTransaction
}

// errorHandle returns the failure of an argument that the server knows as the error-handle only;
// nil if none is known.
func (b *batch) errorHandle(position uint32, argument int) Failure {
	var any Failure
	for _, entry := range slices.Backward(b.errorHandles) {
		if entry.position != position {
			continue
		}
		if entry.argument == argument {
			return entry.failure
		}
		if any == nil {
			any = entry.failure
		}
	}
	return any
}

// structureName returns the name of the outermost structure whose first position this is.
func (b *batch) structureName(position uint32) (CallName, bool) {
	for _, one := range b.structures {
		if one.position == position {
			return CallName{one.kind.String(), int(position), nil, one.source}, true
		}
	}
	return CallName{}, false
}

// answered has the failures of a batch with an answer by the positions of their calls: later
// batches up to a last one may name them.
type answered struct {
	batch    uint64
	last     uint64
	failures map[uint32]Failure
}

// heading has the types of a procedure, by the client's numbers. Without a result hasResult is
// false.
type heading struct {
	params    []uint32
	result    uint32
	hasResult bool
}

func (h heading) equal(other heading) bool {
	return slices.Equal(h.params, other.params) && h.hasResult == other.hasResult &&
		h.result == other.result
}

// procedure is a batched procedure: its name, its heading, its number in the session.
type procedure struct {
	name    string
	heading heading
	number  uint32
}

// recorder is the recorder of one session: calls become a batch, the reply becomes knowledge about
// stubs. It does no input or output, and knows no goroutines, clocks or sockets: bytes are taken
// out of it, and handed in. One goroutine uses it at a time.
//
//	batch recorded --beginFlush--> under way --handleBytes--> answered
//	any            --close------> closed: all stubs without a result have the reason
//
// The methods of recorder are in these files:
//
//	state.go         slots, handles, names
//	slots.go         slots that are used again
//	account.go       failures that the program was not told of
//	calls.go         calls, and the other commands that are no structures
//	structures.go    structures and procedures
//	transactions.go  commits, batches that are transactions, waits
//	crossing.go      the way of a batch to the server, and its answer
type recorder struct {
	numbers  *numbers
	bounds   bounds
	settings settings
	replies  replies

	// batch are the bytes that were not sent. Structures stay here until they are whole.
	batch    []byte
	futures  []future
	commands int
	// published is the number of bytes of this batch that were sent.
	published int
	// When attentionBytes or attentionFutures is reached, due looks more closely.
	attentionBytes   int
	attentionFutures int
	errorHandles     []errorHandle
	structures       []outermost
	// tables is the number of tables of this batch.
	tables int
	// batchWaitMs are the milliseconds that this batch may wait for changes of others.
	batchWaitMs uint64
	// isShipping is true while the batch is a transaction, which is sent whole.
	isShipping bool
	// shippedFrom is the first failure of the last batch that was a transaction, by its order.
	shippedFrom uint64

	// isCrossing is true while a goroutine waits for the server: calls of others fail, and leave the
	// recorder as it is.
	isCrossing atomic.Bool
	// session is that of the recorder's typed stubs; nil without one.
	session *Session
	// freeSlots are slots to be used again, and spareSlots are new ones.
	freeSlots  []*slot
	spareSlots []slot
	// spareFutures are the positions of a batch that was answered, to be used again.
	spareFutures []future
	// building is the call whose arguments are being recorded.
	building Call

	// handles are the handles of the session, and frees those to give back with this batch.
	handles map[int64]*held
	frees   []int64
	// failed are the slots with a failure that have holders.
	failed map[*slot]struct{}

	scopes []scope
	// poison is the reason why the outermost open structure is not sent.
	poison Failure
	// broken is the reason why the session has ended.
	broken Failure
	// outOfScope is the failure of all stubs of ended structures.
	outOfScope Failure

	// underWay are the batches without an answer, oldest first, and wanted is the number of their
	// results.
	underWay []*batch
	wanted   int
	// unsent are bytes of them, and sentBytes is the number of the session's bytes that were sent.
	unsent      []byte
	sentBytes   uint64
	answered    []answered
	batchNumber uint64

	// history has the failures, oldest first; later ones are counted.
	history        []HistoryEntry
	historyOmitted uint64
	account        account
	// transactionEnds is the number of times that a transaction ended, or may have.
	transactionEnds int
	// batchEnd is the last failure that ended a batch.
	batchEnd Failure

	// procedures are those defined, by number, and openProcedures those being defined.
	procedures       []procedure
	proceduresByName map[string]procedure
	openProcedures   []procedure

	// isProfiled is true if the program has asked for profiles, and profile is that of the batch
	// that was sent last.
	isProfiled bool
	profile    *Profile

	// crossings, calls and executed count batches, their commands, and the calls that the server
	// ran.
	crossings uint64
	calls     uint64
	executed  uint64
}

// newRecorder returns the recorder of a session that was greeted.
func newRecorder(n *numbers, b bounds, s settings, came replies) *recorder {
	// The flush is a command, too: it has a word for every second future at most.
	frameWords := max(b.frameBytes/8, 1)
	b.futures = max(min(b.futures, 2*(frameWords-1)), 1)
	attention := max(min(s.remapFutures, b.futures, b.commands/2), 1)
	return &recorder{
		numbers: n, bounds: b, settings: s, replies: came,
		attentionBytes:   publishBytes,
		attentionFutures: int(min(attention, math.MaxInt32)),
		handles:          map[int64]*held{},
		failed:           map[*slot]struct{}{},
		outOfScope:       misused(MisuseOutOfScope),
		batchNumber:      1,
		account:          newAccount(),
		proceduresByName: map[string]procedure{},
	}
}

// Slots.

// recorded is the outcome of recording a call: the maker of its results, or the failure of its
// stubs.
type recorded struct {
	maker   uint64
	failure Failure
}

// newResult returns a slot for a result of the call that was recorded last, or for one of a call
// that was refused. All results of a call are taken, in order, before anything else is recorded.
func (r *recorder) newResult(call recorded, source uintptr) *slot {
	return r.fillResult(&slot{core: r, holders: 1}, call, source)
}

func (r *recorder) fillResult(s *slot, call recorded, source uintptr) *slot {
	if call.failure != nil {
		r.settleFailed(s, call.failure)
		return s
	}
	r.futures = append(r.futures, future{s, made{call.maker, source}})
	s.position = uint32(len(r.futures))
	return s
}

// skipResult takes a position for a result that nobody wants; it returns its reference.
func (r *recorder) skipResult(maker uint64, source uintptr) int64 {
	r.futures = append(r.futures, future{nil, made{maker, source}})
	return -int64(len(r.futures))
}

// newValue returns a slot for a value that is known already. It crosses only when it is used.
func (r *recorder) newValue(value Value) *slot {
	s := &slot{core: r, holders: 1}
	r.settleValue(s, value)
	return s
}

// newObject returns a further slot for an object that the session has a handle for.
func (r *recorder) newObject(handle int64) *slot {
	s := &slot{core: r, holders: 1}
	r.settleObject(s, handle, made{})
	return s
}

func (r *recorder) settleObject(s *slot, handle int64, from made) {
	s.state, s.handle = slotObject, handle
	r.holdFor(s, handle, from)
}

func (r *recorder) settleValue(s *slot, value Value) {
	s.state, s.value = slotValue, value
	if value.tag != tagCompound {
		return
	}
	value.eachReference(func(handle int64) { r.holdFor(s, handle, made{}) })
}

func (r *recorder) settleRows(s *slot, value Value, from made) {
	s.state, s.value = slotValue, value
	value.rows.eachHandle(func(handle int64) { r.holdFor(s, handle, from) })
}

func (r *recorder) settleFailed(s *slot, failure Failure) {
	s.state, s.failure = slotFailed, failure
	if failure == inUse {
		return
	}
	if signal, isSignal := failure.(*Signal); isSignal {
		for _, value := range signal.Values {
			if value.IsObject() {
				r.holdFor(s, value.handle(), made{})
			}
		}
	}
	// A result that nobody asks for tells nothing.
	if s.isUnasked {
		return
	}
	r.failed[s] = struct{}{}
	r.account.isStale = true
}

// empty gives back the handles of a slot that has no holders, and forgets its failure. The slot of
// a pending result still gets its outcome.
func (r *recorder) empty(s *slot) {
	if s.failure == inUse {
		return
	}
	for _, handle := range s.held {
		r.dropHandle(handle)
	}
	s.held = s.held[:0]
	if s.state == slotFailed {
		delete(r.failed, s)
		r.account.isStale = true
	}
}

// Handles.

// hold counts a further holder of a handle; made is the call that it came from.
func (r *recorder) hold(handle int64, from made) {
	h := r.handles[handle]
	if h == nil {
		h = &held{made: from}
		r.handles[handle] = h
	}
	h.holders++
}

func (r *recorder) holdFor(s *slot, handle int64, from made) {
	r.hold(handle, from)
	s.held = append(s.held, handle)
}

// dropHandle counts a holder of a handle less. The handle goes back with the next batch if it has
// none.
func (r *recorder) dropHandle(handle int64) {
	h := r.handles[handle]
	if h == nil {
		return
	}
	h.holders--
	if h.holders == 0 {
		r.frees = append(r.frees, handle)
	}
}

// pruneFrees sorts the handles to give back, and takes those out that have holders again.
func (r *recorder) pruneFrees() {
	slices.Sort(r.frees)
	r.frees = slices.DeleteFunc(slices.Compact(r.frees), func(handle int64) bool {
		h := r.handles[handle]
		return h == nil || h.holders > 0
	})
}

// keepWanted returns the positions of this batch whose results have holders, and forgets the slots
// of the others.
func (r *recorder) keepWanted() []uint32 {
	var wanted []uint32
	for index := range r.futures {
		switch s := r.futures[index].slot; {
		case s == nil:
		case s.holders == 0:
			r.futures[index].slot = nil
			s.leave()
		case s.isUnasked:
			s.state, s.batch = slotUnderWay, r.batchNumber
		default:
			wanted = append(wanted, uint32(index+1))
		}
	}
	return wanted
}

// Names, for messages.

// makerName returns the name of a call.
func (r *recorder) makerName(maker uint64) string {
	number := uint32(maker)
	switch makerKind(maker) {
	case 0:
		return r.numbers.stubs.own.methodName(number)
	case makerRoutine:
		return r.numbers.stubs.own.routineName(number)
	case makerProcedure:
		if int64(number) < int64(len(r.procedures)) {
			return r.procedures[number].name
		}
		return "procedure"
	}
	return makerNames[makerKind(maker)]
}

// callName returns the name of a call of a batch.
func (r *recorder) callName(b *batch, position uint32, rounds []uint32) CallName {
	if position == 0 || int64(position) > int64(len(b.futures)) {
		return CallName{"?", int(position), rounds, 0}
	}
	from := b.futures[position-1].made
	return CallName{r.makerName(from.maker), int(position), rounds, from.source}
}

// handleName returns the name of a handle in messages: the call that the object came from; empty
// if it is not known.
func (r *recorder) handleName(handle int64) string {
	h := r.handles[handle]
	if h == nil || h.made == (made{}) {
		return ""
	}
	call := CallName{r.makerName(h.made.maker), 0, nil, 0}
	return fmt.Sprintf("the result of `%s` at %s", call, r.settings.place(h.made.source))
}
