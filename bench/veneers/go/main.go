// Peer of "bifrost bench veneers" in Go: grpc-go.
//
//	grpc-go serve PATH    prints "ready", ends when its input does
//	grpc-go client PATH   answers lines "CASE N", as README.md has them
//
// PATH is a unix socket. peers.sh makes the package calls of the copy that is built.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"peers/calls"
)

// probe is the service.
type probe struct {
	calls.UnimplementedProbeServer
}

func (probe) Nothing(context.Context, *calls.Object) (*calls.Done, error) {
	return &calls.Done{}, nil
}

func (probe) SameInt(_ context.Context, number *calls.Number) (*calls.Number, error) {
	return &calls.Number{Number: number.Number}, nil
}

func (probe) Itself(_ context.Context, object *calls.Object) (*calls.Object, error) {
	return &calls.Object{Object: object.Object}, nil
}

func (probe) Pairs(_ context.Context, limit *calls.Number) (*calls.Rows, error) {
	rows := make([]*calls.Row, limit.Number)
	for index := range rows {
		number := int64(index) + 1
		rows[index] = &calls.Row{Number: number, Text: strconv.FormatInt(number, 10)}
	}
	return &calls.Rows{Rows: rows}, nil
}

// serve serves until the input ends.
func serve(path string) error {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	calls.RegisterProbeServer(server, probe{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	fmt.Println("ready")
	return server.Serve(listener)
}

// client answers lines until the input ends.
func client(path string) error {
	conn, err := grpc.NewClient("unix:"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return err
	}
	defer conn.Close()
	stub := calls.NewProbeClient(conn)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var name string
		var count int64
		if _, err := fmt.Sscan(lines.Text(), &name, &count); err != nil {
			return err
		}
		took, result, err := run(stub, name, count)
		if err != nil {
			return err
		}
		fmt.Println(took.Nanoseconds(), result)
	}
	return lines.Err()
}

// run runs a case: its time and its result.
func run(stub calls.ProbeClient, name string, count int64) (time.Duration, int64, error) {
	ctx := context.Background()
	begin := time.Now()
	var result int64
	switch name {
	case "record", "batch":
		return many(stub, count, name == "record")
	case "null":
		for ; result < count; result++ {
			if _, err := stub.Nothing(ctx, &calls.Object{Object: 1}); err != nil {
				return 0, 0, err
			}
		}
	case "pair":
		for number := range count {
			reply, err := stub.SameInt(ctx, &calls.Number{Object: 1, Number: number})
			if err != nil {
				return 0, 0, err
			}
			result += reply.Number
		}
	case "two":
		for number := range count {
			itself, err := stub.Itself(ctx, &calls.Object{Object: 1})
			if err != nil {
				return 0, 0, err
			}
			reply, err := stub.SameInt(ctx, &calls.Number{Object: itself.Object, Number: number})
			if err != nil {
				return 0, 0, err
			}
			result += reply.Number
		}
	case "table":
		rows, err := stub.Pairs(ctx, &calls.Number{Object: 1, Number: count})
		if err != nil {
			return 0, 0, err
		}
		for _, row := range rows.Rows {
			result += row.Number + int64(len(row.Text))
		}
	default:
		return 0, 0, fmt.Errorf("no case %s", name)
	}
	return time.Since(begin), result, nil
}

// many makes calls that do not wait for each other: each is a goroutine's. The time ends when all
// are begun, or when all are answered.
func many(stub calls.ProbeClient, count int64, onlyBegun bool) (time.Duration, int64, error) {
	replies, errors := make([]int64, count), make([]error, count)
	var done sync.WaitGroup
	begin := time.Now()
	for number := range count {
		done.Add(1)
		go func() {
			defer done.Done()
			reply, err := stub.SameInt(context.Background(), &calls.Number{Object: 1, Number: number})
			if errors[number] = err; err == nil {
				replies[number] = reply.Number
			}
		}()
	}
	begun := time.Since(begin)
	done.Wait()
	answered := time.Since(begin)
	var result int64
	for number, reply := range replies {
		if err := errors[number]; err != nil {
			return 0, 0, err
		}
		result += reply
	}
	if onlyBegun {
		return begun, result, nil
	}
	return answered, result, nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: grpc-go serve|client PATH")
		os.Exit(2)
	}
	do := map[string]func(string) error{"serve": serve, "client": client}[os.Args[1]]
	if do == nil {
		fmt.Fprintln(os.Stderr, "there is no order", os.Args[1])
		os.Exit(2)
	}
	if err := do(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
