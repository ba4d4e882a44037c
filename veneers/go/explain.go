package veneer

import (
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// This file shows commands as lines of the text form, for people who ask what was recorded.
//
// A result is named by its place in its batch, as in @2 := @1.fetch("eve"), and variables of
// structures as $x5. Comments have what the text form has no words for: handles given back, results
// that are wanted, results of earlier batches (@3^1 is the third of the last one). All languages
// write the same lines: vectors/explained.json.

// Explain returns the batch that is recorded, a line for each command: what the next crossing will
// bring to the server. Nothing crosses for it.
func (s *Session) Explain() string {
	r := s.core
	head := fmt.Sprintf("# batch %d: %d commands, not sent\n", r.batchNumber, r.commands)
	if r.commands == 0 {
		head = fmt.Sprintf("# batch %d: nothing is recorded\n", r.batchNumber)
	}
	names := r.numbers.server
	if r.numbers.isSame {
		names = r.numbers.stubs.own
	}
	procedures := make([]string, len(r.procedures))
	for index, one := range r.procedures {
		procedures[index] = one.name
	}
	before := 0
	if r.published > 0 {
		head += fmt.Sprintf("# %d bytes before, which the server has already\n", r.published)
		// Those of the batch without those that are still here.
		here := explainer{names: names, procedures: slices.Clone(procedures), variables: map[int]bool{}}
		here.whole(r.batch)
		before = len(r.futures) - here.futures
	}
	e := explainer{
		names: names, procedures: procedures, futures: before, variables: map[int]bool{},
	}
	lines, _ := e.whole(r.batch)
	return head + lines
}

// ErrNoProfiles is the error of a server that makes no profiles, for errors.Is.
var ErrNoProfiles error = &Misused{MisuseNoProfiles}

// Profile has the server measure this batch and all later ones, or no more. Nothing crosses for it
// at once. It is refused inside a structure and a batch that is a transaction.
func (s *Session) Profile(on bool) error {
	isDue, wrong := s.core.profileDue(on)
	if wrong == nil && isDue {
		wrong = s.core.recordProfile(s.admit(), on)
	}
	return asError(wrong)
}

// LastProfile returns the profile of the batch that was sent last; nil if its answer has none, or
// has not come.
func (s *Session) LastProfile() *Profile { return s.core.profile }

// explainer writes the commands of a batch as lines, indented by structures.
type explainer struct {
	names *Interface
	// procedures are the names of the session's procedures, by number.
	procedures []string
	// futures is the number of results of the batch so far, of which some are variables.
	futures   int
	variables map[int]bool
	// depth is the number of open blocks.
	depth int
	// iterates is true if the next call is that of a foreach.
	iterates bool
}

// whole returns the lines of whole commands, and the number of bytes behind them.
func (e *explainer) whole(data []byte) (lines string, rest int) {
	var out strings.Builder
	all := string(data)
	at := 0
	for at < len(all) {
		r := reader{data: all, at: at, bytesMax: at + frameBytesMax}
		// The state is that before a command that is not whole.
		before := *e
		line := e.line(&r)
		if r.err != nil {
			*e = before
			break
		}
		at = r.at
		out.WriteString(line)
	}
	return out.String(), len(all) - at
}

// line returns the line of the next command; none for foreach, which is a part of the next line.
func (e *explainer) line(r *reader) string {
	word := r.word()
	code := byte(word)
	if code == opForeach {
		e.iterates = true
		return ""
	}
	isMiddle := slices.Contains([]byte{opDo, opThen, opElse, opWhen, opOthers}, code)
	begins := e.iterates || slices.Contains([]byte{opWhile, opIf, opExcept, opProcedure}, code)
	isEnd := slices.Contains(
		[]byte{opEndWhile, opEndIf, opEndForeach, opEndExcept, opEndProcedure}, code)
	// Markers of blocks stand at the depth of their structure.
	if isMiddle || isEnd {
		e.depth = max(e.depth-1, 0)
	}
	indent := strings.Repeat("  ", e.depth)
	text := "end"
	if !isEnd {
		text = e.command(r, word)
	}
	if isMiddle || begins {
		e.depth++
	}
	return indent + text + "\n"
}

var lookupWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

var bareCommands = map[byte]string{
	opWhile: "while", opIf: "if", opElse: "else", opExcept: "except", opBreak: "break",
	opContinue: "continue", opDescribe: "describe", opBye: "bye",
}

// command returns the text of a command that is no end.
func (e *explainer) command(r *reader, word uint64) string {
	code, flags, number := byte(word), uint32(word>>8)&0xffffff, uint32(word>>32)
	if text, isBare := bareCommands[code]; isBare {
		return text
	}
	switch code {
	case opCommit:
		return e.made(1, "commit")
	case opAbort:
		return e.made(1, "abort")
	case opHistory:
		if flags == historyClear {
			return "clear"
		}
		return "history"
	case opCall, opSend:
		return e.method(r, code, word, number)
	case opCallRoutine:
		parts := e.arguments(r, word)
		if int64(number) >= int64(len(e.names.routines)) {
			return e.made(1, fmt.Sprintf("? # routine %d is none", number))
		}
		found := &e.names.routines[number]
		return e.made(resultsOf(found), e.call(found.Name, found, parts))
	case opCallProcedure:
		name := "?"
		if int64(number) < int64(len(e.procedures)) {
			name = e.procedures[number]
		}
		return e.made(1, e.call(name, nil, e.arguments(r, word)))
	case opLookup:
		name := r.string()
		if !lookupWord.MatchString(name) {
			name = quotedText(name, '"')
		}
		if number != noNumber {
			name += ": " + e.names.typeName(int(number))
		}
		return e.made(1, "lookup "+name)
	case opConstant:
		return e.made(1, e.constant(readOperand(r, byte(flags))))
	case opCell:
		return e.made(1, "cell "+e.names.typeName(int(number)))
	case opRows:
		return e.made(1, "rows "+strings.Join(e.typeNames(r.words(uint64(flags))), ", "))
	case opEmit:
		parts := []string{e.reference(r.signed())}
		for _, value := range e.arguments(r, word) {
			parts = append(parts, e.argument(value, -1))
		}
		e.futures++
		return "emit " + strings.Join(parts, ", ")
	case opAs:
		return e.made(1, e.reference(r.signed())+" as "+e.names.typeName(int(number)))
	case opIs:
		return e.made(1, e.reference(r.signed())+" is "+e.names.typeName(int(number)))
	case opGet:
		return e.made(1, "get "+e.reference(r.signed()))
	}
	return e.marker(r, word, code, flags, number)
}

// method returns the line of a call of a method, or of a message.
func (e *explainer) method(r *reader, code byte, word uint64, number uint32) string {
	receiver := e.reference(r.signed())
	parts := e.arguments(r, word)
	found := e.names.method(number)
	if code == opSend {
		e.futures++
		if found == nil {
			return fmt.Sprintf("# send of method %d, which is none", number)
		}
		return "send " + receiver + "." + e.call(found.Name, found, parts)
	}
	if found == nil {
		return e.made(1, fmt.Sprintf("%s.? # method %d is none", receiver, number))
	}
	return e.made(resultsOf(found), receiver+"."+e.call(found.Name, found, parts))
}

// marker returns the line of a command that makes no value.
func (e *explainer) marker(r *reader, word uint64, code byte, flags, number uint32) string {
	switch code {
	case byte(magic & 0xff):
		first := r.word()
		r.take(32)
		// The token is a secret.
		r.bytes()
		client := r.string()
		if first>>32 == helloTraced {
			r.bytes()
		}
		return fmt.Sprintf("hello %d name %s", uint32(first), quotedText(client, '"'))
	case opFree:
		var handles []string
		for _, handle := range r.words(uint64(number)) {
			handles = append(handles, e.reference(int64(handle)))
		}
		return "# gives back " + strings.Join(handles, ", ")
	case opFlush:
		return e.flush(r.words(uint64(number)))
	case opTransaction:
		text := "transaction"
		if tries := flags >> 8; tries > 0 {
			text += fmt.Sprintf(" %d", tries)
		}
		if flags&0xff == transactionNamed {
			// The client's bits of the name are a secret.
			r.take(16)
			text += fmt.Sprintf(" # batch %d", r.word())
		}
		return e.made(1, text)
	case opWait:
		return e.made(1, fmt.Sprintf("wait %d", number))
	case opProfile:
		if flags == profileOn {
			return "profile on"
		}
		return "profile off"
	case opDo:
		return "do " + e.reference(r.signed())
	case opThen:
		return "then " + e.reference(r.signed())
	case opWhen:
		name := r.string()
		return "when " + name + e.typed(r.words(uint64(flags)))
	case opOthers:
		if flags == othersNamed {
			return "others " + e.variable()
		}
		return "others"
	case opProcedure:
		name := r.string()
		if !slices.Contains(e.procedures, name) {
			e.procedures = append(e.procedures, name)
		}
		text := "procedure " + name + e.typed(r.words(uint64(flags)))
		if number != noNumber {
			text += " returns " + e.names.typeName(int(number))
		}
		return text
	case opReturn:
		if flags&0xff == 0 {
			return "return"
		}
		return "return " + e.argument(readOperand(r, byte(flags>>8)), -1)
	}
	r.fail(ErrorBadWord, "the code of a command")
	return ""
}

func (e *explainer) flush(words []uint64) string {
	var ranges []string
	for _, word := range words {
		first, count := word&math.MaxUint32, word>>32
		text := fmt.Sprintf("@%d", first)
		if count > 1 {
			text += fmt.Sprintf(" to @%d", first+count-1)
		}
		ranges = append(ranges, text)
	}
	e.futures, e.depth, e.variables = 0, 0, map[int]bool{}
	if len(ranges) == 0 {
		return "flush"
	}
	return "flush # wants " + strings.Join(ranges, ", ")
}

// resultsOf returns the number of results of a call, at least one.
func resultsOf(h *headingEntry) int {
	if h.Yields != nil {
		return max(len(h.Yields), 1)
	}
	return max(len(h.Results), 1)
}

// made returns a line that makes so many results, or the head of a loop over them.
func (e *explainer) made(count int, text string) string {
	names := make([]string, count)
	isLoop := e.iterates
	e.iterates = false
	for index := range names {
		if isLoop {
			names[index] = e.variable()
		} else {
			e.futures++
			names[index] = fmt.Sprintf("@%d", e.futures)
		}
	}
	if isLoop {
		return "foreach " + strings.Join(names, ", ") + " in " + text + " do"
	}
	return strings.Join(names, ", ") + " := " + text
}

// variable names the next result as a variable.
func (e *explainer) variable() string {
	e.futures++
	e.variables[e.futures] = true
	return fmt.Sprintf("$x%d", e.futures)
}

func (e *explainer) typeNames(numbers []uint64) []string {
	names := make([]string, len(numbers))
	for index, number := range numbers {
		names[index] = e.names.typeName(int(uint32(number)))
	}
	return names
}

// typed names variables with their types.
func (e *explainer) typed(numbers []uint64) string {
	if len(numbers) == 0 {
		return ""
	}
	names := e.typeNames(numbers)
	for index, name := range names {
		names[index] = e.variable() + ": " + name
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// readOperand reads a value or a reference.
func readOperand(r *reader, tag byte) Value {
	if tag == tagRef {
		return object(r.signed(), noNumber)
	}
	return readValue(r, tag, 1)
}

// arguments reads the arguments of a call, by its first word.
func (e *explainer) arguments(r *reader, word uint64) []Value {
	count, first := int(word>>8&0xff), word>>16&0xffff
	more := r.words(uint64(max(count-4, 0)+15) / 16)
	var values []Value
	for index := 0; index < count && r.err == nil; index++ {
		tags := first >> (4 * min(index, 4))
		if index >= 4 {
			tags = more[(index-4)/16] >> (4 * ((index - 4) % 16))
		}
		values = append(values, readOperand(r, byte(tags&15)))
	}
	return values
}

func (e *explainer) call(name string, h *headingEntry, values []Value) string {
	parts := make([]string, len(values))
	for index, value := range values {
		place := -1
		if h != nil && index < len(h.Params) {
			place = h.Params[index].Type
		}
		parts[index] = e.argument(value, place)
	}
	return name + "(" + strings.Join(parts, ", ") + ")"
}

func (e *explainer) reference(reference int64) string {
	switch {
	case reference == 0:
		// It stands for a stub whose call was refused or has failed.
		return "@0"
	case reference > 0:
		return fmt.Sprintf("h%d", reference)
	}
	position, back := int(uint32(-reference)), -reference>>32
	switch {
	case back > 0:
		return fmt.Sprintf("@%d^%d", position, back)
	case e.variables[position]:
		return fmt.Sprintf("$x%d", position)
	}
	return fmt.Sprintf("@%d", position)
}

func (e *explainer) constant(value Value) string {
	if value.tag != tagCompound {
		return showValue(value)
	}
	number := int(value.compoundType())
	return fmt.Sprintf("value %s %s", e.names.typeName(number), e.compound(value, number))
}

// argument returns an argument for a place of a type.
func (e *explainer) argument(value Value, place int) string {
	switch value.tag {
	case tagRef:
		return e.reference(value.handle())
	case tagCompound:
		return e.compound(value, place)
	}
	return showValue(value)
}

// compound returns a compound of its own type, or else of that of its place.
func (e *explainer) compound(value Value, place int) string {
	number := int(value.compoundType())
	if number >= len(e.names.types) {
		number = place
	}
	var of typeEntry
	if number >= 0 && number < len(e.names.types) {
		of = e.names.types[number]
	}
	items := value.items()
	labelled := func(at int, item Value) string {
		if at >= 0 && at < len(of.Fields) {
			return of.Fields[at].Name + ": " + e.argument(item, of.Fields[at].Type)
		}
		return e.argument(item, -1)
	}
	isChoice := of.Kind == "oneof" || of.Kind == "maybe"
	if isChoice && len(items) == 2 && items[0].tag == tagInt {
		return "{" + labelled(int(int64(items[0].word)), items[1]) + "}"
	}
	element := -1
	if of.Element != nil {
		element = *of.Element
	}
	texts := make([]string, len(items))
	for at, item := range items {
		if of.Kind == "record" || of.Kind == "struct" {
			texts[at] = labelled(at, item)
		} else {
			texts[at] = e.argument(item, element)
		}
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

// showValue returns a value as the text form reads it.
func showValue(value Value) string {
	switch value.tag {
	case tagBool:
		return strconv.FormatBool(value.word != 0)
	case tagInt:
		return strconv.FormatInt(int64(value.word), 10)
	case tagReal:
		return realText(math.Float64frombits(value.word))
	case tagChar:
		return quotedText(string(rune(value.word)), '\'')
	case tagString:
		return quotedText(value.text, '"')
	case tagBytes:
		return `x"` + hex.EncodeToString([]byte(value.text)) + `"`
	}
	return "nil"
}

// realText returns a real in the shortest digits that read back as it.
func realText(r float64) string {
	switch {
	case math.IsNaN(r):
		return "NaN"
	case math.IsInf(r, 1):
		return "inf"
	case math.IsInf(r, -1):
		return "-inf"
	}
	if size := math.Abs(r); size >= 1e16 || size > 0 && size < 1e-4 {
		mantissa, digits, _ := strings.Cut(strconv.FormatFloat(r, 'e', -1, 64), "e")
		// The digits have no needless sign and no needless zero.
		exponent, _ := strconv.Atoi(digits)
		return fmt.Sprintf("%se%d", mantissa, exponent)
	}
	text := strconv.FormatFloat(r, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// quotedText returns a text in quotes, without characters that could move the cursor of a terminal.
func quotedText(text string, quote rune) string {
	var out strings.Builder
	out.WriteRune(quote)
	for _, c := range text {
		switch {
		case c == '\n':
			out.WriteString(`\n`)
		case c == '\t':
			out.WriteString(`\t`)
		case c == '\r':
			out.WriteString(`\r`)
		case c == '\\' || c == quote:
			out.WriteRune('\\')
			out.WriteRune(c)
		case unicode.IsControl(c):
			fmt.Fprintf(&out, `\u{%x}`, c)
		default:
			out.WriteRune(c)
		}
	}
	out.WriteRune(quote)
	return out.String()
}
