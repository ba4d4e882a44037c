//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package veneer

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// shmRing is one of both rings: its control words, and its data. All that the server writes, or
// reads, is accessed by sync/atomic, but for the data: those are copied once into private memory,
// and published by an atomic store behind them.
type shmRing struct {
	control []byte
	data    []byte
}

// The places of the words in the control of a ring, and the places of both in the memory.
const (
	shmControlAt      = 1024
	shmControlBytes   = 512
	shmProducedAt     = 0
	shmCopyStartAt    = 8
	shmCopyAt         = 16
	shmCopyBytes      = 48
	shmConsumedAt     = 128
	shmConsumerSleeps = 256
	shmProducerSleeps = 384
)

// shmStepMax are the most bytes that are published at once.
const shmStepMax = 32 << 10

// shmRingOf returns a ring of mapped memory: 0 leads to the server, 1 to the client.
func shmRingOf(memory []byte, index int) shmRing {
	size := (len(memory) - shmHeaderBytes) / 2
	at, from := shmControlAt+index*shmControlBytes, shmHeaderBytes+index*size
	return shmRing{memory[at : at+shmControlBytes], memory[from : from+size]}
}

func (r *shmRing) word(at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&r.control[at]))
}

func (r *shmRing) half(at int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&r.control[at]))
}

func (r *shmRing) produced() *atomic.Uint64       { return r.word(shmProducedAt) }
func (r *shmRing) consumed() *atomic.Uint64       { return r.word(shmConsumedAt) }
func (r *shmRing) consumerSleeps() *atomic.Uint32 { return r.half(shmConsumerSleeps) }
func (r *shmRing) producerSleeps() *atomic.Uint32 { return r.half(shmProducerSleeps) }

// capacity returns the bytes of the ring, which are a power of two.
func (r *shmRing) capacity() uint64 { return uint64(len(r.data)) }

// shmProducer is the end of a ring that writes. It keeps its own position, and that of the other
// end as it was last seen.
type shmProducer struct {
	shmRing
	position uint64
	seen     uint64
}

// push writes the bytes for which there is room, and returns their number; false if the position
// of the other end cannot be.
func (p *shmProducer) push(data []byte) (int, bool) {
	wanted := min(uint64(len(data)), p.capacity()/4, shmStepMax)
	free := p.capacity() - (p.position - p.seen)
	if free < wanted {
		consumed := p.consumed().Load()
		inRing := p.position - consumed
		if inRing > p.position-p.seen {
			return 0, false
		}
		p.seen, free = consumed, p.capacity()-inRing
	}
	count := min(wanted, free)
	if count == 0 {
		return 0, true
	}
	piece := data[:count]
	copied := copy(p.data[p.position&(p.capacity()-1):], piece)
	copy(p.data, piece[copied:])
	if count <= shmCopyBytes {
		p.putCopy(piece)
	}
	p.position += count
	p.produced().Store(p.position)
	return int(count), true
}

// putCopy writes the copy of short pieces, beside the position. A reader of the copy before looks
// at the start again afterwards.
func (p *shmProducer) putCopy(piece []byte) {
	p.word(shmCopyStartAt).Store(p.position)
	at := shmCopyAt
	for ; len(piece) >= 8; piece = piece[8:] {
		p.word(at).Store(binary.NativeEndian.Uint64(piece))
		at += 8
	}
	if len(piece) > 0 {
		var last [8]byte
		copy(last[:], piece)
		p.word(at).Store(binary.NativeEndian.Uint64(last[:]))
	}
}

// isReady returns true if there may be room.
func (p *shmProducer) isReady() bool { return p.consumed().Load() != p.seen }

// shmConsumer is the end of a ring that reads.
type shmConsumer struct {
	shmRing
	position  uint64
	published uint64
	seen      uint64
	// owesWake is true if the position was published, and the other end was not woken yet.
	owesWake bool
}

// pull reads bytes that are there, and returns their number; false if the position of the other
// end cannot be.
func (c *shmConsumer) pull(into []byte) (int, bool) {
	if c.seen == c.position {
		produced := c.produced().Load()
		if produced-c.position > c.capacity() {
			return 0, false
		}
		c.seen = produced
	}
	available := c.seen - c.position
	count := min(uint64(len(into)), available)
	if count == 0 {
		return 0, true
	}
	if available > shmCopyBytes || !c.takeCopy(into[:count]) {
		start := c.position & (c.capacity() - 1)
		copied := copy(into[:count], c.data[start:])
		copy(into[copied:count], c.data)
	}
	c.position += count
	// The other end is told of room in large steps only; it lacks room only if 7/8 of the ring wait
	// here.
	if c.position-c.published >= c.capacity()/8 {
		c.consumed().Store(c.position)
		c.published = c.position
		c.owesWake = true
	}
	return int(count), true
}

// takeCopy reads the copy of a short piece; false if that is another one, or has changed.
func (c *shmConsumer) takeCopy(into []byte) bool {
	start := c.word(shmCopyStartAt)
	if start.Load() != c.position {
		return false
	}
	var piece [shmCopyBytes]byte
	for at := 0; at < len(into); at += 8 {
		binary.NativeEndian.PutUint64(piece[at:], c.word(shmCopyAt+at).Load())
	}
	if start.Load() != c.position {
		return false
	}
	copy(into, piece[:])
	return true
}

// isReady returns true if there may be bytes.
func (c *shmConsumer) isReady() bool { return c.produced().Load() != c.seen }
