package veneer

import (
	"fmt"
	"runtime"
	"strings"
)

// String returns the name of the error: "Conflict".
func (n ErrorNumber) String() string {
	if row := n.row(); row != nil {
		return row.name
	}
	return fmt.Sprintf("error %d", uint32(n))
}

// endsBatch returns true if the error ends its batch.
func (n ErrorNumber) endsBatch() bool {
	row := n.row()
	return row != nil && row.scope == "batch"
}

func (n ErrorNumber) row() *errorRow {
	for index := range errorTable {
		if errorTable[index].number == n {
			return &errorTable[index]
		}
	}
	return nil
}

// String returns the name of the misuse: "OpenStructure".
func (m Misuse) String() string {
	if m == 0 || int(m) > len(misuseTable) {
		return fmt.Sprintf("misuse %d", uint32(m))
	}
	return misuseTable[m-1].name
}

// text returns the sentence that all languages have for the misuse.
func (m Misuse) text() string {
	if m == 0 || int(m) > len(misuseTable) {
		return m.String()
	}
	return misuseTable[m-1].text
}

// CallName is a call, for messages.
type CallName struct {
	// Name is "DataBase.fetch"; "?" for a call that is not known.
	Name string
	// Number is the position of the call in its batch, from 1; 0 if it was not sent.
	Number int
	// Rounds are the rounds of the loops around the call, outermost first.
	Rounds []uint32
	// source is the caller's word for the place that made the call; 0 if it is not known.
	source uintptr
}

// Source returns the file and the line of the program that made the call; ok is false if they are
// not known.
func (c CallName) Source() (file string, line int, ok bool) {
	if c.source == 0 {
		return "", 0, false
	}
	frame, _ := runtime.CallersFrames([]uintptr{c.source}).Next()
	return frame.File, frame.Line, frame.File != ""
}

// String returns the call as messages show it.
func (c CallName) String() string {
	text := c.Name
	if file, line, ok := c.Source(); ok {
		text += fmt.Sprintf(" at %s:%d", file, line)
	}
	switch len(c.Rounds) {
	case 0:
		return text
	case 1:
		return fmt.Sprintf("%s, round %d", text, c.Rounds[0])
	}
	return fmt.Sprintf("%s, rounds %v", text, c.Rounds)
}

// Failure is the reason why a stub has no result. It is one of *Signal, *Unhandled, *Refused,
// *NotReached, *NotSent, *Unseen, *Misused, *InUse, *Missing and *Ended. A failure is one object, by whose
// identity the account of told failures knows it. errors.As finds the failures that it follows
// from.
type Failure interface {
	error
	// Cause returns the failure that this one follows from; nil if there is none.
	Cause() Failure
}

// Root returns the failure that started a failure; of several unseen failures the oldest.
func Root(failure Failure) Failure {
	for cause := failure.Cause(); cause != nil; cause = failure.Cause() {
		failure = cause
	}
	return failure
}

// asCause returns a failure as the cause of another one: beyond a depth the root stands for all
// between.
func asCause(failure Failure) Failure {
	depth := 0
	for one := failure; one != nil; one = one.Cause() {
		if depth == causesMax {
			return Root(failure)
		}
		depth++
	}
	return failure
}

// asError returns a failure as an error; nil for none.
func asError(failure Failure) error {
	if failure == nil {
		return nil
	}
	return failure
}

// because appends a cause to a text.
func because(text string, cause Failure) string {
	if cause == nil {
		return text
	}
	return text + ": " + cause.Error()
}

// Signal is the failure of a call that signalled an exception.
type Signal struct {
	// Name is the exception's name.
	Name string
	// Values are its values.
	Values []Value
	// Places are the places of a failure in the server's program; none if the session may not see
	// them. MorePlaces is the number of those that are not listed.
	Places     []Place
	MorePlaces uint64
	Call       CallName
	// core has the classes of the program's exceptions, and typed is the one of this signal.
	core  *recorder
	typed error
}

