package veneer

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// This file tests the edges that no vector shows: the last number that is good, and the first one
// that is not.

// flushedWith returns the bytes of an answer to flush whose body these words are.
func flushedWith(flags, outcomes uint32, words ...uint64) []byte {
	var body []byte
	for _, word := range words {
		body = appendWord(body, word)
	}
	return replyOf(opFlushed, flags, outcomes, body)
}

// nestedValue returns a compound of so many levels.
func nestedValue(levels int) Value {
	var value Value
	for level := range levels {
		count := min(level, 1)
		b, tagsAt := beginItems(nil, noNumber, count)
		if count > 0 {
			b = appendValue(b, value)
			setTag(b, tagsAt, 0, tagCompound)
		}
		endItems(b, tagsAt)
		value = Value{tag: tagCompound, text: string(b[8:])}
	}
	return value
}

// referring returns a compound with one reference.
func referring(reference int64) Value {
	b, tagsAt := beginItems(nil, noNumber, 1)
	b = appendWord(b, uint64(reference))
	setTag(b, tagsAt, 0, tagRef)
	endItems(b, tagsAt)
	return Value{tag: tagCompound, text: string(b[8:])}
}

// answering returns an answer to flush with one outcome.
func answering(value Value) []byte {
	body := appendWord(appendWord(nil, 0), 0)
	body = appendValue(appendWord(body, head(value.tag, 0, 0)), value)
	return replyOf(opFlushed, 0, 1, body)
}

func TestRepliesAtTheirBounds(t *testing.T) {
	signal := func(nameLength int) []byte {
		body := appendWord(appendWord(nil, 1), 0)
		body = appendWord(body, uint64(exceptionSignal)|1<<24|1<<32)
		body = appendWord(appendText(body, "x"), 0)
		body = appendText(appendWord(body, 1), strings.Repeat("r", nameLength))
		return replyOf(opFlushed, 0, 0, appendText(body, "f"))
	}
	refused := func(word uint64) []byte {
		body := appendWord(appendWord(nil, 1), 0)
		body = appendWord(appendWord(body, uint64(exceptionRefused)|1<<32), word)
		return replyOf(opFlushed, 0, 0, appendText(body, ""))
	}
	for name, test := range map[string]struct {
		good, bad []byte
	}{
		"an exception of the list": {
			flushedWith(0, 1, 1, 0, head(tagException, 0, 0), uint64(exceptionUnhandled)|1<<32, 1<<32),
			flushedWith(0, 1, 1, 0, head(tagException, 0, 1), uint64(exceptionUnhandled)|1<<32, 1<<32),
		},
		"runs":                      {flushedWith(1, 0, 0, 0, 0, 0, 1, 0), flushedWith(1, 0, 0, 0, 0, 0, 1<<32, 0)},
		"the name of a place":       {signal(placeBytesMax), signal(placeBytesMax + 1)},
		"a handle":                  {answering(object(1, 0)), answering(object(0, 0))},
		"a handle in a compound":    {answering(referring(1)), answering(referring(0))},
		"no handle below zero":      {answering(referring(7)), answering(referring(-7))},
		"a compound of 64 levels":   {answering(nestedValue(64)), answering(nestedValue(65))},
		"the number of an error":    {refused(1<<32 - 1), refused(1 << 32)},
		"a bool":                    {answering(BoolValue(true)), answering(Value{tag: tagBool, word: 2})},
		"the last character":        {answering(CharValue(0x10ffff)), answering(Value{tag: tagChar, word: 0x110000})},
		"a character of 32 bits":    {answering(CharValue('a')), answering(Value{tag: tagChar, word: 1<<32 + 'a'})},
		"a character, no surrogate": {answering(CharValue(0xe000)), answering(Value{tag: tagChar, word: 0xdfff})},
	} {
		if _, _, err := decodeReply(string(test.good), replyBytesMax); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, _, err := decodeReply(string(test.bad), replyBytesMax)
		var bad *BadBytes
		if !errors.As(err, &bad) || bad.Number != ErrorBadWord {
			t.Errorf("%s: found %v", name, err)
		}
	}
}

// A count of more parts than a reply has bytes takes no memory for them.
func TestCountsThatAreTooGreat(t *testing.T) {
	for name, reply := range map[string][]byte{
		"outcomes":   flushedWith(0, 1<<32-1, 0, 0),
		"exceptions": flushedWith(0, 0, 1<<32-1, 0),
		"rows":       flushedWith(0, 1, 0, 0, head(tagRows, 0, 1<<32-1), 16, 1, uint64(tagInt)),
		"limits":     replyOf(opWelcome, 0, version, append(make([]byte, 48), 255, 255, 255, 255, 0, 0, 0, 0)),
		"limits of 64 bits": replyOf(opWelcome, 0, version,
			appendWord(make([]byte, 48), 1<<63)),
		"a string": replyOf(opError, 0, 1, appendWord(appendWord(nil, 0), 1<<64-1)),
		"items": flushedWith(0, 1, 0, 0, head(tagCompound, 0, 0), 8,
			pair(noNumber, 1<<32-1)),
	} {
		_, _, err := decodeReply(string(reply), replyBytesMax)
		var bad *BadBytes
		if !errors.As(err, &bad) {
			t.Errorf("%s: found %v", name, err)
		}
	}
}

