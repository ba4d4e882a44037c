package veneer

import "context"

// Got are the contents of an object, which were taken when the batch ran: a struct, a slice.
type Got[V any] struct {
	Ref
	read func(*Reader) V
}

// Get takes the contents of an object, for generated code. It is refused inside a structure.
func Get[V any](object Ref, read func(*Reader) V) Got[V] {
	s := object.Session()
	source := s.place()
	admitted := s.admit()
	if admitted == nil && !object.isCurrent() {
		admitted = misused(MisuseReleased)
	}
	return Got[V]{s.core.newRef(s.core.get(admitted, object.slot, source), source), read}
}

// Claim returns the contents; see Int.Claim. Objects in them are stubs, of the innermost scope.
func (g Got[V]) Claim() (V, error) { return g.ClaimContext(context.Background()) }

// ClaimContext is Claim with a context: its end ends the session.
func (g Got[V]) ClaimContext(ctx context.Context) (V, error) {
	var none V
	value, err := expect(g.Ref, ctx, tagCompound)
	if err != nil {
		return none, err
	}
	s := g.Session()
	r := newReader(s, []Value{value})
	contents := g.read(r)
	if !r.isWhole() {
		return none, s.mistyped()
	}
	return contents, nil
}

// Maybe is a value or its absence.
type Maybe[V any] struct {
	// Value is the value, if there is one.
	Value V
	// OK is true if there is a value.
	OK bool
}

// Some returns a value that is there.
func Some[V any](value V) Maybe[V] { return Maybe[V]{value, true} }

// None returns the absence of a value.
func None[V any]() Maybe[V] { return Maybe[V]{} }

// Pair is an entry of a map.
type Pair[K, V any] struct {
	Key   K
	Value V
}

// Reader reads contents, for generated code. A part of another type than expected is noted, and the
// values behind it are zero.
type Reader struct {
	session *Session
	levels  []level
	isBad   bool
}

// level is a compound that is being read.
type level struct {
	items []Value
	next  int
}

func newReader(s *Session, items []Value) *Reader {
	return &Reader{session: s, levels: []level{{items, 0}}}
}

// isWhole returns true if all parts were read, and had their types.
func (r *Reader) isWhole() bool {
	return !r.isBad && len(r.levels) == 1 && r.levels[0].next == len(r.levels[0].items)
}

// Fail notes a part that no value of its type has.
func (r *Reader) Fail() { r.isBad = true }

// take returns the next part; nil if there is none.
func (r *Reader) take() Value {
	inner := &r.levels[len(r.levels)-1]
	if inner.next >= len(inner.items) {
		r.isBad = true
		return NilValue()
	}
	inner.next++
	return inner.items[inner.next-1]
}

func (r *Reader) expect(tag byte) Value {
	value := r.take()
	if value.tag != tag {
		r.isBad = true
	}
	return value
}

// Open begins a compound, and returns the number of its items.
func (r *Reader) Open() int {
	value := r.expect(tagCompound)
	var items []Value
	if value.tag == tagCompound {
		items = value.items()
	}
	r.levels = append(r.levels, level{items, 0})
	return len(items)
}

// Close ends a compound. Items that were not read are wrong.
func (r *Reader) Close() {
	last := len(r.levels) - 1
	if r.levels[last].next != len(r.levels[last].items) {
		r.isBad = true
	}
	r.levels = r.levels[:last]
}

// Nil reads nil.
func (r *Reader) Nil() { r.expect(tagNil) }

// Bool reads a bool.
func (r *Reader) Bool() bool { return r.expect(tagBool).word == 1 }

// Int reads an int.
func (r *Reader) Int() int64 { return int64(r.expect(tagInt).word) }

// Real reads a real.
func (r *Reader) Real() float64 {
	real, _ := r.expect(tagReal).Real()
	return real
}

// Char reads a char.
func (r *Reader) Char() rune { return rune(r.expect(tagChar).word) }

// Str reads a string.
func (r *Reader) Str() string { return r.expect(tagString).text }

// Bytes reads a byte string.
func (r *Reader) Bytes() []byte { return []byte(r.expect(tagBytes).text) }

// Value reads a value of any type.
func (r *Reader) Value() Value { return r.take() }

// Object reads an object, which has a stub of its own.
func (r *Reader) Object() Ref {
	value := r.take()
	if !value.IsObject() {
		r.isBad = true
		return Ref{}
	}
	return r.session.core.knownRef(value)
}

// Any reads an object or a value as a stub.
func (r *Reader) Any() Ref { return r.session.core.knownRef(r.take()) }

// ReadNil reads nil.
func ReadNil(r *Reader) struct{} {
	r.Nil()
	return struct{}{}
}

// ReadAny reads an object or a value as a stub.
func ReadAny(r *Reader) Any { return Any{r.Any()} }

// PutNil appends nil.
func PutNil(c *Call, _ struct{}) { c.Nil() }

// ReadSlice reads the items of a sequence.
func ReadSlice[V any](r *Reader, read func(*Reader) V) []V {
	items := make([]V, r.Open())
	for index := range items {
		items[index] = read(r)
	}
	r.Close()
	return items
}

// ReadPairs reads the entries of a map.
func ReadPairs[K, V any](r *Reader, key func(*Reader) K, value func(*Reader) V) []Pair[K, V] {
	count := r.Open()
	if count%2 != 0 {
		r.Fail()
	}
	pairs := make([]Pair[K, V], count/2)
	for index := range pairs {
		pairs[index].Key = key(r)
		pairs[index].Value = value(r)
	}
	r.Close()
	return pairs
}

// ReadMaybe reads a value or its absence.
func ReadMaybe[V any](r *Reader, read func(*Reader) V) Maybe[V] {
	var value Maybe[V]
	r.Open()
	switch r.Int() {
	case 0:
		r.Nil()
	case 1:
		value = Some(read(r))
	default:
		r.Fail()
	}
	r.Close()
	return value
}

// PutSlice appends the items of a sequence.
func PutSlice[V any](c *Call, items []V, put func(*Call, V)) {
	c.Open(len(items))
	for _, item := range items {
		put(c, item)
	}
	c.Close()
}

// PutMaybe appends a value or its absence.
func PutMaybe[V any](c *Call, value Maybe[V], put func(*Call, V)) {
	c.Open(2)
	if value.OK {
		c.Int(1)
		put(c, value.Value)
	} else {
		c.Int(0)
		c.Nil()
	}
	c.Close()
}
