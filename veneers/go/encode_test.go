package veneer

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// This file writes the values, replies and commands of the vectors as bytes: the half of a server
// that tests need.

// tree is an object of JSON. Numbers in it are json.Number.
type tree = map[string]any

// parse reads JSON.
func parse(text string) any {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var parsed any
	if err := decoder.Decode(&parsed); err != nil {
		panic(err)
	}
	return parsed
}

// plain returns data as parse would have it.
func plain(data any) any {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return parse(string(text))
}

// number returns a number of JSON, of 64 bits with or without sign; 0 if there is none.
func number(part any) uint64 {
	if part == nil {
		return 0
	}
	text := part.(json.Number).String()
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return uint64(n)
}

// number32 returns a number of JSON of 32 bits; noNumber for null.
func number32(part any) uint32 {
	if part == nil {
		return noNumber
	}
	return uint32(number(part))
}

// list returns a list of JSON; none for null.
func list(part any) []any {
	if part == nil {
		return nil
	}
	return part.([]any)
}

// text returns a text of JSON; the empty one for null.
func text(part any) string {
	if part == nil {
		return ""
	}
	return part.(string)
}

// only returns the key and the part of an object that has one.
func only(part any) (string, any) {
	object := part.(tree)
	if len(object) != 1 {
		panic(object)
	}
	for key, inner := range object {
		return key, inner
	}
	return "", nil
}

// hexed returns bytes in hexadecimal digits, with a space after each word.
func hexed(data []byte) string {
	var words []string
	for at := 0; at < len(data); at += 8 {
		words = append(words, hex.EncodeToString(data[at:min(at+8, len(data))]))
	}
	return strings.Join(words, " ")
}

func unhexed(digits string) []byte {
	data, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		panic(err)
	}
	return data
}

// valueOf returns a value of the vectors.
func valueOf(part any) Value {
	kind, payload := only(part)
	switch kind {
	case "nil":
		return NilValue()
	case "bool":
		return BoolValue(payload.(bool))
	case "int":
		n, err := strconv.ParseInt(payload.(string), 10, 64)
		if err != nil {
			panic(err)
		}
		return IntValue(n)
	case "real":
		if payload == "NaN" {
			return RealValue(math.Float64frombits(0x7ff8 << 48))
		}
		r, err := strconv.ParseFloat(payload.(string), 64)
		if err != nil {
			panic(err)
		}
		return RealValue(r)
	case "char":
		c, _ := utf8.DecodeRuneInString(payload.(string))
		return CharValue(c)
	case "string":
		if long, isLong := payload.(tree); isLong {
			return TextValue(strings.Repeat(text(long["text"]), int(max(number(long["times"]), 1))))
		}
		return TextValue(payload.(string))
	case "bytes":
		return BytesValue(unhexed(payload.(string)))
	case "compound":
		compound := payload.(tree)
		items := list(compound["items"])
		b, tagsAt := beginItems(nil, number32(compound["type"]), len(items))
		for index, item := range items {
			var tag byte
			b, tag = appendPart(b, item)
			setTag(b, tagsAt, index, tag)
		}
		endItems(b, tagsAt)
		return Value{tag: tagCompound, text: string(b[8:])}
	}
	panic(kind)
}

// appendPart appends a value or a reference, and returns its tag.
func appendPart(b []byte, part any) ([]byte, byte) {
	if reference, isOne := part.(tree)["ref"]; isOne {
		return appendWord(b, number(reference)), tagRef
	}
	value := valueOf(part)
	return appendValue(b, value), value.tag
}

// Replies.

func replyOf(code byte, flags, number uint32, body []byte) []byte {
	b := appendWord(nil, head(code, flags, number))
	return append(appendWord(b, uint64(len(body))), body...)
}

func welcomeOf(digest [32]byte, limits []limitValue, session uint64, server string) []byte {
	body := appendWord(nil, session)
	body = append(body, digest[:]...)
	body = appendText(body, server)
	body = appendWord(body, uint64(len(limits)))
	for _, limit := range limits {
		body = appendWord(appendWord(body, uint64(limit.number)), limit.value)
	}
	return replyOf(opWelcome, 0, version, body)
}

