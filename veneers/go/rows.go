package veneer

import "context"

// This file has tables: rows that loops at the server append, and that come back together.
//
//	table := bf.NewRows2(s, bf.Strs, bf.Ints)
//	for user := range db.Users().Each() {
//		table.Emit(user.Name(), user.Visits())
//	}
//	rows, err := table.Claim() // one crossing, whatever their number

// Column is a column of a table: the type of its stubs, and the type of its claimed values.
type Column[T Typed, V any] struct{ read func(*Reader) V }

// Columns of basic types.
var (
	Ints      = Column[Int, int64]{(*Reader).Int}
	Reals     = Column[Real, float64]{(*Reader).Real}
	Bools     = Column[Bool, bool]{(*Reader).Bool}
	Chars     = Column[Char, rune]{(*Reader).Char}
	Strs      = Column[Str, string]{(*Reader).Str}
	ByteTexts = Column[Bytes, []byte]{(*Reader).Bytes}
)

// Objects returns a column of objects, which are stubs when they are claimed.
func Objects[T Typed]() Column[T, T] {
	return Column[T, T]{func(r *Reader) T { return bind[T](r.Object()) }}
}

// Valued returns a column of values with items, by the function that reads them, for generated code:
// QueryRefColumn.
func Valued[T Typed, V any](read func(*Reader) V) Column[T, V] { return Column[T, V]{read} }

// newTable records the making of a table.
func (s *Session) newTable(types ...*Type) Ref {
	source := s.place()
	admitted := s.admit()
	columns := make([]columnType, len(types))
	for index, of := range types {
		numbers, wrong := of.in(s.core.numbers.stubs)
		if admitted == nil {
			admitted = wrong
		}
		columns[index] = columnType{numbers.number, of.name}
	}
	return s.core.newRef(s.core.rows(admitted, columns, source), source)
}

// emit begins a row.
func (r Ref) emit(count int) *Call {
	core := r.recorder()
	source := core.session.place()
	c := core.begin(makerEmit, source)
	c.failure = core.session.admit()
	var reference int64
	switch {
	case c.failure != nil:
	case !r.isCurrent():
		c.failure = misused(MisuseReleased)
	case r.slot.state != slotFuture && r.slot.state != slotFailed:
		c.failure = misused(MisuseEndedTable)
	default:
		reference, c.failure = core.reference(r.slot, source)
	}
	if c.failure == nil {
		c.head(head(opEmit, 0, 0), count, true, reference)
	}
	return c
}

// rows claims a table, and calls a function for each of its rows.
func (r Ref) rows(ctx context.Context, columns int, row func(*Reader)) error {
	value, err := expect(r, ctx, tagRows)
	if err != nil {
		return err
	}
	s, came := r.Session(), value.rows
	if len(came.columns) != columns {
		return asError(s.mistyped())
	}
	reader := newReader(s, came.cells)
	for range came.count {
		row(reader)
	}
	if !reader.isWhole() {
		return asError(s.mistyped())
	}
	return nil
}

// Table is a table with any number of columns. Rows1 and its like have typed rows.
type Table struct {
	Ref
	columns int
}

// NewTable makes an empty table with columns of the types of some stubs: NewTable(s, bf.Int{}).
// It is refused inside a structure.
func NewTable(s *Session, columns ...interface{ BifrostType() *Type }) Table {
	types := make([]*Type, len(columns))
	for index, column := range columns {
		types[index] = column.BifrostType()
	}
	return Table{s.newTable(types...), len(types)}
}

// Emit appends a row. In structures and procedures it is appended whenever they come to it. A row of
// another number of cells than the table has is refused by the server.
func (t Table) Emit(cells ...Object) {
	c := t.emit(len(cells))
	for _, cell := range cells {
		c.Object(cell)
	}
	c.Sent()
}

// Claim returns the rows. Their cells are stubs whose results are known.
func (t Table) Claim() ([][]Any, error) {
	rows := [][]Any{}
	err := t.rows(context.Background(), t.columns, func(r *Reader) {
		row := make([]Any, t.columns)
		for index := range row {
			row[index] = Any{r.Any()}
		}
		rows = append(rows, row)
	})
	return rows, err
}

// Rows1 is a table with one column.
type Rows1[A Typed, VA any] struct {
	Ref
	a Column[A, VA]
}

// NewRows1 makes an empty table with one column. It is refused inside a structure.
func NewRows1[A Typed, VA any](
	s *Session, a Column[A, VA],
) Rows1[A, VA] {
	table := s.newTable(typeOf[A]())
	return Rows1[A, VA]{table, a}
}

// Emit appends a row. In structures and procedures it is appended whenever they come to it.
func (t Rows1[A, VA]) Emit(a A) {
	call := t.emit(1)
	call.Ref(refOf(a))
	call.Sent()
}

// Claim returns the rows; see Int.Claim. Objects in them are stubs.
func (t Rows1[A, VA]) Claim() ([]VA, error) { return t.ClaimContext(context.Background()) }

// ClaimContext is Claim with a context: its end ends the session.
func (t Rows1[A, VA]) ClaimContext(ctx context.Context) ([]VA, error) {
	rows := []VA{}
	err := t.rows(ctx, 1, func(r *Reader) {
		rows = append(rows, t.a.read(r))
	})
	return rows, err
}

// Row2 is a row of a table with two columns.
type Row2[VA, VB any] struct {
	A VA
	B VB
}

// Rows2 is a table with two columns.
type Rows2[A Typed, VA any, B Typed, VB any] struct {
	Ref
	a Column[A, VA]
	b Column[B, VB]
}

