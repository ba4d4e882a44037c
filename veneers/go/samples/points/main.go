// A client of examples/points/points.theta: the conversation of its client.bifrost.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	bf "bifrost.dev/veneer"
	"bifrost.dev/veneer/samples/points/points"
)

func main() {
	s, err := points.Connect(context.Background(), os.Getenv("BIFROST_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := move(s); err != nil {
		log.Fatal(err)
	}
}

func move(s *bf.Session) error {
	// Swap the coordinates of a point, step by step: one crossing.
	p := points.LookupPoint(s, "home")
	x := p.X()
	p.SetXP(p.Y())
	p.SetYP(x)
	if err := show(p); err != nil {
		return err
	}

	// A procedure is a batch with a name: defined once, called like a routine.
	type shift = bf.Proc2[points.Point, bf.Int, bf.Done]
	by := bf.DefineProc2(s, "move", func(_ *shift, point points.Point, by bf.Int) bf.Done {
		point.SetXP(point.X().AddP(by))
		point.SetYP(point.Y().AddP(by))
		return s.Nothing()
	})
	by.Call(p, s.Int(10))
	by.Call(p, s.Int(100))
	if err := show(p); err != nil {
		return err
	}

	// The sum of a list, with a loop over a cell.
	at := bf.CellOf(points.LookupListOfInt(s, "primes"))
	sum := bf.NewIntCell(s, 0)
	s.While(func() bf.Bool { return at.Get().NotEmpty() }, func() {
		sum.PutP(sum.Get().AddP(at.Get().First()))
		at.Put(at.Get().Next())
	})
	total, err := sum.Get().Claim()
	if err != nil {
		return err
	}
	fmt.Printf("sum = %d\n", total)
	return nil
}

// show prints a point: the first claim gets both coordinates.
func show(p points.Point) error {
	left, top := p.X(), p.Y()
	x, err := left.Claim()
	if err != nil {
		return err
	}
	y, err := top.Claim()
	if err != nil {
		return err
	}
	fmt.Printf("x = %d, y = %d\n", x, y)
	return nil
}