func appendOutcome(b []byte, outcome any) []byte {
	if outcome == "absent" {
		return appendWord(b, head(tagAbsent, 0, 0))
	}
	parts := outcome.(tree)
	if handle, isHandle := parts["handle"]; isHandle {
		typeNumber := uint32(7)
		if named, isNamed := parts["type"]; isNamed {
			typeNumber = number32(named)
		}
		return appendWord(appendWord(b, head(tagRef, 0, typeNumber)), number(handle))
	}
	if place, isOne := parts["exception"]; isOne {
		return appendWord(b, head(tagException, 0, number32(place)))
	}
	if rows, areRows := parts["rows"]; areRows {
		columns, cells := list(rows.(tree)["columns"]), list(rows.(tree)["cells"])
		t := appendWord(nil, uint64(len(columns)))
		for _, column := range columns {
			pair := list(column)
			t = appendWord(t, head(byte(number(pair[0])), 0, number32(pair[1])))
		}
		for _, cell := range cells {
			if handle, isHandle := cell.(tree)["handle"]; isHandle {
				t = appendWord(t, number(handle))
			} else {
				t = appendValue(t, valueOf(cell))
			}
		}
		b = appendWord(b, head(tagRows, 0, uint32(len(cells)/len(columns))))
		return append(appendWord(b, uint64(len(t))), t...)
	}
	value := valueOf(outcome)
	return appendValue(appendWord(b, head(value.tag, 0, 0)), value)
}

func appendException(b []byte, part any) []byte {
	e := part.(tree)
	rounds := list(e["iterations"])
	first := func(kind, values, places int) {
		flags := uint32(values) | uint32(len(rounds))<<8 | uint32(places)<<16
		b = appendWord(b, head(byte(kind), flags, number32(e["call"])))
		for _, round := range rounds {
			b = appendWord(b, number(round))
		}
	}
	if signal, isSignal := e["signal"].(tree); isSignal {
		values, places := list(signal["values"]), list(signal["places"])
		first(exceptionSignal, len(values), len(places))
		b = appendText(b, text(signal["name"]))
		for _, value := range values {
			b = appendOutcome(b, value)
		}
		if len(places) > 0 {
			b = appendWord(b, number(signal["more_places"]))
		}
		for _, place := range places {
			parts := place.(tree)
			b = appendWord(b, number(parts["line"]))
			b = appendText(appendText(b, text(parts["routine"])), text(parts["file"]))
		}
	} else if unhandled, isOne := e["unhandled"].(tree); isOne {
		first(exceptionUnhandled, 0, 0)
		word := number(unhandled["argument"])&0xffffff | number(unhandled["back"])<<24
		b = appendWord(b, word|number(unhandled["cause"])<<32)
	} else {
		refused := e["refused"].(tree)
		first(exceptionRefused, 0, 0)
		b = appendText(appendWord(b, number(refused["number"])), text(refused["text"]))
	}
	return b
}

func appendCost(b []byte, cost tree) []byte {
	b = appendWord(b, number(cost["nanoseconds"]))
	b = appendWord(b, pair(number32(cost["calls"]), number32(cost["fuel"])))
	return appendWord(b, pair(number32(cost["fetches"]), number32(cost["objects"])))
}

func appendProfile(b []byte, profile tree) []byte {
	entries := list(profile["entries"])
	rest, hasRest := profile["rest"].(tree)
	omitted := uint32(0)
	if hasRest {
		omitted = number32(rest["omitted"])
	}
	b = appendWord(b, number(profile["nanoseconds"]))
	b = appendWord(b, pair(number32(profile["fetches"]), number32(profile["objects"])))
	b = appendWord(b, number(profile["runs"]))
	b = appendWord(b, pair(uint32(len(entries)), omitted))
	for _, part := range entries {
		entry := part.(tree)
		kind := uint32(profileCommand)
		if entry["structure"] == true {
			kind = profileStructure
		}
		b = appendCost(appendWord(b, pair(kind, number32(entry["call"]))), entry)
	}
	if hasRest {
		b = appendCost(appendWord(b, profileRest), rest)
	}
	return b
}

