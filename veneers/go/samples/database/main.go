// A client of examples/database/database.theta.
//
// The stubs were made by `bifrost veneer --lang go examples/database/database.theta -o database`.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	bf "bifrost.dev/veneer"
	"bifrost.dev/veneer/samples/database/database"
)

func main() {
	s, err := database.Connect(context.Background(), os.Getenv("BIFROST_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := visit(s); err != nil {
		log.Fatal(err)
	}
}

func visit(s *bf.Session) error {
	db := database.LookupDataBase(s, "database")

	// Calls are recorded; a claim sends all of them at once and waits for the value.
	eve := db.Fetch("eve")
	eve.Touch()
	eve.Touch()
	visits, err := eve.Visits().Claim()
	if err != nil {
		return err
	}
	fmt.Printf("eve: %d visits\n", visits)
	crossings, commands := s.Counters()
	fmt.Printf("commands: %d, crossings: %d\n", commands, crossings)

	// A loop over an iterator of the server. It crosses as a whole; the body runs once, here.
	total := bf.NewIntCell(s, 0)
	for e := range db.Users().Each() {
		s.If(e.Visits().Gt(0), func() { total.PutP(total.Get().AddP(e.Visits())) })
	}
	all, err := total.Get().Claim()
	if err != nil {
		return err
	}
	fmt.Printf("visits in all: %d\n", all)

	// A loop whose state is in a cell at the server.
	round := bf.NewIntCell(s, 0)
	s.While(func() bf.Bool { return round.Get().Lt(1000) }, func() {
		eve.Touch()
		round.PutP(round.Get().Add(1))
	})
	if visits, err = eve.Visits().Claim(); err != nil {
		return err
	}
	fmt.Printf("eve: %d visits\n", visits)

	// What goes wrong is told where a value is claimed, and can be handled at the server.
	var missing *database.NotFound
	if _, err := db.Fetch("zoe").Name().Claim(); errors.As(err, &missing) {
		fmt.Printf("zoe: %s\n", missing.Signal.Name)
	} else if err != nil {
		return err
	}
	found := bf.NewCell[database.DataElem](s)
	s.Except(func() { found.Put(db.Fetch("zoe")) }).
		When(database.WhenNotFound(func() { found.Put(db.NewUser("zoe")) }))
	name, err := found.Get().Name().Claim()
	if err != nil {
		return err
	}
	fmt.Printf("%s is there now\n", name)

	// A table of all users: one crossing, whatever their number.
	table := bf.NewRows2(s, bf.Strs, bf.Ints)
	for e := range db.Users().Each() {
		table.Emit(e.Name(), e.Visits())
	}
	rows, err := table.Claim()
	if err != nil {
		return err
	}
	for _, row := range rows {
		fmt.Printf("%s: %d visits\n", row.A, row.B)
	}

	// A struct as argument and a sequence as result: values cross with all their items.
	often, err := db.Matching(database.Query{Prefix: "e", Visits: 2}).Get().Claim()
	if err != nil {
		return err
	}
	fmt.Printf("often here: %q\n", often)

	// The root directory has objects of any type. A cast inside a loop makes them what they are.
	names := database.Root(s)
	eves := bf.NewRows2(s, bf.Strs, bf.Ints)
	for name := range names.List().Each() {
		object := names.LookupP(name)
		s.If(bf.Is[database.DataBase](object), func() {
			eves.Emit(name, bf.As[database.DataBase](object).Fetch("eve").Visits())
		})
	}
	views, err := eves.Claim()
	if err != nil {
		return err
	}
	var databases []string
	for _, row := range views {
		databases = append(databases, fmt.Sprintf("%s %d", row.A, row.B))
	}
	fmt.Printf("eve's visits, by database: %s\n", strings.Join(databases, ", "))

	// Others see what this session has done when it commits. A failure that nobody was told of would
	// prevent that; zoe's was told.
	return s.Commit()
}
