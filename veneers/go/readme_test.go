package veneer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	bf "bifrost.dev/veneer"
	"bifrost.dev/veneer/samples/database/database"
)

// The functions of README.md, with the same text.

func visit(ctx context.Context, url string) error {
	s, err := database.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer s.Close()
	db := database.LookupDataBase(s, "database")
	eve := db.Fetch("eve") // recorded: nothing has crossed
	eve.Touch()
	visits, err := eve.Visits().Claim() // one crossing for all of it
	if err != nil {
		return err
	}
	fmt.Println("visits:", visits)
	return s.Commit()
}

func total(s *bf.Session, db database.DataBase) (int64, error) {
	total := bf.NewIntCell(s, 0)
	for user := range db.Users().Each() {
		s.If(user.Visits().Gt(0), func() { total.PutP(total.Get().AddP(user.Visits())) })
	}
	return total.Get().Claim()
}

func found(s *bf.Session, db database.DataBase, name string) database.DataElem {
	found := bf.NewCell[database.DataElem](s)
	s.Except(func() { found.Put(db.Fetch(name)) }).
		When(database.WhenNotFound(func() { found.Put(db.NewUser(name)) }))
	return found.Get()
}

func table(s *bf.Session, db database.DataBase) error {
	table := bf.NewRows2(s, bf.Strs, bf.Ints)
	for user := range db.Users().Each() {
		table.Emit(user.Name(), user.Visits())
	}
	rows, err := table.Claim() // one crossing, whatever their number
	for _, row := range rows {
		fmt.Println(row.A, row.B)
	}
	return err
}

func isKnown(db database.DataBase, name string) (bool, error) {
	_, err := db.Fetch(name).Name().Claim()
	var missing *database.NotFound
	if errors.As(err, &missing) {
		return false, nil
	}
	return err == nil, err
}

func both(s *bf.Session, db database.DataBase) (int64, error) {
	var visits bf.Int
	err := s.Transaction(func(tx *bf.Scope) {
		ann, bob := db.Fetch("ann"), db.Fetch("bob")
		ann.Touch()
		bob.Touch()
		visits = ann.Visits().AddP(bob.Visits())
		tx.Keep(visits)
	})
	if err != nil {
		return 0, err
	}
	return visits.Claim()
}

func visitByName(ctx context.Context, url string) error {
	s, err := bf.Connect(ctx, url, bf.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	eve := s.Lookup("database", "DataBase").Call("DataBase.fetch", bf.TextValue("eve"))
	eve.Do("DataElem.touch")
	visits, err := eve.Call("DataElem.visits").Claim()
	if err != nil {
		return err
	}
	fmt.Println("visits:", visits)
	return s.Commit()
}

func TestTheReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	done(t, err)
	own, err := os.ReadFile("readme_test.go")
	done(t, err)
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) != 7 {
		t.Errorf("there are %d blocks", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(string(own), block) {
			t.Errorf("this block is not tested:\n%s", block)
		}
	}
	url := serve(t, "database")
	ctx := context.Background()
	done(t, visit(ctx, url))
	done(t, visitByName(ctx, url))
	s := open(t, database.Connect, url)
	db := database.LookupDataBase(s, "database")
	if visits, err := total(s, db); err != nil || visits != 2 {
		t.Errorf("found %d, %v", visits, err)
	}
	want(t, found(s, db, "zoe").Name(), "zoe")
	done(t, table(s, db))
	for name, expected := range map[string]bool{"eve": true, "zoe": true, "nobody": false} {
		if known, err := isKnown(db, name); err != nil || known != expected {
			t.Errorf("%s: %v, %v", name, known, err)
		}
	}
	done(t, s.Commit())
	if visits, err := both(s, db); err != nil || visits != 2 {
		t.Errorf("found %d, %v", visits, err)
	}
}
