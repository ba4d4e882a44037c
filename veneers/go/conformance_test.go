package veneer_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	bf "bifrost.dev/veneer"
	"bifrost.dev/veneer/internal/stubs/conformance"
)

// The cases of cases/conformance.yaml through the typed layer.

func TestValuesComeBackAsTheyWent(t *testing.T) {
	s, p := probe(t)
	least, most := p.SameInt(math.MinInt64), p.SameInt(math.MaxInt64)
	tenth, zero := p.SameReal(0.1), p.SameReal(math.Copysign(0, -1))
	yes, no := p.SameBool(true), p.SameBool(false)
	euro, last := p.SameChar('€'), p.SameChar('\U0010FFFF')
	empty, odd := p.SameString(""), p.SameString("äß€🦀\x00\n\"")
	none, nine := p.SameBytes(nil), p.SameBytes([]byte("\a\a\a\a\a\a\a\a\a"))
	added := s.Bytes([]byte{1, 2}).ConcatP(nine)
	null, nothing := p.SameNull(bf.Nil{}), p.Nothing()
	want(t, least, math.MinInt64)
	want(t, most, math.MaxInt64)
	want(t, tenth, 0.1)
	if value, err := zero.Claim(); err != nil || value != 0 || !math.Signbit(value) {
		t.Errorf("found %v, %v", value, err)
	}
	want(t, yes, true)
	want(t, no, false)
	want(t, euro, '€')
	want(t, last, '\U0010FFFF')
	want(t, empty, "")
	want(t, odd, "äß€🦀\x00\n\"")
	want(t, none, []byte{})
	want(t, nine, []byte("\a\a\a\a\a\a\a\a\a"))
	want(t, added, []byte("\x01\x02\a\a\a\a\a\a\a\a\a"))
	done(t, null.Claim())
	done(t, nothing.Claim())
	crossed(t, s, 1)
	want(t, added.Length(), 11)
	crossed(t, s, 2)
}

func TestResultsOfAllShapes(t *testing.T) {
	s, p := probe(t)
	quotient, remainder := p.Divide(17, 5)
	item, length := p.ItemAndLength("grüße")
	name := item.Name().Concat("!")
	text := p.AllP(s.Bool(true), quotient.Add(1), s.Real(0.5), s.Char('ß'), name, item)
	want(t, quotient, 3)
	want(t, remainder, 2)
	want(t, length, 5)
	want(t, text, "true 4 0.5 ß grüße! grüße")
	crossed(t, s, 1)
	// A failed call fails all its results.
	none, nothing := p.Divide(1, 0)
	fails[*conformance.Zero](t, none)
	fails[*conformance.Zero](t, nothing)
	crossed(t, s, 2)
}

func TestASubtypePassesForItsSupertype(t *testing.T) {
	s, p := probe(t)
	counter := conformance.LookupCounter(s, "counter")
	before := p.NameOf(counter.AsItem())
	counter.Rename("other")
	p.AddItem(counter.AsItem())
	after := p.NameOf(counter.AsItem())
	want(t, before, "counter")
	want(t, after, "other")
	crossed(t, s, 1)
	_, err := conformance.LookupCounter(s, "probe").Value().Claim()
	refused(t, err, bf.ErrorWrongType)
}

func TestRecordsOneofsAndAnysAreStubs(t *testing.T) {
	s, p := probe(t)
	tagged := p.Tagged()
	point := tagged.Point(3, 4)
	point.SetX(5)
	labelled := tagged.Labelled(point, "here")
	name, x := labelled.ReplaceName("there").Name(), labelled.At().X()
	same := labelled.At().Equal(point)
	number, text := tagged.Answer(3), tagged.Answer(12)
	value, wrong, isText := number.ValueNumber(), number.ValueText(), text.IsText()
	sum, none := tagged.SumP(tagged.Found(2)), tagged.Sum(bf.None[conformance.Point]())
	other := tagged.Found(0).ValueOr(point).Y()
	total := bf.NewIntCell(s, 0)
	for answer := range tagged.Answers(4).Each() {
		total.PutP(total.Get().AddP(answer.ValueNumber()))
	}
	// A choice by the tag is recorded, too.
	seen := bf.EmptyStrCell(s)
	text.Match(conformance.AnswerRefCases{
		Number: func(n bf.Int) { seen.PutP(n.Unparse()) },
		Text:   func(text bf.Str) { seen.PutP(text.Concat("!")) },
	})
	shown := seen.Get()
	zero, seven := tagged.What(tagged.Thing(0)), tagged.What(tagged.Thing(7))
	twelve := tagged.What(tagged.Thing(12))
	want(t, name, "there")
	want(t, x, 5)
	want(t, same, true)
	want(t, value, 3)
	signals(t, wrong, "wrong_tag")
	want(t, isText, true)
	want(t, sum, 4)
	want(t, none, 0)
	want(t, other, 4)
	want(t, shown, "12!")
	want(t, zero, "nil")
	want(t, seven, "7")
	want(t, twelve, "{x: 12, y: 12}")
	want(t, total.Get(), 10)
	crossed(t, s, 2)
}

