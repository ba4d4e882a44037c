package veneer

// This file has the operators of promises. A method whose name ends in P takes a promise, the other
// one a value of Go. Each is a call at the server.

// operate begins the call of the method behind an operator.
func (r Ref) operate(operator, count int) *Call {
	numbers := r.recorder().numbers.stubs.operators
	return beginMethod(opCall, r, numbers[operator], count)
}

// Add adds; it signals overflow.
func (x Int) Add(y int64) Int {
	c := x.operate(operatorIntAdd, 1)
	c.Int(y)
	return Int{c.Result()}
}

// AddP is Add with a promise.
func (x Int) AddP(y Int) Int {
	c := x.operate(operatorIntAdd, 1)
	c.Ref(y.Ref)
	return Int{c.Result()}
}

// Sub subtracts; it signals overflow.
func (x Int) Sub(y int64) Int {
	c := x.operate(operatorIntSub, 1)
	c.Int(y)
	return Int{c.Result()}
}

// SubP is Sub with a promise.
func (x Int) SubP(y Int) Int {
	c := x.operate(operatorIntSub, 1)
	c.Ref(y.Ref)
	return Int{c.Result()}
}

// Mul multiplies; it signals overflow.
func (x Int) Mul(y int64) Int {
	c := x.operate(operatorIntMul, 1)
	c.Int(y)
	return Int{c.Result()}
}

// MulP is Mul with a promise.
func (x Int) MulP(y Int) Int {
	c := x.operate(operatorIntMul, 1)
	c.Ref(y.Ref)
	return Int{c.Result()}
}

// Div divides; it signals zero and overflow.
func (x Int) Div(y int64) Int {
	c := x.operate(operatorIntDiv, 1)
	c.Int(y)
	return Int{c.Result()}
}

// DivP is Div with a promise.
func (x Int) DivP(y Int) Int {
	c := x.operate(operatorIntDiv, 1)
	c.Ref(y.Ref)
	return Int{c.Result()}
}

// Mod returns the remainder; it signals zero.
func (x Int) Mod(y int64) Int {
	c := x.operate(operatorIntMod, 1)
	c.Int(y)
	return Int{c.Result()}
}

// ModP is Mod with a promise.
func (x Int) ModP(y Int) Int {
	c := x.operate(operatorIntMod, 1)
	c.Ref(y.Ref)
	return Int{c.Result()}
}

// Neg negates; it signals overflow.
func (x Int) Neg() Int { return Int{x.operate(operatorIntNegate, 0).Result()} }

// Lt returns true if the value is less.
func (x Int) Lt(y int64) Bool {
	c := x.operate(operatorIntLt, 1)
	c.Int(y)
	return Bool{c.Result()}
}

