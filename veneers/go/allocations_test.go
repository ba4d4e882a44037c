package veneer_test

import (
	"testing"

	bf "bifrost.dev/veneer"
)

// Recording allocates nothing: stubs are values, whose slots are used again.
func TestRecordingAllocatesNothing(t *testing.T) {
	s, p := probe(t)
	s.NotePlaces(false)
	one := p.SameInt(1)
	total := bf.NewIntCell(s, 0)
	item := p.Item("a")
	calls := map[string]func(){
		"a value":   func() { p.SameInt(7).Release() },
		"a promise": func() { p.SameIntP(one).Release() },
		"a text":    func() { p.SameString("a text of the program").Release() },
		"a chain": func() {
			counter := p.Counter()
			value := counter.Value()
			value.Add(1).Release()
			value.Release()
			counter.Release()
		},
		"no result":   func() { p.Nothing() },
		"a cell":      func() { total.PutP(total.Get().AddP(one)) },
		"an operator": func() { one.Gt(0).Release() },
		"many arguments": func() {
			p.All(true, 1, 0.5, 'x', "text", item).Release()
		},
		"two results": func() {
			quotient, rest := p.Divide(7, 2)
			quotient.Release()
			rest.Release()
		},
	}
	for about, call := range calls {
		// The buffers of a batch grow until they are as long as batches are.
		for range 5000 {
			call()
		}
		done(t, s.Flush())
		if count := testing.AllocsPerRun(5000, call); count != 0 {
			t.Errorf("%s allocates %v times", about, count)
		}
		done(t, s.Flush())
	}
}

func TestAScopeGivesItsStubsBack(t *testing.T) {
	s, p := probe(t)
	s.NotePlaces(false)
	batch := func() {
		scope := s.Scope()
		for range 1000 {
			p.Itself().Counter().Value().Add(1)
		}
		scope.Close()
		done(t, s.Flush())
	}
	batch()
	// A scope itself, and what a flush and its answer need; but nothing for each call.
	if count := testing.AllocsPerRun(20, batch); count > 1000 {
		t.Errorf("4000 calls in a scope allocate %v times", count)
	}
}