func TestIteratorsOfMethodsRoutinesAndValues(t *testing.T) {
	s, p := probe(t)
	out := bf.NewStrCell(s, "")
	say := func(text bf.Str) { out.PutP(out.Get().ConcatP(text).Concat(" ")) }
	for i := range p.Numbers(3).Each() {
		say(i.Unparse())
	}
	for j, text := range p.Pairs(2).Each() {
		say(j.Unparse().Concat("=").ConcatP(text))
	}
	for item := range p.Items().Each() {
		say(item.Name())
	}
	for square := range conformance.Squares(s, 3).Each() {
		say(square.Unparse())
	}
	for k := range s.Int(7).To(8).Each() {
		say(k.Unparse())
	}
	for range p.Numbers(0).Each() {
		say(s.Str("never"))
	}
	want(t, out.Get(), "1 2 3 1=1 2=2 a b c counter 1 4 9 7 8 ")
	crossed(t, s, 1)
}

func TestSignalsCarryTheirValues(t *testing.T) {
	s, p := probe(t)
	all, fine, missing := p.Choose(6), p.Choose(4), p.Item("zoë")
	everything := fails[*conformance.Everything](t, all)
	if everything.Value1 != true || everything.Value2 != 6 || everything.Value3 != 0.5 ||
		everything.Value4 != 'x' || everything.Value5 != "ß" {
		t.Errorf("found %+v", everything)
	}
	notFound := is[*conformance.NotFound](t, missing.Resolve())
	if notFound.Value1 != "zoë" || notFound.Value2 != 4 || notFound.Signal.Call.Name != "Probe.item" {
		t.Errorf("found %+v", notFound)
	}
	want(t, fine, 4)
	crossed(t, s, 1)
}

func TestSignalsCarryObjectsAndCompounds(t *testing.T) {
	s, p := probe(t)
	v, item := p.Values(), p.Item("a")
	rejected, nothing := v.Reject(item, 3), v.Reject(item, 0)
	s.Except(func() { v.Reject(item, 2) }).
		When(conformance.WhenRejected(func(who conformance.Item, n bf.Int, _ conformance.SpotRef) {
			who.RenameP(n.Unparse())
		}))
	reason := is[*conformance.Rejected](t, rejected.Claim())
	is[*conformance.Nothing](t, nothing.Claim())
	if reason.Value2 != 3 {
		t.Errorf("found %+v", reason)
	}
	// The object is a stub, which the handler has renamed.
	want(t, reason.Value1.Name(), "2")
}

func TestCellsOfEverything(t *testing.T) {
	s, p := probe(t)
	ints := bf.EmptyIntCell(s)
	before, empty := ints.Full(), ints.Get()
	ints.Put(1)
	first := ints.Get()
	ints.Put(math.MinInt64)
	second, after := ints.Get(), ints.Full()
	text := bf.NewStrCell(s, "äß€🦀").Get()
	yes := bf.NewBoolCell(s, true).Get()
	real := bf.NewRealCell(s, -0.5).Get()
	char := bf.NewCharCell(s, 'x').Get()
	data := bf.NewBytesCell(s, []byte{7}).Get()
	signals(t, empty, "not_possible")
	want(t, before, false)
	want(t, after, true)
	want(t, first, 1)
	want(t, second, math.MinInt64)
	want(t, text, "äß€🦀")
	want(t, yes, true)
	want(t, real, -0.5)
	want(t, char, 'x')
	want(t, data, []byte{7})
	crossed(t, s, 1)
	// A cell of objects outlives its batch.
	items := bf.CellOf(p.Counter().AsItem())
	want(t, items.Get().Name(), "counter")
	items.Put(p.Item("a"))
	want(t, items.Get().Name(), "a")
	crossed(t, s, 3)
}

