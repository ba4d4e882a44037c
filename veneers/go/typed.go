package veneer

import (
	"runtime"
	"strings"
)

// This file has the bases of the typed layer: stubs as values, and their types. The typed layer is
// what generated stubs and programs use.
//
//	a program                                   recorded, or done
//	db := database.LookupDataBase(s, "main")    lookup
//	eve := db.Fetch("eve")                      a call; FetchP takes a bf.Str
//	n, err := eve.Visits().Claim()              the batch crosses, once for all its results
//	total := bf.NewIntCell(s, 0)                a variable at the server
//	for e := range db.Users().Each() { ... }    a loop at the server: its body runs once, here
//	s.If(x.Gt(0), func() { ... }).Else(...)     a choice; s.While, s.Break, s.Continue
//	s.Except(...).When(...).Others(...)         a block with handlers
//	defer s.Scope().Close()                     gives back all stubs that were made since
//	s.Batch(func(b *bf.Scope) { ... })          a batch that is a scope
//	s.Transaction(func(b *bf.Scope) { ... })    a batch that is a transaction
//	for rows, err := range bf.Live(s, ...)      a batch that is run again after changes
//	bf.NewRows2(s, bf.Strs, bf.Ints)            a table that loops append to
//	value.Get().Claim()                         the contents of an object, as a value of Go
//	bf.As[T](x), bf.Is[T](x)                    types at run time
//	bf.Procedure2(s, "name", ...)               a procedure that the session keeps
//
// The parts of the typed layer are in these files:
//
//	typed.go      Ref, the base of all stubs; Type; Typed, the constraint of types of stubs
//	build.go      Call, with which generated code records a call
//	basic.go      Int, Real, Bool, Char, Str, Bytes, Nil, Done: claims
//	operators.go  their operators
//	cells.go      cells
//	iter.go       iterators and their loops
//	blocks.go     choices, loops with a condition, handlers
//	scope.go      scopes, batches, transactions
//	live.go       live batches
//	rows.go       tables
//	contents.go   contents of objects, and how they are read
//	builtin.go    Any, Directory
//	procedures.go procedures
//	signals.go    exceptions as errors

// Ref is the base of all stubs: a result of a session, which may not be known yet. It is a value,
// and copies of it are the same stub. Its zero value is no stub.
type Ref struct {
	slot *slot
	use  uint32
}

// Object is any stub: an object of any type, or a value.
type Object interface {
	Operand
	ref() Ref
}

// Typed is the constraint of the types of stubs: Int, Str, a generated one.
type Typed interface {
	~struct{ Ref }
	// BifrostType returns the type in Theta.
	BifrostType() *Type
}

// bind makes a stub of a type.
func bind[T Typed](r Ref) T { return T(struct{ Ref }{r}) }

// refOf returns the base of a stub.
func refOf[T Typed](stub T) Ref { return struct{ Ref }(stub).Ref }

// typeOf returns the type of a type of stubs.
func typeOf[T Typed]() *Type {
	var zero T
	return zero.BifrostType()
}

// ErrReleased is the error of a stub that was released before its use, for errors.Is.
var ErrReleased error = &Misused{MisuseReleased}

func (r Ref) ref() Ref { return r }

// isCurrent returns true if the stub was not released.
func (r Ref) isCurrent() bool { return r.slot != nil && r.slot.use == r.use }

func (r Ref) operand() (operand, Failure) {
	if !r.isCurrent() {
		return nil, misused(MisuseReleased)
	}
	return r.slot, nil
}

// recorder returns the recorder of a stub.
func (r Ref) recorder() *recorder {
	if r.slot == nil {
		panic("veneer: this stub is a zero value, which is no result of a call")
	}
	return r.slot.core
}

// Session returns the session of the stub.
func (r Ref) Session() *Session { return r.recorder().session }

// Release gives the stub up: its result is not wanted any more, and its object goes back to the
// server with the next batch. Copies of it are released with it; used again they are refused, with
// ErrReleased. A scope releases all stubs that were made in it.
func (r Ref) Release() {
	if r.isCurrent() {
		r.slot.release()
	}
}

// Resolve waits until the object is there; the batch is flushed if that is needed. The error is
// that of the call that makes it.
func (r Ref) Resolve() error {
	_, wrong := r.Session().claim(r, nil)
	return asError(wrong)
}

// IsSame returns true if two stubs are known to have the same result.
func IsSame(a, b Object) bool {
	x, y := a.ref(), b.ref()
	return x.isCurrent() && y.isCurrent() && x.slot.isSame(y.slot)
}

