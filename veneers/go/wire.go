package veneer

import (
	"encoding/binary"
	"math"
)

// This file appends words, strings, values and commands to the bytes of a batch. All words are
// little-endian.

// head returns the first word of a command: its code, 24 bits of counts, tags or flags, a number.
func head(code byte, flags uint32, number uint32) uint64 {
	return uint64(code) | uint64(flags&0xffffff)<<8 | uint64(number)<<32
}

// pair returns a word of two halves.
func pair(low, high uint32) uint64 {
	return uint64(low) | uint64(high)<<32
}

// appendWord appends a word.
func appendWord(b []byte, word uint64) []byte {
	return binary.LittleEndian.AppendUint64(b, word)
}

// appendRaw appends bytes, and zeros up to a whole word.
func appendRaw(b []byte, data string) []byte {
	b = append(b, data...)
	for range -len(data) & 7 {
		b = append(b, 0)
	}
	return b
}

// appendText appends a string or a byte string: its length, its bytes, zeros up to a whole word.
func appendText(b []byte, data string) []byte {
	return appendRaw(appendWord(b, uint64(len(data))), data)
}

// appendBytes appends a byte string.
func appendBytes(b, data []byte) []byte {
	b = append(appendWord(b, uint64(len(data))), data...)
	return appendZeros(b, -len(data)&7)
}

// appendValue appends a value, whose tag stands elsewhere.
func appendValue(b []byte, value Value) []byte {
	switch value.tag {
	case tagString, tagBytes, tagCompound:
		return appendText(b, value.text)
	}
	return appendWord(b, value.word)
}

// appendTypes appends the numbers of types, a word each.
func appendTypes(b []byte, numbers []uint32) []byte {
	for _, number := range numbers {
		b = appendWord(b, uint64(number))
	}
	return b
}

// tagBytesFor returns the bytes of the words that have so many tags.
func tagBytesFor(count int) int {
	return (count + 15) / 16 * 8
}

// appendZeros appends so many zero bytes.
func appendZeros(b []byte, count int) []byte {
	return append(b, make([]byte, count)...)
}

// setTag writes the tag of four bits with this index into the tags at a place, which are zero.
func setTag(b []byte, at, index int, tag byte) {
	b[at+index/2] |= tag << (4 * (index % 2))
}

// beginItems appends the front of a compound with room for the tags of its items. The caller
// appends the items, sets their tags from the returned place on, and calls endItems.
func beginItems(b []byte, typeNumber uint32, count int) (out []byte, tagsAt int) {
	b = appendWord(b, 0)
	b = appendWord(b, pair(typeNumber, uint32(count)))
	tagsAt = len(b)
	return appendZeros(b, tagBytesFor(count)), tagsAt
}

// endItems writes the length of a compound that has all its items, by the place of its tags.
func endItems(b []byte, tagsAt int) {
	binary.LittleEndian.PutUint64(b[tagsAt-16:], uint64(len(b)-tagsAt+8))
}

// appendFlush appends flush. The positions ascend, each of them once.
func appendFlush(b []byte, wanted []uint32, flags uint32) []byte {
	start := len(b)
	b = appendWord(b, 0)
	ranges := uint32(0)
	for i := 0; i < len(wanted); {
		first, count := wanted[i], uint32(0)
		for i < len(wanted) && wanted[i] == first+count {
			i++
			count++
		}
		b = appendWord(b, pair(first, count))
		ranges++
	}
	binary.LittleEndian.PutUint64(b[start:], head(opFlush, flags, ranges))
	return b
}

// flushKeptFlags returns the flags of a flush that keeps its results: the number of batches
// without an answer is among them.
func flushKeptFlags(unanswered int) uint32 {
	return flushKept | uint32(min(unanswered, math.MaxUint8))<<8
}

// appendHello appends hello. Without a trace context it has no flags.
func appendHello(b []byte, digest [32]byte, token, client, trace string, version uint32) []byte {
	flags := uint32(0)
	if trace != "" {
		flags = helloTraced
	}
	b = appendWord(b, magic)
	b = appendWord(b, pair(version, flags))
	b = append(b, digest[:]...)
	b = appendText(b, token)
	b = appendText(b, client)
	if trace != "" {
		b = appendText(b, trace)
	}
	return b
}
