package veneer

import "context"

// Int is a promise of an int.
type Int struct{ Ref }

// Real is a promise of a real.
type Real struct{ Ref }

// Bool is a promise of a bool.
type Bool struct{ Ref }

// Char is a promise of a char.
type Char struct{ Ref }

// Str is a promise of a string.
type Str struct{ Ref }

// Bytes is a promise of a byte string.
type Bytes struct{ Ref }

// Nil is a promise of nil, the one value of the type null. As an argument its zero value is nil.
type Nil struct{ Ref }

// Done is the outcome of a call without results. It crosses only if it is claimed before its batch
// is flushed; claimed later it follows from the failures of the batch.
type Done struct{ Ref }

// BifrostType returns the type in Theta.
func (Int) BifrostType() *Type { return intType }

// BifrostType returns the type in Theta.
func (Real) BifrostType() *Type { return realType }

// BifrostType returns the type in Theta.
func (Bool) BifrostType() *Type { return boolType }

// BifrostType returns the type in Theta.
func (Char) BifrostType() *Type { return charType }

// BifrostType returns the type in Theta.
func (Str) BifrostType() *Type { return strType }

// BifrostType returns the type in Theta.
func (Bytes) BifrostType() *Type { return bytesType }

// BifrostType returns the type in Theta.
func (Nil) BifrostType() *Type { return nilType }

// BifrostType returns the type in Theta.
func (Done) BifrostType() *Type { return nilType }

// Values of the program as stubs.

// Int returns a stub for an int, which can be a receiver: s.Int(1).To(10).
func (s *Session) Int(i int64) Int { return Int{s.core.knownRef(IntValue(i))} }

// Real returns a stub for a real.
func (s *Session) Real(r float64) Real { return Real{s.core.knownRef(RealValue(r))} }

// Bool returns a stub for a bool.
func (s *Session) Bool(b bool) Bool { return Bool{s.core.knownRef(BoolValue(b))} }

// Char returns a stub for a char. It is refused if it is no Unicode scalar value.
func (s *Session) Char(c rune) Char { return Char{s.known(CharValue(c))} }

// Str returns a stub for a string. It is refused if it is not UTF-8.
func (s *Session) Str(text string) Str { return Str{s.known(TextValue(text))} }

// Bytes returns a stub for a byte string.
func (s *Session) Bytes(b []byte) Bytes { return Bytes{s.core.knownRef(BytesValue(b))} }

// known returns the stub of a value, or of the failure of one that cannot cross.
func (s *Session) known(value Value) Ref {
	source := s.place()
	if _, wrong := value.operand(); wrong != nil {
		return s.core.newRef(recorded{failure: s.core.refuse("value", source, wrong)}, source)
	}
	return s.core.knownRef(value)
}

// Claims.

// claim waits for the result of a stub, and returns its value. The context may be nil.
func (s *Session) claim(stub Ref, ctx context.Context) (Value, Failure) {
	if !stub.isCurrent() {
		return Value{}, misused(MisuseReleased)
	}
	r, slot := s.core, stub.slot
	if slot.isPending() {
		if wrong := s.await(slot, ctx); wrong != nil {
			return Value{}, wrong
		}
	}
	switch slot.state {
	case slotFailed:
		r.tell(slot.failure)
		return Value{}, slot.failure
	case slotObject:
		return object(slot.handle, noNumber), r.surface(false)
	}
	return slot.value, r.surface(false)
}

// await waits until the result of a pending stub is known.
func (s *Session) await(slot *slot, ctx context.Context) Failure {
	if s.core.isCrossing.Load() {
		return inUse
	}
	s.context = ctx
	defer func() { s.context = nil }()
	if slot.state == slotFuture {
		slot.isUnasked = false
		return s.synchronize("claim", s.place())
	}
	if len(s.core.scopes) > 0 {
		return misused(MisuseOpenStructure)
	}
	return s.answerUntil(slot.batch)
}

