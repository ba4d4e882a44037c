package veneer

import (
	"encoding/binary"
	"fmt"
)

// This file records calls: receivers, arguments, and the commands that are no structures.
//
// Each function takes the admission that the caller got: nil, or the failure with which the
// command is refused. It returns the maker of the results, of which the caller makes slots with
// newResult.

// operand is a *slot, a Value, or operands: a compound that has the type of its place.
type operand interface{ isOperand() }

// operands are the items of a compound.
type operands []operand

func (*slot) isOperand()    {}
func (Value) isOperand()    {}
func (operands) isOperand() {}

// due is the work to be done before the next command is recorded.
type due byte

const (
	dueNothing due = iota
	// dueSend is to send the bytes that are there.
	dueSend
	// dueFlush is to send all, and to wait for the answer. All futures become handles and values.
	dueFlush
)

// appendCommand appends the words of a command.
func (r *recorder) appendCommand(words ...uint64) {
	for _, word := range words {
		r.batch = appendWord(r.batch, word)
	}
	r.commands++
}

// Admission.

// isReady returns true if a command can be recorded at once. Otherwise due tells the work before.
func (r *recorder) isReady() bool {
	return len(r.batch) < r.attentionBytes && len(r.futures) < r.attentionFutures
}

// due returns the work to be done before the next command is recorded, if that is one outside
// structures; or the failure with which every command is refused.
func (r *recorder) due() (due, Failure) {
	if refusal := r.refusal(); refusal != nil {
		return dueNothing, refusal
	}
	r.clearTold()
	size := uint64(r.published + len(r.batch))
	futures, commands := uint64(len(r.futures)), uint64(r.commands)
	if len(r.scopes) > 0 || r.isShipping {
		if size > r.bounds.batchBytes || futures >= r.bounds.futures || commands >= r.bounds.commands {
			return dueNothing, misused(MisuseTooLong)
		}
		return dueNothing, nil
	}
	remap := uint64(r.attentionFutures)
	if r.tables > 0 {
		remap = r.bounds.futures
	}
	isFull := size > r.bounds.batchBytes || r.bounds.frameBytes > r.bounds.batchBytes-size
	switch {
	case futures >= remap || commands+1 >= r.bounds.commands || isFull:
		return dueFlush, nil
	case len(r.batch) >= publishBytes:
		return dueSend, nil
	}
	return dueNothing, nil
}

// admitInside admits a command inside an open structure, where nothing is sent and nothing is due.
func (r *recorder) admitInside() Failure {
	if r.isReady() {
		return nil
	}
	_, failure := r.due()
	return failure
}

// Calls.

// call records a call of a method, by its number in the stubs.
func (r *recorder) call(
	admitted Failure, receiver *slot, method uint32, arguments []operand, source uintptr,
) recorded {
	return r.callAs(opCall, admitted, receiver, method, arguments, source)
}

// send records a message to an actor that nobody awaits. Its one result is nil.
func (r *recorder) send(
	admitted Failure, receiver *slot, method uint32, arguments []operand, source uintptr,
) recorded {
	return r.callAs(opSend, admitted, receiver, method, arguments, source)
}

func (r *recorder) callAs(
	code byte, admitted Failure, receiver *slot, method uint32, arguments []operand,
	source uintptr,
) recorded {
	if admitted != nil {
		return r.refuseCall(uint64(method), source, admitted)
	}
	reference, failure := r.reference(receiver, source)
	return r.recordMethod(code, method, reference, failure, arguments, source)
}

// recordMethod records a call of a method, with the reference to its receiver or the failure to
// make one.
func (r *recorder) recordMethod(
	code byte, method uint32, receiver int64, wrong Failure, arguments []operand, source uintptr,
) recorded {
	if wrong != nil {
		return r.refuseCall(uint64(method), source, wrong)
	}
	number, isThere := r.numbers.method(method)
	if !isThere {
		return r.refuseCall(uint64(method), source, &Missing{r.makerName(uint64(method))})
	}
	if wrong := r.record(head(code, 0, number), &receiver, arguments); wrong != nil {
		return r.refuseCall(uint64(method), source, wrong)
	}
	return recorded{maker: uint64(method)}
}

