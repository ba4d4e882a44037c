package veneer

import "unicode/utf8"

// Call is a call that is being recorded: generated code begins it, appends its arguments, and takes
// its results, before anything else is recorded. A call that cannot be sent has a failure, which
// its results have.
type Call struct {
	core    *recorder
	maker   uint64
	source  uintptr
	failure Failure
	made    recorded
	// start is the place of the call in the batch, and tagsAt that of the tags beyond the fourth.
	start, tagsAt int
	// index is the number of arguments that are there.
	index int
	// open are the compounds that are being appended, outermost first.
	open   []openItems
	isDone bool
}

// openItems is a compound that is being appended.
type openItems struct {
	tagsAt, index int
}

// BeginCall begins the call of a method, for generated code.
func BeginCall(receiver Ref, method uint32, count int) *Call {
	return beginMethod(opCall, receiver, method, count)
}

// BeginSend begins a message without an answer, for generated code.
func BeginSend(receiver Ref, method uint32, count int) *Call {
	return beginMethod(opSend, receiver, method, count)
}

// BeginRoutine begins the call of a routine, for generated code.
func BeginRoutine(s *Session, stubs *Stubs, routine uint32, count int) *Call {
	c := s.core.begin(makerRoutine|uint64(routine), s.place())
	c.failure = s.admit()
	c.routine(stubs, routine, count)
	return c
}

func beginMethod(code byte, receiver Ref, method uint32, count int) *Call {
	if c := beginQuickly(code, receiver, method, count); c != nil {
		return c
	}
	r := receiver.recorder()
	source := r.session.place()
	c := r.begin(uint64(method), source)
	c.failure = r.session.admit()
	var reference int64
	if c.failure == nil {
		reference, c.failure = r.currentReference(receiver, source)
	}
	c.method(code, reference, method, count)
	return c
}

// beginQuickly is beginMethod for the usual call: of an object or a future, with nothing due. It
// returns nil for another one.
func beginQuickly(code byte, receiver Ref, method uint32, count int) *Call {
	s := receiver.slot
	if s == nil || s.use != receiver.use || count > 4 {
		return nil
	}
	r := s.core
	if r.isCrossing.Load() || !r.isReady() || r.session.notesPlaces {
		return nil
	}
	reference := s.handle
	switch s.state {
	case slotFuture:
		reference = -int64(s.position)
	case slotObject:
	default:
		return nil
	}
	number, isThere := r.numbers.method(method)
	if !isThere {
		return nil
	}
	c, start := &r.building, len(r.batch)
	c.core, c.maker, c.source, c.failure = r, uint64(method), 0, nil
	c.index, c.open, c.isDone = 0, c.open[:0], false
	c.start, c.tagsAt = start, start+16
	r.batch = appendWord(
		appendWord(r.batch, head(code, 0, number)|uint64(count)<<8), uint64(reference))
	return c
}

// currentReference returns a reference to a stub that was not released.
func (r *recorder) currentReference(stub Ref, source uintptr) (int64, Failure) {
	if !stub.isCurrent() {
		return 0, misused(MisuseReleased)
	}
	return r.reference(stub.slot, source)
}

// begin begins a call.
func (r *recorder) begin(maker uint64, source uintptr) *Call {
	c := &r.building
	if r.isCrossing.Load() {
		c = &Call{}
	}
	c.core, c.maker, c.source, c.failure = r, maker, source, nil
	c.made = recorded{}
	c.index, c.open, c.isDone = 0, c.open[:0], false
	return c
}

// method appends the head of a call of a method.
func (c *Call) method(code byte, reference int64, method uint32, count int) {
	if c.failure != nil {
		return
	}
	number, isThere := c.core.numbers.method(method)
	if !isThere {
		c.failure = &Missing{c.core.makerName(c.maker)}
		return
	}
	c.head(head(code, 0, number), count, true, reference)
}

// routine appends the head of a call of a routine.
func (c *Call) routine(stubs *Stubs, routine uint32, count int) {
	if c.failure != nil {
		return
	}
	number, isThere := c.core.numbers.routine(routine)
	switch {
	case stubs != c.core.numbers.stubs:
		c.failure = misused(MisuseOtherInterface)
	case !isThere:
		c.failure = &Missing{c.core.makerName(c.maker)}
	default:
		c.head(head(opCallRoutine, 0, number), count, false, 0)
	}
}

// head appends the words before the arguments.
func (c *Call) head(first uint64, count int, hasReceiver bool, reference int64) {
	if count > argumentsMax {
		c.failure = misused(MisuseTooLong)
		return
	}
	r := c.core
	c.start = len(r.batch)
	r.batch = appendWord(r.batch, first|uint64(count)<<8)
	if hasReceiver {
		r.batch = appendWord(r.batch, uint64(reference))
	}
	c.tagsAt = len(r.batch)
	if count > 4 {
		r.batch = appendZeros(r.batch, tagBytesFor(count-4))
	}
}

// fail takes back the words of the call.
func (c *Call) fail(why Failure) {
	c.core.batch = c.core.batch[:c.start]
	c.failure = why
}

// tag sets the tag of the argument or item whose words were appended.
func (c *Call) tag(tag byte) {
	batch := c.core.batch
	if depth := len(c.open); depth > 0 {
		inner := &c.open[depth-1]
		setTag(batch, inner.tagsAt, inner.index, tag)
		inner.index++
		return
	}
	if c.index < 4 {
		setTag(batch, c.start+2, c.index, tag)
	} else {
		setTag(batch, c.tagsAt, c.index-4, tag)
	}
	c.index++
}