// expect claims a stub whose value has a tag. Another one ends the session.
func expect(stub Ref, ctx context.Context, tag byte) (Value, error) {
	s := stub.Session()
	value, wrong := s.claim(stub, ctx)
	if wrong == nil && value.tag != tag {
		wrong = s.mistyped()
	}
	return value, asError(wrong)
}

// mistyped ends the session, because a result does not have the type of its heading.
func (s *Session) mistyped() Failure {
	return s.end(&ClosedByWrongReply{"a result of the type of its heading"})
}

// Claim returns the value; the batch is flushed if that is needed. The error is that of the call.
// A claim fails with an *Unseen if there are failures that no stub is left to tell; claimed again it
// has its value.
func (x Int) Claim() (int64, error) { return x.ClaimContext(context.Background()) }

// ClaimContext is Claim with a context: its end ends the session.
func (x Int) ClaimContext(ctx context.Context) (int64, error) {
	value, err := expect(x.Ref, ctx, tagInt)
	i, _ := value.Int()
	return i, err
}

// Claim returns the value; see Int.Claim.
func (x Real) Claim() (float64, error) { return x.ClaimContext(context.Background()) }

// ClaimContext is Claim with a context: its end ends the session.
func (x Real) ClaimContext(ctx context.Context) (float64, error) {
	value, err := expect(x.Ref, ctx, tagReal)
	r, _ := value.Real()
	return r, err
}

// Claim returns the value; see Int.Claim.
func (x Bool) Claim() (bool, error) { return x.ClaimContext(context.Background()) }

// ClaimContext is Claim with a context: its end ends the session.
func (x Bool) ClaimContext(ctx context.Context) (bool, error) {
	value, err := expect(x.Ref, ctx, tagBool)
	b, _ := value.Bool()
	return b, err
}

// Claim returns the value; see Int.Claim.
func (x Char) Claim() (rune, error) { return x.ClaimContext(context.Background()) }

// ClaimContext is Claim with a context: its end ends the session.
func (x Char) ClaimContext(ctx context.Context) (rune, error) {
	value, err := expect(x.Ref, ctx, tagChar)
	c, _ := value.Char()
	return c, err
}

// Claim returns the value; see Int.Claim.
func (x Str) Claim() (string, error) { return x.ClaimContext(context.Background()) }

// ClaimContext is Claim with a context: its end ends the session.
func (x Str) ClaimContext(ctx context.Context) (string, error) {
	value, err := expect(x.Ref, ctx, tagString)
	text, _ := value.Text()
	return text, err
}

// Claim returns the value; see Int.Claim.
func (x Bytes) Claim() ([]byte, error) { return x.ClaimContext(context.Background()) }

// ClaimContext is Claim with a context: its end ends the session.
func (x Bytes) ClaimContext(ctx context.Context) ([]byte, error) {
	value, err := expect(x.Ref, ctx, tagBytes)
	b, _ := value.Bytes()
	return b, err
}

// Claim waits until nil is there; see Int.Claim.
func (x Nil) Claim() error { return x.ClaimContext(context.Background()) }

// ClaimContext is Claim with a context: its end ends the session.
func (x Nil) ClaimContext(ctx context.Context) error {
	_, err := expect(x.Ref, ctx, tagNil)
	return err
}

// Claim waits until the call has run; see Int.Claim.
func (x Done) Claim() error { return x.ClaimContext(context.Background()) }

// ClaimContext is Claim with a context: its end ends the session.
func (x Done) ClaimContext(ctx context.Context) error {
	s := x.Session()
	if !x.isCurrent() {
		// Its batch was answered, and the call has not failed.
		return asError(s.core.surface(false))
	}
	_, wrong := s.claim(x.Ref, ctx)
	return asError(wrong)
}

// Release does nothing: the outcome takes no room at the server.
func (x Done) Release() {}