func TestStraightFuturesTakeOneCrossing(t *testing.T) {
	s, last := probe(t)
	for range 300 {
		last = last.Itself()
	}
	name := last.Counter().Name()
	crossed(t, s, 0)
	want(t, name, "counter")
	if crossings, commands := s.Counters(); crossings != 1 || commands != 303 {
		t.Errorf("%d commands in %d crossings", commands, crossings)
	}
}

func TestAClaimFlushesOnceForAllPromises(t *testing.T) {
	s, p := probe(t)
	a, b := p.SameInt(1), p.SameInt(2)
	sum := a.AddP(b)
	want(t, a, 1)
	want(t, b, 2)
	want(t, sum, 3)
	crossed(t, s, 1)
	// A value that came is sent as a value.
	want(t, p.SameIntP(sum), 3)
	done(t, s.Flush())
	crossed(t, s, 2)
}

func TestOnlyWhatIsKeptGetsAHandle(t *testing.T) {
	s, p := probe(t, "limits.handles_max=8")
	for range 3 {
		outer := s.Scope()
		var kept []conformance.Item
		done(t, s.Batch(func(batch *bf.Scope) {
			for range 200 {
				p.Fresh()
			}
			for range 6 {
				kept = append(kept, p.Fresh())
				batch.Keep(kept[len(kept)-1])
			}
		}))
		for _, item := range kept {
			want(t, item.Name(), "fresh")
		}
		// They go back with the next batch.
		outer.Close()
		misused(t, kept[0].Resolve(), bf.MisuseReleased)
	}
	want(t, p.SameInt(1), 1)
}

func TestTheSameObjectIsTheSameHandle(t *testing.T) {
	s, p := probe(t)
	a, b, other := p.Counter(), p.Counter(), p.Fresh()
	done(t, s.Flush())
	c := conformance.LookupCounter(s, "counter")
	done(t, s.Flush())
	if !bf.IsSame(a, b) || !bf.IsSame(a, c) || bf.IsSame(a, other) {
		t.Error("the sameness of objects is wrong")
	}
	a.Release()
	b.Release()
	want(t, c.Name(), "counter")
	c.Release()
	done(t, s.Flush())
	want(t, p.Counter().Name(), "counter")
}

func TestStructuresNest(t *testing.T) {
	s, p := probe(t)
	out := bf.NewStrCell(s, "")
	for i := range p.Numbers(5).Each() {
		s.If(i.Eq(4), s.Break)
		j := bf.NewIntCell(s, 0)
		s.While(func() bf.Bool { return j.Get().Lt(10) }, func() {
			j.PutP(j.Get().Add(1))
			s.If(j.Get().Mod(2).Eq(0), s.Continue)
			s.If(j.Get().GtP(i.Add(3)), s.Break).Else(func() {
				s.If(i.Eq(2), func() {
					out.PutP(out.Get().Concat("two "))
				}).Else(func() {
					text := i.Unparse().Concat(":").ConcatP(j.Get().Unparse()).Concat(" ")
					out.PutP(out.Get().ConcatP(text))
				})
			})
		})
	}
	want(t, out.Get(), "1:1 1:3 two two two 3:1 3:3 3:5 ")
	crossed(t, s, 1)
}

func TestHandlersGetNamesAndValues(t *testing.T) {
	s, p := probe(t)
	out := bf.NewStrCell(s, "")
	say := func(text bf.Str) { out.PutP(out.Get().ConcatP(text).Concat(" ")) }
	for i := range p.Numbers(8).Each() {
		s.Except(func() {
			s.If(i.Eq(8), func() { p.Item("zoe") })
			say(p.ChooseP(i).Unparse())
		}).When(conformance.WhenThird(func() {
			say(s.Str("third"))
		})).When(conformance.WhenOdd(func(n bf.Int) {
			say(n.Unparse().Concat("!"))
		})).When(conformance.WhenEverything(func(b bf.Bool, n bf.Int, r bf.Real, c bf.Char, text bf.Str) {
			say(p.AllP(b, n, r, c, text, p.Item("a")))
		})).Others(func(name bf.Str) {
			say(name)
		})
	}
	want(t, out.Get(), "1! 2 third 4 5! true 6 0.5 x ß a 7! not_found ")
	crossed(t, s, 1)
	history(t, s, nil)
	// An exception that no handler names goes on to the structure around it.
	seen := bf.NewIntCell(s, 0)
	s.Except(func() {
		s.Except(func() {
			p.Choose(3)
			seen.Put(1)
		}).When(bf.When0("odd", func() { seen.Put(2) }))
		seen.Put(3)
	}).Others(func(bf.Str) { seen.PutP(seen.Get().Add(10)) })
	want(t, seen.Get(), 10)
}