// NewRows2 makes an empty table with two columns. It is refused inside a structure.
func NewRows2[A Typed, VA any, B Typed, VB any](
	s *Session, a Column[A, VA], b Column[B, VB],
) Rows2[A, VA, B, VB] {
	table := s.newTable(typeOf[A](), typeOf[B]())
	return Rows2[A, VA, B, VB]{table, a, b}
}

// Emit appends a row. In structures and procedures it is appended whenever they come to it.
func (t Rows2[A, VA, B, VB]) Emit(a A, b B) {
	call := t.emit(2)
	call.Ref(refOf(a))
	call.Ref(refOf(b))
	call.Sent()
}

// Claim returns the rows; see Int.Claim. Objects in them are stubs.
func (t Rows2[A, VA, B, VB]) Claim() ([]Row2[VA, VB], error) {
	return t.ClaimContext(context.Background())
}

// ClaimContext is Claim with a context: its end ends the session.
func (t Rows2[A, VA, B, VB]) ClaimContext(ctx context.Context) ([]Row2[VA, VB], error) {
	rows := []Row2[VA, VB]{}
	err := t.rows(ctx, 2, func(r *Reader) {
		var row Row2[VA, VB]
		row.A = t.a.read(r)
		row.B = t.b.read(r)
		rows = append(rows, row)
	})
	return rows, err
}

// Row3 is a row of a table with three columns.
type Row3[VA, VB, VC any] struct {
	A VA
	B VB
	C VC
}

// Rows3 is a table with three columns.
type Rows3[A Typed, VA any, B Typed, VB any, C Typed, VC any] struct {
	Ref
	a Column[A, VA]
	b Column[B, VB]
	c Column[C, VC]
}

// NewRows3 makes an empty table with three columns. It is refused inside a structure.
func NewRows3[A Typed, VA any, B Typed, VB any, C Typed, VC any](
	s *Session, a Column[A, VA], b Column[B, VB], c Column[C, VC],
) Rows3[A, VA, B, VB, C, VC] {
	table := s.newTable(typeOf[A](), typeOf[B](), typeOf[C]())
	return Rows3[A, VA, B, VB, C, VC]{table, a, b, c}
}

// Emit appends a row. In structures and procedures it is appended whenever they come to it.
func (t Rows3[A, VA, B, VB, C, VC]) Emit(a A, b B, c C) {
	call := t.emit(3)
	call.Ref(refOf(a))
	call.Ref(refOf(b))
	call.Ref(refOf(c))
	call.Sent()
}

// Claim returns the rows; see Int.Claim. Objects in them are stubs.
func (t Rows3[A, VA, B, VB, C, VC]) Claim() ([]Row3[VA, VB, VC], error) {
	return t.ClaimContext(context.Background())
}

// ClaimContext is Claim with a context: its end ends the session.
func (t Rows3[A, VA, B, VB, C, VC]) ClaimContext(ctx context.Context) ([]Row3[VA, VB, VC], error) {
	rows := []Row3[VA, VB, VC]{}
	err := t.rows(ctx, 3, func(r *Reader) {
		var row Row3[VA, VB, VC]
		row.A = t.a.read(r)
		row.B = t.b.read(r)
		row.C = t.c.read(r)
		rows = append(rows, row)
	})
	return rows, err
}

// Row4 is a row of a table with four columns.
type Row4[VA, VB, VC, VD any] struct {
	A VA
	B VB
	C VC
	D VD
}

// Rows4 is a table with four columns.
type Rows4[A Typed, VA any, B Typed, VB any, C Typed, VC any, D Typed, VD any] struct {
	Ref
	a Column[A, VA]
	b Column[B, VB]
	c Column[C, VC]
	d Column[D, VD]
}

// NewRows4 makes an empty table with four columns. It is refused inside a structure.
func NewRows4[A Typed, VA any, B Typed, VB any, C Typed, VC any, D Typed, VD any](
	s *Session, a Column[A, VA], b Column[B, VB], c Column[C, VC], d Column[D, VD],
) Rows4[A, VA, B, VB, C, VC, D, VD] {
	table := s.newTable(typeOf[A](), typeOf[B](), typeOf[C](), typeOf[D]())
	return Rows4[A, VA, B, VB, C, VC, D, VD]{table, a, b, c, d}
}

// Emit appends a row. In structures and procedures it is appended whenever they come to it.
func (t Rows4[A, VA, B, VB, C, VC, D, VD]) Emit(a A, b B, c C, d D) {
	call := t.emit(4)
	call.Ref(refOf(a))
	call.Ref(refOf(b))
	call.Ref(refOf(c))
	call.Ref(refOf(d))
	call.Sent()
}

// Claim returns the rows; see Int.Claim. Objects in them are stubs.
func (t Rows4[A, VA, B, VB, C, VC, D, VD]) Claim() ([]Row4[VA, VB, VC, VD], error) {
	return t.ClaimContext(context.Background())
}

// ClaimContext is Claim with a context: its end ends the session.
func (t Rows4[A, VA, B, VB, C, VC, D, VD]) ClaimContext(ctx context.Context) ([]Row4[VA, VB, VC, VD], error) {
	rows := []Row4[VA, VB, VC, VD]{}
	err := t.rows(ctx, 4, func(r *Reader) {
		var row Row4[VA, VB, VC, VD]
		row.A = t.a.read(r)
		row.B = t.b.read(r)
		row.C = t.c.read(r)
		row.D = t.d.read(r)
		rows = append(rows, row)
	})
	return rows, err
}
