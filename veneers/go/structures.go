package veneer

import (
	"math"
)

// This file records structures, which are open while their blocks are recorded and go to the
// server when they are whole, and batched procedures.
//
// open opens a structure, end ends the innermost one, and reopen goes on with another block of one
// that has just ended: it takes the end marker back. A structure in which a call or marker is
// refused leaves nothing in the batch.
//
//	structure   steps
//	while       open, calls, condition, calls, end
//	if          open, calls, condition, calls, end; reopen with elseBlock
//	foreach     foreach, a result for each value, calls, end
//	except      open, calls, end; reopen with whenBlock, othersBlock
//	procedure   openProcedure, a variable for each parameter, calls, returns, closeProcedure

// structure is a kind of structures.
type structure byte

const (
	structureWhile structure = iota
	structureIf
	structureForeach
	structureExcept
	structureProcedure
)

// structureRows has the name and the markers of each kind.
var structureRows = [...]struct {
	name  string
	begin byte
	end   byte
}{
	structureWhile:     {"while", opWhile, opEndWhile},
	structureIf:        {"if", opIf, opEndIf},
	structureForeach:   {"foreach", opForeach, opEndForeach},
	structureExcept:    {"except", opExcept, opEndExcept},
	structureProcedure: {"procedure", opProcedure, opEndProcedure},
}

// String returns the name of the kind, which is that of its begin marker.
func (s structure) String() string { return structureRows[s].name }

// ending is a structure that has just ended and may go on with another block.
type ending struct {
	kind      structure
	batch     uint64
	published int
	// batchLength is the length of the batch behind the end marker; 0 if the structure was refused.
	batchLength   int
	batchStart    int
	futuresStart  int
	commandsStart int
}

// block is a further block of a structure.
type block struct {
	// code is opElse, opWhen or opOthers.
	code byte
	// name and values are the exception of a handler, and the client's numbers of its values' types.
	name   string
	values []uint32
	// isNamed is true if the name of the other exceptions is wanted.
	isNamed bool
}

func elseBlock() block { return block{code: opElse} }

func whenBlock(name string, values []uint32) block {
	return block{code: opWhen, name: name, values: values}
}

func othersBlock(isNamed bool) block { return block{code: opOthers, isNamed: isNamed} }

// String returns the name of the block, which is that of its marker.
func (b block) String() string {
	switch b.code {
	case opElse:
		return "else"
	case opWhen:
		return "when"
	}
	return "others"
}

// isInLoop returns true if a loop is open within the innermost procedure.
func (r *recorder) isInLoop() bool {
	for index := len(r.scopes) - 1; index >= 0; index-- {
		switch r.scopes[index].kind {
		case structureProcedure:
			return false
		case structureWhile, structureForeach:
			return true
		}
	}
	return false
}

// isInProcedure returns true if a procedure is being defined.
func (r *recorder) isInProcedure() bool {
	for _, s := range r.scopes {
		if s.kind == structureProcedure {
			return true
		}
	}
	return false
}

// open opens a loop with a condition, a choice, or a block whose exceptions are handled. It always
// opens a scope, to be ended.
func (r *recorder) open(admitted Failure, kind structure, source uintptr) {
	r.openWith(admitted, kind, source, appendWord(nil, uint64(structureRows[kind].begin)))
}

func (r *recorder) openWith(admitted Failure, kind structure, source uintptr, marker []byte) {
	r.scopes = append(r.scopes, scope{
		kind, source, len(r.batch), len(r.futures), r.commands, r.batchNumber,
	})
	if admitted == nil && uint64(len(r.scopes)) > r.bounds.depth {
		admitted = misused(MisuseTooDeep)
	}
	if admitted != nil {
		r.refuse(kind.String(), source, admitted)
	}
	r.mark(marker)
}

// foreach opens a loop over an iterator and records the iterator's call: a method of a receiver,
// or without one a routine of the stubs. It always opens a scope, to be ended; the caller takes a
// result for each value that the iterator yields.
func (r *recorder) foreach(
	admitted Failure, receiver operand, iterator uint32, stubs *Stubs, arguments []operand,
	source, callSource uintptr,
) recorded {
	var reference int64
	var wrong Failure
	s, isSlot := receiver.(*slot)
	isForeign := isSlot && s.core != r
	// A constant receiver is recorded before the marker, because the call must follow it.
	if admitted == nil && receiver != nil && !isForeign {
		reference, wrong = r.operandReference(receiver, callSource)
	}
	r.openWith(admitted, structureForeach, source, appendWord(nil, opForeach))
	if isForeign {
		wrong = misused(MisuseOtherSession)
	} else if inside := r.admitInside(); inside != nil {
		wrong = inside
	}
	if receiver != nil {
		return r.recordMethod(opCall, iterator, reference, wrong, arguments, callSource)
	}
	return r.recordRoutine(wrong, stubs, iterator, arguments, callSource)
}

