package veneer_test

import (
	"testing"
	"time"

	bf "bifrost.dev/veneer"
	"bifrost.dev/veneer/internal/stubs/hermitage"
)

// The cases of cases/sessions.yaml through the typed layer: several sessions at one server.

// seat is a session with the table and two of its rows.
type seat struct {
	s        *bf.Session
	table    hermitage.Table
	one, two hermitage.Row
}

// seats opens so many sessions at a server of hermitage.theta.
func seats(t *testing.T) (a, b, c seat) {
	t.Helper()
	url := serve(t, "hermitage")
	for _, one := range []*seat{&a, &b, &c} {
		s := open(t, hermitage.Connect, url)
		table := hermitage.LookupTable(s, "table")
		*one = seat{s, table, table.Row(1), table.Row(2)}
		done(t, s.Commit())
	}
	return a, b, c
}

// conflicts expects that a commit conflicts.
func (a seat) conflicts(t *testing.T) {
	t.Helper()
	refused(t, a.s.Commit(), bf.ErrorConflict)
}

func TestG0WriteCycles(t *testing.T) {
	a, b, _ := seats(t)
	a.one.Put(11)
	done(t, a.s.Flush())
	b.one.Put(12)
	done(t, b.s.Flush())
	a.two.Put(21)
	done(t, a.s.Commit())
	b.two.Put(22)
	b.conflicts(t)
	want(t, b.one.Value(), 11)
	want(t, b.two.Value(), 21)
}

func TestG1aAbortedReads(t *testing.T) {
	a, b, _ := seats(t)
	a.one.Put(101)
	done(t, a.s.Flush())
	want(t, b.one.Value(), 10)
	done(t, a.s.Abort())
	want(t, b.one.Value(), 10)
	done(t, b.s.Commit())
}

func TestG1bIntermediateReads(t *testing.T) {
	a, b, _ := seats(t)
	a.one.Put(101)
	done(t, a.s.Flush())
	want(t, b.one.Value(), 10)
	a.one.Put(11)
	done(t, a.s.Commit())
	want(t, b.one.Value(), 10)
	b.conflicts(t)
	want(t, b.one.Value(), 11)
}

func TestG1cCircularInformationFlow(t *testing.T) {
	a, b, _ := seats(t)
	a.one.Put(11)
	done(t, a.s.Flush())
	b.two.Put(22)
	done(t, b.s.Flush())
	want(t, a.two.Value(), 20)
	want(t, b.one.Value(), 10)
	done(t, a.s.Commit())
	b.conflicts(t)
	want(t, b.one.Value(), 11)
	want(t, b.two.Value(), 20)
}

func TestOtvObservedTransactionVanishes(t *testing.T) {
	a, b, c := seats(t)
	a.one.Put(11)
	a.two.Put(19)
	done(t, a.s.Flush())
	b.one.Put(12)
	done(t, b.s.Flush())
	done(t, a.s.Commit())
	want(t, c.one.Value(), 11)
	b.two.Put(18)
	b.conflicts(t)
	want(t, c.two.Value(), 19)
	want(t, c.one.Value(), 11)
	done(t, c.s.Commit())
}

func TestPmpPredicateManyPreceders(t *testing.T) {
	a, b, _ := seats(t)
	want(t, a.table.WithValue(30), 0)
	b.table.Insert(3, 30)
	done(t, b.s.Commit())
	want(t, a.table.Divisible(3), 0)
	a.conflicts(t)
	want(t, a.table.Divisible(3), 1)
	done(t, a.s.Commit())
}

func TestPmpWithChanges(t *testing.T) {
	a, b, _ := seats(t)
	remove := func() {
		for row := range b.table.Rows().Each() {
			b.s.If(row.Value().Eq(20), func() { b.table.RemoveP(row.Id()) })
		}
	}
	for row := range a.table.Rows().Each() {
		row.Add(10)
	}
	done(t, a.s.Flush())
	remove()
	done(t, b.s.Flush())
	done(t, a.s.Commit())
	b.conflicts(t)
	remove()
	done(t, b.s.Commit())
	want(t, b.table.Total(), 30)
}

func TestP4LostUpdate(t *testing.T) {
	a, b, _ := seats(t)
	first, second := a.one.Value(), b.one.Value()
	want(t, first, 10)
	want(t, second, 10)
	a.one.PutP(first.Add(1))
	done(t, a.s.Commit())
	b.one.PutP(second.Add(1))
	refused(t, b.s.Commit(), bf.ErrorConflict)
	// The same again, with the value that is there now.
	b.one.PutP(b.one.Value().Add(1))
	done(t, b.s.Commit())
	want(t, b.one.Value(), 12)
}

func TestGSingleReadSkew(t *testing.T) {
	a, b, _ := seats(t)
	want(t, a.one.Value(), 10)
	b.one.Put(12)
	b.two.Put(18)
	done(t, b.s.Commit())
	want(t, a.two.Value(), 20)
	a.two.Put(0)
	a.conflicts(t)
	want(t, a.one.Value(), 12)
	want(t, a.two.Value(), 18)
	done(t, a.s.Commit())
}

func TestG2ItemWriteSkew(t *testing.T) {
	a, b, _ := seats(t)
	for _, one := range []seat{a, b} {
		want(t, one.one.Value(), 10)
		want(t, one.two.Value(), 20)
	}
	a.one.Put(11)
	done(t, a.s.Flush())
	b.two.Put(21)
	done(t, b.s.Flush())
	done(t, a.s.Commit())
	b.conflicts(t)
	want(t, b.table.Total(), 31)
}