// Cause returns nil: a signal follows from no other failure.
func (f *Signal) Cause() Failure { return nil }

func (f *Signal) Error() string {
	text := fmt.Sprintf("%s signalled %s", f.Call, f.Name)
	if len(f.Values) == 0 {
		return text
	}
	values := make([]string, len(f.Values))
	for index, value := range f.Values {
		values[index] = value.String()
	}
	return fmt.Sprintf("%s(%s)", text, strings.Join(values, ", "))
}

// Unhandled is the failure of a call that was not run, because an argument is the result of a call
// that failed.
type Unhandled struct {
	// Argument is the position of the argument: 0 is the receiver, the arguments count from 1.
	Argument int
	// Reason is the failure of the argument; nil if it is not known.
	Reason Failure
	Call   CallName
}

// Cause returns the failure of the argument.
func (f *Unhandled) Cause() Failure { return f.Reason }

// Unwrap returns the failure of the argument.
func (f *Unhandled) Unwrap() error { return asError(f.Reason) }

func (f *Unhandled) Error() string {
	part := "receiver"
	if f.Argument > 0 {
		part = fmt.Sprintf("argument %d", f.Argument)
	}
	return because(fmt.Sprintf("%s was not run because its %s failed", f.Call, part), f.Reason)
}

// Refused is the failure of a call that the server refused, alone or with the structure around it.
type Refused struct {
	Number ErrorNumber
	Text   string
	Call   CallName
}

// Cause returns nil: a refused call follows from no other failure.
func (f *Refused) Cause() Failure { return nil }

func (f *Refused) Error() string {
	return fmt.Sprintf("%s was refused: %s (%s, %d)", f.Call, f.Text, f.Number, uint32(f.Number))
}

// NotReached is the failure of a call behind a failure that ended the batch.
type NotReached struct {
	// Reason is the failure that ended the batch; nil if it is not known.
	Reason Failure
	Call   CallName
}

// Cause returns the failure that ended the batch.
func (f *NotReached) Cause() Failure { return f.Reason }

// Unwrap returns the failure that ended the batch.
func (f *NotReached) Unwrap() error { return asError(f.Reason) }

func (f *NotReached) Error() string {
	return because(fmt.Sprintf("%s was not reached", f.Call), f.Reason)
}

// NotSent is the failure of a call, a marker or a structure that the client refused. Nothing of it
// was sent.
type NotSent struct {
	Call   CallName
	Reason Failure
}

// Cause returns the reason of the refusal.
func (f *NotSent) Cause() Failure { return f.Reason }

// Unwrap returns the reason of the refusal.
func (f *NotSent) Unwrap() error { return asError(f.Reason) }

func (f *NotSent) Error() string { return fmt.Sprintf("%s was not sent: %s", f.Call, f.Reason) }

// Unseen has failures that the program was not told of before, oldest first.
type Unseen struct {
	Failures []Failure
	// Omitted is the number of failures that are not listed.
	Omitted uint64
	// Call is the commit or transaction that the failures prevented; nil at a claim or a flush.
	Call *CallName
}

// Cause returns the oldest failure.
func (f *Unseen) Cause() Failure {
	if len(f.Failures) == 0 {
		return nil
	}
	return f.Failures[0]
}

// Unwrap returns all failures.
func (f *Unseen) Unwrap() []error {
	all := make([]error, len(f.Failures))
	for index, failure := range f.Failures {
		all[index] = failure
	}
	return all
}

func (f *Unseen) Error() string {
	text := ""
	if f.Call != nil {
		text = fmt.Sprintf("%s was refused, and the transaction is undone: ", f.Call)
	}
	if count := uint64(len(f.Failures)) + f.Omitted; count == 1 {
		text += "a failure was not seen"
	} else {
		text += fmt.Sprintf("%d failures were not seen", count)
	}
	for index, failure := range f.Failures {
		separator := "; "
		if index == 0 {
			separator = ": "
		}
		text += separator + failure.Error()
	}
	return text
}