// markerReference returns the reference to an operand of a marker. That the operand is of another
// session comes before the failure of a refused structure.
func (r *recorder) markerReference(o operand, source uintptr) (int64, Failure) {
	if s, isSlot := o.(*slot); isSlot && s.core != r {
		return 0, misused(MisuseOtherSession)
	}
	if wrong := r.admitInside(); wrong != nil {
		return 0, wrong
	}
	return r.operandReference(o, source)
}

// condition appends the marker between the condition of the innermost loop or choice and the
// commands that depend on it.
func (r *recorder) condition(test operand, source uintptr) {
	code := byte(opThen)
	if len(r.scopes) > 0 && r.scopes[len(r.scopes)-1].kind == structureWhile {
		code = opDo
	}
	reference, wrong := r.markerReference(test, source)
	if wrong != nil {
		r.refuse("condition", source, wrong)
		return
	}
	r.mark(appendWord(appendWord(nil, uint64(code)), uint64(reference)))
}

// breakLoop leaves the innermost loop; it is refused outside loops.
func (r *recorder) breakLoop(source uintptr) { r.jump("break", opBreak, source) }

// continueLoop begins the next round of the innermost loop; it is refused outside loops.
func (r *recorder) continueLoop(source uintptr) { r.jump("continue", opContinue, source) }

func (r *recorder) jump(name string, code byte, source uintptr) {
	if !r.isInLoop() {
		r.refuse(name, source, misused(MisuseNoLoop))
		return
	}
	r.mark(appendWord(nil, uint64(code)))
}

// variable returns a slot for a number that the last marker has taken: a value of an exception,
// its name, or a parameter.
func (r *recorder) variable(source uintptr) *slot {
	return r.newResult(recorded{maker: makerVariable}, source)
}

// isKept returns true if markers are recorded: the structure will be sent.
func (r *recorder) isKept() bool { return r.poison == nil && r.broken == nil }

// mark appends a marker, unless the structure will not be sent.
func (r *recorder) mark(marker []byte) {
	if r.isKept() {
		r.batch = append(r.batch, marker...)
		r.commands++
	}
}

// endFutures gives the stubs of the futures from a place on a failure.
func (r *recorder) endFutures(start int, failure Failure) {
	for index := start; index < len(r.futures); index++ {
		s := r.futures[index].slot
		r.futures[index].slot = nil
		if s == nil {
			continue
		}
		if s.holders > 0 {
			r.settleFailed(s, failure)
		} else {
			s.leave()
		}
	}
}

// end ends the innermost structure. If it was refused, nothing of the outermost one remains.
func (r *recorder) end() ending {
	if len(r.scopes) == 0 {
		return ending{kind: structureIf, batch: r.batchNumber}
	}
	last := r.scopes[len(r.scopes)-1]
	r.mark(appendWord(nil, uint64(structureRows[last.kind].end)))
	r.scopes = r.scopes[:len(r.scopes)-1]
	if r.poison != nil {
		r.endFutures(last.futuresStart, r.poison)
		r.takeBack(last)
		if len(r.scopes) == 0 {
			r.poison = nil
			r.attend()
		}
		return ending{kind: last.kind, batch: r.batchNumber}
	}
	r.endFutures(last.futuresStart, r.outOfScope)
	if len(r.scopes) == 0 {
		position := uint32(last.futuresStart) + 1
		// A structure that went on with another block is one with its first.
		count := len(r.structures)
		if count == 0 || r.structures[count-1].position < position {
			r.structures = append(r.structures, outermost{position, last.kind, last.source})
		}
	}
	return ending{
		last.kind, r.batchNumber, r.published, len(r.batch), last.batchStart, last.futuresStart,
		last.commandsStart,
	}
}

// takeBack takes back the bytes, positions, commands and notes of a refused structure.
func (r *recorder) takeBack(s scope) {
	if s.batch != r.batchNumber {
		return
	}
	// The tables of a closed session are empty.
	r.batch = r.batch[:min(s.batchStart, len(r.batch))]
	r.futures = r.futures[:min(s.futuresStart, len(r.futures))]
	r.commands = s.commandsStart
	count := len(r.errorHandles)
	for count > 0 && int64(r.errorHandles[count-1].position) > int64(s.futuresStart) {
		count--
	}
	r.errorHandles = r.errorHandles[:count]
}

// reopen takes back the end marker of a structure that has just ended, so that it goes on with
// another block. It always opens a scope; if the structure cannot go on, the scope is one that is
// not sent.
func (r *recorder) reopen(ended ending, b block, source uintptr) {
	r.reopenScope(ended, b.String(), source)
	if !r.isKept() {
		return
	}
	switch b.code {
	case opElse:
		r.appendCommand(opElse)
	case opWhen:
		r.appendCommand(head(opWhen, uint32(len(b.values)), 0))
		r.batch = appendText(r.batch, b.name)
		for _, value := range b.values {
			number, isThere := r.numbers.typeNumber(value)
			if !isThere {
				number = 0
			}
			r.batch = appendWord(r.batch, uint64(number))
		}
	default:
		flags := uint32(0)
		if b.isNamed {
			flags = othersNamed
		}
		r.appendCommand(head(opOthers, flags, 0))
	}
}

