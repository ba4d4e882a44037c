package veneer

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Value is a value of the wire form: nil, a bool, an int, a real, a char, a string, bytes or a
// compound; or, among the items of a compound or the values of an exception, an object.
type Value struct {
	tag byte
	// word is the word of a value that is one, and the number of an object's handle.
	word uint64
	// text is a string, bytes, or the bytes of a compound behind its length.
	text string
	// typeNumber is the server's number of an object's type, if it was told.
	typeNumber uint32
	// rows is the table, for the outcome of a call only.
	rows *table
}

// NilValue returns the value nil.
func NilValue() Value { return Value{tag: tagNil} }

// BoolValue returns a bool.
func BoolValue(b bool) Value {
	if b {
		return Value{tag: tagBool, word: 1}
	}
	return Value{tag: tagBool}
}

// IntValue returns an int.
func IntValue(i int64) Value { return Value{tag: tagInt, word: uint64(i)} }

// RealValue returns a real.
func RealValue(r float64) Value { return Value{tag: tagReal, word: math.Float64bits(r)} }

// CharValue returns a char, which is to be a Unicode scalar value.
func CharValue(c rune) Value { return Value{tag: tagChar, word: uint64(uint32(c))} }

// TextValue returns a string, which is to be UTF-8.
func TextValue(s string) Value { return Value{tag: tagString, text: s} }

// BytesValue returns a byte string.
func BytesValue(b []byte) Value { return Value{tag: tagBytes, text: string(b)} }

// object returns the value that stands for an object by its handle.
func object(handle int64, typeNumber uint32) Value {
	return Value{tag: tagRef, word: uint64(handle), typeNumber: typeNumber}
}

// IsNil returns true for nil, which the zero Value is, too.
func (v Value) IsNil() bool { return v.tag == tagNil || v.tag == tagRef && v.word == 0 }

// IsObject returns true for an object.
func (v Value) IsObject() bool { return v.tag == tagRef && v.word != 0 }

// BoolValue returns the bool that the value is, and true if it is one.
func (v Value) Bool() (b, ok bool) { return v.tag == tagBool && v.word == 1, v.tag == tagBool }

// IntValue returns the int that the value is, and true if it is one.
func (v Value) Int() (i int64, ok bool) {
	if v.tag != tagInt {
		return 0, false
	}
	return int64(v.word), true
}

// RealValue returns the real that the value is, and true if it is one.
func (v Value) Real() (r float64, ok bool) {
	if v.tag != tagReal {
		return 0, false
	}
	return math.Float64frombits(v.word), true
}

// CharValue returns the char that the value is, and true if it is one.
func (v Value) Char() (c rune, ok bool) {
	if v.tag != tagChar {
		return 0, false
	}
	return rune(v.word), true
}

// TextValue returns the string that the value is, and true if it is one.
func (v Value) Text() (s string, ok bool) {
	if v.tag != tagString {
		return "", false
	}
	return v.text, true
}

// BytesValue returns the byte string that the value is, and true if it is one.
func (v Value) Bytes() (b []byte, ok bool) {
	if v.tag != tagBytes {
		return nil, false
	}
	return []byte(v.text), true
}

// handle returns the number of an object's handle.
func (v Value) handle() int64 { return int64(v.word) }

// String returns the value as messages show it.
func (v Value) String() string {
	switch v.tag {
	case tagRef:
		if v.IsNil() {
			return "nil"
		}
		return "an object"
	case tagBool:
		return strconv.FormatBool(v.word == 1)
	case tagInt:
		return strconv.FormatInt(int64(v.word), 10)
	case tagReal:
		return strconv.FormatFloat(math.Float64frombits(v.word), 'g', -1, 64)
	case tagChar:
		return strconv.QuoteRune(rune(v.word))
	case tagString:
		return strconv.Quote(v.text)
	case tagBytes:
		return `x"` + hex.EncodeToString([]byte(v.text)) + `"`
	case tagRows:
		return fmt.Sprintf("%d rows", v.rows.count)
	}
	return "nil"
}

// compoundType returns the number of a compound's type.
func (v Value) compoundType() uint32 {
	r := reader{data: v.text, bytesMax: len(v.text)}
	return uint32(r.word())
}

// items returns the items of a compound that was checked: values, and objects.
func (v Value) items() []Value {
	r := reader{data: v.text, bytesMax: len(v.text)}
	count := int(r.word() >> 32)
	tagsAt := r.at
	r.take(uint64(tagBytesFor(count)))
	var items []Value
	for index := 0; index < count && r.err == nil; index++ {
		tag := v.text[tagsAt+index/2] >> (4 * (index % 2)) & 15
		if tag == tagRef {
			items = append(items, object(r.signed(), noNumber))
		} else {
			items = append(items, readValue(&r, tag, 1))
		}
	}
	return items
}

// eachReference calls a function with each reference in a compound, at any depth.
func (v Value) eachReference(do func(int64)) {
	if v.tag != tagCompound {
		return
	}
	for _, item := range v.items() {
		if item.tag == tagRef {
			do(item.handle())
		} else {
			item.eachReference(do)
		}
	}
}

// equal returns true if two values are the same; reals are compared by their bits.
func (v Value) equal(other Value) bool {
	if v.tag == tagRows && other.tag == tagRows {
		return v.rows.equal(other.rows)
	}
	return v.tag == other.tag && v.word == other.word && v.text == other.text
}

// column is a column of a table: the tag of its cells, and their type.
type column struct {
	tag        byte
	typeNumber uint32
}

// table is a table of rows: its cells stand row by row.
type table struct {
	count   int
	columns []column
	cells   []Value
}

// eachHandle calls a function with the handle of each object in a table.
func (t *table) eachHandle(do func(int64)) {
	for _, cell := range t.cells {
		if cell.tag == tagRef {
			do(cell.handle())
		} else {
			cell.eachReference(do)
		}
	}
}

// equal returns true if two tables have equal columns and cells.
func (t *table) equal(other *table) bool {
	return t.count == other.count && slices.Equal(t.columns, other.columns) &&
		slices.Equal(t.cells, other.cells)
}
