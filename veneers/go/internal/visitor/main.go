// The program visitor is a client among many of one server: "visitor NAME TIMES" visits Ann and a
// person of its own, so many times, each in a transaction. BIFROST_URL is the server.
// veneers/together.sh runs it beside clients in other languages, over other media.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"bifrost.dev/veneer"
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
	session, err := veneer.Connect(context.Background(), os.Getenv("BIFROST_URL"), veneer.Options{})
	if err != nil {
		return err
	}
	defer session.Close()
	db := session.Lookup("database", "DataBase")
	if _, err := inTransaction(session, func() *veneer.Stub {
		return db.Call("DataBase.new_user", veneer.TextValue(name)).Call("DataElem.visits")
	}); err != nil {
		return err
	}
	last := int64(-1)
	for range times {
		seen, err := inTransaction(session, func() *veneer.Stub {
			ann := db.Call("DataBase.fetch", veneer.TextValue("ann"))
			ann.Do("DataElem.touch")
			db.Call("DataBase.fetch", veneer.TextValue(name)).Do("DataElem.touch")
			return ann.Call("DataElem.visits")
		})
		if err != nil {
			return err
		}
		if seen <= last {
			return fmt.Errorf("there were %d visits of Ann, and are %d", last, seen)
		}
		last = seen
	}
	own, err := inTransaction(session, func() *veneer.Stub {
		return db.Call("DataBase.fetch", veneer.TextValue(name)).Call("DataElem.visits")
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d visits, Ann at least %d\n", name, own, last)
	return nil
}

// inTransaction makes calls in a transaction, again while others have changed what it has read. It
// returns the number that is the result.
func inTransaction(session *veneer.Session, body func() *veneer.Stub) (int64, error) {
	for {
		result := body()
		wrong := session.Commit()
		var refused *veneer.Refused
		if errors.As(wrong, &refused) && refused.Number == veneer.ErrorConflict {
			session.ClearExceptions()
			continue
		}
		if wrong != nil {
			return 0, wrong
		}
		value, err := result.Claim()
		number, _ := value.Int()
		return number, err
	}
}
