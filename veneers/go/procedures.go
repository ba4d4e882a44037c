package veneer

// This file has batched procedures, which the session keeps.
//
//	label := bf.DefineProc2(s, "label", func(p *bf.Proc2[bf.Str, bf.Int, bf.Str], prefix bf.Str, n bf.Int) bf.Str {
//		s.If(n.Lt(0), func() { p.Return(s.Str("negative")) })
//		return prefix.ConcatP(n.Unparse())
//	})
//	text := label.Call(s.Str("x"), s.Int(1))
//
// A procedure without a result returns bf.Done, and its function s.Nothing().

// proc is a procedure of a session.
type proc struct {
	session *Session
	number  uint32
	// refused is the reason why the definition was not sent; nil otherwise.
	refused Failure
}

// Nothing returns the result of a procedure that has none.
func (s *Session) Nothing() Done {
	slot := s.core.takeSlot()
	s.core.settleValue(slot, NilValue())
	return Done{Ref{slot, slot.use}}
}

// headingOf returns the heading of a procedure, by its types; the result Done is none.
func (s *Session) headingOf(params []*Type, result *Type, hasResult bool) (heading, Failure) {
	h := heading{hasResult: hasResult}
	for _, param := range params {
		numbers, wrong := param.in(s.core.numbers.stubs)
		if wrong != nil {
			return h, wrong
		}
		h.params = append(h.params, numbers.number)
	}
	if !hasResult {
		return h, nil
	}
	numbers, wrong := result.in(s.core.numbers.stubs)
	h.result = numbers.number
	return h, wrong
}

// hasResult returns true for a type of results that is not Done.
func hasResult[R Typed]() bool {
	var zero R
	_, isDone := any(zero).(Done)
	return !isDone
}

// define records the definition of a procedure.
func (p *proc) define(name string, params []*Type, result *Type, hasResult bool, body func([]Ref) Ref) {
	s := p.session
	source := s.place()
	h, wrong := s.headingOf(params, result, hasResult)
	admitted := s.admit()
	if admitted == nil {
		admitted = wrong
	}
	p.number = s.core.openProcedure(admitted, name, h, source)
	depth, isDone := len(s.core.scopes), false
	defer func() {
		if !isDone {
			for len(s.core.scopes) >= depth {
				s.core.abandon()
			}
		}
	}()
	values := make([]Ref, len(params))
	for index := range values {
		values[index] = s.core.variableRef(source)
	}
	last := body(values)
	if hasResult {
		p.returns(last)
	}
	isDone = true
	p.refused = s.core.closeProcedure()
}

// returns records the end of a run with a result.
func (p *proc) returns(result Ref) {
	source := p.session.place()
	part, wrong := result.operand()
	if wrong != nil {
		p.session.core.refuse("return", source, wrong)
		return
	}
	p.session.core.returns(part, source)
}

// call records a call.
func (p *proc) call(arguments ...Ref) *Call {
	s := p.session
	maker := makerProcedure | uint64(p.number)
	if p.refused != nil {
		maker = makerProcedure | noNumber
	}
	c := s.core.begin(maker, s.place())
	c.failure = s.admit()
	if c.failure == nil {
		c.failure = p.refused
	}
	if c.failure == nil {
		c.head(head(opCallProcedure, 0, p.number), len(arguments), false, 0)
	}
	for _, argument := range arguments {
		c.Ref(argument)
	}
	return c
}

// resultOf returns the result of a call of a procedure.
func resultOf[R Typed](c *Call) R {
	if hasResult[R]() {
		return bind[R](c.Result())
	}
	return bind[R](c.Done().Ref)
}

// find returns a procedure that the session has defined with these types.
func (s *Session) find(name string, params []*Type, result *Type, hasResult bool) (proc, bool) {
	h, wrong := s.headingOf(params, result, hasResult)
	if wrong != nil {
		return proc{}, false
	}
	number, isThere := s.core.findProcedure(name, h)
	return proc{s, number, nil}, isThere
}

// Proc0 is a procedure with no parameters.
type Proc0[R Typed] struct{ proc }

// DefineProc0 defines a procedure with no parameters. The function is called once, with the procedure,
// which it may call itself; it returns the result.
func DefineProc0[R Typed](
	s *Session, name string, body func(*Proc0[R]) R,
) *Proc0[R] {
	p := &Proc0[R]{proc{session: s}}
	p.define(name, nil, typeOf[R](), hasResult[R](), func(_ []Ref) Ref {
		return refOf(body(p))
	})
	return p
}

// FindProc0 returns a procedure that the session has defined with these types; nil without one.
func FindProc0[R Typed](s *Session, name string) *Proc0[R] {
	found, isThere := s.find(name, nil, typeOf[R](), hasResult[R]())
	if !isThere {
		return nil
	}
	return &Proc0[R]{found}
}

// Call records a call.
func (p *Proc0[R]) Call() R {
	return resultOf[R](p.call())
}

// Return ends a run in the body, with its result.
func (p *Proc0[R]) Return(result R) {
	if hasResult[R]() {
		p.returns(refOf(result))
	} else {
		p.session.core.returns(nil, p.session.place())
	}
}

// Proc1 is a procedure with one parameter.
type Proc1[A, R Typed] struct{ proc }

// DefineProc1 defines a procedure with one parameter. The function is called once, with the procedure,
// which it may call itself; it returns the result.
func DefineProc1[A, R Typed](
	s *Session, name string, body func(*Proc1[A, R], A) R,
) *Proc1[A, R] {
	p := &Proc1[A, R]{proc{session: s}}
	p.define(name, []*Type{typeOf[A]()}, typeOf[R](), hasResult[R](), func(v []Ref) Ref {
		return refOf(body(p, bind[A](v[0])))
	})
	return p
}

