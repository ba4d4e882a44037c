//go:build linux && (amd64 || arm64)

package veneer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

const testRing = 4096

// makeMemory returns a memfd with the layout of rings, sealed by some seals, and maps it.
func makeMemory(t testing.TB, size int, seals uintptr) (descriptor int, memory []byte) {
	t.Helper()
	number := map[string]uintptr{"amd64": 319, "arm64": 279}[runtime.GOARCH]
	name := append([]byte("bifrost-test"), 0)
	const allowSealing, cloexec, addSeals = 2, 1, 1033
	made, _, wrong := syscall.Syscall(
		number, uintptr(unsafe.Pointer(&name[0])), allowSealing|cloexec, 0)
	if wrong != 0 {
		t.Fatal(wrong)
	}
	descriptor = int(made)
	t.Cleanup(func() { syscall.Close(descriptor) })
	if err := syscall.Ftruncate(descriptor, int64(size)); err != nil {
		t.Fatal(err)
	}
	if _, _, wrong := syscall.Syscall(syscall.SYS_FCNTL, made, addSeals, seals); wrong != 0 {
		t.Fatal(wrong)
	}
	memory, err := syscall.Mmap(descriptor, 0, size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(memory) })
	copy(memory, shmHead(testRing, shmVersion))
	return descriptor, memory
}

// shmHead returns the front of the memory, which is the message of the handover as well.
func shmHead(ring, version uint64) []byte {
	head := []byte(shmMagic)
	head = binary.NativeEndian.AppendUint64(head, version)
	return binary.NativeEndian.AppendUint64(head, ring)
}

// hostile is the server's side of a stream, which the test plays.
type hostile struct {
	memory []byte
	bell   *os.File
	socket *net.UnixConn
}

// shmServer listens, and hands each client what the test says. It returns the address.
func shmServer(t testing.TB, then func(*net.UnixConn)) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "bifrost-go-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	path := filepath.Join(folder, "shm")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			then(conn.(*net.UnixConn))
		}
	}()
	return "shm://" + path
}