// callRoutine records a call of a routine, by the number that the stubs give it.
func (r *recorder) callRoutine(
	admitted Failure, stubs *Stubs, routine uint32, arguments []operand, source uintptr,
) recorded {
	return r.recordRoutine(admitted, stubs, routine, arguments, source)
}

func (r *recorder) recordRoutine(
	wrong Failure, stubs *Stubs, routine uint32, arguments []operand, source uintptr,
) recorded {
	maker := makerRoutine | uint64(routine)
	number := uint32(noNumber)
	if wrong == nil {
		var isThere bool
		if number, isThere = r.numbers.routine(routine); stubs != r.numbers.stubs {
			wrong = misused(MisuseOtherInterface)
		} else if !isThere {
			wrong = &Missing{r.makerName(maker)}
		}
	}
	return r.recordPlain(maker, head(opCallRoutine, 0, number), wrong, arguments, source)
}

// callProcedure records a call of a batched procedure. For a definition that was not sent, refused
// is the reason: another procedure has its number.
func (r *recorder) callProcedure(
	admitted Failure, number uint32, refused Failure, arguments []operand, source uintptr,
) recorded {
	maker := makerProcedure | uint64(number)
	if refused != nil {
		maker = makerProcedure | noNumber
	}
	wrong := admitted
	if wrong == nil {
		wrong = refused
	}
	return r.recordPlain(maker, head(opCallProcedure, 0, number), wrong, arguments, source)
}

// recordPlain records a call without receiver, by its first word.
func (r *recorder) recordPlain(
	maker, first uint64, wrong Failure, arguments []operand, source uintptr,
) recorded {
	if wrong == nil {
		wrong = r.record(first, nil, arguments)
	}
	if wrong != nil {
		return r.refuseCall(maker, source, wrong)
	}
	return recorded{maker: maker}
}

// lookup records the lookup of a well-known object, by the number that the stubs give its type;
// noNumber stands for any type. It is refused inside a structure.
func (r *recorder) lookup(
	admitted Failure, stubs *Stubs, name string, typeNumber uint32, typeName string,
	source uintptr,
) recorded {
	wrong := admitted
	switch {
	case wrong != nil:
	case stubs != r.numbers.stubs:
		wrong = misused(MisuseOtherInterface)
	case len(r.scopes) > 0:
		wrong = misused(MisuseLookupInside)
	case uint64(len(name))+16 > r.bounds.frameBytes:
		wrong = misused(MisuseTooLong)
	}
	number, isThere := r.numbers.typeNumber(typeNumber)
	if wrong == nil && !isThere && typeNumber != noNumber {
		wrong = &Missing{typeName}
	}
	if wrong != nil {
		return recorded{failure: r.refuse("lookup", source, wrong)}
	}
	r.appendCommand(head(opLookup, 0, number))
	r.batch = appendText(r.batch, name)
	return recorded{maker: makerLookup}
}

// cell records the making of an empty cell, which has one result.
func (r *recorder) cell(
	admitted Failure, typeNumber uint32, typeName string, source uintptr,
) recorded {
	number, isThere := r.numbers.typeNumber(typeNumber)
	wrong := admitted
	if wrong == nil && !isThere {
		wrong = &Missing{fmt.Sprintf("cell of %s", typeName)}
	}
	if wrong != nil {
		return recorded{failure: r.refuse("cell", source, wrong)}
	}
	r.appendCommand(head(opCell, 0, number))
	return recorded{maker: makerCell}
}

// columnType is the type of a column: the client's number, and the name.
type columnType struct {
	number uint32
	name   string
}

// rows records the making of an empty table of rows, which has one result. It is refused inside a
// structure.
func (r *recorder) rows(admitted Failure, types []columnType, source uintptr) recorded {
	wrong := admitted
	switch {
	case wrong != nil:
	case len(r.scopes) > 0:
		wrong = misused(MisuseTableInside)
	case len(types) < 1 || len(types) > argumentsMax:
		wrong = misused(MisuseTooLong)
	}
	var numbers []uint32
	for _, column := range types {
		number, isThere := r.numbers.typeNumber(column.number)
		if wrong == nil && !isThere {
			wrong = &Missing{column.name}
		}
		numbers = append(numbers, number)
	}
	if wrong != nil {
		return recorded{failure: r.refuse("rows", source, wrong)}
	}
	r.appendCommand(head(opRows, uint32(len(numbers)), 0))
	r.batch = appendTypes(r.batch, numbers)
	r.tables++
	return recorded{maker: makerRows}
}

