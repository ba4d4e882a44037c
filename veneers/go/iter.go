package veneer

import "iter"

// This file has iterators, which loops at the server run over.
//
//	for user := range db.Users().Each() {
//		user.Touch()
//	}
//
// The body runs once, here, and is recorded; the server runs it for each step. A native break,
// return or goto out of the body cannot be recorded, and panics; Break and Continue of the session
// are recorded instead. A native continue ends the recording of the body, whatever the server
// finds.

// iteration is a call of an iterator, which its loop records.
type iteration struct {
	session *Session
	// receiver is that of a method; without one it is a routine of stubs.
	receiver  Ref
	stubs     *Stubs
	number    uint32
	count     int
	arguments func(*Call)
}

// Iter is a call of an iterator that yields one value. It is recorded by its loop.
type Iter[A Typed] struct{ it iteration }

// Iter2 is a call of an iterator that yields two values at a time.
type Iter2[A, B Typed] struct{ it iteration }

// Iter3 is a call of an iterator that yields three values at a time.
type Iter3[A, B, C Typed] struct{ it iteration }

// IterN is a call of an iterator that yields any number of values at a time.
type IterN struct {
	it    iteration
	count int
}

func methodIteration(receiver Ref, method uint32, count int, arguments func(*Call)) iteration {
	return iteration{receiver.Session(), receiver, nil, method, count, arguments}
}

func routineIteration(
	s *Session, stubs *Stubs, routine uint32, count int, arguments func(*Call),
) iteration {
	return iteration{s, Ref{}, stubs, routine, count, arguments}
}

// IterOf returns the call of an iterator that is a method, for generated code.
func IterOf[A Typed](receiver Ref, method uint32, count int, arguments func(*Call)) Iter[A] {
	return Iter[A]{methodIteration(receiver, method, count, arguments)}
}

// Iter2Of is IterOf for two values.
func Iter2Of[A, B Typed](receiver Ref, method uint32, count int, arguments func(*Call)) Iter2[A, B] {
	return Iter2[A, B]{methodIteration(receiver, method, count, arguments)}
}

// Iter3Of is IterOf for three values.
func Iter3Of[A, B, C Typed](
	receiver Ref, method uint32, count int, arguments func(*Call),
) Iter3[A, B, C] {
	return Iter3[A, B, C]{methodIteration(receiver, method, count, arguments)}
}

// IterNOf is IterOf for any number of values.
func IterNOf(receiver Ref, method uint32, count int, arguments func(*Call), values int) IterN {
	return IterN{methodIteration(receiver, method, count, arguments), values}
}

// RoutineIterOf returns the call of an iterator that is a routine, for generated code.
func RoutineIterOf[A Typed](
	s *Session, stubs *Stubs, routine uint32, count int, arguments func(*Call),
) Iter[A] {
	return Iter[A]{routineIteration(s, stubs, routine, count, arguments)}
}

// RoutineIter2Of is RoutineIterOf for two values.
func RoutineIter2Of[A, B Typed](
	s *Session, stubs *Stubs, routine uint32, count int, arguments func(*Call),
) Iter2[A, B] {
	return Iter2[A, B]{routineIteration(s, stubs, routine, count, arguments)}
}

// RoutineIter3Of is RoutineIterOf for three values.
func RoutineIter3Of[A, B, C Typed](
	s *Session, stubs *Stubs, routine uint32, count int, arguments func(*Call),
) Iter3[A, B, C] {
	return Iter3[A, B, C]{routineIteration(s, stubs, routine, count, arguments)}
}

// RoutineIterNOf is RoutineIterOf for any number of values.
func RoutineIterNOf(
	s *Session, stubs *Stubs, routine uint32, count int, arguments func(*Call), values int,
) IterN {
	return IterN{routineIteration(s, stubs, routine, count, arguments), values}
}

// Each returns the loop over the values.
func (i Iter[A]) Each() iter.Seq[A] {
	return func(yield func(A) bool) {
		i.it.loop(1, func(next func() Ref) bool { return yield(bind[A](next())) })
	}
}

// Each returns the loop over the pairs of values.
func (i Iter2[A, B]) Each() iter.Seq2[A, B] {
	return func(yield func(A, B) bool) {
		i.it.loop(2, func(next func() Ref) bool {
			a, b := bind[A](next()), bind[B](next())
			return yield(a, b)
		})
	}
}

// Triple has the three values of a step.
type Triple[A, B, C Typed] struct {
	A A
	B B
	C C
}

// Each returns the loop over the values.
func (i Iter3[A, B, C]) Each() iter.Seq[Triple[A, B, C]] {
	return func(yield func(Triple[A, B, C]) bool) {
		i.it.loop(3, func(next func() Ref) bool {
			a, b, c := bind[A](next()), bind[B](next()), bind[C](next())
			return yield(Triple[A, B, C]{a, b, c})
		})
	}
}

// Each returns the loop over the values, whose types are not known here: As and Is see them as
// what they are.
func (i IterN) Each() iter.Seq[[]Any] {
	return func(yield func([]Any) bool) {
		i.it.loop(i.count, func(next func() Ref) bool {
			values := make([]Any, i.count)
			for index := range values {
				values[index] = Any{next()}
			}
			return yield(values)
		})
	}
}

// loop records a loop: the iterator's call, and the body once.
func (i *iteration) loop(count int, body func(next func() Ref) bool) {
	s := i.session
	source := s.place()
	c := i.begin(s.core, source)
	i.arguments(c)
	made := c.end()
	refs, taken := make([]Ref, count), 0
	for index := range refs {
		refs[index] = s.core.newRef(made, source)
	}
	next := func() Ref {
		taken++
		return refs[taken-1]
	}
	isWhole := false
	s.record(func() { isWhole = body(next) }, func() bool { return isWhole })
	if !isWhole {
		panic("veneer: a break, return or goto has left the body of a recorded loop, which runs" +
			" once: write session.Break() to leave the loop at the server")
	}
}

// begin opens the loop, and begins the iterator's call, which follows the marker directly.
func (i *iteration) begin(r *recorder, source uintptr) *Call {
	admitted := r.session.admit()
	maker := uint64(i.number)
	isMethod := i.stubs == nil
	var reference int64
	var wrong Failure
	if !isMethod {
		maker |= makerRoutine
	} else if admitted == nil {
		// A constant receiver is recorded before the marker.
		reference, wrong = r.currentReference(i.receiver, source)
	}
	r.openWith(admitted, structureForeach, source, appendWord(nil, opForeach))
	if inside := r.admitInside(); inside != nil {
		wrong = inside
	}
	c := r.begin(maker, source)
	c.failure = wrong
	if isMethod {
		c.method(opCall, reference, i.number, i.count)
	} else {
		c.routine(i.stubs, i.number, i.count)
	}
	return c
}