// shmPair opens a stream whose other side is the test.
func shmPair(t testing.TB) (*shmConn, *hostile) {
	t.Helper()
	descriptor, memory := makeMemory(t, shmHeaderBytes+2*testRing, 7)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		out.Close()
		in.Close()
	})
	server := &hostile{memory: memory, bell: out}
	ready := make(chan *net.UnixConn, 1)
	rights := syscall.UnixRights(descriptor, int(in.Fd()))
	url := shmServer(t, func(conn *net.UnixConn) {
		if _, _, err := conn.WriteMsgUnix(shmHead(testRing, shmVersion), rights, nil); err != nil {
			t.Error(err)
		}
		ready <- conn
	})
	opened, err := dialShm(context.Background(), strings.TrimPrefix(url, "shm://"))
	if err != nil {
		t.Fatal(err)
	}
	server.socket = <-ready
	client := opened.(*shmConn)
	t.Cleanup(func() {
		server.socket.Close()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client, server
}

// soon sets the deadlines of a stream.
func soon(c *shmConn, after time.Duration) {
	c.readDeadline, c.writeDeadline = time.Now().Add(after), time.Now().Add(after)
}

func TestAServerOfSharedMemoryThatIsKilled(t *testing.T) {
	folder, err := os.MkdirTemp("", "bifrost-go-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	program, err := filepath.Abs(filepath.Join(casesFolder, "programs", "conformance.theta"))
	if err != nil {
		t.Fatal(err)
	}
	url := "shm://" + folder + "/shm"
	server := exec.Command(serverBinary(t), "serve", "--listen", url, program)
	server.Env = []string{"XDG_STATE_HOME=" + folder}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the server did not start: %q, %v", line, err)
	}
	s, err := Connect(context.Background(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	probe := s.Lookup("probe", "Probe")
	expectInt(t, probe.Call("Probe.same_int", IntValue(7)), 7)
	// It dies while the client sleeps.
	endless := probe.Call("Probe.endless")
	killed := make(chan time.Time, 1)
	time.AfterFunc(100*time.Millisecond, func() {
		_ = server.Process.Kill()
		killed <- time.Now()
	})
	_, err = endless.Claim()
	var closed *ClosedByConnection
	if !errors.As(err, &closed) || !errors.Is(err, io.EOF) {
		t.Errorf("found %v", err)
	}
	if took := time.Since(<-killed); took > time.Second {
		t.Errorf("it took %v", took)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := server.Wait(); err == nil {
		t.Error("the server was not killed")
	}
}

func TestHandoversThatAreNone(t *testing.T) {
	total := shmHeaderBytes + 2*testRing
	good, _ := makeMemory(t, total, 7)
	unsealed, _ := makeMemory(t, total, 0)
	short, _ := makeMemory(t, total-1, 7)
	long, _ := makeMemory(t, total+1, 7)
	other, memory := makeMemory(t, total, 7)
	memory[16]++
	bell, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer bell.Close()
	file, err := os.CreateTemp(t.TempDir(), "file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	head := shmHead(testRing, shmVersion)
	for name, test := range map[string]struct {
		message     []byte
		descriptors []int
	}{
		"no descriptors":    {head, nil},
		"no bell":           {head, []int{good}},
		"no seal":           {head, []int{unsealed, int(bell.Fd())}},
		"short memory":      {head, []int{short, int(bell.Fd())}},
		"long memory":       {head, []int{long, int(bell.Fd())}},
		"another header":    {head, []int{other, int(bell.Fd())}},
		"a file":            {head, []int{int(file.Fd()), int(bell.Fd())}},
		"another version":   {shmHead(testRing, 3), []int{good, int(bell.Fd())}},
		"no power of two":   {shmHead(testRing+8, shmVersion), []int{good, int(bell.Fd())}},
		"a small ring":      {shmHead(2048, shmVersion), []int{good, int(bell.Fd())}},
		"a huge ring":       {shmHead(1<<31, shmVersion), []int{good, int(bell.Fd())}},
		"a part of a word":  {head[:23], []int{good, int(bell.Fd())}},
		"another magic":     {bytes.Repeat([]byte("x"), 24), []int{good, int(bell.Fd())}},
		"nothing":           {nil, nil},
		"another, no right": {[]byte("HTTP/1.1 400 Bad Request"), nil},
	} {
		url := shmServer(t, func(conn *net.UnixConn) {
			var rights []byte
			if test.descriptors != nil {
				rights = syscall.UnixRights(test.descriptors...)
			}
			if test.message != nil {
				_, _, _ = conn.WriteMsgUnix(test.message, rights, nil)
			}
			conn.Close()
		})
		before := openDescriptors(t)
		_, err := Connect(context.Background(), url, Options{Timeout: wait})
		var refused *ConnectError
		if !errors.As(err, &refused) {
			t.Errorf("%s: found %v", name, err)
		}
		if after := openDescriptors(t); after > before+1 {
			t.Errorf("%s: %d descriptors were open, and %d are", name, before, after)
		}
	}
	silent := shmServer(t, func(*net.UnixConn) {})
	_, err = Connect(context.Background(), silent, Options{Timeout: 50 * time.Millisecond})
	var late net.Error
	if !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("found %v", err)
	}
	refusedWith(t, "shm:///there/is/no/such", Options{}, "no such file")
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestARingIsAQueue(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		_, memory := makeMemory(t, shmHeaderBytes+2*testRing, 7)
		producer := &shmProducer{shmRing: shmRingOf(memory, 0)}
		consumer := &shmConsumer{shmRing: shmRingOf(memory, 0)}
		var model []byte
		for range 400 {
			// Short ones are as likely as all others together.
			piece := make([]byte, 1+random.IntN(1500))
			if random.IntN(2) == 0 {
				piece = piece[:1+random.IntN(min(70, len(piece)))]
			}
			if random.IntN(2) == 0 {
				for index := range piece {
					piece[index] = byte(random.Uint32())
				}
				count, isGood := producer.push(piece)
				if !isGood || count == 0 && len(model) <= testRing*7/8 {
					t.Fatalf("seed %d: %d bytes, %v", seed, count, isGood)
				}
				model = append(model, piece[:count]...)
				continue
			}
			count, isGood := consumer.pull(piece)
			if !isGood || (count == 0) != (len(model) == 0) ||
				!bytes.Equal(piece[:count], model[:count]) {
				t.Fatalf("seed %d: %d bytes, %v", seed, count, isGood)
			}
			model = model[count:]
		}
	}
}

func TestPositionsThatCannotBe(t *testing.T) {
	for _, position := range []uint64{99, 0, 100 + testRing + 1, 1<<64 - 1, 1 << 63} {
		client, server := shmPair(t)
		ring := shmRingOf(server.memory, 1)
		ring.produced().Store(100)
		soon(client, wait)
		if count, err := client.Read(make([]byte, 200)); count != 100 || err != nil {
			t.Errorf("%d bytes, %v", count, err)
		}
		ring.produced().Store(position)
		for range 2 {
			if _, err := client.Read(make([]byte, 200)); !errors.Is(err, errShmCorrupt) {
				t.Errorf("%d: found %v", position, err)
			}
		}
		if _, err := client.Write([]byte{1}); !errors.Is(err, errShmCorrupt) {
			t.Errorf("%d: found %v", position, err)
		}
	}
	for _, position := range []uint64{999, testRing + 1001, 1<<64 - 1, 1 << 63} {
		client, server := shmPair(t)
		ring := shmRingOf(server.memory, 0)
		soon(client, wait)
		if _, err := client.Write(make([]byte, testRing)); err != nil {
			t.Error(err)
		}
		ring.consumed().Store(1000)
		if _, err := client.Write(make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		ring.consumed().Store(position)
		if _, err := client.Write([]byte{1}); !errors.Is(err, errShmCorrupt) {
			t.Errorf("%d: found %v", position, err)
		}
	}
}

// A server that writes anything anywhere makes errors, and neither panics nor waits that do not
// end.
func TestNonsenseInTheRings(t *testing.T) {
	for seed := range uint64(30) {
		client, server := shmPair(t)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			random := rand.New(rand.NewPCG(seed, 2))
			for {
				select {
				case <-stop:
					return
				default:
				}
				ring := shmRingOf(server.memory, random.IntN(2))
				// Positions that are believed now and then, and words all over the control.
				switch random.IntN(4) {
				case 0:
					ring.produced().Add(random.Uint64N(testRing))
				case 1:
					ring.consumed().Add(random.Uint64N(testRing))
				case 2:
					ring.half(4 * random.IntN(shmControlBytes/4)).Store(random.Uint32())
				default:
					ring.consumerSleeps().Store(random.Uint32N(4))
					ring.producerSleeps().Store(random.Uint32N(4))
				}
			}
		}()
		started := time.Now()
		for range 20 {
			soon(client, 5*time.Millisecond)
			_, readErr := client.Read(make([]byte, 1000))
			_, writeErr := client.Write(make([]byte, 1000))
			if errors.Is(readErr, errShmCorrupt) || errors.Is(writeErr, errShmCorrupt) {
				break
			}
		}
		if took := time.Since(started); took > wait {
			t.Errorf("seed %d: it took %v", seed, took)
		}
		close(stop)
		<-done
	}
}

func TestTheEndOfSharedMemory(t *testing.T) {
	client, server := shmPair(t)
	soon(client, 20*time.Millisecond)
	data := make([]byte, 10_000)
	if _, err := client.Read(data); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("found %v", err)
	}
	// Nobody reads: the ring is full.
	if count, err := client.Write(data); !errors.Is(err, os.ErrDeadlineExceeded) || count != testRing {
		t.Errorf("found %d, %v", count, err)
	}
	// What was written before the end is read, also after the deadline.
	producer := &shmProducer{shmRing: shmRingOf(server.memory, 1)}
	producer.push([]byte("last words"))
	server.socket.Close()
	for client.attention.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if count, err := client.Read(data); string(data[:count]) != "last words" || err != nil {
		t.Errorf("found %q, %v", data[:count], err)
	}
	if _, err := client.Read(data); !errors.Is(err, io.EOF) {
		t.Errorf("found %v", err)
	}
	if _, err := client.Write(data); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("found %v", err)
	}
	// A reader that sleeps sees the end, and a close by another goroutine.
	for _, ends := range []func(*shmConn, *hostile){
		func(_ *shmConn, server *hostile) { server.socket.Close() },
		func(_ *shmConn, server *hostile) { _, _ = server.socket.Write([]byte("bytes")) },
		func(client *shmConn, _ *hostile) { client.Close() },
	} {
		client, server := shmPair(t)
		soon(client, wait)
		started := time.Now()
		time.AfterFunc(50*time.Millisecond, func() { ends(client, server) })
		if _, err := client.Read(data); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("found %v", err)
		}
		if took := time.Since(started); took > wait/2 {
			t.Errorf("it took %v", took)
		}
	}
}

func TestWakesOfSharedMemory(t *testing.T) {
	for _, isMissing := range []bool{false, true} {
		waitvIsMissing.Store(isMissing)
		client, server := shmPair(t)
		in, out := shmRingOf(server.memory, 0), shmRingOf(server.memory, 1)
		producer := &shmProducer{shmRing: out}
		// The client sleeps, and is woken.
		time.AfterFunc(50*time.Millisecond, func() {
			producer.push([]byte("woken"))
			if out.consumerSleeps().Swap(0) != 0 {
				futexWake(out.consumerSleeps(), 0)
			}
		})
		soon(client, wait)
		data := make([]byte, 100)
		if count, err := client.Read(data); string(data[:count]) != "woken" || err != nil {
			t.Errorf("found %q, %v", data[:count], err)
		}
		// The server rests, and its bell is rung, once.
		in.consumerSleeps().Store(2)
		for range 3 {
			if _, err := client.Write([]byte("ring")); err != nil {
				t.Error(err)
			}
		}
		if in.consumerSleeps().Load() != 0 {
			t.Error("the word still says that the server rests")
		}
		rung := make([]byte, 100)
		if count, err := server.bell.Read(rung); count != 8 || err != nil {
			t.Errorf("the bell has %d bytes, %v", count, err)
		}
	}
	waitvIsMissing.Store(false)
}
