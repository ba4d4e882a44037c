package veneer

// This file records structures whose blocks are functions of the program. Each function runs once.

// record runs a block whose commands are recorded, and ends its structure. A block that was left by
// a panic, or that is not whole, ends it so that it is not sent.
func (s *Session) record(block func(), isWhole func() bool) ending {
	depth := len(s.core.scopes)
	isDone := false
	defer func() {
		if !isDone {
			for len(s.core.scopes) >= depth && depth > 0 {
				s.core.abandon()
			}
		}
	}()
	block()
	if !isWhole() {
		return ending{}
	}
	isDone = true
	return s.core.end()
}

func always() bool { return true }

// If is a choice that was recorded, which Else follows directly.
type If struct {
	session *Session
	ended   ending
}

// If runs a block at the server if a condition holds.
func (s *Session) If(condition Bool, block func()) *If {
	source := s.place()
	s.core.open(s.admit(), structureIf, source)
	ended := s.record(func() {
		s.condition(condition, source)
		block()
	}, always)
	return &If{s, ended}
}

// IfThat is If with a condition whose calls are recorded as a part of the choice.
func (s *Session) IfThat(condition func() Bool, block func()) *If {
	source := s.place()
	s.core.open(s.admit(), structureIf, source)
	ended := s.record(func() {
		s.condition(condition(), source)
		block()
	}, always)
	return &If{s, ended}
}

// condition records the marker behind a condition.
func (s *Session) condition(test Bool, source uintptr) {
	part, wrong := test.operand()
	if wrong != nil {
		s.core.refuse("condition", source, wrong)
		return
	}
	s.core.condition(part, source)
}

// Else runs a block at the server if the condition does not hold. It follows the first block
// directly.
func (i *If) Else(block func()) {
	i.session.reopen(i.ended, elseBlock(), block)
}

// reopen goes on with a block of a structure.
func (s *Session) reopen(ended ending, b block, body func()) ending {
	s.core.reopen(ended, b, s.place())
	return s.record(body, always)
}

// While repeats a block at the server while a condition holds.
func (s *Session) While(condition func() Bool, block func()) {
	source := s.place()
	s.core.open(s.admit(), structureWhile, source)
	s.record(func() {
		s.condition(condition(), source)
		block()
	}, always)
}

// Break leaves the innermost loop at the server. Recording goes on behind it.
func (s *Session) Break() { s.core.breakLoop(s.place()) }

// Continue goes on with the next round of the innermost loop at the server. Recording goes on
// behind it.
func (s *Session) Continue() { s.core.continueLoop(s.place()) }

// Except is a block that was recorded, which its handlers follow directly.
type Except struct {
	session *Session
	ended   ending
}

// Except runs a block at the server. Exceptions of its calls go to the handlers that follow it:
//
//	s.Except(func() { found.Put(db.Fetch("zoe")) }).
//		When(database.WhenNotFound(func() { found.Put(db.NewUser("zoe")) }))
func (s *Session) Except(block func()) *Except {
	s.core.open(s.admit(), structureExcept, s.place())
	return &Except{s, s.record(block, always)}
}

// Handler is a handler of an exception. Generated functions make them: WhenNotFound.
type Handler struct {
	name  string
	types []*Type
	block func(values []Ref)
}

// When runs a handler at the server if a call signals its exception.
func (e *Except) When(handler Handler) *Except {
	s := e.session
	numbers := make([]uint32, len(handler.types))
	for index, of := range handler.types {
		// One of another interface has no number here, and so no exception is that one.
		if found, wrong := of.in(s.core.numbers.stubs); wrong == nil {
			numbers[index] = found.number
		} else {
			numbers[index] = noNumber
		}
	}
	source := s.place()
	ended := s.reopen(e.ended, whenBlock(handler.name, numbers), func() {
		values := make([]Ref, len(handler.types))
		for index := range values {
			values[index] = s.core.variableRef(source)
		}
		handler.block(values)
	})
	return &Except{s, ended}
}

// Others runs a block at the server if a call signals any other exception, with its name.
func (e *Except) Others(block func(name Str)) {
	s := e.session
	source := s.place()
	s.reopen(e.ended, othersBlock(true), func() { block(Str{s.core.variableRef(source)}) })
}

// When0 returns the handler of an exception by its name, without values.
func When0(name string, block func()) Handler {
	return Handler{name, nil, func([]Ref) { block() }}
}

// When1 returns the handler of an exception with a value.
func When1[A Typed](name string, block func(A)) Handler {
	return Handler{name, []*Type{typeOf[A]()}, func(v []Ref) { block(bind[A](v[0])) }}
}

// When2 returns the handler of an exception with two values.
func When2[A, B Typed](name string, block func(A, B)) Handler {
	types := []*Type{typeOf[A](), typeOf[B]()}
	return Handler{name, types, func(v []Ref) { block(bind[A](v[0]), bind[B](v[1])) }}
}

// When3 returns the handler of an exception with three values.
func When3[A, B, C Typed](name string, block func(A, B, C)) Handler {
	types := []*Type{typeOf[A](), typeOf[B](), typeOf[C]()}
	return Handler{name, types, func(v []Ref) {
		block(bind[A](v[0]), bind[B](v[1]), bind[C](v[2]))
	}}
}

// WhenN returns the handler of an exception with any number of values, whose types are known by
// Types; generated code makes stubs of them.
func WhenN(name string, types []*Type, block func([]Ref)) Handler {
	return Handler{name, types, block}
}

// Case is a block for a tag of a oneof, for generated code.
type Case struct {
	Is      func() Bool
	IsThere bool
	Block   func()
}

// Match records a choice among blocks, for generated code.
func Match(s *Session, cases ...Case) {
	for index, one := range cases {
		if one.IsThere {
			s.IfThat(one.Is, one.Block).Else(func() { Match(s, cases[index+1:]...) })
			return
		}
	}
}