// LtP is Lt with a promise.
func (x Int) LtP(y Int) Bool {
	c := x.operate(operatorIntLt, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Le returns true if the value is less or equal.
func (x Int) Le(y int64) Bool {
	c := x.operate(operatorIntLe, 1)
	c.Int(y)
	return Bool{c.Result()}
}

// LeP is Le with a promise.
func (x Int) LeP(y Int) Bool {
	c := x.operate(operatorIntLe, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Gt returns true if the value is greater.
func (x Int) Gt(y int64) Bool {
	c := x.operate(operatorIntGt, 1)
	c.Int(y)
	return Bool{c.Result()}
}

// GtP is Gt with a promise.
func (x Int) GtP(y Int) Bool {
	c := x.operate(operatorIntGt, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Ge returns true if the value is greater or equal.
func (x Int) Ge(y int64) Bool {
	c := x.operate(operatorIntGe, 1)
	c.Int(y)
	return Bool{c.Result()}
}

// GeP is Ge with a promise.
func (x Int) GeP(y Int) Bool {
	c := x.operate(operatorIntGe, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Eq returns true if the values are equal.
func (x Int) Eq(y int64) Bool {
	c := x.operate(operatorIntEqual, 1)
	c.Int(y)
	return Bool{c.Result()}
}

// EqP is Eq with a promise.
func (x Int) EqP(y Int) Bool {
	c := x.operate(operatorIntEqual, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Ne returns true if the values differ.
func (x Int) Ne(y int64) Bool { return x.Eq(y).Not() }

// NeP is Ne with a promise.
func (x Int) NeP(y Int) Bool { return x.EqP(y).Not() }

// Unparse returns the value as text.
func (x Int) Unparse() Str { return Str{x.operate(operatorIntUnparse, 0).Result()} }

// Add adds.
func (x Real) Add(y float64) Real {
	c := x.operate(operatorRealAdd, 1)
	c.Real(y)
	return Real{c.Result()}
}

// AddP is Add with a promise.
func (x Real) AddP(y Real) Real {
	c := x.operate(operatorRealAdd, 1)
	c.Ref(y.Ref)
	return Real{c.Result()}
}

// Sub subtracts.
func (x Real) Sub(y float64) Real {
	c := x.operate(operatorRealSub, 1)
	c.Real(y)
	return Real{c.Result()}
}

// SubP is Sub with a promise.
func (x Real) SubP(y Real) Real {
	c := x.operate(operatorRealSub, 1)
	c.Ref(y.Ref)
	return Real{c.Result()}
}

// Mul multiplies.
func (x Real) Mul(y float64) Real {
	c := x.operate(operatorRealMul, 1)
	c.Real(y)
	return Real{c.Result()}
}

// MulP is Mul with a promise.
func (x Real) MulP(y Real) Real {
	c := x.operate(operatorRealMul, 1)
	c.Ref(y.Ref)
	return Real{c.Result()}
}

// Div divides.
func (x Real) Div(y float64) Real {
	c := x.operate(operatorRealDiv, 1)
	c.Real(y)
	return Real{c.Result()}
}

// DivP is Div with a promise.
func (x Real) DivP(y Real) Real {
	c := x.operate(operatorRealDiv, 1)
	c.Ref(y.Ref)
	return Real{c.Result()}
}

// Neg negates.
func (x Real) Neg() Real { return Real{x.operate(operatorRealNegate, 0).Result()} }

// Lt returns true if the value is less.
func (x Real) Lt(y float64) Bool {
	c := x.operate(operatorRealLt, 1)
	c.Real(y)
	return Bool{c.Result()}
}

// LtP is Lt with a promise.
func (x Real) LtP(y Real) Bool {
	c := x.operate(operatorRealLt, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Le returns true if the value is less or equal.
func (x Real) Le(y float64) Bool {
	c := x.operate(operatorRealLe, 1)
	c.Real(y)
	return Bool{c.Result()}
}

// LeP is Le with a promise.
func (x Real) LeP(y Real) Bool {
	c := x.operate(operatorRealLe, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Gt returns true if the value is greater.
func (x Real) Gt(y float64) Bool {
	c := x.operate(operatorRealGt, 1)
	c.Real(y)
	return Bool{c.Result()}
}

// GtP is Gt with a promise.
func (x Real) GtP(y Real) Bool {
	c := x.operate(operatorRealGt, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Ge returns true if the value is greater or equal.
func (x Real) Ge(y float64) Bool {
	c := x.operate(operatorRealGe, 1)
	c.Real(y)
	return Bool{c.Result()}
}

// GeP is Ge with a promise.
func (x Real) GeP(y Real) Bool {
	c := x.operate(operatorRealGe, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Eq returns true if the values are equal.
func (x Real) Eq(y float64) Bool {
	c := x.operate(operatorRealEqual, 1)
	c.Real(y)
	return Bool{c.Result()}
}

// EqP is Eq with a promise.
func (x Real) EqP(y Real) Bool {
	c := x.operate(operatorRealEqual, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Ne returns true if the values differ.
func (x Real) Ne(y float64) Bool { return x.Eq(y).Not() }

// NeP is Ne with a promise.
func (x Real) NeP(y Real) Bool { return x.EqP(y).Not() }

// Unparse returns the value as text.
func (x Real) Unparse() Str { return Str{x.operate(operatorRealUnparse, 0).Result()} }

// ToReal returns the value as a real.
func (x Int) ToReal() Real { return Real{x.operate(operatorIntToReal, 0).Result()} }

// Eq returns true if the values are equal.
func (x Bool) Eq(y bool) Bool {
	c := x.operate(operatorBoolEqual, 1)
	c.Bool(y)
	return Bool{c.Result()}
}

// EqP is Eq with a promise.
func (x Bool) EqP(y Bool) Bool {
	c := x.operate(operatorBoolEqual, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Ne returns true if the values differ.
func (x Bool) Ne(y bool) Bool { return x.Eq(y).Not() }

// NeP is Ne with a promise.
func (x Bool) NeP(y Bool) Bool { return x.EqP(y).Not() }

// Not returns the negation.
func (x Bool) Not() Bool { return Bool{x.operate(operatorBoolNot, 0).Result()} }

// Eq returns true if the values are equal.
func (x Char) Eq(y rune) Bool {
	c := x.operate(operatorCharEqual, 1)
	c.Char(y)
	return Bool{c.Result()}
}

// EqP is Eq with a promise.
func (x Char) EqP(y Char) Bool {
	c := x.operate(operatorCharEqual, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Ne returns true if the values differ.
func (x Char) Ne(y rune) Bool { return x.Eq(y).Not() }

// NeP is Ne with a promise.
func (x Char) NeP(y Char) Bool { return x.EqP(y).Not() }

// Length returns the number of characters.
func (x Str) Length() Int { return Int{x.operate(operatorStringLength, 0).Result()} }

// Concat appends a text.
func (x Str) Concat(y string) Str {
	c := x.operate(operatorStringConcat, 1)
	c.Str(y)
	return Str{c.Result()}
}

// ConcatP is Concat with a promise.
func (x Str) ConcatP(y Str) Str {
	c := x.operate(operatorStringConcat, 1)
	c.Ref(y.Ref)
	return Str{c.Result()}
}

// Lt returns true if the text is less.
func (x Str) Lt(y string) Bool {
	c := x.operate(operatorStringLt, 1)
	c.Str(y)
	return Bool{c.Result()}
}

// LtP is Lt with a promise.
func (x Str) LtP(y Str) Bool {
	c := x.operate(operatorStringLt, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Le returns true if the text is less or equal.
func (x Str) Le(y string) Bool {
	c := x.operate(operatorStringLe, 1)
	c.Str(y)
	return Bool{c.Result()}
}

// LeP is Le with a promise.
func (x Str) LeP(y Str) Bool {
	c := x.operate(operatorStringLe, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Gt returns true if the text is greater.
func (x Str) Gt(y string) Bool {
	c := x.operate(operatorStringGt, 1)
	c.Str(y)
	return Bool{c.Result()}
}

// GtP is Gt with a promise.
func (x Str) GtP(y Str) Bool {
	c := x.operate(operatorStringGt, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Ge returns true if the text is greater or equal.
func (x Str) Ge(y string) Bool {
	c := x.operate(operatorStringGe, 1)
	c.Str(y)
	return Bool{c.Result()}
}

// GeP is Ge with a promise.
func (x Str) GeP(y Str) Bool {
	c := x.operate(operatorStringGe, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Eq returns true if the texts are equal.
func (x Str) Eq(y string) Bool {
	c := x.operate(operatorStringEqual, 1)
	c.Str(y)
	return Bool{c.Result()}
}

// EqP is Eq with a promise.
func (x Str) EqP(y Str) Bool {
	c := x.operate(operatorStringEqual, 1)
	c.Ref(y.Ref)
	return Bool{c.Result()}
}

// Ne returns true if the values differ.
func (x Str) Ne(y string) Bool { return x.Eq(y).Not() }

// NeP is Ne with a promise.
func (x Str) NeP(y Str) Bool { return x.EqP(y).Not() }

// And returns true if both hold. The other condition is computed at the server, and only if this
// one holds.
func (x Bool) And(other func() Bool) Bool { return x.decide(x, other) }

// Or returns true if one of both holds. The other condition is computed at the server, and only if
// this one does not hold.
func (x Bool) Or(other func() Bool) Bool { return x.decide(x.Not(), other) }

// decide computes another condition if a test holds; else the result is this one.
func (x Bool) decide(test Bool, other func() Bool) Bool {
	s := x.Session()
	result := NewCell[Bool](s)
	result.Put(x)
	s.If(test, func() { result.Put(other()) })
	return result.Get()
}

// To returns the iterator of the ints from this one to a limit.
func (x Int) To(limit int64) Iter[Int] { return x.ToP(x.Session().Int(limit)) }

// ToP is To with a promise.
func (x Int) ToP(limit Int) Iter[Int] {
	return IterOf[Int](x.Ref, x.numberOf(operatorIntTo), 1, func(c *Call) { c.Ref(limit.Ref) })
}

// ToBy returns the iterator of the ints from this one to a limit, in steps.
func (x Int) ToBy(limit, step int64) Iter[Int] {
	s := x.Session()
	return x.ToByP(s.Int(limit), s.Int(step))
}

// ToByP is ToBy with promises.
func (x Int) ToByP(limit, step Int) Iter[Int] {
	return IterOf[Int](x.Ref, x.numberOf(operatorIntToBy), 2, func(c *Call) {
		c.Ref(limit.Ref)
		c.Ref(step.Ref)
	})
}

// numberOf returns the number of the method behind an operator.
func (r Ref) numberOf(operator int) uint32 {
	return r.recorder().numbers.stubs.operators[operator]
}
