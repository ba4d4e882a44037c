// The program bench is the measured client of "bifrost bench veneers" in Go. It connects to
// BIFROST_URL, a server of the conformance program, and answers lines "CASE N" by the nanoseconds
// and the result of N steps (bench/veneers/README.md). BIFROST_PROFILE is a file for a profile of
// the CPU.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	bf "bifrost.dev/veneer"
	"bifrost.dev/veneer/internal/stubs/conformance"
)

func main() {
	if err := answerLines(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// answerLines answers lines until the input ends.
func answerLines() error {
	if name := os.Getenv("BIFROST_PROFILE"); name != "" {
		file, err := os.Create(name)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	s, err := conformance.Connect(context.Background(), os.Getenv("BIFROST_URL"))
	if err != nil {
		return err
	}
	defer s.Close()
	probe := conformance.LookupProbe(s, "probe")
	if err := probe.Resolve(); err != nil {
		return err
	}
	raw, err := newEcho()
	if err != nil {
		return err
	}
	defer raw.close()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var name string
		var count int
		if _, err := fmt.Sscan(lines.Text(), &name, &count); err != nil {
			return err
		}
		took, result, err := run(s, probe, raw, name, count)
		if err != nil {
			return err
		}
		fmt.Println(took.Nanoseconds(), result)
	}
	return lines.Err()
}

// run runs a case: its time and its result.
func run(
	s *bf.Session, probe conformance.Probe, raw *echo, name string, count int,
) (took time.Duration, result int64, err error) {
	begin := time.Now()
	switch name {
	case "record":
		// The stubs and the commands of calls: the recording alone.
		err = s.Batch(func(*bf.Scope) {
			for number := range int64(count) {
				probe.SameInt(number)
			}
			took = time.Since(begin)
		})
		return took, int64(count) * int64(count-1) / 2, err
	case "batch":
		// From recording to the last result.
		defer s.Scope().Close()
		all := make([]bf.Int, count)
		for index := range all {
			all[index] = probe.SameInt(int64(index))
		}
		if err = all[count-1].Resolve(); err != nil {
			return 0, 0, err
		}
		took = time.Since(begin)
		for _, promise := range all {
			number, err := promise.Claim()
			if err != nil {
				return 0, 0, err
			}
			result += number
		}
		return took, result, nil
	case "null":
		for ; result < int64(count); result++ {
			if err = probe.Nothing().Claim(); err != nil {
				return 0, 0, err
			}
		}
	case "pair":
		for number := range int64(count) {
			promise := probe.SameInt(number)
			found, err := promise.Claim()
			if err != nil {
				return 0, 0, err
			}
			promise.Release()
			result += found
		}
	case "two":
		for number := range int64(count) {
			itself := probe.Itself()
			promise := itself.SameInt(number)
			itself.Release()
			found, err := promise.Claim()
			if err != nil {
				return 0, 0, err
			}
			promise.Release()
			result += found
		}
	case "table":
		rows := bf.NewRows2(s, bf.Ints, bf.Strs)
		for number, text := range probe.Pairs(int64(count)).Each() {
			rows.Emit(number, text)
		}
		all, err := rows.Claim()
		if err != nil {
			return 0, 0, err
		}
		for _, row := range all {
			result += row.A + int64(len(row.B))
		}
	case "raw":
		for ; result < int64(count); result++ {
			if err = raw.pair(); err != nil {
				return 0, 0, err
			}
		}
	default:
		return 0, 0, fmt.Errorf("no case %s", name)
	}
	return time.Since(begin), result, nil
}

// pingBytes are the bytes of a call with one integer and its flush.
const pingBytes = 40

// echo is a socket whose other end sends all bytes back.
type echo struct {
	folder   string
	listener net.Listener
	conn     net.Conn
	data     [pingBytes]byte
}

func newEcho() (*echo, error) {
	folder, err := os.MkdirTemp("", "bifrost-bench-")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", filepath.Join(folder, "raw"))
	if err != nil {
		return nil, err
	}
	go func() {
		far, err := listener.Accept()
		if err != nil {
			return
		}
		defer far.Close()
		_, _ = io.Copy(struct{ io.Writer }{far}, struct{ io.Reader }{far})
	}()
	conn, err := net.Dial("unix", listener.Addr().String())
	return &echo{folder: folder, listener: listener, conn: conn}, err
}

// pair sends a message, and waits until it is back.
func (e *echo) pair() error {
	if _, err := e.conn.Write(e.data[:]); err != nil {
		return err
	}
	_, err := io.ReadFull(e.conn, e.data[:])
	return err
}

func (e *echo) close() {
	e.conn.Close()
	e.listener.Close()
	os.RemoveAll(e.folder)
}