func (c *Call) word(tag byte, word uint64) {
	if c.failure == nil {
		c.core.batch = appendWord(c.core.batch, word)
		c.tag(tag)
	}
}

// value appends a value that is no object.
func (c *Call) value(value Value) {
	if c.failure == nil {
		c.core.batch = appendValue(c.core.batch, value)
		c.tag(value.tag)
	}
}

// Nil appends nil.
func (c *Call) Nil() { c.word(tagNil, 0) }

// Null appends a promise of nil; its zero value is nil.
func (c *Call) Null(stub Nil) {
	if stub.slot == nil {
		c.Nil()
	} else {
		c.Ref(stub.Ref)
	}
}

// Untyped refuses the call: an argument has a part without a type.
func (c *Call) Untyped() {
	if c.failure == nil {
		c.fail(misused(MisuseUntyped))
	}
}

// Bool appends a bool.
func (c *Call) Bool(b bool) { c.word(tagBool, BoolValue(b).word) }

// Int appends an int.
func (c *Call) Int(i int64) { c.word(tagInt, uint64(i)) }

// Real appends a real.
func (c *Call) Real(r float64) { c.word(tagReal, RealValue(r).word) }

// Char appends a char. One that is no Unicode scalar value refuses the call.
func (c *Call) Char(char rune) {
	if c.failure == nil && !utf8.ValidRune(char) {
		c.fail(misused(MisuseNotText))
	}
	c.word(tagChar, uint64(uint32(char)))
}

// Str appends a string. One that is not UTF-8 refuses the call.
func (c *Call) Str(text string) {
	if c.failure == nil && !utf8.ValidString(text) {
		c.fail(misused(MisuseNotText))
	}
	if c.failure == nil {
		c.core.batch = appendText(c.core.batch, text)
		c.tag(tagString)
	}
}

// Bytes appends a byte string.
func (c *Call) Bytes(b []byte) {
	if c.failure == nil {
		c.core.batch = appendBytes(c.core.batch, b)
		c.tag(tagBytes)
	}
}

// Object appends an object or a value by its stub. A nil interface is nil.
func (c *Call) Object(object Object) {
	if object == nil {
		c.Nil()
		return
	}
	c.Ref(object.ref())
}

// Ref appends a stub.
func (c *Call) Ref(stub Ref) {
	if c.failure != nil {
		return
	}
	if !stub.isCurrent() {
		c.fail(misused(MisuseReleased))
		return
	}
	r := c.core
	reference, isValue, wrong := r.stubReference(stub.slot, c.index+1)
	switch {
	case wrong != nil:
		c.fail(wrong)
	case isValue:
		c.value(stub.slot.value)
	default:
		c.word(tagRef, uint64(reference))
	}
}

// Open begins a compound with so many items: the arguments up to Close.
func (c *Call) Open(count int) {
	if c.failure != nil {
		return
	}
	if len(c.open) >= compoundDepthMax {
		c.fail(misused(MisuseValueTooDeep))
		return
	}
	var tagsAt int
	c.core.batch, tagsAt = beginItems(c.core.batch, noNumber, count)
	c.open = append(c.open, openItems{tagsAt, 0})
}

// Close ends the innermost compound.
func (c *Call) Close() {
	if c.failure != nil {
		return
	}
	last := len(c.open) - 1
	endItems(c.core.batch, c.open[last].tagsAt)
	c.open = c.open[:last]
	c.tag(tagCompound)
}

// end ends the recording of the call.
func (c *Call) end() recorded {
	if c.isDone {
		return c.made
	}
	c.isDone = true
	r := c.core
	if c.failure == nil && uint64(len(r.batch)-c.start) > r.bounds.frameBytes {
		c.fail(misused(MisuseTooLong))
	}
	if c.failure != nil {
		c.made = r.refuseCall(c.maker, c.source, c.failure)
		return c.made
	}
	r.commands++
	c.made = recorded{maker: c.maker}
	return c.made
}

// Result ends the call, and returns the stub of its next result.
func (c *Call) Result() Ref {
	r := c.core
	if c.isDone || c.failure != nil || r.isCrossing.Load() || len(r.freeSlots) == 0 ||
		uint64(len(r.batch)-c.start) > r.bounds.frameBytes {
		return r.newRef(c.end(), c.source)
	}
	// The usual call: what end and newRef do.
	c.isDone, c.made = true, recorded{maker: c.maker}
	r.commands++
	last := len(r.freeSlots) - 1
	s := r.freeSlots[last]
	r.freeSlots = r.freeSlots[:last]
	r.futures = append(r.futures, future{s, made{c.maker, c.source}})
	s.position = uint32(len(r.futures))
	return r.keepRef(s)
}

// Done ends a call without results.
func (c *Call) Done() Done {
	r := c.core
	s := r.takeSlot()
	s.isUnasked = true
	r.fillResult(s, c.end(), c.source)
	return Done{Ref{s, s.use}}
}

// Sent ends a message.
func (c *Call) Sent() {
	call := c.end()
	if call.failure == nil {
		c.core.skipResult(call.maker, c.source)
	}
}