// encodeReply returns a reply of the vectors as bytes.
func encodeReply(reply any) []byte {
	switch reply {
	case "farewell":
		return replyOf(opFarewell, 0, 0, nil)
	case "welcome":
		return welcomeOf([32]byte{}, nil, 1, "")
	case "interface":
		return replyOf(opInterface, 0, 0, appendText(nil, "{}"))
	}
	kind, part := only(reply)
	switch kind {
	case "bytes":
		return unhexed(part.(string))
	case "interface":
		return replyOf(opInterface, 0, 0, appendText(nil, part.(string)))
	}
	parts := part.(tree)
	switch kind {
	case "welcome":
		var limits []limitValue
		for _, limit := range list(parts["limits"]) {
			limits = append(limits, limitValue{number32(list(limit)[0]), number(list(limit)[1])})
		}
		digest := [32]byte(unhexed(text(parts["digest"])))
		return welcomeOf(digest, limits, number(parts["session"]), text(parts["server"]))
	case "error":
		body := appendText(appendWord(nil, number(parts["position"])), text(parts["text"]))
		return replyOf(opError, 0, number32(parts["number"]), body)
	case "exceptions":
		body := appendWord(nil, number(parts["omitted"]))
		listed := list(parts["list"])
		for _, entry := range listed {
			body = appendException(appendWord(body, number(list(entry)[0])), list(entry)[1])
		}
		return replyOf(opExceptions, 0, uint32(len(listed)), body)
	case "flushed":
		return encodeFlushed(parts)
	}
	panic(kind)
}

func encodeFlushed(parts tree) []byte {
	outcomes, exceptions := list(parts["outcomes"]), list(parts["exceptions"])
	omitted := uint32(number(parts["omitted"]))
	body := appendWord(nil, pair(uint32(len(exceptions)), omitted))
	body = appendWord(body, pair(uint32(number(parts["calls"])), uint32(number(parts["fuel"]))))
	for _, outcome := range outcomes {
		body = appendOutcome(body, outcome)
	}
	for _, exception := range exceptions {
		body = appendException(body, exception)
	}
	flags := uint32(0)
	if profile, hasProfile := parts["profile"].(tree); hasProfile {
		flags = flushedProfiled
		body = appendProfile(body, profile)
	}
	return replyOf(opFlushed, flags, uint32(len(outcomes)), body)
}

// nilForEach returns the reply to a flush for which a script has none: nil for each wanted result.
func nilForEach(wanted int) []byte {
	outcomes := make([]any, wanted)
	for index := range outcomes {
		outcomes[index] = tree{"nil": nil}
	}
	return encodeFlushed(tree{"outcomes": outcomes})
}

// Commands.

// plainCommands are the commands without parts.
var plainCommands = map[string]byte{
	"describe": opDescribe, "commit": opCommit, "abort": opAbort, "bye": opBye,
	"while": opWhile, "end_while": opEndWhile, "if": opIf, "else": opElse, "end_if": opEndIf,
	"foreach": opForeach, "end_foreach": opEndForeach, "break": opBreak,
	"continue": opContinue, "except": opExcept, "end_except": opEndExcept,
	"end_procedure": opEndProcedure, "history": opHistory,
}

func appendCall(b []byte, code byte, number uint32, receiver []any, args []any) []byte {
	start := len(b)
	b = appendWord(b, head(code, uint32(len(args)), number))
	for _, reference := range receiver {
		b = appendPartWord(b, reference)
	}
	tagsAt := len(b)
	b = appendZeros(b, tagBytesFor(max(len(args)-4, 0)))
	for index, arg := range args {
		var tag byte
		b, tag = appendPart(b, arg)
		if index < 4 {
			setTag(b, start+2, index, tag)
		} else {
			setTag(b, tagsAt, index-4, tag)
		}
	}
	return b
}

func appendPartWord(b []byte, part any) []byte { return appendWord(b, number(part)) }

func types(part any) []uint32 {
	var numbers []uint32
	for _, one := range list(part) {
		numbers = append(numbers, number32(one))
	}
	return numbers
}

