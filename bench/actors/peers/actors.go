// The cases of `bifrost bench actors` in Go: an actor is a goroutine with a channel.
//
// `actors CASE` reads a line N for each run and answers with the processor time in nanoseconds and the result.
package main

import (
	"fmt"
	"math"
	"os"
	"syscall"
)

// A message to any of the actors; which fields it has hangs on kind.
type message struct {
	kind   int
	number int64
	actor  chan message
	answer chan int64
}

const (
	add = iota
	value
	ask
	flood
	take
	give
)

// As many messages as a flood has, and then some.
const room = 1100

func counter(mail chan message, source chan message) {
	sum := int64(0)
	for m := range mail {
		switch m.kind {
		case add:
			sum += m.number
			if m.answer != nil {
				m.answer <- sum
			}
		case value:
			m.answer <- sum
		case ask:
			done := make(chan int64)
			source <- message{kind: flood, number: m.number, actor: mail, answer: done}
			m.answer <- <-done
		}
	}
}

func newCounter(source chan message) chan message {
	mail := make(chan message, room)
	go counter(mail, source)
	return mail
}

func send(n int64) int64 {
	c := newCounter(nil)
	defer close(c)
	for i := int64(1); i <= n; i++ {
		c <- message{kind: add, number: i & 7}
	}
	answer := make(chan int64)
	c <- message{kind: value, answer: answer}
	return <-answer
}

func queue(n int64) int64 {
	source := make(chan message)
	defer close(source)
	go func() {
		for m := range source {
			for i := int64(1); i <= m.number; i++ {
				m.actor <- message{kind: add, number: i & 7}
			}
			m.answer <- 0
		}
	}()
	c := newCounter(source)
	defer close(c)
	answer := make(chan int64)
	sum := int64(0)
	for i := int64(0); i < n/1000; i++ {
		c <- message{kind: ask, number: 1000, answer: answer}
		<-answer
		c <- message{kind: value, answer: answer}
		sum = <-answer
	}
	return sum
}

func request(n int64) int64 {
	c := newCounter(nil)
	defer close(c)
	answer := make(chan int64)
	last := int64(0)
	for i := int64(1); i <= n; i++ {
		c <- message{kind: add, number: (last + i) & 7, answer: answer}
		last = <-answer
	}
	return last
}

func suspend(n int64) int64 {
	holder := make(chan message, room)
	defer close(holder)
	go func() {
		var held chan int64
		var early []int64
		for m := range holder {
			switch {
			case m.kind == take && len(early) > 0:
				m.answer <- early[0]
				early = early[1:]
			case m.kind == take:
				held = m.answer
			case held == nil:
				early = append(early, m.number)
			default:
				held <- m.number
				held = nil
			}
		}
	}()
	asker := make(chan message, room)
	defer close(asker)
	go func() {
		sum := int64(0)
		answer := make(chan int64)
		for m := range asker {
			if m.kind == ask {
				holder <- message{kind: take, answer: answer}
				sum += <-answer
			} else {
				m.answer <- sum
			}
		}
	}()
	answer := make(chan int64)
	sum := int64(0)
	for i := int64(1); i <= n; i++ {
		asker <- message{kind: ask}
		holder <- message{kind: give, number: i & 7}
		asker <- message{kind: value, answer: answer}
		sum = <-answer
	}
	return sum
}

func cell(mail chan message, before chan message, first, second int64) {
	for m := range mail {
		m.answer <- first + second
	}
	_ = before
}

func create(n int64) int64 {
	var last chan message
	for i := int64(0); i <= n; i++ {
		if last != nil {
			// Nobody else ends it.
			close(last)
		}
		last = make(chan message, 1)
		go cell(last, nil, i, i+1)
	}
	defer close(last)
	answer := make(chan int64)
	last <- message{kind: value, answer: answer}
	return <-answer
}

// The last of those that stay.
var stays chan message

func idle(n int64) int64 {
	for i := int64(1); i <= n; i++ {
		mail := make(chan message, 1)
		go cell(mail, stays, 0, i)
		stays = mail
	}
	answer := make(chan int64)
	stays <- message{kind: value, answer: answer}
	return <-answer
}

func fibActor(n int64, answer chan int64) {
	if n < 2 {
		answer <- n
		return
	}
	answers := make(chan int64, 2)
	go fibActor(n-1, answers)
	go fibActor(n-2, answers)
	answer <- <-answers + <-answers
}

func queenActor(col, diag1, diag2, maxcol int64, answer chan int64) {
	c := col | diag1 | diag2
	sols, asked := int64(0), 0
	answers := make(chan int64, 16)
	for c1 := (c + 1) & ^c; c1 <= maxcol; c1 = ((c1 << 1) + c) & ^c {
		if col|c1 == maxcol {
			sols++
		} else {
			go queenActor(col|c1, ((diag1|c1)<<1)&maxcol, (diag2|c1)>>1, maxcol, answers)
			asked++
		}
	}
	for ; asked > 0; asked-- {
		sols += <-answers
	}
	answer <- sols
}

func f(x, often float64) float64 {
	if x <= 5.0*math.Pi {
		return 1000.0
	}
	return math.Abs(1000.0*math.Sin(often*x) + 1000.0)
}

func simpson(a, b, often float64) float64 {
	return (b - a) / 6.0 * (f(a, often) + 4.0*f((a+b)/2.0, often) + f(b, often))
}

func areaActor(a, b, often, bound float64, answer chan float64) {
	m := (a + b) / 2.0
	halves := simpson(a, m, often) + simpson(m, b, often)
	if math.Abs(halves-simpson(a, b, often)) <= bound || m <= a || m >= b {
		answer <- halves
		return
	}
	left, right := make(chan float64, 1), make(chan float64, 1)
	go areaActor(m, b, often, bound/2.0, right)
	go areaActor(a, m, often, bound/2.0, left)
	answer <- <-left + <-right
}

func quadrature(n int64) int64 {
	often, step := 7.3*float64(n), 5.2*math.Pi/8.0
	var parts [8]chan float64
	for i := range parts {
		lo := step * float64(i)
		parts[i] = make(chan float64, 1)
		go areaActor(lo, lo+step, often, 0.01, parts[i])
	}
	total := 0.0
	for _, part := range parts {
		total += <-part
	}
	return int64(math.Round(total))
}

func run(name string, n int64) int64 {
	answer := make(chan int64, 1)
	switch name {
	case "send", "send-known", "remote":
		return send(n)
	case "queue":
		return queue(n)
	case "request", "remote-request":
		return request(n)
	case "suspend":
		return suspend(n)
	case "create":
		return create(n)
	case "idle":
		return idle(n)
	case "fib":
		go fibActor(n, answer)
	case "queens12", "queens13":
		go queenActor(0, 0, 0, 1<<n-1, answer)
	case "quadrature":
		return quadrature(n)
	default:
		fmt.Fprintln(os.Stderr, "there is no case", name)
		os.Exit(1)
	}
	return <-answer
}

// The processor time of the process, that of the collector's threads included.
func nowNs() int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

func main() {
	var n int64
	for {
		if _, err := fmt.Scanln(&n); err != nil {
			return
		}
		start := nowNs()
		result := run(os.Args[1], n)
		fmt.Println(nowNs()-start, result)
	}
}