func TestCompoundsOfArgumentsAreNestedTo64Levels(t *testing.T) {
	for levels, expected := range map[int]bool{64: true, 65: false} {
		m := newMachine(t, scriptClient(t), tree{}, cut{}, nil)
		items := operands{}
		for range levels - 1 {
			items = operands{items}
		}
		wrong := m.recorder.record(head(opCallRoutine, 0, 1), nil, []operand{items})
		if (wrong == nil) != expected {
			t.Errorf("%d levels: %v", levels, wrong)
		}
		if sent := m.recorder.takeBytes(false); (len(sent) > 0) != expected {
			t.Errorf("%d levels: %d bytes", levels, len(sent))
		}
	}
}

func TestAnAnswerThatIsNotDue(t *testing.T) {
	answer := nilForEach(0)
	for name, isSent := range map[string]bool{"before its flush": false, "twice": true} {
		r := newMachine(t, scriptClient(t), tree{}, cut{}, nil).recorder
		r.recordClear()
		if began, wrong := r.beginFlush(false); !began || wrong != nil {
			t.Fatal(wrong)
		}
		if isSent {
			r.takeBytes(true)
			if isWhole, wrong := r.handleBytes(answer); !isWhole || wrong != nil {
				t.Errorf("%s: %v", name, wrong)
			}
		}
		_, wrong := r.handleBytes(answer)
		var why *ClosedByWrongReply
		if !errors.As(wrong, &why) || r.broken == nil {
			t.Errorf("%s: found %v", name, wrong)
		}
	}
}

func TestHeadingsAreCompared(t *testing.T) {
	const own = `{"types":[{"name":"int","kind":"int"},{"name":"T","kind":"object","methods":[
		{"name":"m","params":[{"name":"a","type":0}],"results":[0]}]}],
		"routines":[{"name":"r","yields":[0]}]}`
	client := newClient(t, own)
	for change, expected := range map[[2]string][2]bool{
		{"", ""}:                                            {true, true},
		{`"name":"a"`, `"name":"b"`}:                        {true, true},
		{`"results":[0]`, `"yields":[0]`}:                   {false, true},
		{`"results":[0]`, `"results":[1]`}:                  {false, true},
		{`"results":[0]`, `"results":[]`}:                   {false, true},
		{`"yields":[0]`, `"results":[0]`}:                   {true, false},
		{`"yields":[0]`, `"yields":[]`}:                     {true, false},
		{`"params":[{"name":"a","type":0}]`, `"params":[]`}: {false, true},
		{`"name":"T"`, `"name":"U"`}:                        {false, true},
		{`"name":"r"`, `"name":"s"`}:                        {true, false},
	} {
		server, err := ParseInterface([]byte(strings.Replace(own, change[0], change[1], 1)))
		if err != nil {
			t.Fatal(err)
		}
		n := mapNumbers(client.stubs, server)
		_, hasMethod := n.method(0)
		_, hasRoutine := n.routine(0)
		if hasMethod != expected[0] || hasRoutine != expected[1] {
			t.Errorf("%v: found %v, %v", change, hasMethod, hasRoutine)
		}
	}
}

func TestEqualTables(t *testing.T) {
	base := func() *table { return &table{1, []column{{tagInt, 2}}, []Value{IntValue(3)}} }
	for name, change := range map[string]func(*table){
		"count":   func(t *table) { t.count = 2 },
		"columns": func(t *table) { t.columns[0].typeNumber = 3 },
		"cells":   func(t *table) { t.cells[0] = IntValue(4) },
	} {
		one, other := base(), base()
		if !one.equal(other) {
			t.Error("equal tables differ")
		}
		if change(other); one.equal(other) {
			t.Errorf("tables with other %s are equal", name)
		}
	}
}

func TestAHandleThatComesAgainIsKept(t *testing.T) {
	r := newMachine(t, scriptClient(t), tree{}, cut{}, nil).recorder
	one, other := r.newObject(5), r.newObject(6)
	one.release()
	other.release()
	again := r.newObject(5)
	if began, wrong := r.beginFlush(false); !began || wrong != nil {
		t.Fatal(wrong)
	}
	sent := r.takeBytes(true)
	if first := binary.LittleEndian.Uint64(sent); first != head(opFree, 0, 1) || sent[8] != 6 {
		t.Errorf("found %s", hexed(sent))
	}
	if again.state != slotObject || r.handles[5] == nil || r.handles[6] != nil {
		t.Error("the handles are wrong")
	}
}

func TestObjectsInCompoundsOfExceptionsAreGivenBack(t *testing.T) {
	m := newMachine(t, scriptClient(t), tree{}, cut{}, nil)
	for index, step := range []string{
		`{"lookup": "database", "type": "DataBase", "as": "$d"}`,
		`{"reply": {"flushed": {"outcomes": [{"exception": 0}], "exceptions": [{"call": 1,
			"signal": {"name": "odd", "values": [{"compound": {"type": 1, "items": [{"ref": 9}]}}]}}]}}}`,
		`{"claim": "$d"}`,
		`{"flush": true}`,
	} {
		m.take(index+1, parse(step).(tree))
	}
	if count := len(m.crossings); count != 2 {
		t.Fatalf("there are %d crossings", count)
	}
	const free = "0700000001000000 0900000000000000 0800000000000000"
	if sent := hexed(m.crossings[1].sent[0]); sent != free {
		t.Errorf("found %s", sent)
	}
}
