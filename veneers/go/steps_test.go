package veneer

import (
	"encoding/json"
	"fmt"
)

// This file has the steps of the scripts, and failures as the vectors have them.

// written returns data as JSON.
func written(data any) string {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// outcome returns the result of a step that may fail.
func outcome(failure Failure) (any, bool) {
	if failure != nil {
		return tree{"error": showFailure(failure)}, true
	}
	return "ok", true
}

// operate runs a step. It returns the step's result, and true if it has one.
func (m *machine) operate(step tree) (any, bool) {
	for _, part := range []func(tree) (any, bool, bool){
		m.operateCalls, m.operateStructures, m.operateCrossings, m.operateTransactions,
	} {
		if value, hasResult, isDone := part(step); isDone {
			return value, hasResult
		}
	}
	panic(fmt.Sprint("a step without an operation: ", step))
}

// key returns the part of a step with this key, and true if it has it.
func key(step tree, name string) (any, bool) {
	part, isThere := step[name]
	return part, isThere
}

// operateCalls runs a step that is about calls and stubs.
func (m *machine) operateCalls(step tree) (value any, hasResult, isDone bool) {
	r, at := m.recorder, m.step
	// The admission comes before the arguments are looked at, but a script has both at once.
	args := m.operands(step["args"])
	if name, is := key(step, "lookup"); is {
		admitted := m.admit()
		typeName := text(step["type"])
		number := m.client.typeNumber(typeName)
		m.takeResults(step, r.lookup(admitted, m.client.stubs, text(name), number, typeName, at))
	} else if name, is := key(step, "call"); is {
		admitted := m.admit()
		on, method := m.slot(step["on"]), m.client.method(text(name))
		m.takeResults(step, r.call(admitted, on, method, args, at))
	} else if name, is := key(step, "operator"); is {
		admitted := m.admit()
		on, method := m.slot(step["on"]), m.client.method(text(name))
		m.takeResults(step, r.call(admitted, on, method, args, at))
	} else if name, is := key(step, "send"); is {
		admitted := m.admit()
		on, method := m.slot(step["on"]), m.client.method(text(name))
		m.takeResults(step, r.send(admitted, on, method, args, at))
	} else if name, is := key(step, "routine"); is {
		admitted := m.admit()
		routine := m.client.routine(text(name))
		m.takeResults(step, r.callRoutine(admitted, m.client.stubs, routine, args, at))
	} else if name, is := key(step, "call_procedure"); is {
		admitted := m.admit()
		found := m.procedures[text(name)]
		m.takeResults(step, r.callProcedure(admitted, found.number, found.refused, args, at))
	} else if part, is := key(step, "value"); is {
		m.name(text(step["as"]), r.newValue(valueOf(part)))
	} else if name, is := key(step, "cell"); is {
		admitted := m.admit()
		number := m.client.typeNumber(text(name))
		m.takeResults(step, r.cell(admitted, number, text(name), at))
	} else if part, is := key(step, "rows"); is {
		admitted := m.admit()
		var columns []columnType
		for _, name := range names(part) {
			columns = append(columns, columnType{m.client.typeNumber(name), name})
		}
		m.takeResults(step, r.rows(admitted, columns, at))
	} else if name, is := key(step, "emit"); is {
		m.takeResults(step, r.emit(m.admit(), m.slot(name), args, at))
	} else if name, is := key(step, "read_rows"); is {
		return m.readRows(step, m.slot(name)), true, true
	} else if name, is := key(step, "get"); is {
		m.takeResults(step, r.get(m.admit(), m.slot(name), at))
	} else if name, is := key(step, "cast"); is {
		admitted := m.admit()
		number := m.client.typeNumber(text(name))
		m.takeResults(step, r.cast(admitted, m.slot(step["on"]), number, text(name), at))
	} else if name, is := key(step, "test_type"); is {
		admitted := m.admit()
		number := m.client.typeNumber(text(name))
		m.takeResults(step, r.testType(admitted, m.slot(step["on"]), number, text(name), at))
	} else if part, is := key(step, "drop"); is {
		for _, name := range names(part) {
			m.slot(name).release()
			delete(m.stubs, name)
		}
	} else if name, is := key(step, "clone"); is {
		m.name(text(step["as"]), m.slot(name).retain())
	} else if part, is := key(step, "is_same"); is {
		both := list(part)
		return m.slot(both[0]).isSame(m.slot(both[1])), true, true
	} else {
		return nil, false, false
	}
	return nil, false, true
}

var openings = map[string]structure{
	"while": structureWhile, "if": structureIf, "except": structureExcept,
}

// operateStructures runs a step that is about structures and procedures.
func (m *machine) operateStructures(step tree) (value any, hasResult, isDone bool) {
	r, at := m.recorder, m.step
	if name, is := key(step, "open"); is {
		r.open(m.admit(), openings[text(name)], at)
	} else if part, is := key(step, "condition"); is {
		r.condition(m.operand(part), at)
	} else if name, is := key(step, "foreach"); is {
		admitted := m.admit()
		on := m.operand(step["on"])
		number := uint32(0)
		if on != nil {
			number = m.client.method(text(name))
		} else {
			number = m.client.routine(text(name))
		}
		args := m.operands(step["args"])
		m.takeResults(step, r.foreach(admitted, on, number, m.client.stubs, args, at, at))
	} else if name, is := key(step, "jump"); is {
		if name == "break" {
			r.breakLoop(at)
		} else {
			r.continueLoop(at)
		}
	} else if _, is := key(step, "end"); is {
		ended := r.end()
		if label, isNamed := step["as"]; isNamed {
			m.ended[text(label)] = ended
		}
	} else if name, is := key(step, "reopen"); is {
		_, isNamed := step["as"]
		further := othersBlock(isNamed)
		switch name {
		case "else":
			further = elseBlock()
		case "when":
			further = whenBlock(text(step["name"]), m.types(step["types"]))
		}
		r.reopen(m.ended[text(step["of"])], further, at)
		m.variables(step)
	} else if _, is := key(step, "abandon"); is {
		r.abandon()
	} else if name, is := key(step, "procedure"); is {
		number := r.openProcedure(m.admit(), text(name), m.heading(step), at)
		m.procedures[text(name)] = defined{number: number}
		m.variables(step)
	} else if part, is := key(step, "return"); is {
		r.returns(m.operand(part), at)
	} else if name, is := key(step, "end_procedure"); is {
		refused := r.closeProcedure()
		m.procedures[text(name)] = defined{m.procedures[text(name)].number, refused}
	} else if name, is := key(step, "find_procedure"); is {
		if number, isThere := r.findProcedure(text(name), m.heading(step)); isThere {
			return number, true, true
		}
		return nil, true, true
	} else {
		return nil, false, false
	}
	return nil, false, true
}

// operateCrossings runs a step that is about batches and failures.
func (m *machine) operateCrossings(step tree) (value any, hasResult, isDone bool) {
	r := m.recorder
	failed := func(failure Failure) (any, bool, bool) {
		value, _ := outcome(failure)
		return value, true, true
	}
	if part, is := key(step, "reply"); is {
		m.replies = append(m.replies, encodeReply(part))
	} else if _, is := key(step, "lose"); is {
		m.replies = append(m.replies, nil)
	} else if _, is := key(step, "flush"); is {
		wrong := m.synchronize("flush")
		if wrong == nil {
			wrong = r.surface(true)
		}
		return failed(wrong)
	} else if kept, is := key(step, "begin_flush"); is {
		_, wrong := r.beginFlushFor("flush", kept == "kept", m.step)
		return failed(wrong)
	} else if _, is := key(step, "finish_flush"); is {
		wrong := m.answer()
		if wrong == nil {
			wrong = r.surface(true)
		}
		return failed(wrong)
	} else if _, is := key(step, "transmit"); is {
		m.send(true)
	} else if name, is := key(step, "claim"); is {
		s := m.slot(name)
		wrong := m.know(s)
		if wrong == nil {
			wrong = m.claim(s)
		}
		if wrong != nil {
			return failed(wrong)
		}
		return m.known(s), true, true
	} else if _, is := key(step, "exceptions"); is {
		listed := []any{}
		for _, entry := range r.exceptions() {
			listed = append(listed, showFailure(entry.Failure))
		}
		return listed, true, true
	} else if _, is := key(step, "clear_exceptions"); is {
		if r.clearExceptions(m.step) {
			r.clearServer(m.admit())
		}
	} else if on, is := key(step, "profile"); is {
		isDue, wrong := r.profileDue(on == true)
		if wrong == nil && isDue {
			wrong = r.recordProfile(m.admit(), on == true)
		}
		return failed(wrong)
	} else if _, is := key(step, "read_profile"); is {
		if r.profile == nil {
			return nil, true, true
		}
		return showProfile(r.profile), true, true
	} else if _, is := key(step, "leave"); is {
		if r.leave() {
			m.send(false)
			r.close(&ClosedByClient{})
		}
	} else {
		return nil, false, false
	}
	return nil, false, true
}

// know waits until the result of a stub is known.
func (m *machine) know(s *slot) Failure {
	if s.state == slotFuture {
		return m.synchronize("claim")
	}
	for s.state == slotUnderWay && m.recorder.isUnanswered(s.batch) {
		if wrong := m.answer(); wrong != nil {
			return wrong
		}
	}
	return nil
}

// claim returns the failure with which a stub is claimed whose result is known.
func (m *machine) claim(s *slot) Failure {
	if s.state == slotFailed {
		m.recorder.tell(s.failure)
		return s.failure
	}
	return m.recorder.surface(false)
}

// operateTransactions runs a step that is about transactions.
func (m *machine) operateTransactions(step tree) (value any, hasResult, isDone bool) {
	r, at := m.recorder, m.step
	if _, is := key(step, "commit"); is {
		admitted := m.admit()
		if admitted == nil {
			var work due
			if work, admitted = r.commitDue(); admitted == nil && work != dueNothing {
				admitted = m.flush()
			}
		}
		m.takeResults(step, r.commit(admitted, at))
	} else if _, is := key(step, "abort"); is {
		m.takeResults(step, r.abort(m.admit(), at))
	} else if ms, is := key(step, "wait"); is {
		m.takeResults(step, r.wait(m.admit(), uint32(number(ms)), at))
	} else if _, is := key(step, "wait_ms"); is {
		return r.waitMs(), true, true
	} else if _, is := key(step, "transaction_ends"); is {
		return r.transactionEnds, true, true
	} else if part, is := key(step, "transaction"); is {
		value, hasResult = outcome(m.beginTransaction(step, part.(tree)))
		return value, hasResult, true
	} else if name, is := key(step, "end_transaction"); is {
		// There is no stub if the begin was refused.
		s, isThere := m.stubs[text(name)]
		if !isThere {
			return nil, false, true
		}
		value, hasResult = outcome(m.endTransaction(s))
		return value, hasResult, true
	} else if _, is := key(step, "ship"); is {
		m.refusals, m.isShipped = r.endTransactionBatch(), true
		if _, wrong := r.beginFlush(false); wrong != nil {
			panic(wrong)
		}
		m.send(true)
	} else if _, is := key(step, "abandon_transaction"); is {
		r.abandonTransaction()
		value, hasResult = outcome(m.flush())
		r.tellTransaction()
		return value, hasResult, true
	} else {
		return nil, false, false
	}
	return nil, false, true
}

func (m *machine) beginTransaction(step, part tree) Failure {
	if wrong := m.synchronize("transaction"); wrong != nil {
		return wrong
	}
	var name *batchName
	if batch, isNamed := part["batch"].(tree); isNamed {
		low, high := clientWords(batch["client"])
		name = &batchName{low, high, number(batch["number"])}
	}
	s, wrong := m.recorder.beginTransaction(uint32(number(part["tries"])), name, m.step)
	if wrong == nil {
		m.name(text(step["as"]), s)
	}
	return wrong
}

func (m *machine) endTransaction(s *slot) Failure {
	if !m.isShipped {
		m.refusals = m.recorder.endTransactionBatch()
		if _, wrong := m.recorder.beginFlush(false); wrong != nil {
			return wrong
		}
	}
	refusals := m.refusals
	m.refusals, m.isShipped = nil, false
	if wrong := m.answerAll(); wrong != nil {
		return wrong
	}
	return m.recorder.finishTransaction(m.claim(s), refusals, m.step)
}

// Failures.

// showFailure returns a failure as the vectors have it: its own parts; if it follows from others,
// the first of them and those in between.
func showFailure(failure Failure) any {
	shown := showAlone(failure)
	if _, isUnseen := failure.(*Unseen); isUnseen || failure.Cause() == nil {
		return shown
	}
	via := []any{}
	cause := failure.Cause()
	for cause.Cause() != nil {
		via = append(via, showAlone(cause))
		cause = cause.Cause()
	}
	shown["via"], shown["root"] = via, showAlone(cause)
	return shown
}

func showCall(call CallName) any {
	rounds := append([]uint32{}, call.Rounds...)
	shown := tree{"name": call.Name, "number": call.Number, "rounds": rounds, "place": nil}
	if call.source != 0 {
		shown["place"] = uint64(call.source)
	}
	return shown
}

func showSignalled(value Value) any {
	switch value.tag {
	case tagRef:
		return "object"
	case tagBytes:
		return tree{"bytes": hexed([]byte(value.text))}
	}
	return show(value)
}

func showAlone(failure Failure) tree {
	switch f := failure.(type) {
	case *Signal:
		values := []any{}
		for _, value := range f.Values {
			values = append(values, showSignalled(value))
		}
		shown := tree{
			"kind": "signal", "name": f.Name, "values": values, "call": showCall(f.Call),
		}
		if len(f.Places) > 0 {
			shown["places"], shown["more_places"] = showPlaces(f.Places), f.MorePlaces
		}
		return shown
	case *Unhandled:
		return tree{"kind": "unhandled", "argument": f.Argument, "call": showCall(f.Call)}
	case *Refused:
		return tree{
			"kind": "refused", "number": uint32(f.Number), "text": f.Text, "call": showCall(f.Call),
		}
	case *NotReached:
		return tree{"kind": "not_reached", "call": showCall(f.Call)}
	case *NotSent:
		return tree{"kind": "not_sent", "call": showCall(f.Call)}
	case *Unseen:
		failures := []any{}
		for _, one := range f.Failures {
			failures = append(failures, showFailure(one))
		}
		shown := tree{"kind": "unseen", "failures": failures, "omitted": f.Omitted, "call": nil}
		if f.Call != nil {
			shown["call"] = showCall(*f.Call)
		}
		return shown
	case *Misused:
		return tree{"kind": "misuse", "misuse": f.Misuse.String()}
	case *Missing:
		return tree{"kind": "missing", "name": f.Name}
	case *Ended:
		return showClosed(f.Why)
	}
	panic(failure)
}

func showClosed(why Closed) tree {
	shown := tree{"kind": "closed"}
	switch why := why.(type) {
	case *ClosedByClient:
		shown["by"] = "client"
	case *ClosedByConnection:
		shown["by"] = "connection"
	case *ClosedByServer:
		shown["by"], shown["number"] = "server", uint32(why.Number)
		shown["position"], shown["text"] = why.Position, why.Text
	case *ClosedByBadReply:
		shown["by"], shown["error"] = "bad_reply", why.Err.Number.String()
	default:
		shown["by"] = "wrong_reply"
	}
	return shown
}
