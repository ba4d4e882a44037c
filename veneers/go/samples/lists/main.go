// A client of examples/lists/lists.theta: the conversation of its client.bifrost.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	bf "bifrost.dev/veneer"
	"bifrost.dev/veneer/samples/lists/lists"
)

func main() {
	s, err := lists.Connect(context.Background(), os.Getenv("BIFROST_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := walk(s); err != nil {
		log.Fatal(err)
	}
}

func walk(s *bf.Session) error {
	// Ten steps along the list, one crossing: every step uses a result that does not exist yet.
	squares := lists.LookupIntList(s, "squares")
	last := squares
	for range 9 {
		last = last.Next()
	}
	tenth, err := last.First().Claim()
	if err != nil {
		return err
	}
	fmt.Printf("the 10th is %d\n", tenth)

	// How far the list goes is not known here: a loop finds out over there.
	at := bf.CellOf(squares)
	count := bf.NewIntCell(s, 0)
	s.While(func() bf.Bool { return at.Get().NotEmpty() }, func() {
		count.PutP(count.Get().Add(1))
		at.Put(at.Get().Next())
	})
	length, err := count.Get().Claim()
	if err != nil {
		return err
	}
	fmt.Printf("it has %d elements\n", length)

	// The same as a routine that the program has.
	if tenth, err = lists.Nth(s, squares, 10).Claim(); err != nil {
		return err
	}
	fmt.Printf("the 10th is %d\n", tenth)
	var bounds *lists.Bounds
	if _, err := lists.Nth(s, squares, 101).Claim(); errors.As(err, &bounds) {
		fmt.Printf("the 101st: %s\n", bounds.Signal.Name)
	} else if err != nil {
		return err
	}
	return nil
}
