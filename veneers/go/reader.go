package veneer

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// BadBytes is the error of bytes that have another form than the wire form: the stream cannot be
// read any further.
type BadBytes struct {
	// Number is the number of the error.
	Number ErrorNumber
	// Offset is the place of the word in the message, in bytes.
	Offset int
	// Expected names the part that should have been there.
	Expected string
}

func (e *BadBytes) Error() string {
	return fmt.Sprintf("%s: %s was expected at byte %d", e.Number, e.Expected, e.Offset)
}

// needError says that more bytes are needed: a message has at least length bytes.
type needError struct {
	length int
}

func (e *needError) Error() string {
	return fmt.Sprintf("at least %d bytes are needed", e.length)
}

// reader reads one message from the front. Its first error stays: all reads behind it return
// zeros and change nothing. So a loop over a count of the message ends when err is set.
type reader struct {
	data string
	at   int
	// bytesMax is the greatest place that a length may reach.
	bytesMax int
	err      error
}

// fail refuses the bytes.
func (r *reader) fail(number ErrorNumber, expected string) {
	if r.err == nil {
		r.err = &BadBytes{number, max(r.at-8, 0), expected}
	}
}

// check refuses the bytes unless a condition holds.
func (r *reader) check(holds bool, expected string) {
	if !holds {
		r.fail(ErrorBadWord, expected)
	}
}

// need notes that the message has more bytes.
func (r *reader) need(length int) {
	if r.err == nil {
		r.err = &needError{length}
	}
}

// word returns the next word.
func (r *reader) word() uint64 {
	if r.err != nil {
		return 0
	}
	if r.at+8 > len(r.data) {
		r.need(r.at + 8)
		return 0
	}
	word := binary.LittleEndian.Uint64([]byte(r.data[r.at : r.at+8]))
	r.at += 8
	return word
}

// signed returns the next word as a signed number.
func (r *reader) signed() int64 { return int64(r.word()) }

// take passes over bytes and returns them. A length beyond the limit is refused before the bytes
// are there.
func (r *reader) take(length uint64) string {
	if r.err != nil {
		return ""
	}
	if r.at > r.bytesMax || length > uint64(r.bytesMax-r.at) {
		r.fail(ErrorFrameTooLong, "a command within the length limit")
		return ""
	}
	end := r.at + int(length)
	if end > len(r.data) {
		r.need(end)
		return ""
	}
	taken := r.data[r.at:end]
	r.at = end
	return taken
}

// words returns so many words.
func (r *reader) words(count uint64) []uint64 {
	if count > math.MaxInt64/8 {
		r.fail(ErrorFrameTooLong, "a command within the length limit")
		return nil
	}
	taken := r.take(8 * count)
	words := make([]uint64, 0, len(taken)/8)
	for at := 0; at < len(taken); at += 8 {
		words = append(words, binary.LittleEndian.Uint64([]byte(taken[at:at+8])))
	}
	return words
}

// bytes returns a byte string.
func (r *reader) bytes() string {
	length := r.word()
	if length > math.MaxInt64-7 {
		r.fail(ErrorFrameTooLong, "a command within the length limit")
		return ""
	}
	taken := r.take((length + 7) &^ 7)
	if r.err != nil {
		return ""
	}
	for _, b := range []byte(taken[length:]) {
		r.check(b == 0, "zeros after a string")
	}
	return taken[:length]
}

// string returns a text.
func (r *reader) string() string {
	text := r.bytes()
	if !utf8.ValidString(text) {
		r.fail(ErrorBadText, "a string in UTF-8")
		return ""
	}
	return text
}

// readValue reads the word, string, bytes or compound that a tag announces. References have no
// value.
func readValue(r *reader, tag byte, depth int) Value {
	switch tag {
	case tagString:
		return Value{tag: tag, text: r.string()}
	case tagBytes:
		return Value{tag: tag, text: r.bytes()}
	case tagCompound:
		return Value{tag: tag, text: readCompound(r, depth)}
	}
	word := r.word()
	const allowed = "a word that its tag allows"
	switch tag {
	case tagInt, tagReal:
	case tagNil:
		r.check(word == 0, allowed)
	case tagBool:
		r.check(word <= 1, allowed)
	case tagChar:
		r.check(word <= utf8.MaxRune && utf8.ValidRune(rune(word)), allowed)
	default:
		r.fail(ErrorBadWord, "a tag")
	}
	return Value{tag: tag, word: word}
}

// readCompound reads and checks a compound; it returns the bytes behind its length.
func readCompound(r *reader, depth int) string {
	r.check(depth <= compoundDepthMax, "compounds that nest at most 64 levels deep")
	length := r.word()
	r.check(length%8 == 0 && length > 0, "a length in whole words")
	data := r.take(length)
	if r.err != nil {
		return ""
	}
	inner := reader{data: data, bytesMax: len(data)}
	checkCompound(&inner, depth)
	switch inner.err.(type) {
	case nil:
		r.check(inner.at == len(data), "a compound no longer than its items")
	case *needError:
		r.fail(ErrorBadWord, "a compound of the length in its first word")
	default:
		r.err = inner.err
	}
	return data
}

// checkCompound checks the tags and the items of a compound.
func checkCompound(r *reader, depth int) {
	count := r.word() >> 32
	tags := r.words((count + 15) / 16)
	if last := count % 16; last != 0 && len(tags) > 0 {
		r.check(tags[len(tags)-1]>>(4*last) == 0, "no tags beyond the items")
	}
	for index := uint64(0); index < count && r.err == nil; index++ {
		switch tag := byte(tags[index/16] >> (4 * (index % 16)) & 15); tag {
		case tagRef:
			r.word()
		case tagCompound:
			readCompound(r, depth+1)
		default:
			readValue(r, tag, 1)
		}
	}
}
