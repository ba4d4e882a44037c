package veneer

// Cell is an object that stores a stub's value or object: a variable of loops at the server. IntCell
// and its like are cells of values, whose Put takes a value of Go.
type Cell[T Typed] struct{ Ref }

// NewCell makes an empty cell.
func NewCell[T Typed](s *Session) Cell[T] { return Cell[T]{s.newCell(typeOf[T]())} }

// CellOf makes a cell with its first content.
func CellOf[T Typed](first T) Cell[T] {
	cell := NewCell[T](refOf(first).Session())
	cell.Put(first)
	return cell
}

// BifrostType returns the type in Theta.
func (c Cell[T]) BifrostType() *Type { return cellType(typeOf[T]()) }

// Put stores a value or an object.
func (c Cell[T]) Put(value T) Done { return c.put(typeOf[T](), refOf(value)) }

// Get returns the content; it signals not_possible if the cell is empty.
func (c Cell[T]) Get() T { return bind[T](c.get(typeOf[T]())) }

// Full returns true if the cell has a content.
func (c Cell[T]) Full() Bool { return c.full(typeOf[T]()) }

// newCell records the making of a cell.
func (s *Session) newCell(of *Type) Ref {
	source := s.place()
	admitted := s.admit()
	numbers, wrong := of.in(s.core.numbers.stubs)
	if admitted == nil {
		admitted = wrong
	}
	return s.core.newRef(s.core.cell(admitted, numbers.number, of.name, source), source)
}

// cellType returns the type of the cells of a type, which has no cells itself.
func cellType(of *Type) *Type {
	const none = noNumber
	return &Type{"cell[" + of.name + "]", typeNumbers{of.numbers.cell, none, none, none, none}, of.stubs, 0}
}

// beginCell begins the call of a method of a cell.
func (r Ref) beginCell(of *Type, method func(typeNumbers) uint32, count int) *Call {
	numbers, wrong := of.in(r.recorder().numbers.stubs)
	number := uint32(noNumber)
	if wrong == nil {
		number = method(numbers)
	}
	return beginMethod(opCall, r, number, count)
}

func putOf(n typeNumbers) uint32  { return n.put }
func getOf(n typeNumbers) uint32  { return n.get }
func fullOf(n typeNumbers) uint32 { return n.full }

func (r Ref) put(of *Type, value Ref) Done {
	c := r.beginCell(of, putOf, 1)
	c.Ref(value)
	return c.Done()
}

func (r Ref) get(of *Type) Ref { return r.beginCell(of, getOf, 0).Result() }

func (r Ref) full(of *Type) Bool { return Bool{r.beginCell(of, fullOf, 0).Result()} }

// IntCell is a cell of an int.
type IntCell struct{ Ref }

// NewIntCell makes a cell with its first value.
func NewIntCell(s *Session, first int64) IntCell {
	cell := IntCell{s.newCell(intType)}
	cell.Put(first)
	return cell
}

// EmptyIntCell makes an empty cell.
func EmptyIntCell(s *Session) IntCell { return IntCell{s.newCell(intType)} }

// BifrostType returns the type in Theta.
func (c IntCell) BifrostType() *Type { return cellType(intType) }

// Put stores a value.
func (c IntCell) Put(value int64) Done {
	call := c.beginCell(intType, putOf, 1)
	call.Int(value)
	return call.Done()
}

// PutP stores the value of a promise.
func (c IntCell) PutP(value Int) Done { return c.put(intType, value.Ref) }

// Get returns the value; it signals not_possible if the cell is empty.
func (c IntCell) Get() Int { return Int{c.get(intType)} }

// Full returns true if the cell has a value.
func (c IntCell) Full() Bool { return c.full(intType) }

// RealCell is a cell of a real.
type RealCell struct{ Ref }

// NewRealCell makes a cell with its first value.
func NewRealCell(s *Session, first float64) RealCell {
	cell := RealCell{s.newCell(realType)}
	cell.Put(first)
	return cell
}

// EmptyRealCell makes an empty cell.
func EmptyRealCell(s *Session) RealCell { return RealCell{s.newCell(realType)} }

// BifrostType returns the type in Theta.
func (c RealCell) BifrostType() *Type { return cellType(realType) }

// Put stores a value.
func (c RealCell) Put(value float64) Done {
	call := c.beginCell(realType, putOf, 1)
	call.Real(value)
	return call.Done()
}

// PutP stores the value of a promise.
func (c RealCell) PutP(value Real) Done { return c.put(realType, value.Ref) }

