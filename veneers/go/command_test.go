package veneer

import (
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// This file reads commands as plain data, in the form of vectors/commands.json.

var traceText = regexp.MustCompile(
	`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-(?s:.*))?$`)

// parseTrace returns the trace context of a traceparent in the form of version 00; it is empty if
// the text is none.
func parseTrace(text string) string {
	found := traceText.FindStringSubmatch(text)
	if found == nil || found[1] == "ff" || found[2] == strings.Repeat("0", 32) ||
		found[3] == strings.Repeat("0", 16) || found[1] == "00" && found[5] != "" {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", found[2], found[3], found[4])
}

// show returns a value or a reference as plain data.
func show(value Value) any {
	switch value.tag {
	case tagRef:
		return tree{"ref": value.handle()}
	case tagNil:
		return tree{"nil": nil}
	case tagBool:
		return tree{"bool": value.word == 1}
	case tagInt:
		return tree{"int": strconv.FormatInt(int64(value.word), 10)}
	case tagReal:
		return tree{"real": showReal(math.Float64frombits(value.word))}
	case tagChar:
		return tree{"char": string(rune(value.word))}
	case tagString:
		return tree{"string": value.text}
	case tagBytes:
		return tree{"bytes": hex.EncodeToString([]byte(value.text))}
	}
	items := []any{}
	for _, item := range value.items() {
		items = append(items, show(item))
	}
	return tree{"compound": tree{"type": optional(value.compoundType()), "items": items}}
}

// showReal returns a real in the shortest digits that read back as it.
func showReal(r float64) string {
	switch {
	case math.IsNaN(r):
		return "NaN"
	case math.IsInf(r, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(r, 'f', -1, 64)), "+")
	}
	mantissa, digits, _ := strings.Cut(strconv.FormatFloat(r, 'e', -1, 64), "e")
	exponent, _ := strconv.Atoi(digits)
	if exponent < -4 || exponent >= 16 {
		return fmt.Sprintf("%se%d", mantissa, exponent)
	}
	shown := strconv.FormatFloat(r, 'f', -1, 64)
	if !strings.Contains(shown, ".") {
		shown += ".0"
	}
	return shown
}

// optional returns a number, or nil for noNumber.
func optional(number uint32) any {
	if number == noNumber {
		return nil
	}
	return number
}

// decodeCommands reads all commands.
func decodeCommands(data []byte) ([]any, error) {
	commands := []any{}
	for len(data) > 0 {
		command, length, err := decodeCommand(data)
		if err != nil {
			return commands, err
		}
		commands = append(commands, command)
		data = data[length:]
	}
	return commands, nil
}

// decodeCommand reads the command at the front of the bytes; it returns it with its length. The
// error is a *needError if the command is not whole, and a *BadBytes if it is none.
func decodeCommand(data []byte) (any, int, error) {
	r := reader{data: string(data), bytesMax: frameBytesMax}
	command := readCommand(&r)
	if r.err != nil {
		return nil, 0, r.err
	}
	return command, r.at, nil
}

func readPart(r *reader, tag byte) any {
	if tag == tagRef {
		return tree{"ref": r.signed()}
	}
	value := readValue(r, tag, 1)
	if r.err != nil {
		return nil
	}
	return show(value)
}

func readArguments(r *reader, word uint64) []any {
	count, first := int(word>>8&0xff), word>>16&0xffff
	parts := []any{}
	if count == 0 {
		r.check(first == 0, "no tags without arguments")
		return parts
	}
	r.check(count >= 4 || first>>(4*count) == 0, "no tags beyond the arguments")
	more := r.words(uint64(max(count-4, 0)+15) / 16)
	if last := (count - 4) % 16; len(more) > 0 {
		r.check(last == 0 || more[len(more)-1]>>(4*last) == 0, "no tags beyond the arguments")
	}
	for index := 0; index < count && r.err == nil; index++ {
		tags := first >> (4 * min(index, 4))
		if index >= 4 {
			tags = more[(index-4)/16] >> (4 * ((index - 4) % 16))
		}
		parts = append(parts, readPart(r, byte(tags&15)))
	}
	return parts
}

func readTypes(r *reader, count uint32) []any {
	numbers := []any{}
	for _, number := range r.words(uint64(count)) {
		r.check(number < noNumber, "numbers of types")
		numbers = append(numbers, number)
	}
	return numbers
}

func readHello(r *reader, word uint64) any {
	r.check(word == magic, "the magic word of hello")
	first := r.word()
	r.check(first>>32 <= helloTraced, "a version")
	hello := tree{"version": uint32(first), "digest": hex.EncodeToString([]byte(r.take(32)))}
	hello["token"], hello["client"] = r.string(), r.string()
	if first>>32 > 0 {
		trace := parseTrace(r.string())
		r.check(trace != "", "a traceparent of W3C")
		hello["trace"] = trace
	}
	return tree{"hello": hello}
}

func readCommand(r *reader) any {
	word := r.word()
	code, flags, number := byte(word), uint32(word>>8)&0xffffff, uint32(word>>32)
	switch code {
	case opHello:
		return readHello(r, word)
	case opCall, opSend:
		name := map[byte]string{opCall: "call", opSend: "send"}[code]
		receiver := r.signed()
		args := readArguments(r, word)
		return tree{name: tree{"method": number, "receiver": receiver, "args": args}}
	case opCallRoutine:
		return tree{"call_routine": tree{"routine": number, "args": readArguments(r, word)}}
	case opCallProcedure:
		return tree{"call_procedure": tree{"procedure": number, "args": readArguments(r, word)}}
	case opHistory:
		r.check(number == 0 && flags <= 1, "a flag")
		if flags == historyClear {
			return "clear_history"
		}
		return "history"
	}
	for name, plain := range plainCommands {
		if code == plain {
			r.check(word == uint64(code), "zeros after the code")
			return name
		}
	}
	return readOther(r, word, code, flags, number)
}

func readOther(r *reader, word uint64, code byte, flags, number uint32) any {
	switch code {
	case opLookup:
		r.check(flags == 0, "zeros between code and number")
		return tree{"lookup": tree{"name": r.string(), "expected": optional(number)}}
	case opConstant:
		r.check(number == 0 && flags <= 0xff, "zeros after the tag")
		r.check(flags != tagRef, "the tag of a value")
		return tree{"constant": readPart(r, byte(flags))}
	case opCell:
		r.check(flags == 0, "zeros between code and number")
		return tree{"cell": tree{"element": number}}
	case opRows:
		r.check(number == 0 && flags >= 1 && flags <= 0xff, "a count of columns")
		return tree{"rows": tree{"columns": readTypes(r, flags)}}
	case opEmit:
		rows := r.signed()
		values := readArguments(r, word)
		r.check(number == 0, "zeros after the tags")
		return tree{"emit": tree{"rows": rows, "values": values}}
	case opAs, opIs:
		r.check(flags == 0, "zeros between code and number")
		name := map[byte]string{opAs: "as", opIs: "is"}[code]
		return tree{name: tree{"type": number, "object": r.signed()}}
	case opGet:
		r.check(word == uint64(code), "zeros after the code")
		return tree{"get": tree{"object": r.signed()}}
	case opDo, opThen:
		r.check(word == uint64(code), "zeros after the code")
		name := map[byte]string{opDo: "do", opThen: "then"}[code]
		return tree{name: tree{"test": r.signed()}}
	case opFree:
		return readFree(r, flags, number)
	case opFlush:
		return readFlush(r, flags, number)
	case opProfile:
		r.check(number == 0 && flags <= 1, "a flag")
		return tree{"profile": tree{"on": flags == profileOn}}
	case opTransaction:
		return readTransaction(r, flags, number)
	case opWait:
		r.check(flags == 0, "zeros between code and number")
		return tree{"wait": tree{"ms": number}}
	case opWhen:
		r.check(number == 0 && flags <= 0xff, "a count")
		name := r.string()
		return tree{"when": tree{"name": name, "values": readTypes(r, flags)}}
	case opOthers:
		r.check(number == 0 && flags <= 1, "a flag")
		return tree{"others": tree{"named": flags == othersNamed}}
	case opProcedure:
		r.check(flags <= 0xff, "a count")
		name := r.string()
		params := readTypes(r, flags)
		return tree{"procedure": tree{"name": name, "params": params, "result": optional(number)}}
	case opReturn:
		r.check(number == 0, "zeros after the tag")
		return tree{"return": readReturned(r, flags)}
	}
	r.fail(ErrorBadWord, "the code of a command")
	return nil
}

func readFree(r *reader, flags, number uint32) any {
	r.check(flags <= 0xff, "a number of batches")
	handles := []any{}
	for _, handle := range r.words(uint64(number)) {
		handles = append(handles, int64(handle))
	}
	if flags > 0 {
		return tree{"free": tree{"handles": handles, "unanswered": flags}}
	}
	return tree{"free": handles}
}

func readTransaction(r *reader, flags, number uint32) any {
	r.check(number == 0 && flags&0xff <= 1, "a flag and a number of tries")
	var batch any
	if flags&0xff == transactionNamed {
		low, high := r.word(), r.word()
		batch = tree{"client": fmt.Sprintf("%016x%016x", high, low), "number": r.word()}
	}
	return tree{"transaction": tree{"tries": flags >> 8, "batch": batch}}
}

func readReturned(r *reader, flags uint32) any {
	if flags&0xff == 1 && flags>>16 == 0 {
		return readPart(r, byte(flags>>8))
	}
	r.check(flags == 0, "a count and a tag")
	return nil
}

func readFlush(r *reader, flags, number uint32) any {
	keeps, unanswered := flags&flushKept != 0, flags>>8
	good := flags&0xfc == 0 && unanswered <= 0xff && (keeps || unanswered == 0)
	r.check(good, "flags and a number of batches")
	ranges, least := []any{}, uint64(1)
	for _, word := range r.words(uint64(number)) {
		first, count := word&math.MaxUint32, word>>32
		inOrder := first >= least && count > 0 && first+count-1 <= math.MaxUint32
		r.check(inOrder, "ranges in order")
		// One more than touching, so that a set of futures has one encoding.
		least = first + count + 1
		ranges = append(ranges, []any{first, count})
	}
	flush := tree{"wanted": ranges, "quiet": flags&flushQuiet != 0}
	if keeps {
		flush["kept"] = unanswered
	}
	return tree{"flush": flush}
}