func TestExceptionsInLoopsSayTheRound(t *testing.T) {
	s, p := probe(t)
	begun := bf.NewIntCell(s, 0)
	for i := range p.Numbers(4).Each() {
		begun.PutP(i)
		p.ChooseP(i.Add(1))
		p.Counter().Add(1)
	}
	at, ended := begun.Get(), p.Counter().Value()
	// No stub of the loop is left, so the claim behind it tells, once.
	unseen := fails[*bf.Unseen](t, at)
	is[*conformance.Third](t, unseen)
	want(t, at, 2)
	want(t, ended, 1)
	history(t, s, []string{"third"}, []uint32{2})
	s.ClearExceptions()
	for i := range p.Numbers(4).Each() {
		for j := range p.Numbers(2).Each() {
			p.ChooseP(i.MulP(i).Mul(2).AddP(j.Sub(1).Mul(2)))
		}
	}
	is[*bf.Unseen](t, s.Flush())
	history(t, s, []string{"third"}, []uint32{3, 1})
}

func TestWhatDependsOnAFailureSaysWhy(t *testing.T) {
	s, p := probe(t)
	zoe := p.Item("zoe")
	name, passed := zoe.Name(), p.NameOf(zoe)
	further := p.SameStringP(name).Length().Add(1)
	fine := p.SameInt(1)
	// The error tells which argument failed, and the exception that is the reason.
	if unhandled := fails[*bf.Unhandled](t, name); unhandled.Argument != 0 {
		t.Errorf("found %v", unhandled)
	}
	if unhandled := fails[*bf.Unhandled](t, passed); unhandled.Argument != 1 {
		t.Errorf("found %v", unhandled)
	}
	if missing := fails[*conformance.NotFound](t, further); missing.Value1 != "zoe" {
		t.Errorf("found %v", missing)
	}
	want(t, fine, 1)
	crossed(t, s, 1)
	fails[*conformance.NotFound](t, zoe.Name())
	crossed(t, s, 2)
}

func TestMisuseIsAValueAndTheSessionGoesOn(t *testing.T) {
	s, p := probe(t)
	before, total := p.SameInt(1), bf.NewIntCell(s, 0)
	var items []bf.Int
	for i := range p.Numbers(3).Each() {
		_, err := before.Claim()
		misused(t, err, bf.MisuseOpenStructure)
		misused(t, s.Flush(), bf.MisuseOpenStructure)
		total.PutP(total.Get().AddP(i))
		items = append(items, i)
	}
	want(t, total.Get(), 6)
	want(t, before, 1)
	crossed(t, s, 1)
	misused(t, fails[*bf.NotSent](t, items[0].Add(1)), bf.MisuseOutOfScope)
	// Outside loops.
	s.Break()
	misused(t, s.Flush(), bf.MisuseNoLoop)
	// A body that is left is not sent.
	count := bf.NewIntCell(s, 0)
	panics(t, "write session.Break()", func() {
		for i := range p.Numbers(3).Each() {
			count.PutP(i)
			break
		}
	})
	panics(t, "by the test", func() {
		s.While(func() bf.Bool { return count.Get().Lt(3) }, func() { panic("by the test") })
	})
	zero := count.Get()
	misused(t, fails[*bf.Unseen](t, zero), bf.MisuseAbandoned)
	want(t, zero, 0)
	// A value that is no text, and a stub that was released.
	for _, wrong := range []bf.Str{p.SameString("\xff"), s.Str("\xff")} {
		misused(t, fails[*bf.NotSent](t, wrong), bf.MisuseNotText)
	}
	misused(t, fails[*bf.NotSent](t, p.SameChar(0xd800)), bf.MisuseNotText)
	gone := p.SameInt(1)
	gone.Release()
	_, err := p.SameIntP(gone).Claim()
	if !errors.Is(err, bf.ErrReleased) {
		t.Errorf("found %v", err)
	}
	panics(t, "zero value", func() { bf.Int{}.Add(1) })
	want(t, p.SameInt(5), 5)
}

