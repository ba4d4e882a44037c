package veneer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	bf "bifrost.dev/veneer"
	"bifrost.dev/veneer/internal/stubs/actors"
	"bifrost.dev/veneer/internal/stubs/conformance"
	"bifrost.dev/veneer/internal/stubs/database"
	"bifrost.dev/veneer/internal/stubs/wide"
)

// The cases of cases/clients.yaml and cases/limits.yaml through the typed layer.

func TestATableOfRows(t *testing.T) {
	s, db := people(t)
	table := bf.NewRows3(s, bf.Objects[database.DataElem](), bf.Strs, bf.Ints)
	for user := range db.Users().Each() {
		user.Touch()
		table.Emit(user, user.Name(), user.Visits())
	}
	rows, err := table.Claim()
	done(t, err)
	crossed(t, s, 1)
	for index, name := range []string{"ann", "bob", "eve"} {
		if row := rows[index]; row.B != name || row.C != 1 {
			t.Errorf("found %v", row)
		}
		// An object of a row is a stub.
		want(t, rows[index].A.Name(), name)
	}
	// A table ends with its batch.
	table.Emit(rows[0].A, s.Str("ann"), s.Int(1))
	misused(t, s.Flush(), bf.MisuseEndedTable)
}

func TestATableWithABreak(t *testing.T) {
	s, db := people(t)
	table, none := bf.NewRows1(s, bf.Strs), bf.NewRows2(s, bf.Ints, bf.Bools)
	for user := range db.Users().Each() {
		s.If(user.Name().Eq("eve"), s.Break)
		table.Emit(user.Name())
	}
	want(t, table, []string{"ann", "bob"})
	want(t, none, []bf.Row2[int64, bool]{})
}

func TestRowsOf255Columns(t *testing.T) {
	s, _ := people(t)
	columns := make([]interface{ BifrostType() *bf.Type }, 255)
	cells := make([]bf.Object, len(columns))
	for index := range columns {
		columns[index], cells[index] = bf.Int{}, s.Int(int64(index))
	}
	table := bf.NewTable(s, columns...)
	table.Emit(cells...)
	rows, err := table.Claim()
	done(t, err)
	if len(rows) != 1 || len(rows[0]) != len(columns) {
		t.Fatalf("found %d rows", len(rows))
	}
	for index, cell := range rows[0] {
		want(t, bf.Int(cell), int64(index))
	}
}

