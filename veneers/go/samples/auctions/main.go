// A client of examples/auctions/auctions.theta: actors, their requests and messages.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	bf "bifrost.dev/veneer"
	"bifrost.dev/veneer/samples/auctions/auctions"
)

func main() {
	// The places of calls are told with failures.
	options := bf.Options{Places: true}
	s, err := auctions.Connect(context.Background(), os.Getenv("BIFROST_URL"), options)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := bid(s); err != nil {
		log.Fatal(err)
	}
}

func bid(s *bf.Session) error {
	// Two auctions. Their references are used before they are known, and the first two bids run at
	// the same time.
	house := auctions.LookupHouse(s, "house")
	lamp, clock := house.Open("lamp", 10), house.Open("clock", 50)
	first, second := lamp.Bid(12), clock.Bid(60)
	bids, err := first.AddP(second).Claim()
	if err != nil {
		return err
	}
	fmt.Printf("bids: %d\n", bids)

	// A bid that is too low is an exception of the call, and the rest goes on.
	low, price := lamp.Bid(11), clock.Price()
	var tooLow *auctions.TooLow
	if _, err := low.Claim(); errors.As(err, &tooLow) {
		fmt.Printf("too low: %d is offered\n", tooLow.Value)
	} else if err != nil {
		return err
	}
	offered, err := price.Claim()
	if err != nil {
		return err
	}
	fmt.Printf("the clock: %d\n", offered)

	// Bids in a loop: all are sent before the first is awaited. Failures are told with their rounds.
	for n := range s.Int(1).To(5).Each() {
		lamp.BidP(n.Mul(5))
	}
	lampPrice := lamp.Price()
	var unseen *bf.Unseen
	if err := s.Flush(); errors.As(err, &unseen) {
		for _, failure := range unseen.Failures {
			var signal *bf.Signal
			if errors.As(failure, &signal) {
				fmt.Printf("%s in round %d\n", signal.Name, signal.Call.Rounds[0])
			}
		}
	} else if err != nil {
		return err
	}
	if offered, err = lampPrice.Claim(); err != nil {
		return err
	}
	fmt.Printf("the lamp: %d\n", offered)

	// Nobody waits for a message, and messages of a session to an actor arrive in the order in which
	// they were sent.
	clock.Send().Bid(70)
	clock.Send().Bid(65)
	if offered, err = clock.Price().Claim(); err != nil {
		return err
	}
	fmt.Printf("the clock: %d\n", offered)
	return nil
}