func TestG2AntiDependencyCycles(t *testing.T) {
	a, b, _ := seats(t)
	want(t, a.table.Divisible(3), 0)
	want(t, b.table.Divisible(3), 0)
	a.table.Insert(3, 30)
	done(t, a.s.Flush())
	b.table.Insert(4, 42)
	done(t, b.s.Flush())
	done(t, a.s.Commit())
	b.conflicts(t)
	b.s.If(b.table.Divisible(3).Eq(0), func() { b.table.Insert(4, 42) })
	done(t, b.s.Commit())
	want(t, b.table.Divisible(3), 1)
}

func TestG2TwoEdges(t *testing.T) {
	a, b, c := seats(t)
	want(t, a.table.Total(), 30)
	b.two.Add(5)
	done(t, b.s.Commit())
	want(t, c.table.Total(), 35)
	done(t, c.s.Commit())
	a.one.Put(0)
	a.conflicts(t)
	want(t, a.table.Total(), 35)
}

func TestChangesAreSeenAfterTheCommit(t *testing.T) {
	a, b, _ := seats(t)
	three := a.table.Insert(3, 30)
	done(t, a.s.Flush())
	missing := is[*hermitage.NotFound](t, b.table.Row(3).Resolve())
	if missing.Value != 3 {
		t.Errorf("found %v", missing)
	}
	want(t, b.table.Total(), 30)
	done(t, b.s.Commit())
	want(t, three.Id(), 3)
	done(t, a.s.Commit())
	same := b.table.Row(3)
	want(t, b.table.Total(), 60)
	same.Add(1)
	done(t, b.s.Commit())
	want(t, three.Value(), 31)
}

func TestChangesOfDifferentObjectsDoNotConflict(t *testing.T) {
	a, b, _ := seats(t)
	done(t, a.s.Abort())
	done(t, b.s.Abort())
	a.one.Add(1)
	b.two.Add(1)
	done(t, a.s.Flush())
	done(t, b.s.Flush())
	done(t, a.s.Commit())
	done(t, b.s.Commit())
	for _, one := range []seat{a, b} {
		want(t, one.table.Total(), 32)
	}
}

func TestCommandsBehindAConflictAreNotReached(t *testing.T) {
	a, b, _ := seats(t)
	want(t, b.one.Value(), 10)
	a.one.Add(1)
	done(t, a.s.Commit())
	b.one.Add(1)
	committed := b.s.RecordCommit()
	b.one.Add(1)
	value := b.one.Value()
	refused(t, committed.Claim(), bf.ErrorConflict)
	refused(t, fails[*bf.NotReached](t, value), bf.ErrorConflict)
	want(t, b.one.Value(), 11)
}

func TestAConflictUndoesObjects(t *testing.T) {
	a, b, _ := seats(t)
	want(t, a.table.Total(), 30)
	three := a.table.Insert(3, 1)
	done(t, a.s.Flush())
	b.table.Insert(3, 2)
	done(t, b.s.Commit())
	a.conflicts(t)
	_, err := three.Value().Claim()
	refused(t, err, bf.ErrorNoSuchHandle)
	want(t, a.table.Row(3).Value(), 2)
	done(t, a.s.Commit())
}

func TestConflictsAreRunAgainByTheServer(t *testing.T) {
	a, b, c := seats(t)
	var sent []*bf.Shipped
	for _, one := range []seat{a, b, c} {
		outcome, err := one.s.ShipTransaction(bf.TransactionOptions{Tries: 30}, func(*bf.Scope) {
			for range one.s.Int(1).To(1000).Each() {
				for row := range one.table.Rows().Each() {
					row.Add(1)
				}
			}
		})
		done(t, err)
		sent = append(sent, outcome)
	}
	for _, outcome := range sent {
		done(t, outcome.Claim())
	}
	want(t, a.table.Total(), 6030)
}

func TestAWaitIsEndedByAChange(t *testing.T) {
	a, b, _ := seats(t)
	want(t, a.one.Value(), 10)
	changed := a.s.Wait(time.Minute)
	after, committed := a.one.Value(), a.s.RecordCommit()
	done(t, a.s.SendBatch())
	// An abort is no change.
	b.one.Put(11)
	done(t, b.s.Abort())
	b.one.Put(12)
	done(t, b.s.Commit())
	want(t, changed, true)
	want(t, after, 12)
	done(t, committed.Claim())
}

func TestAWaitMissesNoChange(t *testing.T) {
	a, b, _ := seats(t)
	want(t, a.one.Value(), 10)
	b.two.Put(21)
	done(t, b.s.Commit())
	want(t, a.s.Wait(10*time.Millisecond), false)
	b.one.Put(11)
	done(t, b.s.Commit())
	want(t, a.s.Wait(time.Minute), true)
	want(t, a.one.Value(), 11)
}

func TestALiveBatchIsRunAgain(t *testing.T) {
	a, b, _ := seats(t)
	before, _ := a.s.Counters()
	view := func() bf.Rows2[bf.Int, int64, bf.Int, int64] {
		table := bf.NewRows2(a.s, bf.Ints, bf.Ints)
		for row := range a.table.Rows().Each() {
			table.Emit(row.Id(), row.Value())
		}
		return table
	}
	type row = bf.Row2[int64, int64]
	var seen [][]row
	for rows, err := range bf.Live(a.s, view) {
		done(t, err)
		seen = append(seen, rows)
		if len(seen) == 3 {
			break
		}
		if len(seen) == 1 {
			b.two.Put(22)
		} else {
			b.table.Insert(3, 30)
			b.table.Remove(1)
		}
		done(t, b.s.Commit())
	}
	equal(t, seen, [][]row{
		{{A: 1, B: 10}, {A: 2, B: 20}},
		{{A: 1, B: 10}, {A: 2, B: 22}},
		{{A: 2, B: 22}, {A: 3, B: 30}},
	})
	crossed(t, a.s, before+3)
}