func (r *recorder) reopenScope(ended ending, name string, source uintptr) {
	isAdjacent := ended.batch == r.batchNumber && ended.published == r.published &&
		ended.batchLength > 0 && ended.batchLength == len(r.batch)
	s := scope{ended.kind, source, len(r.batch), len(r.futures), r.commands, r.batchNumber}
	if isAdjacent {
		// The end marker is one word.
		r.batch = r.batch[:len(r.batch)-8]
		r.commands--
		s.batchStart, s.futuresStart = ended.batchStart, ended.futuresStart
		s.commandsStart = ended.commandsStart
	}
	r.scopes = append(r.scopes, s)
	switch {
	case isAdjacent:
	case ended.batchLength > 0 || ended.batch != r.batchNumber:
		r.refuse(name, source, misused(MisuseNotAdjacent))
	case r.poison == nil:
		// Its first block was refused and is in the history; the others go the same way.
		r.poison = misused(MisuseAbandoned)
		r.attend()
	}
}

// abandon ends the innermost structure, whose block was left by a panic: it is refused.
func (r *recorder) abandon() {
	if len(r.scopes) > 0 {
		last := r.scopes[len(r.scopes)-1]
		r.refuse(last.kind.String(), last.source, misused(MisuseAbandoned))
		if last.kind == structureProcedure {
			r.openProcedures = r.openProcedures[:len(r.openProcedures)-1]
		}
	}
	r.end()
}

// Procedures.

// openProcedure opens the definition of a procedure, and returns the number that it will have. It
// always opens a scope, to be ended.
func (r *recorder) openProcedure(
	admitted Failure, name string, h heading, source uintptr,
) uint32 {
	isNested := len(r.scopes) > 0
	lacksType := false
	mapped := func(number uint32) uint32 {
		theirs, isThere := r.numbers.typeNumber(number)
		if !isThere {
			lacksType = true
			return 0
		}
		return theirs
	}
	result := uint32(noNumber)
	if h.hasResult {
		result = mapped(h.result)
	}
	count := uint32(min(len(h.params), math.MaxUint8))
	marker := appendWord(nil, head(opProcedure, count, result))
	marker = appendText(marker, name)
	for _, param := range h.params {
		marker = appendWord(marker, uint64(mapped(param)))
	}
	r.openWith(admitted, structureProcedure, source, marker)
	number := uint32(len(r.procedures))
	r.openProcedures = append(r.openProcedures, procedure{name, h, number})
	switch {
	case isNested:
		r.refuse(name, source, misused(MisuseNestedProcedure))
	case lacksType:
		r.refuse(name, source, &Missing{name})
	case uint64(len(name))+markerBytes > r.bounds.frameBytes:
		r.refuse(name, source, misused(MisuseTooLong))
	}
	return number
}

// closeProcedure ends the definition; it returns the reason if the definition is not sent.
func (r *recorder) closeProcedure() Failure {
	refused := r.refusal()
	count := len(r.openProcedures)
	ended := r.end()
	if count == 0 {
		return refused
	}
	defined := r.openProcedures[count-1]
	r.openProcedures = r.openProcedures[:count-1]
	if ended.batchLength > 0 {
		r.procedures = append(r.procedures, defined)
		r.proceduresByName[defined.name] = defined
	}
	return refused
}

// findProcedure returns the number of a procedure defined earlier in this session, and true if it
// has this heading.
func (r *recorder) findProcedure(name string, h heading) (uint32, bool) {
	found, isThere := r.proceduresByName[name]
	if !isThere || !found.heading.equal(h) {
		return 0, false
	}
	return found.number, true
}

// returns ends a run of the procedure being defined, with its result; without one the operand is
// nil. It is refused outside a procedure.
func (r *recorder) returns(o operand, source uintptr) {
	if !r.isInProcedure() {
		r.refuse("return", source, misused(MisuseNoProcedure))
		return
	}
	marker, wrong := r.returnMarker(o, source)
	if wrong == nil && r.isKept() && uint64(len(marker)) > r.bounds.frameBytes {
		wrong = misused(MisuseTooLong)
	}
	if wrong != nil {
		r.refuse("return", source, wrong)
		return
	}
	r.mark(marker)
}

func (r *recorder) returnMarker(o operand, source uintptr) ([]byte, Failure) {
	if o == nil {
		return appendWord(nil, opReturn), nil
	}
	if s, isSlot := o.(*slot); isSlot {
		reference, wrong := r.markerReference(s, source)
		marker := appendWord(nil, head(opReturn, 1|tagRef<<8, 0))
		return appendWord(marker, uint64(reference)), wrong
	}
	value, isValue := o.(Value)
	if items, areItems := o.(operands); areItems && !isValue {
		if wrong := r.admitInside(); wrong != nil {
			return nil, wrong
		}
		var wrong Failure
		if value, wrong = r.compose(items); wrong != nil {
			return nil, wrong
		}
	}
	marker := appendWord(nil, head(opReturn, 1|uint32(value.tag)<<8, 0))
	return appendValue(marker, value), nil
}