func TestProceduresAreKeptByTheSession(t *testing.T) {
	s, p := probe(t)
	type labelling = bf.Proc3[bf.Str, bf.Int, conformance.Item, bf.Str]
	label := bf.DefineProc3(s, "label", func(self *labelling, prefix bf.Str, n bf.Int, item conformance.Item) bf.Str {
		s.If(n.Lt(0), func() { self.Return(s.Str("negative")) })
		return prefix.ConcatP(n.Unparse()).ConcatP(item.Name())
	})
	one := label.Call(s.Str("x"), s.Int(1), p.Item("a"))
	two := label.Call(p.SameString("y"), s.Int(-2), p.Counter().AsItem())
	want(t, one, "x1a")
	want(t, two, "negative")
	crossed(t, s, 1)
	// By its name, in a later batch and in a loop.
	found := bf.FindProc3[bf.Str, bf.Int, conformance.Item, bf.Str](s, "label")
	if bf.FindProc1[bf.Int, bf.Int](s, "label") != nil {
		t.Error("a procedure is found with other types")
	}
	out := bf.NewStrCell(s, "")
	for i := range p.Numbers(3).Each() {
		out.PutP(out.Get().ConcatP(found.Call(s.Str(":"), i, p.Item("b"))))
	}
	want(t, out.Get(), ":1b:2b:3b")
	crossed(t, s, 2)
	// Recursion.
	factorial := bf.DefineProc1(s, "factorial", func(self *bf.Proc1[bf.Int, bf.Int], n bf.Int) bf.Int {
		s.If(n.Le(1), func() { self.Return(s.Int(1)) })
		return self.Call(n.Sub(1)).MulP(n)
	})
	small, large := factorial.Call(s.Int(10)), factorial.Call(s.Int(21))
	want(t, small, 3628800)
	signals(t, large, "overflow")
	// Without parameters and without a result.
	touch := bf.DefineProc0(s, "touch", func(*bf.Proc0[bf.Done]) bf.Done {
		p.Counter().Add(5)
		return s.Nothing()
	})
	touch.Call()
	done(t, touch.Call().Claim())
	want(t, p.Counter().Value(), 10)
}

func TestNumbersSignalWhatHasNoResult(t *testing.T) {
	s, _ := probe(t)
	least, most, one := s.Int(math.MinInt64), s.Int(math.MaxInt64), s.Int(1)
	overflows := []bf.Int{most.Add(1), least.Sub(1), most.Mul(2), least.Div(-1), least.Neg()}
	zeros := []bf.Int{one.Div(0), one.Mod(0)}
	infinite := s.Real(1).Div(0)
	for _, result := range overflows {
		signals(t, result, "overflow")
	}
	for _, result := range zeros {
		signals(t, result, "zero")
	}
	want(t, infinite, math.Inf(1))
	crossed(t, s, 1)
}

func TestWhatIsTooLongIsNotSent(t *testing.T) {
	s, p := probe(t, "limits.depth_max=2", "limits.frame_bytes_max=65536")
	misused(t, fails[*bf.NotSent](t, p.SameString(strings.Repeat("x", 65536))), bf.MisuseTooLong)
	count := bf.NewIntCell(s, 0)
	nest := func(depth int) {
		block := func() { count.Put(2) }
		for range depth {
			inner := block
			block = func() { s.If(s.Bool(true), inner) }
		}
		block()
	}
	nest(3)
	misused(t, s.Flush(), bf.MisuseTooDeep)
	nest(2)
	want(t, count.Get(), 2)
}

func TestEndlessBatchesAreEnded(t *testing.T) {
	s, p := probe(t, "limits.fuel_max=1000", "limits.batch_time_ms_max=60000")
	s.While(func() bf.Bool { return s.Bool(true).Eq(true) }, func() { p.Nothing() })
	after := fails[*bf.NotReached](t, p.SameInt(1))
	refused(t, after, bf.ErrorOutOfFuel)
	want(t, p.SameInt(2), 2)
	s.ClearExceptions()
	refused(t, s.Commit(), bf.ErrorDoomed)
	s.ClearExceptions()
	done(t, s.Abort())
	done(t, s.Commit())
}
