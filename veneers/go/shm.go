//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package veneer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// This file has a stream over shared memory: two rings that both processes map, as
// docs/spec/transport.md has them. Read shmConn first. A read or write copies bytes
// (shm_ring.go), wakes the server if that sleeps, and waits if there was nothing to copy
// (shm_wait.go).
//
// Nothing that the server writes is trusted: positions are checked before bytes are copied, and
// the memory is sealed, so that no access faults.

// hasShm is true where this library has shared memory.
const hasShm = true

// The handover of the memory.
const (
	shmMagic        = "BIFROSTR"
	shmVersion      = 2
	shmMessageBytes = 24
	shmHeaderBytes  = 4096
	shmRingBytesMin = 4096
	shmRingBytesMax = 1 << 30
	// shmSealed is the seal against shrinking, and shmGetSeals the order that tells seals.
	shmSealed   = 0x2
	shmGetSeals = 1034
)

// The bits of the word for which a sleeper looks besides the ring.
const (
	// shmClosed is set when this side has closed the stream.
	shmClosed = 1 << iota
	// shmEnded is set when the server has closed the socket, or has died.
	shmEnded
)

// errShmCorrupt is the error of a server that has written positions that cannot be.
var errShmCorrupt = errors.New("the server has broken the positions of the shared memory")

// shmConn is a stream over shared memory, at the client's end.
type shmConn struct {
	// mutex is held by the reader or writer, and by who unmaps the memory.
	mutex  sync.Mutex
	memory []byte
	bell   int
	// attention has the bits for which a sleeper looks besides the ring.
	attention *atomic.Uint32
	socket    *net.UnixConn
	out       shmProducer
	in        shmConsumer
	reading   shmSpin
	writing   shmSpin
	isBroken  bool
	isClosed  bool

	readDeadline  time.Time
	writeDeadline time.Time
}

// dialShm connects, and maps the memory that the server hands over.
func dialShm(ctx context.Context, path string) (stream, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	socket := conn.(*net.UnixConn)
	if deadline, hasDeadline := ctx.Deadline(); hasDeadline {
		err = socket.SetReadDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { socket.Close() })
	defer stop()
	var c *shmConn
	if err == nil {
		c, err = receiveShm(socket)
	}
	if err != nil {
		socket.Close()
		return nil, greetError(ctx, err)
	}
	if err := socket.SetReadDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	go c.watch()
	return c, nil
}

// receiveShm takes the message with the memory and the bell.
func receiveShm(socket *net.UnixConn) (*shmConn, error) {
	message := make([]byte, shmMessageBytes)
	attached := make([]byte, syscall.CmsgSpace(2*4))
	count, attachedBytes, _, _, err := socket.ReadMsgUnix(message, attached)
	if err != nil {
		return nil, err
	}
	descriptors, err := shmDescriptors(attached[:attachedBytes])
	// The memory stays mapped without its descriptor; the bell stays open.
	isTaken := false
	defer func() {
		for index, descriptor := range descriptors {
			if index == 0 || !isTaken {
				_ = syscall.Close(descriptor)
			}
		}
	}()
	switch {
	case err != nil:
		return nil, err
	case count == 0:
		return nil, io.ErrUnexpectedEOF
	case count != shmMessageBytes || string(message[:8]) != shmMagic:
		return nil, errors.New("its answer is not that of a listener of shared memory")
	case binary.NativeEndian.Uint64(message[8:]) != shmVersion:
		return nil, errors.New("it has another version of the layout of shared memory")
	case len(descriptors) < 2:
		return nil, errors.New("it sent no memory, or no bell")
	}
	memory, err := mapShm(descriptors[0], binary.NativeEndian.Uint64(message[16:]))
	if err != nil {
		return nil, err
	}
	if err = checkShm(memory); err == nil {
		// A bell that blocks would hold this side up.
		err = syscall.SetNonblock(descriptors[1], true)
	}
	if err != nil {
		return nil, errors.Join(err, syscall.Munmap(memory))
	}
	isTaken = true
	return newShmConn(memory, descriptors[1], socket), nil
}

func newShmConn(memory []byte, bell int, socket *net.UnixConn) *shmConn {
	return &shmConn{
		memory: memory, bell: bell, attention: new(atomic.Uint32), socket: socket,
		out:     shmProducer{shmRing: shmRingOf(memory, 0)},
		in:      shmConsumer{shmRing: shmRingOf(memory, 1)},
		reading: newShmSpin(), writing: newShmSpin(),
	}
}

// shmDescriptors returns the descriptors that are attached to a message.
func shmDescriptors(attached []byte) ([]int, error) {
	messages, err := syscall.ParseSocketControlMessage(attached)
	if err != nil {
		return nil, err
	}
	var all []int
	for index := range messages {
		descriptors, err := syscall.ParseUnixRights(&messages[index])
		if err == nil {
			all = append(all, descriptors...)
		}
	}
	return all, nil
}