// Get returns the value; it signals not_possible if the cell is empty.
func (c RealCell) Get() Real { return Real{c.get(realType)} }

// Full returns true if the cell has a value.
func (c RealCell) Full() Bool { return c.full(realType) }

// BoolCell is a cell of a bool.
type BoolCell struct{ Ref }

// NewBoolCell makes a cell with its first value.
func NewBoolCell(s *Session, first bool) BoolCell {
	cell := BoolCell{s.newCell(boolType)}
	cell.Put(first)
	return cell
}

// EmptyBoolCell makes an empty cell.
func EmptyBoolCell(s *Session) BoolCell { return BoolCell{s.newCell(boolType)} }

// BifrostType returns the type in Theta.
func (c BoolCell) BifrostType() *Type { return cellType(boolType) }

// Put stores a value.
func (c BoolCell) Put(value bool) Done {
	call := c.beginCell(boolType, putOf, 1)
	call.Bool(value)
	return call.Done()
}

// PutP stores the value of a promise.
func (c BoolCell) PutP(value Bool) Done { return c.put(boolType, value.Ref) }

// Get returns the value; it signals not_possible if the cell is empty.
func (c BoolCell) Get() Bool { return Bool{c.get(boolType)} }

// Full returns true if the cell has a value.
func (c BoolCell) Full() Bool { return c.full(boolType) }

// CharCell is a cell of a char.
type CharCell struct{ Ref }

// NewCharCell makes a cell with its first value.
func NewCharCell(s *Session, first rune) CharCell {
	cell := CharCell{s.newCell(charType)}
	cell.Put(first)
	return cell
}

// EmptyCharCell makes an empty cell.
func EmptyCharCell(s *Session) CharCell { return CharCell{s.newCell(charType)} }

// BifrostType returns the type in Theta.
func (c CharCell) BifrostType() *Type { return cellType(charType) }

// Put stores a value.
func (c CharCell) Put(value rune) Done {
	call := c.beginCell(charType, putOf, 1)
	call.Char(value)
	return call.Done()
}

// PutP stores the value of a promise.
func (c CharCell) PutP(value Char) Done { return c.put(charType, value.Ref) }

// Get returns the value; it signals not_possible if the cell is empty.
func (c CharCell) Get() Char { return Char{c.get(charType)} }

// Full returns true if the cell has a value.
func (c CharCell) Full() Bool { return c.full(charType) }

// StrCell is a cell of a string.
type StrCell struct{ Ref }

// NewStrCell makes a cell with its first value.
func NewStrCell(s *Session, first string) StrCell {
	cell := StrCell{s.newCell(strType)}
	cell.Put(first)
	return cell
}

// EmptyStrCell makes an empty cell.
func EmptyStrCell(s *Session) StrCell { return StrCell{s.newCell(strType)} }

// BifrostType returns the type in Theta.
func (c StrCell) BifrostType() *Type { return cellType(strType) }

// Put stores a value.
func (c StrCell) Put(value string) Done {
	call := c.beginCell(strType, putOf, 1)
	call.Str(value)
	return call.Done()
}

// PutP stores the value of a promise.
func (c StrCell) PutP(value Str) Done { return c.put(strType, value.Ref) }

// Get returns the value; it signals not_possible if the cell is empty.
func (c StrCell) Get() Str { return Str{c.get(strType)} }

// Full returns true if the cell has a value.
func (c StrCell) Full() Bool { return c.full(strType) }

// BytesCell is a cell of a byte string.
type BytesCell struct{ Ref }

// NewBytesCell makes a cell with its first value.
func NewBytesCell(s *Session, first []byte) BytesCell {
	cell := BytesCell{s.newCell(bytesType)}
	cell.Put(first)
	return cell
}

// EmptyBytesCell makes an empty cell.
func EmptyBytesCell(s *Session) BytesCell { return BytesCell{s.newCell(bytesType)} }

// BifrostType returns the type in Theta.
func (c BytesCell) BifrostType() *Type { return cellType(bytesType) }

// Put stores a value.
func (c BytesCell) Put(value []byte) Done {
	call := c.beginCell(bytesType, putOf, 1)
	call.Bytes(value)
	return call.Done()
}

// PutP stores the value of a promise.
func (c BytesCell) PutP(value Bytes) Done { return c.put(bytesType, value.Ref) }

// Get returns the value; it signals not_possible if the cell is empty.
func (c BytesCell) Get() Bytes { return Bytes{c.get(bytesType)} }

// Full returns true if the cell has a value.
func (c BytesCell) Full() Bool { return c.full(bytesType) }
