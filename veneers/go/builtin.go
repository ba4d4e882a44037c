package veneer

// Any is the stub of an object of any type, or of a value.
type Any struct{ Ref }

// BifrostType returns the type in Theta.
func (Any) BifrostType() *Type { return anyType }

// As returns an object as one of another type; it signals wrong_type if it has not that type.
func As[T Typed](object Object) T {
	made, source := seen[T](object, (*recorder).cast)
	return bind[T](object.ref().Session().core.newRef(made, source))
}

// Is returns the test if an object has a type.
func Is[T Typed](object Object) Bool {
	made, source := seen[T](object, (*recorder).testType)
	return Bool{object.ref().Session().core.newRef(made, source)}
}

// seen records a command with an object and a type.
func seen[T Typed](
	object Object, command func(*recorder, Failure, *slot, uint32, string, uintptr) recorded,
) (recorded, uintptr) {
	stub, of := object.ref(), typeOf[T]()
	s := stub.Session()
	source := s.place()
	admitted := s.admit()
	numbers, wrong := of.in(s.core.numbers.stubs)
	switch {
	case admitted != nil:
	case !stub.isCurrent():
		admitted = misused(MisuseReleased)
	case wrong != nil:
		admitted = wrong
	}
	return command(s.core, admitted, stub.slot, numbers.number, of.name, source), source
}

// Lookup looks up a well-known object, for generated code. It is refused inside a structure.
func Lookup[T Typed](s *Session, name string) T {
	of := typeOf[T]()
	source := s.place()
	admitted := s.admit()
	if _, wrong := TextValue(name).operand(); admitted == nil {
		admitted = wrong
	}
	stubs := of.stubs
	numbers, _ := of.in(s.core.numbers.stubs)
	if of.basic > 0 {
		stubs = s.core.numbers.stubs
	}
	call := s.core.lookup(admitted, stubs, name, numbers.number, of.name, source)
	return bind[T](s.core.newRef(call, source))
}

// Directory is a directory of objects by their names.
type Directory struct{ Ref }

// BifrostType returns the type in Theta.
func (Directory) BifrostType() *Type { return directoryType }

// builtinMethod returns the number of a method of a built-in type.
func (r Ref) builtinMethod(of *Type, name string) uint32 {
	own := r.recorder().numbers.stubs.own
	number, isThere := own.methodNumbers[methodName{r.recorder().numbers.stubs.basic[of.basic-1].number, name}]
	if !isThere {
		return noNumber
	}
	return number
}

func (d Directory) method(name string, count int) *Call {
	return BeginCall(d.Ref, d.builtinMethod(directoryType, name), count)
}

// Lookup returns the object of a name; it signals not_found.
func (d Directory) Lookup(name string) Any {
	c := d.method("lookup", 1)
	c.Str(name)
	return Any{c.Result()}
}

// LookupP is Lookup with a promise.
func (d Directory) LookupP(name Str) Any {
	c := d.method("lookup", 1)
	c.Ref(name.Ref)
	return Any{c.Result()}
}

// Insert gives an object a name.
func (d Directory) Insert(name string, object Object) Done {
	c := d.method("insert", 2)
	c.Str(name)
	c.Object(object)
	return c.Done()
}

// Remove removes a name; it signals not_found.
func (d Directory) Remove(name string) Done {
	c := d.method("remove", 1)
	c.Str(name)
	return c.Done()
}

// Names returns the iterator of all names.
func (d Directory) Names() Iter[Str] {
	return IterOf[Str](d.Ref, d.builtinMethod(directoryType, "names"), 0, func(*Call) {})
}

// List returns the iterator of all names, each with the name of its object's type.
func (d Directory) List() Iter2[Str, Str] {
	return Iter2Of[Str, Str](d.Ref, d.builtinMethod(directoryType, "list"), 0, func(*Call) {})
}

// Equal returns true if both are the same directory.
func (d Directory) Equal(other Directory) Bool {
	c := d.method("equal", 1)
	c.Ref(other.Ref)
	return Bool{c.Result()}
}

func (x Bytes) method(name string, count int) *Call {
	return BeginCall(x.Ref, x.builtinMethod(bytesType, name), count)
}

// Length returns the number of bytes.
func (x Bytes) Length() Int { return Int{x.method("length", 0).Result()} }

// Fetch returns the byte at a place, from 1; it signals bounds.
func (x Bytes) Fetch(at int64) Int {
	c := x.method("fetch", 1)
	c.Int(at)
	return Int{c.Result()}
}

// Concat appends bytes.
func (x Bytes) Concat(other []byte) Bytes {
	c := x.method("concat", 1)
	c.Bytes(other)
	return Bytes{c.Result()}
}

// ConcatP is Concat with a promise.
func (x Bytes) ConcatP(other Bytes) Bytes {
	c := x.method("concat", 1)
	c.Ref(other.Ref)
	return Bytes{c.Result()}
}

// Slice returns so many bytes from a place on; it signals bounds.
func (x Bytes) Slice(at, count int64) Bytes {
	c := x.method("slice", 2)
	c.Int(at)
	c.Int(count)
	return Bytes{c.Result()}
}

// ToStr returns the text that the bytes are in UTF-8; it signals bad_format.
func (x Bytes) ToStr() Str { return Str{x.method("to_string", 0).Result()} }

// Eq returns true if the bytes are equal.
func (x Bytes) Eq(other []byte) Bool {
	c := x.method("equal", 1)
	c.Bytes(other)
	return Bool{c.Result()}
}

// EqP is Eq with a promise.
func (x Bytes) EqP(other Bytes) Bool {
	c := x.method("equal", 1)
	c.Ref(other.Ref)
	return Bool{c.Result()}
}

// Unparse returns the bytes as text.
func (x Bytes) Unparse() Str { return Str{x.method("unparse", 0).Result()} }