// mapShm maps memory with rings of a size, if it is sealed and has that size.
func mapShm(descriptor int, ring uint64) ([]byte, error) {
	if ring < shmRingBytesMin || ring > shmRingBytesMax || ring&(ring-1) != 0 {
		return nil, errors.New("the size of its rings is invalid")
	}
	seals, _, wrong := syscall.Syscall(syscall.SYS_FCNTL, uintptr(descriptor), shmGetSeals, 0)
	if wrong != 0 {
		return nil, fmt.Errorf("its memory tells no seals: %w", wrong)
	}
	// A sealed size stays, so it is looked at behind the seals.
	if seals&shmSealed == 0 {
		return nil, errors.New("its memory is not sealed against shrinking")
	}
	var found syscall.Stat_t
	if err := syscall.Fstat(descriptor, &found); err != nil {
		return nil, err
	}
	total := shmHeaderBytes + 2*ring
	if found.Size < 0 || uint64(found.Size) != total {
		return nil, errors.New("the size of its memory is not that of its rings")
	}
	return syscall.Mmap(descriptor, 0, int(total), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
}

// checkShm checks the header of mapped memory.
func checkShm(memory []byte) error {
	ring := uint64(len(memory)-shmHeaderBytes) / 2
	if string(memory[:8]) != shmMagic ||
		binary.NativeEndian.Uint64(memory[8:]) != shmVersion ||
		binary.NativeEndian.Uint64(memory[16:]) != ring {
		return errors.New("the header of its memory is another one")
	}
	return nil
}

// watch waits for the end of the socket, by which the end of the server is noticed. A server that
// sends bytes there is none.
func (c *shmConn) watch() {
	_, _ = c.socket.Read(make([]byte, 1))
	c.raise(shmEnded)
}

// raise sets a bit of the attention, and wakes who sleeps.
func (c *shmConn) raise(bit uint32) {
	c.attention.Or(bit)
	futexWake(c.attention, futexPrivate)
}

// Read reads bytes; it waits until the deadline.
func (c *shmConn) Read(into []byte) (int, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for hasWaited := false; ; hasWaited = true {
		// Looked at before the ring: if the server is gone by now, the ring has all that it wrote.
		attention := c.attention.Load()
		switch {
		case attention&shmClosed != 0:
			return 0, net.ErrClosed
		case c.isBroken:
			return 0, errShmCorrupt
		}
		count, isGood := c.in.pull(into)
		if !isGood {
			c.isBroken = true
			return 0, errShmCorrupt
		}
		if c.in.owesWake {
			c.in.owesWake = false
			c.wake(c.in.producerSleeps())
		}
		if count > 0 {
			return count, nil
		}
		if attention&shmEnded != 0 {
			return 0, io.EOF
		}
		// A server that moves its position and takes it back keeps nobody beyond the deadline.
		if hasWaited && isPast(c.readDeadline) ||
			!c.wait(&c.reading, c.in.consumerSleeps(), c.readDeadline, &c.in) {
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// Write writes all bytes; it waits for room until the deadline.
func (c *shmConn) Write(data []byte) (int, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	written := 0
	for hasWaited := false; ; {
		attention := c.attention.Load()
		switch {
		case attention&shmClosed != 0:
			return written, net.ErrClosed
		case c.isBroken:
			return written, errShmCorrupt
		case attention&shmEnded != 0:
			return written, syscall.EPIPE
		case written == len(data):
			return written, nil
		}
		count, isGood := c.out.push(data[written:])
		if !isGood {
			c.isBroken = true
			return written, errShmCorrupt
		}
		written += count
		if count > 0 {
			hasWaited = false
			c.wake(c.out.consumerSleeps())
			if written == len(data) {
				return written, nil
			}
			continue
		}
		if hasWaited && isPast(c.writeDeadline) ||
			!c.wait(&c.writing, c.out.producerSleeps(), c.writeDeadline, &c.out) {
			return written, os.ErrDeadlineExceeded
		}
		hasWaited = true
	}
}

func isPast(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// wake wakes the server if it sleeps, or rests.
func (c *shmConn) wake(sleeps *atomic.Uint32) {
	if sleeps.Load() == 0 {
		return
	}
	switch sleeps.Swap(0) {
	case 0:
	case 2:
		// Fails only if the counter is full: then it was just written.
		one := [8]byte{}
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = syscall.Write(c.bell, one[:])
	default:
		futexWake(sleeps, 0)
	}
}

// Close ends the stream. A reader or writer gets an error.
func (c *shmConn) Close() error {
	c.raise(shmClosed)
	// The server, and the goroutine that watches, see the end of the socket. Closed once more it
	// tells so, and nothing else can go wrong with it.
	c.socket.Close()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isClosed {
		return nil
	}
	c.isClosed = true
	return errors.Join(syscall.Munmap(c.memory), syscall.Close(c.bell))
}

func (c *shmConn) SetReadDeadline(at time.Time) error {
	c.readDeadline = at
	return nil
}

func (c *shmConn) SetWriteDeadline(at time.Time) error {
	c.writeDeadline = at
	return nil
}
