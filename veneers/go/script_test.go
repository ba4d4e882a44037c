package veneer

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// This file interprets the scripts of vectors/recorder: untyped operations of a recorder. machine
// is the type to read first. It has a recorder, a table of stubs by their names in the script, and
// a queue of replies. It moves bytes as a client's connection does.

// client is the interface that the stubs of a script were made from.
type client struct {
	stubs     *Stubs
	text      string
	operators []uint32
}

func newClient(t testing.TB, text string) *client {
	t.Helper()
	own, err := ParseInterface([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var digest [32]byte
	for index := range digest {
		digest[index] = 7
	}
	return &client{NewStubs(digest, own), text, own.operators()}
}

func (c *client) typeNumber(name string) uint32 {
	number, isThere := c.stubs.own.typeNumbers[name]
	if !isThere {
		panic("there is no type " + name)
	}
	return number
}

// method returns the number of a method or of an operator.
func (c *client) method(name string) uint32 {
	for index, row := range operatorTable {
		if row.name == name {
			return c.operators[index]
		}
	}
	dot := strings.LastIndex(name, ".")
	number, isThere := c.stubs.own.methodNumbers[methodName{c.typeNumber(name[:dot]), name[dot+1:]}]
	if !isThere {
		panic("there is no method " + name)
	}
	return number
}

func (c *client) routine(name string) uint32 {
	number, isThere := c.stubs.own.routineNumbers[name]
	if !isThere {
		panic("there is no routine " + name)
	}
	return number
}

// serverInterface returns the interface of a server: the client's with changes.
func (c *client) serverInterface(changes tree) string {
	described := parse(c.text).(tree)
	for name, change := range changes {
		dot := strings.LastIndex(name, ".")
		for _, part := range list(described["types"]) {
			entry := part.(tree)
			if entry["name"] != name[:dot] {
				continue
			}
			methods := list(entry["methods"])
			at := slices.IndexFunc(methods, func(m any) bool {
				return m.(tree)["name"] == name[dot+1:]
			})
			method := methods[at].(tree)
			switch change {
			case "removed":
				entry["methods"] = slices.Delete(methods, at, at+1)
			case "without parameters":
				delete(method, "params")
			case "last":
				entry["methods"] = append(slices.Delete(methods, at, at+1), method)
			default:
				method["name"] = change
			}
		}
	}
	return written(described)
}

// isNumbered returns true if a name in a step of a loop has the number of its round.
func isNumbered(part any) bool {
	switch part := part.(type) {
	case string:
		return strings.HasPrefix(part, "$") && strings.HasSuffix(part, "_n")
	case []any:
		return slices.ContainsFunc(part, isNumbered)
	case tree:
		for _, inner := range part {
			if isNumbered(inner) {
				return true
			}
		}
	}
	return false
}

// numbered returns a step of a loop, with the number of its round in its names.
func numbered(part any, round int) any {
	switch part := part.(type) {
	case string:
		if isNumbered(part) {
			return fmt.Sprintf("%s%d", strings.TrimSuffix(part, "n"), round)
		}
	case []any:
		out := make([]any, len(part))
		for index, inner := range part {
			out[index] = numbered(inner, round)
		}
		return out
	case tree:
		out := make(tree, len(part))
		for key, inner := range part {
			out[key] = numbered(inner, round)
		}
		return out
	}
	return part
}

// cut are the pieces in which a reply comes. With changes, one bit of all replies is another one.
type cut struct {
	every   int
	at      int
	changes bool
	changed int
}

func (c cut) pieces(reply []byte) [][]byte {
	if c.every > 0 {
		return slices.Collect(slices.Chunk(reply, c.every))
	}
	if c.at > 0 && c.at < len(reply) {
		return [][]byte{reply[:c.at], reply[c.at:]}
	}
	return [][]byte{reply}
}

var errEnded = errors.New("the stream ended")

// source is where the replies of a machine come from.
type source interface {
	// greet opens the session.
	greet(g *greeting) (*recorder, error)
	// sent takes the bytes that the client sends.
	sent(data []byte)
	// reply returns the answer to the oldest batch, with so many wanted results; nil if the stream
	// ends in its place.
	reply(wanted int) []byte
}

// machine is a script that is being run.
type machine struct {
	client     *client
	cut        cut
	source     source
	recorder   *recorder
	foreign    *slot
	step       uintptr
	stubs      map[string]*slot
	ended      map[string]ending
	procedures map[string]defined
	// replies are those of the script; nil stands for the end of the stream.
	replies   [][]byte
	answered  int
	sent      [][]byte
	wanted    []int
	isShipped bool
	refusals  []Failure
	crossings []crossing
	results   []result
}

// defined is a procedure of a script: its number, and the reason if it was not sent.
type defined struct {
	number  uint32
	refused Failure
}

// crossing is a batch that was sent, and its answer; nil if there was none.
type crossing struct {
	sent     [][]byte
	answered []byte
}

// result is the result of a step, and how often it came in a row.
type result struct {
	step  uintptr
	value any
	times int
}

// newMachine returns the machine of a case.
func newMachine(t testing.TB, c *client, test tree, how cut, from source) *machine {
	t.Helper()
	s := defaultSettings()
	s.place = func(source uintptr) string { return fmt.Sprintf("step %d", source) }
	if count, isSet := test["remap_futures"]; isSet {
		s.remapFutures = number(count)
	}
	if count, isSet := test["reply_bytes_max"]; isSet {
		s.replyBytesMax = int(number(count))
	}
	m := &machine{
		client: c, cut: how, source: from, stubs: map[string]*slot{}, ended: map[string]ending{},
		procedures: map[string]defined{}, foreign: &slot{core: &recorder{}, holders: 1},
	}
	if from == nil {
		m.source = &scripted{m, test, ""}
	}
	var err error
	if m.recorder, err = m.source.greet(newGreeting(c.stubs, "", "", s)); err != nil {
		t.Fatal(err)
	}
	return m
}

// scripted is the source of a script, whose replies stand in it.
type scripted struct {
	machine *machine
	test    tree
	// server is the interface of the server, if it is another one than the client's.
	server string
}

func limitsOf(test tree) []limitValue {
	var limits []limitValue
	named, _ := test["limits"].(tree)
	for _, row := range limitTable {
		if value, isSet := named[row.name]; isSet {
			limits = append(limits, limitValue{row.number, number(value)})
		}
	}
	if len(limits) != len(named) {
		panic(fmt.Sprint("unknown limits: ", named))
	}
	return limits
}

func (s *scripted) greet(g *greeting) (*recorder, error) {
	g.takeBytes()
	if changes, isOther := s.test["server"].(tree); isOther {
		s.server = s.machine.client.serverInterface(changes)
	}
	digest := g.stubs.digest
	if s.server != "" {
		digest = [32]byte{}
	}
	core, err := g.handleBytes(welcomeOf(digest, limitsOf(s.test), 1, "script"))
	if err != nil || s.server == "" {
		return core, err
	}
	if core != nil || len(g.takeBytes()) != 8 {
		return nil, errors.New("the interface was not asked for")
	}
	return g.handleBytes(encodeReply(tree{"interface": s.server}))
}

func (s *scripted) sent(data []byte) {
	commands, err := decodeCommands(data)
	if err != nil {
		panic(err)
	}
	for _, command := range commands {
		if parts, isObject := command.(tree); isObject && parts["flush"] != nil {
			count := uint64(0)
			for _, one := range list(parts["flush"].(tree)["wanted"]) {
				count += one.([]any)[1].(uint64)
			}
			s.machine.wanted = append(s.machine.wanted, int(count))
		}
	}
}

func (s *scripted) reply(wanted int) []byte { return nilForEach(wanted) }

// run runs all steps, and returns the outputs of the case.
func (m *machine) run(steps []any) tree {
	for index, step := range steps {
		m.take(index+1, step.(tree))
	}
	return m.finish()
}

// take runs the step with this number.
func (m *machine) take(number32 int, step tree) {
	m.step = uintptr(number32)
	if step["loop"] == nil {
		m.do(step)
		return
	}
	for round := 1; round <= int(number(step["loop"])); round++ {
		for _, inner := range list(step["steps"]) {
			if isNumbered(inner) {
				inner = numbered(inner, round)
			}
			m.do(inner.(tree))
		}
	}
}

// do runs a step, and notes its result. Equal ones of a loop are counted.
func (m *machine) do(step tree) {
	value, hasResult := m.operate(step)
	if !hasResult {
		return
	}
	value = plain(value)
	if count := len(m.results); count > 0 {
		last := &m.results[count-1]
		if last.step == m.step && reflect.DeepEqual(last.value, value) {
			last.times++
			return
		}
	}
	m.results = append(m.results, result{m.step, value, 1})
}

// finish returns the outputs of the steps that were run, but for the crossings.
func (m *machine) finish() tree {
	if len(m.replies) > 0 && !m.cut.changes {
		panic("there are replies that nobody asked for")
	}
	if len(m.sent) > 0 {
		m.cross(nil)
	}
	known := tree{}
	for name, s := range m.stubs {
		known[name] = m.known(s)
	}
	results := []any{}
	for _, r := range m.results {
		entry := []any{r.step, r.value}
		if r.times > 1 {
			entry = append(entry, r.times)
		}
		results = append(results, entry)
	}
	isClosed, omitted := m.recorder.broken != nil, m.recorder.historyOmitted
	history := []any{}
	for _, entry := range m.recorder.exceptions() {
		history = append(history, tree{"batch": entry.Batch, "error": showFailure(entry.Failure)})
	}
	return plain(tree{
		"results": results, "known": known, "history": history, "history_omitted": omitted,
		"counters": tree{"crossings": m.recorder.crossings, "calls": m.recorder.calls},
		"closed":   isClosed,
	}).(tree)
}

// shownCrossings returns the crossings as the vectors have them.
func (m *machine) shownCrossings() any {
	shown := []any{}
	for _, c := range m.crossings {
		sent, all := []any{}, []byte(nil)
		for _, piece := range c.sent {
			sent = append(sent, hexed(piece))
			all = append(all, piece...)
		}
		commands, err := decodeCommands(all)
		if err != nil {
			panic(err)
		}
		one := tree{"sent": sent, "commands": commands, "answered": nil}
		if c.answered != nil {
			one["answered"] = hexed(c.answered)
		}
		shown = append(shown, one)
	}
	return plain(shown)
}

// Bytes.

func (m *machine) cross(answered []byte) {
	m.crossings = append(m.crossings, crossing{m.sent, answered})
	m.sent = nil
}

func (m *machine) send(onlyFlushed bool) {
	for {
		data := m.recorder.takeBytes(onlyFlushed)
		if len(data) == 0 {
			return
		}
		m.source.sent(data)
		m.sent = append(m.sent, data)
	}
}

func (m *machine) admit() Failure {
	if m.recorder.isReady() {
		return nil
	}
	work, wrong := m.recorder.due()
	switch {
	case wrong != nil:
		return wrong
	case work == dueSend:
		m.send(false)
	case work == dueFlush:
		return m.flush()
	}
	return nil
}

func (m *machine) flush() Failure {
	if _, wrong := m.recorder.beginFlush(false); wrong != nil {
		return wrong
	}
	return m.answerAll()
}

func (m *machine) synchronize(name string) Failure {
	if _, wrong := m.recorder.beginFlushFor(name, false, m.step); wrong != nil {
		return wrong
	}
	return m.answerAll()
}

func (m *machine) answerAll() Failure {
	for len(m.recorder.underWay) > 0 {
		if wrong := m.answer(); wrong != nil {
			return wrong
		}
	}
	return nil
}

func (m *machine) nextReply() []byte {
	wanted := 0
	if len(m.wanted) > 0 {
		wanted, m.wanted = m.wanted[0], m.wanted[1:]
	}
	made := m.source.reply(wanted)
	if len(m.replies) > 0 {
		made, m.replies = m.replies[0], m.replies[1:]
	}
	return made
}

// answer answers the oldest batch under way.
func (m *machine) answer() Failure {
	m.send(true)
	reply := m.nextReply()
	if reply == nil {
		m.cross(nil)
		return m.recorder.close(&ClosedByConnection{errEnded})
	}
	if at := m.cut.changed - m.answered; m.cut.changes && at >= 0 && at < len(reply) {
		reply = slices.Clone(reply)
		reply[at] ^= 1 << (at % 8)
	}
	m.answered += len(reply)
	m.cross(reply)
	// A changed reply may have left bytes behind it.
	if isWhole, wrong := m.recorder.handleBytes(nil); isWhole {
		panic("an answer of no bytes")
	} else if wrong != nil {
		return wrong
	}
	for _, piece := range m.cut.pieces(reply) {
		isWhole, wrong := m.recorder.handleBytes(piece)
		if isWhole || wrong != nil {
			return wrong
		}
	}
	return m.recorder.close(&ClosedByConnection{errEnded})
}

// Stubs.

func (m *machine) slot(part any) *slot {
	s, isThere := m.stubs[part.(string)]
	if !isThere {
		panic("there is no stub " + part.(string))
	}
	return s
}

func (m *machine) name(name string, s *slot) {
	old := m.stubs[name]
	m.stubs[name] = s
	if old != nil {
		old.release()
	}
}

func (m *machine) known(s *slot) any {
	switch {
	case s.state == slotFuture:
		return tree{"future": s.position}
	case s.state == slotUnderWay:
		return tree{"under_way": s.batch}
	case s.state == slotObject:
		return tree{"handle": s.handle}
	case s.state == slotFailed:
		return tree{"failed": showFailure(s.failure)}
	case s.value.tag == tagRows:
		return tree{"rows": s.value.rows.count}
	}
	return tree{"value": show(s.value)}
}

// names returns one name, several, or none.
func names(part any) []string {
	if name, isOne := part.(string); isOne {
		return []string{name}
	}
	var all []string
	for _, name := range list(part) {
		all = append(all, name.(string))
	}
	return all
}

// takeResults takes the stubs of a call's results; without names there is one result, which is
// dropped.
func (m *machine) takeResults(step tree, call recorded) {
	all := names(step["as"])
	for _, name := range all {
		m.name(name, m.recorder.newResult(call, m.step))
	}
	if len(all) == 0 {
		m.recorder.newResult(call, m.step).release()
	}
}

func (m *machine) variables(step tree) {
	for _, name := range names(step["as"]) {
		m.name(name, m.recorder.variable(m.step))
	}
}

func (m *machine) operand(part any) operand {
	if part == nil {
		return nil
	}
	if name, isStub := part.(string); isStub {
		return m.slot(name)
	}
	object := part.(tree)
	if object["foreign"] != nil {
		return m.foreign
	}
	if object["nested"] != nil {
		nested := operands{}
		for range int(number(object["nested"])) - 1 {
			nested = operands{nested}
		}
		return nested
	}
	if items, isCompound := object["items"]; isCompound {
		return operands(m.operands(items))
	}
	return valueOf(part)
}

func (m *machine) operands(part any) []operand {
	all := []operand{}
	for _, one := range list(part) {
		all = append(all, m.operand(one))
	}
	return all
}

func (m *machine) types(part any) []uint32 {
	var all []uint32
	for _, name := range names(part) {
		all = append(all, m.client.typeNumber(name))
	}
	return all
}

func (m *machine) heading(step tree) heading {
	h := heading{params: m.types(step["params"])}
	if name, hasResult := step["result"]; hasResult {
		h.result, h.hasResult = m.client.typeNumber(name.(string)), true
	}
	return h
}

// items returns items; objects by their number among all.
func (m *machine) items(values []Value, objects *[]*slot) []any {
	out := []any{}
	for _, value := range values {
		switch value.tag {
		case tagRef:
			*objects = append(*objects, m.recorder.newObject(value.handle()))
			out = append(out, tree{"object": len(*objects)})
		case tagCompound:
			out = append(out, m.items(value.items(), objects))
		default:
			out = append(out, show(value))
		}
	}
	return out
}

func (m *machine) readRows(step tree, s *slot) any {
	var objects []*slot
	var read any
	if s.state == slotValue && s.value.tag == tagRows {
		cells := m.items(s.value.rows.cells, &objects)
		rows := []any{}
		for row := range slices.Chunk(cells, len(s.value.rows.columns)) {
			rows = append(rows, row)
		}
		read = rows
	} else if s.state == slotValue && s.value.tag == tagCompound {
		read = m.items(s.value.items(), &objects)
	}
	all := names(step["as"])
	for index, object := range objects {
		if index < len(all) {
			m.name(all[index], object)
		} else {
			object.release()
		}
	}
	// A changed reply may have fewer.
	for index := len(objects); index < len(all); index++ {
		m.name(all[index], m.recorder.newValue(NilValue()))
	}
	return read
}