// FindProc1 returns a procedure that the session has defined with these types; nil without one.
func FindProc1[A, R Typed](s *Session, name string) *Proc1[A, R] {
	found, isThere := s.find(name, []*Type{typeOf[A]()}, typeOf[R](), hasResult[R]())
	if !isThere {
		return nil
	}
	return &Proc1[A, R]{found}
}

// Call records a call.
func (p *Proc1[A, R]) Call(a A) R {
	return resultOf[R](p.call(refOf(a)))
}

// Return ends a run in the body, with its result.
func (p *Proc1[A, R]) Return(result R) {
	if hasResult[R]() {
		p.returns(refOf(result))
	} else {
		p.session.core.returns(nil, p.session.place())
	}
}

// Proc2 is a procedure with two parameters.
type Proc2[A, B, R Typed] struct{ proc }

// DefineProc2 defines a procedure with two parameters. The function is called once, with the procedure,
// which it may call itself; it returns the result.
func DefineProc2[A, B, R Typed](
	s *Session, name string, body func(*Proc2[A, B, R], A, B) R,
) *Proc2[A, B, R] {
	p := &Proc2[A, B, R]{proc{session: s}}
	p.define(name, []*Type{typeOf[A](), typeOf[B]()}, typeOf[R](), hasResult[R](), func(v []Ref) Ref {
		return refOf(body(p, bind[A](v[0]), bind[B](v[1])))
	})
	return p
}

// FindProc2 returns a procedure that the session has defined with these types; nil without one.
func FindProc2[A, B, R Typed](s *Session, name string) *Proc2[A, B, R] {
	found, isThere := s.find(name, []*Type{typeOf[A](), typeOf[B]()}, typeOf[R](), hasResult[R]())
	if !isThere {
		return nil
	}
	return &Proc2[A, B, R]{found}
}

// Call records a call.
func (p *Proc2[A, B, R]) Call(a A, b B) R {
	return resultOf[R](p.call(refOf(a), refOf(b)))
}

// Return ends a run in the body, with its result.
func (p *Proc2[A, B, R]) Return(result R) {
	if hasResult[R]() {
		p.returns(refOf(result))
	} else {
		p.session.core.returns(nil, p.session.place())
	}
}

// Proc3 is a procedure with three parameters.
type Proc3[A, B, C, R Typed] struct{ proc }

// DefineProc3 defines a procedure with three parameters. The function is called once, with the procedure,
// which it may call itself; it returns the result.
func DefineProc3[A, B, C, R Typed](
	s *Session, name string, body func(*Proc3[A, B, C, R], A, B, C) R,
) *Proc3[A, B, C, R] {
	p := &Proc3[A, B, C, R]{proc{session: s}}
	p.define(name, []*Type{typeOf[A](), typeOf[B](), typeOf[C]()}, typeOf[R](), hasResult[R](), func(v []Ref) Ref {
		return refOf(body(p, bind[A](v[0]), bind[B](v[1]), bind[C](v[2])))
	})
	return p
}

// FindProc3 returns a procedure that the session has defined with these types; nil without one.
func FindProc3[A, B, C, R Typed](s *Session, name string) *Proc3[A, B, C, R] {
	found, isThere := s.find(name, []*Type{typeOf[A](), typeOf[B](), typeOf[C]()}, typeOf[R](), hasResult[R]())
	if !isThere {
		return nil
	}
	return &Proc3[A, B, C, R]{found}
}

// Call records a call.
func (p *Proc3[A, B, C, R]) Call(a A, b B, c C) R {
	return resultOf[R](p.call(refOf(a), refOf(b), refOf(c)))
}

// Return ends a run in the body, with its result.
func (p *Proc3[A, B, C, R]) Return(result R) {
	if hasResult[R]() {
		p.returns(refOf(result))
	} else {
		p.session.core.returns(nil, p.session.place())
	}
}

// Proc4 is a procedure with four parameters.
type Proc4[A, B, C, D, R Typed] struct{ proc }

// DefineProc4 defines a procedure with four parameters. The function is called once, with the procedure,
// which it may call itself; it returns the result.
func DefineProc4[A, B, C, D, R Typed](
	s *Session, name string, body func(*Proc4[A, B, C, D, R], A, B, C, D) R,
) *Proc4[A, B, C, D, R] {
	p := &Proc4[A, B, C, D, R]{proc{session: s}}
	p.define(name, []*Type{typeOf[A](), typeOf[B](), typeOf[C](), typeOf[D]()}, typeOf[R](), hasResult[R](), func(v []Ref) Ref {
		return refOf(body(p, bind[A](v[0]), bind[B](v[1]), bind[C](v[2]), bind[D](v[3])))
	})
	return p
}

// FindProc4 returns a procedure that the session has defined with these types; nil without one.
func FindProc4[A, B, C, D, R Typed](s *Session, name string) *Proc4[A, B, C, D, R] {
	found, isThere := s.find(name, []*Type{typeOf[A](), typeOf[B](), typeOf[C](), typeOf[D]()}, typeOf[R](), hasResult[R]())
	if !isThere {
		return nil
	}
	return &Proc4[A, B, C, D, R]{found}
}

// Call records a call.
func (p *Proc4[A, B, C, D, R]) Call(a A, b B, c C, d D) R {
	return resultOf[R](p.call(refOf(a), refOf(b), refOf(c), refOf(d)))
}

// Return ends a run in the body, with its result.
func (p *Proc4[A, B, C, D, R]) Return(result R) {
	if hasResult[R]() {
		p.returns(refOf(result))
	} else {
		p.session.core.returns(nil, p.session.place())
	}
}
