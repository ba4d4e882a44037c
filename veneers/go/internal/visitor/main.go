// The program visitor is a client among many of one server: "visitor NAME TIMES" visits Ann and a
// person of its own, so many times, each in a transaction. BIFROST_URL is the server.
// veneers/together.sh runs it beside clients in other languages, over other media.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	bf "bifrost.dev/veneer"
	"bifrost.dev/veneer/internal/stubs/database"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: visitor NAME TIMES")
		os.Exit(2)
	}
	times, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = visit(os.Args[1], times)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func visit(name string, times int) error {
	s, err := database.Connect(context.Background(), os.Getenv("BIFROST_URL"))
	if err != nil {
		return err
	}
	defer s.Close()
	db := database.LookupDataBase(s, "database")
	var own database.DataElem
	if err := s.Transaction(func(b *bf.Scope) {
		own = db.NewUser(name)
		b.Keep(own)
	}); err != nil {
		return err
	}
	last := int64(-1)
	for range times {
		var visits bf.Int
		if err := s.Transaction(func(b *bf.Scope) {
			ann := db.Fetch("ann")
			ann.Touch()
			own.Touch()
			visits = ann.Visits()
			b.Keep(visits)
		}); err != nil {
			return err
		}
		seen, err := visits.Claim()
		if err != nil {
			return err
		}
		if seen <= last {
			return fmt.Errorf("there were %d visits of Ann, and are %d", last, seen)
		}
		last = seen
		visits.Release()
	}
	visits, err := own.Visits().Claim()
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d visits, Ann at least %d\n", name, visits, last)
	return nil
}