// encodeCommand returns a command of the vectors as bytes.
func encodeCommand(command any) []byte {
	if name, isPlain := command.(string); isPlain {
		if name == "clear_history" {
			return appendWord(nil, head(opHistory, historyClear, 0))
		}
		code, isThere := plainCommands[name]
		if !isThere {
			panic(name)
		}
		return appendWord(nil, uint64(code))
	}
	name, part := only(command)
	p, _ := part.(tree)
	one := func(code byte, flags, number uint32) []byte {
		return appendWord(nil, head(code, flags, number))
	}
	switch name {
	case "hello":
		digest := [32]byte(unhexed(text(p["digest"])))
		return appendHello(nil, digest, text(p["token"]), text(p["client"]), text(p["trace"]),
			number32(p["version"]))
	case "call":
		return appendCall(nil, opCall, number32(p["method"]), []any{p["receiver"]}, list(p["args"]))
	case "send":
		return appendCall(nil, opSend, number32(p["method"]), []any{p["receiver"]}, list(p["args"]))
	case "call_routine":
		return appendCall(nil, opCallRoutine, number32(p["routine"]), nil, list(p["args"]))
	case "call_procedure":
		return appendCall(nil, opCallProcedure, number32(p["procedure"]), nil, list(p["args"]))
	case "emit":
		return appendCall(nil, opEmit, 0, []any{p["rows"]}, list(p["values"]))
	case "lookup":
		return appendText(one(opLookup, 0, number32(p["expected"])), text(p["name"]))
	case "constant":
		value := valueOf(part)
		return appendValue(one(opConstant, uint32(value.tag), 0), value)
	case "cell":
		return one(opCell, 0, number32(p["element"]))
	case "rows":
		columns := types(p["columns"])
		return appendTypes(one(opRows, uint32(len(columns)), 0), columns)
	case "as":
		return appendPartWord(one(opAs, 0, number32(p["type"])), p["object"])
	case "is":
		return appendPartWord(one(opIs, 0, number32(p["type"])), p["object"])
	case "get":
		return appendPartWord(one(opGet, 0, 0), p["object"])
	case "do":
		return appendPartWord(one(opDo, 0, 0), p["test"])
	case "then":
		return appendPartWord(one(opThen, 0, 0), p["test"])
	case "free":
		handles, areAll := part.([]any)
		if !areAll {
			handles = list(p["handles"])
		}
		b := one(opFree, uint32(number(p["unanswered"])), uint32(len(handles)))
		for _, handle := range handles {
			b = appendPartWord(b, handle)
		}
		return b
	case "flush":
		return encodeFlush(p)
	case "transaction":
		return encodeTransaction(p)
	case "wait":
		return one(opWait, 0, number32(p["ms"]))
	case "profile":
		return one(opProfile, bit(p["on"], profileOn), 0)
	case "when":
		values := types(p["values"])
		b := appendText(one(opWhen, uint32(len(values)), 0), text(p["name"]))
		return appendTypes(b, values)
	case "others":
		return one(opOthers, bit(p["named"], othersNamed), 0)
	case "procedure":
		params := types(p["params"])
		b := one(opProcedure, uint32(len(params)), number32(p["result"]))
		return appendTypes(appendText(b, text(p["name"])), params)
	case "return":
		if part == nil {
			return one(opReturn, 0, 0)
		}
		result, tag := appendPart(nil, part)
		return append(one(opReturn, 1|uint32(tag)<<8, 0), result...)
	}
	panic(name)
}

// bit returns a flag if a part is true.
func bit(part any, flag uint32) uint32 {
	if part == true {
		return flag
	}
	return 0
}

func encodeFlush(p tree) []byte {
	var wanted []uint32
	for _, part := range list(p["wanted"]) {
		first, count := number32(list(part)[0]), number32(list(part)[1])
		for index := range count {
			wanted = append(wanted, first+index)
		}
	}
	flags := bit(p["quiet"], flushQuiet)
	if unanswered, isKept := p["kept"]; isKept {
		flags |= flushKeptFlags(int(number(unanswered)))
	}
	return appendFlush(nil, wanted, flags)
}

func encodeTransaction(p tree) []byte {
	flags := number32(p["tries"]) << 8
	batch, isNamed := p["batch"].(tree)
	if !isNamed {
		return appendWord(nil, head(opTransaction, flags, 0))
	}
	low, high := clientWords(batch["client"])
	b := appendWord(nil, head(opTransaction, flags|transactionNamed, 0))
	return appendWord(appendWord(appendWord(b, low), high), number(batch["number"]))
}

// clientWords returns the two words of a client's name: 128 bits in hexadecimal digits.
func clientWords(part any) (low, high uint64) {
	digits := strings.Repeat("0", 32-len(part.(string))) + part.(string)
	high, err := strconv.ParseUint(digits[:16], 16, 64)
	if err != nil {
		panic(err)
	}
	if low, err = strconv.ParseUint(digits[16:], 16, 64); err != nil {
		panic(err)
	}
	return low, high
}

func TestTreesAreReadAsTheyAreWritten(t *testing.T) {
	const written = `{"a":[1,18446744073709551615,-1],"b":null}`
	parsed := parse(written).(tree)
	if n := number(list(parsed["a"])[1]); n != math.MaxUint64 {
		t.Errorf("found %d", n)
	}
	if n := number(list(parsed["a"])[2]); n != math.MaxUint64 {
		t.Errorf("found %d", n)
	}
	if data := unhexed(hexed([]byte("nine byte"))); string(data) != "nine byte" {
		t.Errorf("found %q", data)
	}
}
