package veneer

import "unicode/utf8"

// Operand is an argument of a call: a *Stub, a Value, or Items.
type Operand interface {
	// operand returns the recorder's operand, or the failure of a stub that cannot be one.
	operand() (operand, Failure)
}

// Items are the items of a compound, which has the type of its parameter: the elements of a
// sequence, or the fields of a struct.
type Items []Operand

// An object is an argument by its stub, and a compound that came by its Items. The zero Value is
// nil.
func (v Value) operand() (operand, Failure) {
	switch {
	case v.IsNil():
		return NilValue(), nil
	case v.tag == tagRef || v.tag == tagRows:
		return nil, misused(MisuseReleased)
	case v.tag == tagCompound:
		return nil, misused(MisuseUntyped)
	case v.tag == tagString && !utf8.ValidString(v.text):
		return nil, misused(MisuseNotText)
	case v.tag == tagChar && !utf8.ValidRune(rune(v.word)):
		return nil, misused(MisuseNotText)
	}
	return v, nil
}

func (i Items) operand() (operand, Failure) {
	parts, wrong := operandsOf(i)
	return operands(parts), wrong
}

func (s *Stub) operand() (operand, Failure) {
	if s.isReleased {
		return nil, misused(MisuseReleased)
	}
	return s.slot, nil
}

// operandsOf returns the operands of arguments, or the first failure. No argument is nil.
func operandsOf(arguments []Operand) ([]operand, Failure) {
	parts := make([]operand, len(arguments))
	for index, argument := range arguments {
		if argument == nil {
			argument = NilValue()
		}
		part, wrong := argument.operand()
		if wrong != nil {
			return nil, wrong
		}
		parts[index] = part
	}
	return parts, nil
}

// operandsUnless returns the operands of arguments, unless there is a failure already.
func operandsUnless(wrong Failure, arguments []Operand) ([]operand, Failure) {
	if wrong != nil {
		return nil, wrong
	}
	return operandsOf(arguments)
}

// Stub is the result of a call, which may not be known yet. It is an argument and a receiver of
// further calls at once. Release tells that nobody claims it any more; until then each flush has
// the server send its result.
type Stub struct {
	session    *Session
	slot       *slot
	isReleased bool
}

// stub returns the stub of a call's one result.
func (s *Session) stub(call recorded, source uintptr) *Stub {
	return &Stub{s, s.core.newResult(call, source), false}
}

// first returns the stub of the first of a call's results; the others are not wanted.
func (s *Session) first(call recorded, count int, source uintptr) *Stub {
	result := s.stub(call, source)
	for index := 1; index < count; index++ {
		s.core.newResult(call, source).release()
	}
	return result
}

// Call calls a method, by its name and that of its type: "DataBase.fetch". The stub is the first
// result, or nil of a method without any. A call that fails does not stop those behind it.
func (s *Stub) Call(method string, arguments ...Operand) *Stub {
	return s.call(opCall, method, arguments, caller())
}

// Send sends an actor a message without an answer. The stub is nil, or the failure to send it.
func (s *Stub) Send(method string, arguments ...Operand) *Stub {
	return s.call(opSend, method, arguments, caller())
}

// Do calls a method whose result nobody claims. Its failure is told by the next flush.
func (s *Stub) Do(method string, arguments ...Operand) {
	s.call(opCall, method, arguments, caller()).Release()
}

func (s *Stub) call(code byte, name string, arguments []Operand, source uintptr) *Stub {
	own := s.session.core.numbers.stubs.own
	number, isThere := own.findMethod(name)
	wrong := s.admit()
	if wrong == nil && !isThere {
		wrong = &Missing{name}
	}
	parts, wrong := operandsUnless(wrong, arguments)
	if wrong != nil {
		failure := s.session.core.refuse(name, source, wrong)
		return s.session.stub(recorded{failure: failure}, source)
	}
	count := 1
	if code == opCall {
		count = len(own.method(number).Results)
	}
	call := s.session.core.callAs(code, nil, s.slot, number, parts, source)
	return s.session.first(call, count, source)
}

// Contents takes the contents of an object: a value with the elements or fields.
func (s *Stub) Contents() *Stub {
	source := caller()
	admitted := s.admit()
	return s.session.stub(s.session.core.get(admitted, s.slot, source), source)
}

// As returns the object as one of another type; it signals wrong_type if it has not that type.
func (s *Stub) As(typeName string) *Stub {
	source := caller()
	number, admitted := s.typeNumber(typeName)
	core := s.session.core
	return s.session.stub(core.cast(admitted, s.slot, number, typeName, source), source)
}

// Is tests if the object has a type; its result is a bool.
func (s *Stub) Is(typeName string) *Stub {
	source := caller()
	number, admitted := s.typeNumber(typeName)
	core := s.session.core
	return s.session.stub(core.testType(admitted, s.slot, number, typeName, source), source)
}

// admit admits a command about the stub.
func (s *Stub) admit() Failure {
	if s.isReleased {
		return misused(MisuseReleased)
	}
	return s.session.admit()
}

// typeNumber returns the number of a type; the command is admitted only if there is one.
func (s *Stub) typeNumber(name string) (uint32, Failure) {
	admitted := s.admit()
	number, isThere := s.session.core.numbers.stubs.own.typeNumbers[name]
	if admitted == nil && !isThere {
		admitted = &Missing{name}
	}
	return number, admitted
}

// Claim returns the result; it flushes the batch if the result is not known. The result of a call
// that failed is a Failure. A claim of a value fails with an *Unseen if there are failures that no
// stub is left to tell; claimed again it has its value.
func (s *Stub) Claim() (Value, error) {
	value, wrong := s.claim(caller())
	return value, asError(wrong)
}

func (s *Stub) claim(source uintptr) (Value, Failure) {
	if s.isReleased {
		return Value{}, misused(MisuseReleased)
	}
	core := s.session.core
	if s.slot.isPending() {
		if wrong := s.session.synchronize("claim", source); wrong != nil {
			return Value{}, wrong
		}
	}
	switch s.slot.state {
	case slotFailed:
		core.tell(s.slot.failure)
		return Value{}, s.slot.failure
	case slotObject:
		return object(s.slot.handle, noNumber), core.surface(false)
	}
	return s.slot.value, core.surface(false)
}

// Items returns the items of a result that is a compound; each object among them has a stub of its
// own. ok is false if the result is not known, or no compound.
func (s *Stub) Items() (items []*Stub, ok bool) {
	if s.isReleased || s.slot.state != slotValue || s.slot.value.tag != tagCompound {
		return nil, false
	}
	core := s.session.core
	for _, item := range s.slot.value.items() {
		inner := &Stub{session: s.session}
		if item.IsObject() {
			inner.slot = core.newObject(item.handle())
		} else {
			inner.slot = core.newValue(item)
		}
		items = append(items, inner)
	}
	return items, true
}

// IsSame returns true if two stubs are known to have the same result.
func (s *Stub) IsSame(other *Stub) bool {
	return !s.isReleased && !other.isReleased && s.slot.isSame(other.slot)
}

// Release gives the stub up: its result is not wanted any more, and its object goes back to the
// server with the next batch. A stub that was released is no operand.
func (s *Stub) Release() {
	if !s.isReleased {
		s.isReleased = true
		s.slot.release()
	}
}