// newRef makes the stub of a result of a call, in the innermost scope.
func (r *recorder) newRef(call recorded, source uintptr) Ref {
	return r.keepRef(r.fillResult(r.takeSlot(), call, source))
}

func (r *recorder) keepRef(s *slot) Ref {
	ref := Ref{s, s.use}
	if scope := r.session.scope; scope != nil && !r.isCrossing.Load() {
		scope.stubs = append(scope.stubs, ref)
	}
	return ref
}

// knownRef makes the stub of a value.
func (r *recorder) knownRef(value Value) Ref {
	s := r.takeSlot()
	if value.IsObject() {
		r.settleObject(s, value.handle(), made{})
	} else {
		r.settleValue(s, value)
	}
	return r.keepRef(s)
}

// variableRef makes the stub of a variable of a marker.
func (r *recorder) variableRef(source uintptr) Ref {
	return r.newRef(recorded{maker: makerVariable}, source)
}

// Types.

// Type is a type of Theta: its name, its number, and the numbers of its cells. Generated code makes
// them.
type Type struct {
	name    string
	numbers typeNumbers
	stubs   *Stubs
	// basic is the place of a basic or built-in type in basicNames, from 1.
	basic int
}

// typeNumbers are the numbers of a type, of its cells, and of their methods.
type typeNumbers struct {
	number, cell, put, full, get uint32
}

// NewType returns a type of generated stubs: its name in Theta, its number, the number of its cells,
// and those of their methods put, full and get.
func NewType(stubs *Stubs, name string, number uint32, cell [4]uint32) *Type {
	return &Type{name, typeNumbers{number, cell[0], cell[1], cell[2], cell[3]}, stubs, 0}
}

// Name returns the name in Theta.
func (t *Type) Name() string { return t.name }

// basicNames are the basic and built-in types.
var basicNames = [...]string{
	"null", "bool", "int", "real", "char", "string", "any", "directory", "bytes",
}

func basicType(place int) *Type { return &Type{name: basicNames[place-1], basic: place} }

var (
	nilType       = basicType(1)
	boolType      = basicType(2)
	intType       = basicType(3)
	realType      = basicType(4)
	charType      = basicType(5)
	strType       = basicType(6)
	anyType       = basicType(7)
	directoryType = basicType(8)
	bytesType     = basicType(9)
)

// in returns the numbers of a type in stubs.
func (t *Type) in(stubs *Stubs) (typeNumbers, Failure) {
	if t.basic > 0 {
		return stubs.basic[t.basic-1], nil
	}
	if t.stubs != stubs {
		return typeNumbers{}, misused(MisuseOtherInterface)
	}
	return t.numbers, nil
}

// count finds the numbers of the basic and built-in types, and of operators.
func (s *Stubs) count() {
	own := s.own
	for place, name := range basicNames {
		number, isThere := own.typeNumbers[name]
		numbers := typeNumbers{noNumber, noNumber, noNumber, noNumber, noNumber}
		if isThere {
			numbers = own.numbersOf(number)
		}
		s.basic[place] = numbers
	}
	s.operators = own.operators()
}

// numbersOf returns the numbers of a type, and of its cells.
func (i *Interface) numbersOf(number uint32) typeNumbers {
	numbers := typeNumbers{number, noNumber, noNumber, noNumber, noNumber}
	for cell := range i.types {
		entry := &i.types[cell]
		if entry.Kind != "cell" || entry.Element == nil || *entry.Element != int(number) {
			continue
		}
		method := func(name string) uint32 {
			if found, isThere := i.methodNumbers[methodName{uint32(cell), name}]; isThere {
				return found
			}
			return noNumber
		}
		numbers.cell = uint32(cell)
		numbers.put, numbers.full, numbers.get = method("put"), method("full"), method("get")
	}
	return numbers
}

// Places.

// placeFrames are the frames in which the place of a call is looked for.
const placeFrames = 16

// place returns the place in the program from which the library was called, if places are noted.
func (s *Session) place() uintptr {
	if !s.notesPlaces {
		return 0
	}
	var counters [placeFrames]uintptr
	for _, counter := range counters[:runtime.Callers(2, counters[:])] {
		frame, _ := runtime.CallersFrames([]uintptr{counter}).Next()
		isOwn := strings.HasPrefix(frame.Function, "bifrost.dev/veneer.") &&
			!strings.HasSuffix(frame.File, "_test.go")
		if !isOwn && !strings.HasSuffix(frame.File, stubsFile) {
			return counter
		}
	}
	return 0
}

// stubsFile is the name of the files of generated stubs, whose lines are no places of a program.
const stubsFile = "bifrost_stubs.go"