// emit records a row of a table. Its one result is nil.
func (r *recorder) emit(
	admitted Failure, rows *slot, cells []operand, source uintptr,
) recorded {
	wrong := admitted
	var reference int64
	switch {
	case wrong != nil:
	case rows.state != slotFuture && rows.state != slotFailed:
		wrong = misused(MisuseEndedTable)
	default:
		reference, wrong = r.reference(rows, source)
	}
	if wrong == nil {
		wrong = r.record(head(opEmit, 0, 0), &reference, cells)
	}
	if wrong != nil {
		return r.refuseCall(makerEmit, source, wrong)
	}
	return recorded{maker: makerEmit}
}

// cast records that an object is seen as one of another type, which has one result.
func (r *recorder) cast(
	admitted Failure, target *slot, typeNumber uint32, typeName string, source uintptr,
) recorded {
	return r.withType(makerAs, opAs, admitted, target, typeNumber, typeName, source)
}

// testType records the test if an object has a type, which has one result: a bool.
func (r *recorder) testType(
	admitted Failure, target *slot, typeNumber uint32, typeName string, source uintptr,
) recorded {
	return r.withType(makerIs, opIs, admitted, target, typeNumber, typeName, source)
}

func (r *recorder) withType(
	maker uint64, code byte, admitted Failure, target *slot, typeNumber uint32, typeName string,
	source uintptr,
) recorded {
	wrong := admitted
	number, isThere := r.numbers.typeNumber(typeNumber)
	if wrong == nil && !isThere {
		wrong = &Missing{typeName}
	}
	var reference int64
	if wrong == nil {
		reference, wrong = r.reference(target, source)
	}
	if wrong != nil {
		return r.refuseCall(maker, source, wrong)
	}
	r.appendCommand(head(code, 0, number), uint64(reference))
	return recorded{maker: maker}
}

// get records that the contents of an object are taken, which has one result: a value. It is
// refused inside a structure.
func (r *recorder) get(admitted Failure, target *slot, source uintptr) recorded {
	wrong := admitted
	var reference int64
	if wrong == nil {
		reference, wrong = r.reference(target, source)
	}
	if wrong == nil && len(r.scopes) > 0 {
		wrong = misused(MisuseContentsInside)
	}
	if wrong != nil {
		return r.refuseCall(makerGet, source, wrong)
	}
	r.appendCommand(opGet, uint64(reference))
	return recorded{maker: makerGet}
}

// refuseCall refuses a call. The next call takes its position, and has other arguments.
func (r *recorder) refuseCall(maker uint64, source uintptr, why Failure) recorded {
	if why == inUse {
		return recorded{failure: why}
	}
	position := uint32(len(r.futures)) + 1
	count := len(r.errorHandles)
	for count > 0 && r.errorHandles[count-1].position == position {
		count--
	}
	r.errorHandles = r.errorHandles[:count]
	return recorded{failure: r.refuse(r.makerName(maker), source, why)}
}

// References.

// earlierReference returns the reference to a result of a batch under way.
func (r *recorder) earlierReference(s *slot) (int64, Failure) {
	for _, b := range r.underWay {
		if b.number == s.batch && b.isKept {
			return -int64((r.batchNumber-s.batch)<<32 | uint64(s.position)), nil
		}
	}
	return 0, misused(MisuseUnderWay)
}

// stubReference returns the reference to a stub that is no value, the error-handle for a failure;
// isValue is true for a value, which has no reference.
func (r *recorder) stubReference(
	s *slot, argument int,
) (reference int64, isValue bool, wrong Failure) {
	switch {
	case s.core != r:
		return 0, false, misused(MisuseOtherSession)
	case s.state == slotFuture:
		return -int64(s.position), false, nil
	case s.state == slotObject:
		return s.handle, false, nil
	case s.isUnusable():
		return 0, false, s.failure
	case s.state == slotUnderWay:
		reference, wrong = r.earlierReference(s)
		return reference, false, wrong
	case s.isErrorHandle():
		if s.state == slotFailed {
			position := uint32(len(r.futures)) + 1
			entry := errorHandle{position, argument, asCause(s.failure)}
			r.errorHandles = append(r.errorHandles, entry)
		}
		return 0, false, nil
	}
	return 0, true, nil
}