func TestAWideCall(t *testing.T) {
	s := open(t, wide.Connect, serve(t, "wide"))
	sum := wide.WideSum(s, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
	want(t, sum, 24151)
}

func TestCompoundsCrossByValue(t *testing.T) {
	s, p := probe(t)
	v := p.Values()
	ten, zero := v.Total([]int64{1, 2, 3, 4}), v.Total(nil)
	six := v.Nested([][]int64{{1, 2}, {}, {3}})
	far := v.Distance(conformance.Line{
		Name: "x", From: conformance.Spot{X: 1, Y: 1}, To: conformance.Spot{X: 3, Y: 4},
	})
	dot := v.Area(conformance.ShapeDot{Value: conformance.Spot{X: 1, Y: 2}})
	circle := v.Area(conformance.ShapeCircle{Value: 0.5})
	nothing := v.Area(conformance.ShapeNothing{})
	nobody, somebody := v.Named(bf.None[string]()), v.Named(bf.Some("eve"))
	twice, spot := v.Twice([]int64{5, 6}).Get(), v.Shape(3).Get()
	five, none := v.Name(5).Get(), v.Name(0).Get()
	counts, list, array := v.Counts().Get(), v.List().Get(), v.Array().Get()
	point := p.Tagged().Point(1, 2).Get()
	spots := bf.NewRows2(s, conformance.SpotRefColumn(), bf.Ints)
	for spot := range v.Spots(2).Each() {
		spots.Emit(spot, spot.X())
	}
	want(t, ten, 10)
	want(t, zero, 0)
	want(t, six, 6)
	want(t, far, 105)
	want(t, dot, "{dot: {x: 1, y: 2}}")
	want(t, circle, "{circle: 0.5}")
	want(t, nothing, "{nothing: nil}")
	want(t, nobody, "nobody")
	want(t, somebody, "eve")
	want(t, twice, []int64{10, 12})
	want(t, spot, conformance.Shape(conformance.ShapeDot{Value: conformance.Spot{X: 3}}))
	want(t, five, bf.Some("5"))
	want(t, none, bf.None[string]())
	want(t, counts, []bf.Pair[string, conformance.Spot]{
		{Key: "one", Value: conformance.Spot{X: 1, Y: 1}},
		{Key: "two", Value: conformance.Spot{X: 2, Y: 2}},
	})
	want(t, list, []rune{'a', 'b'})
	want(t, array, []int64{7, 8})
	want(t, point, conformance.PointValue{X: 1, Y: 2})
	want(t, spots, []bf.Row2[conformance.Spot, int64]{
		{A: conformance.Spot{X: 1, Y: -1}, B: 1}, {A: conformance.Spot{X: 2, Y: -2}, B: 2},
	})
	crossed(t, s, 1)
	// An alternative is one of the oneof's.
	misused(t, fails[*bf.NotSent](t, v.Area(nil)), bf.MisuseUntyped)
}

func TestCompoundsHaveObjects(t *testing.T) {
	_, p := probe(t)
	v, a := p.Values(), p.Item("a")
	text := v.Members(conformance.Family{Head: a, Members: []conformance.Item{a, p.Item("b")}})
	family := v.Family(2).Get()
	want(t, text, "a,a,b")
	found, err := family.Claim()
	done(t, err)
	want(t, found.Head.Name(), "head")
	want(t, found.Members[1].Name(), "2")
	failed := v.Members(conformance.Family{Head: a, Members: []conformance.Item{p.Item("zoe")}})
	if unhandled := fails[*bf.Unhandled](t, failed); unhandled.Argument != 1 {
		t.Errorf("found %v", unhandled)
	}
}

func TestTypesAtRunTime(t *testing.T) {
	s, p := probe(t)
	for item := range p.Items().Each() {
		s.If(bf.Is[conformance.Counter](item), func() { bf.As[conformance.Counter](item).Add(7) })
	}
	seven, a := p.Counter().Value(), p.Item("a")
	no, yes := bf.Is[conformance.Counter](a), bf.Is[conformance.Item](p.Counter())
	wrong := bf.As[conformance.Counter](a)
	value := wrong.Value()
	want(t, seven, 7)
	want(t, no, false)
	want(t, yes, true)
	signals(t, value, "wrong_type")
	if signal := is[*bf.Signal](t, wrong.Resolve()); signal.Name != "wrong_type" {
		t.Errorf("found %v", signal)
	}
}

func TestBatchesOverlap(t *testing.T) {
	s, p := probe(t)
	item := p.Item("a")
	done(t, s.SendBatch())
	// Results that are not there yet are arguments of the next batch.
	name := item.Name()
	total := bf.NewIntCell(s, 0)
	done(t, s.SendBatch())
	for i := range p.Numbers(3).Each() {
		total.PutP(total.Get().AddP(i))
	}
	six, again := total.Get(), p.SameStringP(name)
	want(t, again, "a")
	want(t, name, "a")
	want(t, six, 6)
	crossed(t, s, 3)
}

func TestAFailureUnderWayIsACause(t *testing.T) {
	s, p := probe(t)
	zoe := p.Item("zoe")
	done(t, s.SendBatch())
	name := zoe.Name()
	done(t, s.SendBatch())
	length := name.Length()
	missing := fails[*conformance.NotFound](t, length)
	if missing.Value1 != "zoe" || missing.Value2 != 4 {
		t.Errorf("found %v", missing)
	}
}

func TestBatchesUnderWayAreLimited(t *testing.T) {
	s, p := probe(t, "limits.batches_under_way_max=2")
	var results []bf.Int
	for n := range int64(5) {
		results = append(results, p.SameInt(n))
		// The third one waits for the answer to the first.
		done(t, s.SendBatch())
	}
	for n, result := range results {
		want(t, result, int64(n))
	}
	crossed(t, s, 5)
}

func TestTransactionsCommitAndAbort(t *testing.T) {
	s, db := people(t)
	eve := db.Fetch("eve")
	eve.Touch()
	committed := s.RecordCommit()
	eve.Touch()
	two := eve.Visits()
	undone := s.RecordAbort()
	one := eve.Visits()
	done(t, committed.Claim())
	want(t, two, 2)
	done(t, undone.Claim())
	want(t, one, 1)
	crossed(t, s, 1)
}

func TestACommitNamesUnseenFailures(t *testing.T) {
	s, db := people(t)
	db.Fetch("nobody")
	unseen := is[*bf.Unseen](t, s.Commit())
	missing := is[*database.NotFound](t, unseen)
	if len(unseen.Failures) != 1 || missing.Signal.Call.Name != "DataBase.fetch" {
		t.Errorf("found %v", unseen)
	}
	// A failure that was told prevents nothing.
	is[*database.NotFound](t, db.Fetch("nobody").Resolve())
	done(t, s.Commit())
}

func TestARefusedCallPreventsTheCommitLive(t *testing.T) {
	s, db := people(t)
	other, _ := people(t)
	db.FetchP(other.Str("eve"))
	unseen := is[*bf.Unseen](t, s.Commit())
	misused(t, unseen, bf.MisuseOtherSession)
	done(t, s.Commit())
}

func TestABatchIsATransaction(t *testing.T) {
	s, db := people(t)
	var zoe database.DataElem
	var one bf.Int
	done(t, s.TransactionWith(bf.TransactionOptions{Tries: 3}, func(tx *bf.Scope) {
		zoe = db.NewUser("zoe")
		zoe.Touch()
		one = zoe.Visits()
		// Of the stubs of a transaction only these stay.
		tx.Keep(zoe, one)
	}))
	want(t, one, 1)
	crossed(t, s, 2)
	// A failure undoes all of it.
	var again database.DataElem
	err := s.Transaction(func(tx *bf.Scope) {
		zoe.Touch()
		again = db.NewUser("zoe")
		tx.Keep(again)
	})
	is[*database.NotPossible](t, is[*bf.Unseen](t, err))
	is[*database.NotPossible](t, again.Resolve())
	want(t, zoe.Visits(), 1)
	// The same if the function panics.
	panics(t, "by the test", func() {
		done(t, s.Transaction(func(*bf.Scope) {
			zoe.Touch()
			panic("by the test")
		}))
	})
	want(t, zoe.Visits(), 1)
	if err := s.TransactionWith(bf.TransactionOptions{Tries: 1 << 16}, nil); err != bf.ErrTries {
		t.Errorf("found %v", err)
	}
}

func TestNothingCrossesInATransactionLive(t *testing.T) {
	s, db := people(t)
	eve := db.Fetch("eve")
	err := s.Transaction(func(*bf.Scope) {
		eve.Touch()
		_, err := eve.Visits().Claim()
		misused(t, err, bf.MisuseInTransaction)
	})
	misused(t, err, bf.MisuseInTransaction)
	want(t, eve.Visits(), 0)
}

func TestANamedBatchIsDoneOnce(t *testing.T) {
	s, db := people(t)
	eve := db.Fetch("eve")
	name := &bf.BatchName{Client: [16]byte{0, 1, 2, 3}, Number: 1}
	for range 2 {
		options := bf.TransactionOptions{Name: name}
		done(t, s.TransactionWith(options, func(*bf.Scope) { eve.Touch() }))
	}
	want(t, eve.Visits(), 1)
}

func TestAWaitWithoutChanges(t *testing.T) {
	s, db := people(t)
	visits, changed := db.Fetch("eve").Visits(), s.Wait(10*time.Millisecond)
	want(t, visits, 0)
	want(t, changed, false)
}

func TestActorsAnswerAndAreSentTo(t *testing.T) {
	_, adder := adder(t)
	one := adder.Add(1)
	adder.Send().Add(10)
	value, wrong := adder.Value(), adder.Add(-5)
	want(t, one, 1)
	want(t, value, 11)
	if negative := fails[*actors.Negative](t, wrong); negative.Value != -5 {
		t.Errorf("found %v", negative)
	}
}

func TestAnotherInterfaceAtTheServer(t *testing.T) {
	s := open(t, database.Connect, serve(t, "database_other"))
	db := database.LookupDataBase(s, "database")
	eve := db.Fetch("eve")
	eve.Touch()
	visits, name := eve.Visits(), eve.Name()
	want(t, visits, 1)
	want(t, name, "eve")
	crossed(t, s, 1)
	// What this server lacks is refused when it is called.
	renamed := db.NewUser("zoe")
	is[*bf.Missing](t, renamed.Resolve())
	is[*bf.Missing](t, db.LoopFetch("eve", 1).Claim())
	fails[*bf.Missing](t, renamed.Name())
	crossed(t, s, 1)
	s.ClearExceptions()
	for user := range db.Users().Each() {
		user.Touch()
	}
	is[*bf.Missing](t, is[*bf.Unseen](t, s.Flush()))
}

func TestFuturesAreMappedAgainLive(t *testing.T) {
	s, _ := probe(t, "limits.futures_max=50")
	total := bf.NewIntCell(s, 0)
	for range 40 {
		total.PutP(total.Get().Add(1))
	}
	want(t, total.Get(), 40)
	crossed(t, s, 3)
}

func TestCommandsAreSentEarly(t *testing.T) {
	s, p := probe(t)
	for range 300 {
		p.Nothing()
	}
	want(t, p.SameInt(1), 1)
	if crossings, commands := s.Counters(); crossings != 1 || commands != 302 {
		t.Errorf("%d commands in %d crossings", commands, crossings)
	}
}

func TestStructuresNest64Deep(t *testing.T) {
	s, _ := probe(t)
	count := bf.NewIntCell(s, 0)
	var nest func(depth int, value int64)
	nest = func(depth int, value int64) {
		if depth == 0 {
			count.Put(value)
		} else {
			s.If(s.Bool(true), func() { nest(depth-1, value) })
		}
	}
	nest(64, 1)
	want(t, count.Get(), 1)
	nest(65, 2)
	misused(t, s.Flush(), bf.MisuseTooDeep)
}

func TestDroppedStubsLeaveNothing(t *testing.T) {
	s, p := probe(t, "limits.handles_max=8")
	for range p.Numbers(10000).Each() {
		p.Fresh()
	}
	item := p.Fresh()
	done(t, item.Resolve())
	item.Release()
	var name bf.Str
	done(t, s.Batch(func(batch *bf.Scope) {
		for range 100 {
			p.Counter()
		}
		name = p.Fresh().Name()
		batch.Keep(name)
	}))
	want(t, name, "fresh")
}

func TestAConnectionThatIsCut(t *testing.T) {
	s, p := probe(t)
	want(t, p.SameInt(1), 1)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	// The end of a claim's context ends the session, which says so.
	waiting, two := s.Wait(time.Minute), p.SameInt(2)
	_, err := waiting.ClaimContext(ctx)
	is[*bf.ClosedByConnection](t, err)
	if s.Err() == nil || ctx.Err() == nil {
		t.Error("the session is open")
	}
	three := p.SameInt(3)
	for _, result := range []bf.Int{two, three} {
		fails[*bf.ClosedByConnection](t, result)
	}
	is[*bf.Ended](t, s.Commit())
}

func TestAContextThatHasEnded(t *testing.T) {
	s, p := probe(t)
	known := p.SameInt(1)
	want(t, known, 1)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("by the test"))
	// What is known needs no waiting.
	if value, err := known.ClaimContext(ctx); err != nil || value != 1 {
		t.Errorf("found %d, %v", value, err)
	}
	done(t, s.Err())
	_, err := p.SameInt(2).ClaimContext(ctx)
	is[*bf.ClosedByConnection](t, s.Err())
	if err != nil && !strings.Contains(err.Error(), "by the test") {
		t.Errorf("found %v", err)
	}
	if !strings.Contains(s.Err().Error(), "by the test") {
		t.Errorf("found %v", s.Err())
	}
}

