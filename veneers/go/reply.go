package veneer

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// This file reads replies, of which no byte is trusted: lengths, tags, counts, padding and UTF-8
// are checked. decodeReply is the function to read first.

// reply is a reply of the server: *welcome, *flushed, *interfaceReply, *historyReply, *farewell or
// *errorReply.
type reply interface{ isReply() }

// welcome is the answer to hello: the server's description of itself.
type welcome struct {
	version uint32
	session uint64
	digest  [32]byte
	server  string
	limits  []limitValue
}

// limitValue is the value of a limit, by the number of the limit.
type limitValue struct {
	number uint32
	value  uint64
}

// flushed is the answer to flush. An outcome is a value or an object, or has one of these tags:
// tagException with the place in the list of exceptions as its word, tagAbsent, tagRows.
type flushed struct {
	outcomes   []Value
	exceptions []exception
	omitted    uint32
	calls      uint32
	fuel       uint32
	profile    *Profile
}

// interfaceReply is the answer to describe.
type interfaceReply struct{ json string }

// historyReply is the answer to history.
type historyReply struct {
	entries []historyException
	omitted uint64
}

// historyException is an exception of the history, with the number of its batch.
type historyException struct {
	batch     uint64
	exception exception
}

// farewell is the answer to bye.
type farewell struct{}

// errorReply is the end of the session.
type errorReply struct {
	number   ErrorNumber
	position uint64
	text     string
}

func (*welcome) isReply()        {}
func (*flushed) isReply()        {}
func (*interfaceReply) isReply() {}
func (*historyReply) isReply()   {}
func (*farewell) isReply()       {}
func (*errorReply) isReply()     {}

// exception is an exception of a batch: the position of its call, and the rounds of the loops
// around it. Its kind is exceptionSignal, exceptionUnhandled or exceptionRefused.
type exception struct {
	call   uint32
	rounds []uint32
	kind   byte

	// name, values, places and morePlaces are the parts of a signal.
	name       string
	values     []Value
	places     []Place
	morePlaces uint64

	// argument, back and cause are the parts of a call that was not run: the argument that failed,
	// the batches back to the call whose result it is, and the position of that call.
	argument uint32
	back     uint32
	cause    uint32

	// number and text are the parts of a call that was refused.
	number ErrorNumber
	text   string
}

// Place is a place in the program of the server. File and Line are empty if they are not known.
type Place struct {
	Routine string
	File    string
	Line    uint32
}

// String returns the place as messages show it.
func (p Place) String() string {
	switch {
	case p.File == "":
		return p.Routine
	case p.Line == 0:
		return fmt.Sprintf("%s (%s)", p.Routine, p.File)
	}
	return fmt.Sprintf("%s (%s:%d)", p.Routine, p.File, p.Line)
}

// Cost is the cost of a command, of a structure, or of several of them.
type Cost struct {
	Nanoseconds uint64
	Calls       uint32
	Fuel        uint32
	Fetches     uint32
	Objects     uint32
}

// ProfileEntry is the cost of one command outside structures, or of one structure.
type ProfileEntry struct {
	// Call is the first position of the command or structure.
	Call        uint32
	IsStructure bool
	Cost        Cost
}

// Profile is the time of a batch, and the cost of its commands.
type Profile struct {
	Nanoseconds uint64
	Fetches     uint32
	Objects     uint32
	Runs        uint32
	Entries     []ProfileEntry
	// Omitted is the number of commands without an entry, and Rest their cost.
	Omitted uint32
	Rest    *Cost
}

// decodeReply reads the reply at the front of the bytes; it returns it with its length. The error
// is a *needError if the reply is not whole, and a *BadBytes if it is none.
func decodeReply(data string, bytesMax int) (reply, int, error) {
	stream := reader{data: data, bytesMax: bytesMax}
	word := stream.word()
	code, flags := byte(word), uint32(word>>8)&0xffffff
	profiled := code == opFlushed && flags == flushedProfiled
	isReply := code >= opWelcome && code <= opError
	stream.check(isReply && (flags == 0 || profiled), "the code of a reply")
	length := stream.word()
	stream.check(length%8 == 0, "a length in whole words")
	stream.take(length)
	if stream.err != nil {
		return nil, 0, stream.err
	}
	end := stream.at
	r := reader{data: data[:end], at: 16, bytesMax: end}
	decoded := readReply(&r, code, uint32(word>>32), profiled)
	if _, isShort := r.err.(*needError); isShort {
		r.err = nil
		r.fail(ErrorBadWord, "a reply of the length in its header")
	}
	r.check(r.at == end, "a reply no longer than its parts")
	if r.err != nil {
		return nil, 0, r.err
	}
	return decoded, end, nil
}