// Misused is the failure of a stub that was used in a way that makes no sense.
type Misused struct{ Misuse Misuse }

// Cause returns nil: a misuse follows from no other failure.
func (f *Misused) Cause() Failure { return nil }

func (f *Misused) Error() string { return f.Misuse.text() }

// Is returns true for the same misuse, for errors.Is.
func (f *Misused) Is(target error) bool {
	other, isMisuse := target.(*Misused)
	return isMisuse && other.Misuse == f.Misuse
}

// misused returns a new failure for a misuse.
func misused(misuse Misuse) Failure { return &Misused{misuse} }

// InUse is the failure of a call, or of a claim, while another goroutine waits in the session. It is
// in no history, and prevents no commit.
type InUse struct{}

// inUse is the one failure of this kind.
var inUse Failure = &InUse{}

// Cause returns nil: it follows from no other failure.
func (*InUse) Cause() Failure { return nil }

func (*InUse) Error() string {
	return "another goroutine waits in this session, which one goroutine uses at a time"
}

// Missing is the failure of a call whose method, routine or type the server lacks, or has with
// another heading.
type Missing struct{ Name string }

// Cause returns nil: it follows from no other failure.
func (f *Missing) Cause() Failure { return nil }

func (f *Missing) Error() string {
	return fmt.Sprintf("the server has no %s with the heading of the stub", f.Name)
}

// Ended is the failure of all stubs of a session that is closed.
type Ended struct{ Why Closed }

// Cause returns nil: the reason of the end is no failure of a stub.
func (f *Ended) Cause() Failure { return nil }

// Unwrap returns the reason of the end.
func (f *Ended) Unwrap() error { return f.Why }

func (f *Ended) Error() string { return f.Why.Error() }

// Closed is the reason why a session ended: *ClosedByClient, *ClosedByConnection, *ClosedByServer,
// *ClosedByBadReply or *ClosedByWrongReply.
type Closed interface {
	error
	isClosed()
}

// ClosedByClient is the end of a session that the client closed.
type ClosedByClient struct{}

// ClosedByConnection is the end of a session whose bytes stopped.
type ClosedByConnection struct{ Err error }

// ClosedByServer is the end of a session by the server.
type ClosedByServer struct {
	Number ErrorNumber
	// Position is the number of the command that is to blame, or 0.
	Position uint64
	Text     string
}

// ClosedByBadReply is the end of a session whose server sent bytes that are no reply.
type ClosedByBadReply struct{ Err *BadBytes }

// ClosedByWrongReply is the end of a session whose server sent another reply than the one that was
// due.
type ClosedByWrongReply struct{ Expected string }

func (*ClosedByClient) isClosed()     {}
func (*ClosedByConnection) isClosed() {}
func (*ClosedByServer) isClosed()     {}
func (*ClosedByBadReply) isClosed()   {}
func (*ClosedByWrongReply) isClosed() {}

func (*ClosedByClient) Error() string { return "the session was closed" }

func (c *ClosedByConnection) Error() string { return "the connection has ended: " + c.Err.Error() }

// Unwrap returns the error of the connection.
func (c *ClosedByConnection) Unwrap() error { return c.Err }

func (c *ClosedByServer) Error() string {
	return fmt.Sprintf("the server ended the session: %s (%s, %d)", c.Text, c.Number, uint32(c.Number))
}

func (c *ClosedByBadReply) Error() string {
	return "the server's reply cannot be read: " + c.Err.Error()
}

// Unwrap returns the error of the bytes.
func (c *ClosedByBadReply) Unwrap() error { return c.Err }

func (c *ClosedByWrongReply) Error() string {
	return "the server sent another reply than " + c.Expected
}

// HistoryEntry is an entry of the exception history: a failure, and the number of its batch in the
// session.
type HistoryEntry struct {
	Batch   uint64
	Failure Failure
}