func TestASessionIsLeft(t *testing.T) {
	url := serve(t, "conformance")
	s := open(t, conformance.Connect, url)
	p := conformance.LookupProbe(s, "probe")
	late := p.SameInt(1)
	p.Nothing()
	done(t, s.Close())
	fails[*bf.ClosedByClient](t, late)
	fails[*bf.ClosedByClient](t, p.SameInt(1))
}

func TestAndByACellLive(t *testing.T) {
	s, p := probe(t)
	yes, no := p.SameBool(true), p.SameBool(false)
	both := no.And(func() bf.Bool {
		p.Choose(3)
		return s.Bool(true)
	})
	one, other := no.Or(func() bf.Bool { return yes }), yes.And(func() bf.Bool { return no })
	want(t, both, false)
	want(t, one, true)
	want(t, other, false)
	history(t, s, nil)
}

func TestNamesOfTheRootDirectory(t *testing.T) {
	s, p := probe(t)
	root := conformance.Root(s)
	name := bf.As[conformance.Counter](root.Lookup("counter")).Name()
	gone := root.Lookup("again")
	all := bf.NewStrCell(s, "")
	for name := range root.Names().Each() {
		all.PutP(all.Get().ConcatP(name).Concat(" "))
	}
	names, inserted := all.Get(), root.Insert("again", p.Counter())
	refused(t, inserted.Claim(), bf.ErrorNotAllowed)
	is[*conformance.NotFound](t, gone.Resolve())
	want(t, name, "counter")
	want(t, names, "counter probe ")
}

func TestManyResultsAreMappedAgain(t *testing.T) {
	const count = 16400
	s, p := probe(t)
	scope := s.Scope()
	var items []conformance.Item
	for range count {
		items = append(items, p.Fresh())
	}
	crossed(t, s, 1)
	var names []bf.Str
	for _, item := range items {
		names = append(names, item.Name())
	}
	crossed(t, s, 2)
	for _, name := range names {
		want(t, name, "fresh")
	}
	crossed(t, s, 3)
	scope.Close()
	done(t, s.Flush())
	want(t, p.SameInt(1), 1)
}

func TestAMillionDroppedStubsLeaveNothing(t *testing.T) {
	s, p := probe(t, "limits.handles_max=8")
	done(t, s.Flush())
	for range 1_000_000 {
		p.Fresh().Release()
	}
	name := p.Fresh().Name()
	want(t, name, "fresh")
	if crossings, commands := s.Counters(); crossings < 63 || commands != 1_000_003 {
		t.Errorf("%d commands in %d crossings", commands, crossings)
	}
}