// readReply reads the parts of a reply.
func readReply(r *reader, code byte, number uint32, profiled bool) reply {
	switch code {
	case opFlushed:
		return readFlushed(r, number, profiled)
	case opWelcome:
		return readWelcome(r, number)
	case opInterface:
		r.check(number == 0, "zeros after the code")
		return &interfaceReply{r.bytes()}
	case opExceptions:
		history := &historyReply{omitted: r.word()}
		for index := uint32(0); index < number && r.err == nil; index++ {
			batch := r.word()
			history.entries = append(history.entries, historyException{batch, readException(r)})
		}
		return history
	case opFarewell:
		r.check(number == 0, "zeros after the code")
		return &farewell{}
	}
	return &errorReply{ErrorNumber(number), r.word(), r.string()}
}

func readWelcome(r *reader, number uint32) *welcome {
	w := &welcome{version: number, session: r.word()}
	copy(w.digest[:], r.take(32))
	w.server = r.string()
	count := r.word()
	if count > math.MaxInt32 {
		r.fail(ErrorFrameTooLong, "a command within the length limit")
	}
	for index := uint64(0); index < count && r.err == nil; index++ {
		limit := r.word()
		w.limits = append(w.limits, limitValue{uint32(limit), r.word()})
	}
	return w
}

func readFlushed(r *reader, count uint32, profiled bool) *flushed {
	counts, cost := r.word(), r.word()
	listed := uint32(counts)
	f := &flushed{omitted: uint32(counts >> 32), calls: uint32(cost), fuel: uint32(cost >> 32)}
	// An outcome has a word at least, and most have two.
	f.outcomes = make([]Value, 0, min(int(count), (len(r.data)-r.at)/8))
	for index := uint32(0); index < count && r.err == nil; index++ {
		outcome := readOutcome(r)
		if outcome.tag == tagException {
			r.check(uint32(outcome.word) < listed, "an exception of the list")
		}
		f.outcomes = append(f.outcomes, outcome)
	}
	for index := uint32(0); index < listed && r.err == nil; index++ {
		f.exceptions = append(f.exceptions, readException(r))
	}
	if profiled {
		f.profile = readProfile(r)
	}
	return f
}

func readProfile(r *reader) *Profile {
	p := &Profile{Nanoseconds: r.word()}
	fetched, runs, counts := r.word(), r.word(), r.word()
	r.check(runs>>32 == 0, "zeros behind the number of runs")
	p.Fetches, p.Objects, p.Runs = uint32(fetched), uint32(fetched>>32), uint32(runs)
	p.Omitted = uint32(counts >> 32)
	for index := uint32(0); index < uint32(counts) && r.err == nil; index++ {
		word := r.word()
		r.check(word>>32 > 0, "the position of a call")
		kind := uint32(word)
		r.check(kind == profileCommand || kind == profileStructure, "the kind of an entry")
		entry := ProfileEntry{uint32(word >> 32), kind == profileStructure, readCost(r)}
		p.Entries = append(p.Entries, entry)
	}
	if p.Omitted > 0 {
		r.check(r.word() == profileRest, "the rest of a profile")
		rest := readCost(r)
		p.Rest = &rest
	}
	return p
}

func readCost(r *reader) Cost {
	nanoseconds, ran, fetched := r.word(), r.word(), r.word()
	return Cost{
		nanoseconds, uint32(ran), uint32(ran >> 32), uint32(fetched), uint32(fetched >> 32),
	}
}

// readHandle reads the number of a handle, which is above zero.
func readHandle(r *reader, typeNumber uint32) Value {
	number := r.signed()
	r.check(number > 0, "a handle")
	return object(number, typeNumber)
}

// readReplyValue reads a value in which all references are handles.
func readReplyValue(r *reader, tag byte) Value {
	value := readValue(r, tag, 1)
	if r.err == nil {
		value.eachReference(func(handle int64) { r.check(handle > 0, "a handle") })
	}
	return value
}