// reference returns a reference to a stub, for a marker or a receiver; it records a constant for a
// value. The caller was admitted: a flush in between would end the reference.
func (r *recorder) reference(s *slot, source uintptr) (int64, Failure) {
	reference, isValue, wrong := r.stubReference(s, 0)
	if isValue {
		return r.constant(s.value, source)
	}
	return reference, wrong
}

// constant records a constant, and returns the reference to it.
func (r *recorder) constant(value Value, source uintptr) (int64, Failure) {
	start := len(r.batch)
	r.batch = appendWord(r.batch, head(opConstant, uint32(value.tag), 0))
	r.batch = appendValue(r.batch, value)
	if uint64(len(r.batch)-start) > r.bounds.frameBytes {
		r.batch = r.batch[:start]
		return 0, misused(MisuseTooLong)
	}
	r.commands++
	// Only this use needs it.
	return r.skipResult(makerConstant, source), nil
}

// operandReference returns a reference to an operand where only a reference can stand: a value is
// recorded as a constant.
func (r *recorder) operandReference(o operand, source uintptr) (int64, Failure) {
	switch o := o.(type) {
	case *slot:
		return r.reference(o, source)
	case Value:
		return r.constant(o, source)
	}
	// Such a place gives a compound no type.
	return 0, misused(MisuseUntyped)
}

// Arguments.

// record records a call: its first word with the tags of the arguments, the receiver, the
// arguments. It leaves nothing of a call that cannot be recorded, and returns the failure.
func (r *recorder) record(first uint64, receiver *int64, arguments []operand) Failure {
	count := len(arguments)
	if count > argumentsMax {
		return misused(MisuseTooLong)
	}
	start := len(r.batch)
	r.batch = appendWord(r.batch, first|uint64(count)<<8)
	if receiver != nil {
		r.batch = appendWord(r.batch, uint64(*receiver))
	}
	tagsAt := len(r.batch)
	if count > 4 {
		r.batch = appendZeros(r.batch, tagBytesFor(count-4))
	}
	for index, argument := range arguments {
		tag, wrong := r.appendOperand(argument, index+1, 1)
		if wrong != nil {
			r.batch = r.batch[:start]
			return wrong
		}
		if index < 4 {
			setTag(r.batch, start+2, index, tag)
		} else {
			setTag(r.batch, tagsAt, index-4, tag)
		}
	}
	if uint64(len(r.batch)-start) > r.bounds.frameBytes {
		r.batch = r.batch[:start]
		return misused(MisuseTooLong)
	}
	r.commands++
	return nil
}

// appendOperand appends the words of an operand of an argument; it returns its tag.
func (r *recorder) appendOperand(o operand, argument, depth int) (byte, Failure) {
	switch o := o.(type) {
	case Value:
		r.batch = appendValue(r.batch, o)
		return o.tag, nil
	case *slot:
		reference, isValue, wrong := r.stubReference(o, argument)
		if wrong != nil {
			return 0, wrong
		}
		if isValue {
			r.batch = appendValue(r.batch, o.value)
			return o.value.tag, nil
		}
		r.batch = appendWord(r.batch, uint64(reference))
		return tagRef, nil
	}
	items, _ := o.(operands)
	if depth > compoundDepthMax {
		return 0, misused(MisuseValueTooDeep)
	}
	var tagsAt int
	r.batch, tagsAt = beginItems(r.batch, noNumber, len(items))
	for index, item := range items {
		tag, wrong := r.appendOperand(item, argument, depth+1)
		if wrong != nil {
			return 0, wrong
		}
		setTag(r.batch, tagsAt, index, tag)
	}
	endItems(r.batch, tagsAt)
	return tagCompound, nil
}

// compose returns the compound of items.
func (r *recorder) compose(items operands) (Value, Failure) {
	outer := r.batch
	defer func() { r.batch = outer }()
	r.batch = nil
	if _, wrong := r.appendOperand(items, 1, 1); wrong != nil {
		return Value{}, wrong
	}
	length := binary.LittleEndian.Uint64(r.batch)
	return Value{tag: tagCompound, text: string(r.batch[8 : 8+length])}, nil
}