func readOutcome(r *reader) Value {
	word := r.word()
	tag, number := byte(word), uint32(word>>32)
	r.check(word>>8&0xffffff == 0, "zeros after a tag")
	if r.err != nil {
		return Value{}
	}
	switch tag {
	case tagRef:
		return readHandle(r, number)
	case tagException:
		return Value{tag: tag, word: uint64(number)}
	case tagRows:
		return Value{tag: tag, rows: readTable(r, number)}
	}
	r.check(number == 0, "zeros after a tag")
	if tag == tagAbsent {
		return Value{tag: tag}
	}
	return readReplyValue(r, tag)
}

// readTable reads a table of rows.
func readTable(r *reader, count uint32) *table {
	length := r.word()
	r.check(length%8 == 0, "a length in whole words")
	at := r.at
	r.take(length)
	if r.err != nil {
		return &table{}
	}
	inner := reader{data: r.data[:r.at], at: at, bytesMax: r.at}
	t := readTableParts(&inner, count)
	switch inner.err.(type) {
	case nil:
		r.check(inner.at == r.at, "a table no longer than its cells")
	case *needError:
		r.fail(ErrorBadWord, "a table of the length in its header")
	default:
		r.err = inner.err
	}
	return t
}

func readTableParts(r *reader, count uint32) *table {
	width := r.word()
	r.check(width >= 1 && width <= argumentsMax, "a count of columns")
	t := &table{count: int(count)}
	for index := uint64(0); index < width && r.err == nil; index++ {
		word := r.word()
		tag := byte(word)
		isColumn := tag <= tagString || tag == tagBytes || tag == tagCompound
		r.check(isColumn && word>>8&0xffffff == 0, "the tag of a column, and zeros after it")
		t.columns = append(t.columns, column{tag, uint32(word >> 32)})
	}
	for range count {
		for _, c := range t.columns {
			if r.err != nil {
				return t
			}
			if c.tag == tagRef {
				t.cells = append(t.cells, readHandle(r, c.typeNumber))
			} else {
				t.cells = append(t.cells, readReplyValue(r, c.tag))
			}
		}
		if r.err != nil {
			return t
		}
	}
	return t
}

func readException(r *reader) exception {
	word := r.word()
	values, rounds, places := byte(word>>8), byte(word>>16), byte(word>>24)
	e := exception{call: uint32(word >> 32), kind: byte(word)}
	isSignal := e.kind == exceptionSignal
	r.check(isSignal || (values == 0 && places == 0), "zeros for the counts")
	for range rounds {
		round := r.word()
		r.check(round <= math.MaxUint32, "the number of a round")
		e.rounds = append(e.rounds, uint32(round))
	}
	switch e.kind {
	case exceptionSignal:
		e.name = r.string()
		for range values {
			value := readOutcome(r)
			isValue := value.tag != tagException && value.tag != tagAbsent && value.tag != tagRows
			r.check(isValue, "a value of an exception")
			e.values = append(e.values, value)
		}
		readPlaces(r, &e, places)
	case exceptionUnhandled:
		cause := r.word()
		e.argument, e.back = uint32(cause&0xffffff), uint32(cause>>24&0xff)
		e.cause = uint32(cause >> 32)
	case exceptionRefused:
		number := r.word()
		r.check(number <= math.MaxUint32, "the number of an error")
		e.number, e.text = ErrorNumber(number), r.string()
	default:
		r.fail(ErrorBadWord, "the kind of an exception")
	}
	return e
}

func readPlaces(r *reader, e *exception, count byte) {
	if count == 0 {
		return
	}
	r.check(count <= placesMax, "a count of places")
	e.morePlaces = r.word()
	for index := byte(0); index < count && r.err == nil; index++ {
		line := r.word()
		r.check(line <= math.MaxUint32, "the number of a line")
		routine, file := readPlaceName(r), readPlaceName(r)
		if !utf8.ValidString(routine) || !utf8.ValidString(file) {
			r.fail(ErrorBadText, "a string in UTF-8")
		}
		e.places = append(e.places, Place{routine, file, uint32(line)})
	}
}

func readPlaceName(r *reader) string {
	name := r.bytes()
	r.check(len(name) <= placeBytesMax, "a name of a place no longer than its limit")
	return name
}
