// Package veneer is a client of Bifrost servers. Calls are recorded as they are made, and sent
// together: a batch crosses to the server when a result is claimed.
//
//	session, err := veneer.Connect(ctx, "unix:///run/bifrost/main", veneer.Options{})
//	if err != nil {
//		return err
//	}
//	defer session.Close()
//	people := session.Lookup("database", "DataBase")
//	name := people.Call("DataBase.fetch", veneer.TextValue("zoe")).Call("DataElem.name")
//	value, err := name.Claim()
//
// Read Session first, then Stub and Failure.
package veneer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"time"
	"unicode/utf8"
)

// defaultTimeout is the time limit of a session that chooses none.
const defaultTimeout = 30 * time.Second

// Options are the settings of a session. The zero value has the defaults.
type Options struct {
	// Stubs are the constants of the program's interface. Without them a session takes the interface
	// that its server describes.
	Stubs *Stubs
	// Token is shown to a server that asks for one, over TCP.
	Token string
	// Authorities is a file of certificates, in PEM: a server at tls:// or wss:// must have one that
	// they have signed. Without it the file is that of BIFROST_CA, or else that of the system.
	Authorities string
	// Certificate and Key are files in PEM: those of the client, for servers that ask for them.
	Certificate, Key string
	// Name is the client's name, for the server's log.
	Name string
	// Trace is the client's place in a trace, as the traceparent of W3C Trace Context has it.
	Trace string
	// Timeout is the time limit of a connection, and of each read and write; 30 seconds without.
	// Batches that wait for changes of others have so much more time.
	Timeout time.Duration
	// ReplyBytesMax is the length of the longest reply that is read; 64 MiB without.
	ReplyBytesMax int
	// Places notes the places of the calls of stubs, for messages; it costs a microsecond a call. The
	// environment variable BIFROST_DEBUG notes them in all sessions.
	Places bool
}

// ConnectError is the error of a session that was not opened. Nothing has run.
type ConnectError struct {
	Address string
	Err     error
}

func (e *ConnectError) Error() string {
	return fmt.Sprintf("no session with %s: %v", e.Address, e.Err)
}

// Unwrap returns the reason.
func (e *ConnectError) Unwrap() error { return e.Err }

// Session is a session with a server. One goroutine uses it at a time, with all its stubs.
type Session struct {
	core       *recorder
	connection *connection
	// scope is the innermost open scope, and spareStubs is room for one.
	scope      *Scope
	spareStubs []Ref
	// notesPlaces is true if the places of calls are noted.
	notesPlaces bool
	// context is that of the claim that waits; nil without one.
	context context.Context
}

// Connect opens a session with the server at an address: unix:///path, shm:///path,
// tcp://host:port, tls://host:port, ws://host:port or wss://host:port. The context bounds the
// opening only. The error is a *ConnectError.
func Connect(ctx context.Context, url string, options Options) (*Session, error) {
	if options.Timeout <= 0 {
		options.Timeout = defaultTimeout
	}
	a, err := parseAddress(url)
	if err != nil {
		return nil, &ConnectError{url, err}
	}
	if options.Stubs != nil {
		if err := options.Stubs.load(); err != nil {
			return nil, &ConnectError{url, err}
		}
	}
	c, core, err := open(ctx, a, options)
	if err != nil {
		return nil, &ConnectError{url, err}
	}
	// Those of the server, if there were none.
	if err := core.numbers.stubs.load(); err != nil {
		c.conn.Close()
		return nil, &ConnectError{url, err}
	}
	s := &Session{core: core, connection: c}
	s.notesPlaces = options.Places || os.Getenv("BIFROST_DEBUG") != ""
	core.session = s
	return s, nil
}

// ConnectWith is Connect with generated stubs; options are given once at most. Generated packages
// have it as Connect.
func ConnectWith(
	ctx context.Context, url string, stubs *Stubs, options ...Options,
) (*Session, error) {
	var chosen Options
	switch len(options) {
	case 0:
	case 1:
		chosen = options[0]
	default:
		return nil, &ConnectError{url, errors.New("options are given once")}
	}
	chosen.Stubs = stubs
	return Connect(ctx, url, chosen)
}

// NotePlaces notes the places of the calls of stubs from now on, or no more; see Options.Places.
func (s *Session) NotePlaces(on bool) { s.notesPlaces = on }

// Close sends the commands that were recorded and not flushed, and ends the session. Their results
// are not awaited. A session that has ended already stays so. Another goroutine may close a session
// in which one waits: its claim fails.
func (s *Session) Close() error {
	if s.core.isCrossing.Load() {
		return s.connection.conn.Close()
	}
	if !s.core.leave() {
		return nil
	}
	wrong := s.send(false)
	s.core.close(&ClosedByClient{})
	err := s.connection.conn.Close()
	if wrong != nil {
		return wrong
	}
	return err
}

// Err returns the reason why the session has ended; nil while it has not.
func (s *Session) Err() error {
	if s.core.broken == nil {
		return nil
	}
	return s.core.broken
}

// Lookup looks up a well-known object of a type.
func (s *Session) Lookup(name, typeName string) *Stub {
	source := caller()
	number, isThere := s.core.numbers.stubs.own.typeNumbers[typeName]
	admitted := s.admit()
	switch {
	case admitted != nil:
	case !isThere:
		admitted = &Missing{typeName}
	case !utf8.ValidString(name):
		admitted = misused(MisuseNotText)
	}
	stubs := s.core.numbers.stubs
	return s.stub(s.core.lookup(admitted, stubs, name, number, typeName, source), source)
}

// Routine calls a routine; the stub is its first result, or nil without any.
func (s *Session) Routine(name string, arguments ...Operand) *Stub {
	source := caller()
	stubs := s.core.numbers.stubs
	number, isThere := stubs.own.routineNumbers[name]
	wrong := s.admit()
	if wrong == nil && !isThere {
		wrong = &Missing{name}
	}
	parts, wrong := operandsUnless(wrong, arguments)
	if wrong != nil {
		return s.stub(recorded{failure: s.core.refuse(name, source, wrong)}, source)
	}
	count := len(stubs.own.routines[number].Results)
	return s.first(s.core.callRoutine(nil, stubs, number, parts, source), count, source)
}

// Value returns a stub for a value. It crosses where it is used, and not at all if it is not used.
func (s *Session) Value(value Value) *Stub {
	source := caller()
	part, wrong := value.operand()
	if wrong != nil {
		return s.stub(recorded{failure: s.core.refuse("value", source, wrong)}, source)
	}
	known, _ := part.(Value)
	return &Stub{s, s.core.newValue(known), false}
}

// Flush sends the batch and waits for its answer. The error is an *Unseen that lists the failures
// that no stub is left to tell, and the calls that were not sent; or an *Ended.
func (s *Session) Flush() error {
	wrong := s.synchronize("flush", caller())
	if wrong == nil {
		wrong = s.core.surface(true)
	}
	return asError(wrong)
}

// SendBatch sends what was recorded without waiting: what is recorded from then on is the next
// batch, which may use the results of this one. If too many batches are under way it waits for the
// oldest answer.
func (s *Session) SendBatch() error {
	if s.core.isCrossing.Load() {
		return inUse
	}
	source := s.place()
	for s.core.isCrowded() && s.core.broken == nil {
		if wrong := s.answerUntil(s.core.underWay[0].number); wrong != nil {
			return asError(wrong)
		}
	}
	if _, wrong := s.core.beginFlushFor("send_batch", true, source); wrong != nil {
		return asError(wrong)
	}
	return asError(s.send(true))
}

// Wait waits at the server until others change what the transaction has read: true; or false after
// this time, and no longer than the server allows.
func (s *Session) Wait(longest time.Duration) Bool {
	source := s.place()
	ms := uint32(min(max(longest.Milliseconds(), 0), math.MaxUint32))
	return Bool{s.core.newRef(s.core.wait(s.admit(), ms, source), source)}
}

// RecordCommit records a commit without waiting: its outcome is claimed later, and what follows is of
// the next transaction.
func (s *Session) RecordCommit() Done {
	source := s.place()
	admitted := s.admit()
	if admitted == nil {
		var work due
		if work, admitted = s.core.commitDue(); admitted == nil && work == dueFlush {
			admitted = s.flush()
		}
	}
	return s.done(s.core.commit(admitted, source), source)
}

// RecordAbort records an abort without waiting, as RecordCommit.
func (s *Session) RecordAbort() Done {
	source := s.place()
	return s.done(s.core.abort(s.admit(), source), source)
}

func (s *Session) done(call recorded, source uintptr) Done {
	slot := s.core.takeSlot()
	s.core.fillResult(slot, call, source)
	return Done{Ref{slot, slot.use}}
}

// Commit flushes and commits the transaction. Failures that the program was not told of prevent
// it: the error is an *Unseen that lists them.
func (s *Session) Commit() error {
	source := caller()
	admitted := s.admit()
	if admitted == nil {
		var work due
		if work, admitted = s.core.commitDue(); admitted == nil && work == dueFlush {
			admitted = s.flush()
		}
	}
	return s.finish(s.core.commit(admitted, source), source)
}

// Abort flushes and takes the changes of the transaction back.
func (s *Session) Abort() error {
	source := caller()
	return s.finish(s.core.abort(s.admit(), source), source)
}

// finish claims the result of a call that has no stub of the program's.
func (s *Session) finish(call recorded, source uintptr) error {
	done := &Stub{s, s.core.newResult(call, source), false}
	defer done.Release()
	_, wrong := done.claim(source)
	return asError(wrong)
}

// Exceptions returns all failures since the history was last cleared, oldest first: those of
// answered batches, and calls that were not sent. The program is told of them. omitted is the
// number of those that are not listed.
func (s *Session) Exceptions() (entries []HistoryEntry, omitted uint64) {
	return append([]HistoryEntry(nil), s.core.exceptions()...), s.core.historyOmitted
}

// ClearExceptions clears the history, here and at the server. All failures of calls up to now
// count as told.
func (s *Session) ClearExceptions() {
	if s.core.clearExceptions(caller()) {
		s.core.clearServer(s.admit())
	}
}

// Counters returns the number of batches that were sent, and that of their commands.
func (s *Session) Counters() (crossings, commands uint64) {
	return s.core.crossings, s.core.calls
}

// Bytes.

// send sends what can be sent now; if wanted, only what was flushed.
func (s *Session) send(onlyFlushed bool) Failure {
	for {
		data := s.core.takeBytes(onlyFlushed)
		if len(data) == 0 {
			return nil
		}
		if err := s.connection.write(data); err != nil {
			return s.end(s.connection.lastWords(&s.core.replies, s.because(err)))
		}
		s.core.giveBack(data)
	}
}

// end closes the session and its connection.
func (s *Session) end(why Closed) Failure {
	failure := s.core.close(why)
	s.connection.conn.Close()
	return failure
}

// admit does the work that is due before a command is recorded. It returns the failure with which
// the command is refused, or nil.
func (s *Session) admit() Failure {
	if s.core.isCrossing.Load() {
		return inUse
	}
	if s.core.isReady() {
		return nil
	}
	work, wrong := s.core.due()
	switch {
	case wrong != nil:
		return wrong
	case work == dueSend:
		return s.send(false)
	case work == dueFlush:
		return s.flush()
	}
	return nil
}

// flush ends the batch and waits for all answers.
func (s *Session) flush() Failure {
	if _, wrong := s.core.beginFlush(false); wrong != nil {
		return wrong
	}
	return s.answerAll()
}

// synchronize is flush for the program.
func (s *Session) synchronize(name string, source uintptr) Failure {
	if s.core.isCrossing.Load() {
		return inUse
	}
	if _, wrong := s.core.beginFlushFor(name, false, source); wrong != nil {
		return wrong
	}
	return s.answerAll()
}

func (s *Session) answerAll() Failure { return s.answerUntil(s.core.batchNumber) }

// answerUntil waits for the answers of all batches up to one.
func (s *Session) answerUntil(batch uint64) Failure {
	s.core.isCrossing.Store(true)
	defer s.core.isCrossing.Store(false)
	if ctx := s.context; ctx != nil && ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { s.connection.conn.Close() })
		defer func() {
			// The connection is closed though the answer has come.
			if !stop() {
				s.end(&ClosedByConnection{context.Cause(ctx)})
			}
		}()
	}
	if wrong := s.send(true); wrong != nil {
		return wrong
	}
	isWhole := true
	for len(s.core.underWay) > 0 && s.core.underWay[0].number <= batch {
		var data []byte
		if !isWhole {
			var err error
			longer := time.Duration(s.core.waitMs()) * time.Millisecond
			if data, err = s.connection.read(longer); err != nil {
				return s.end(&ClosedByConnection{s.because(err)})
			}
		}
		var wrong Failure
		if isWhole, wrong = s.core.handleBytes(data); wrong != nil {
			s.connection.conn.Close()
			return wrong
		}
	}
	return nil
}

// because returns the error of a read, or that of the context which has ended it.
func (s *Session) because(err error) error {
	if s.context != nil && s.context.Err() != nil {
		return errors.Join(context.Cause(s.context), err)
	}
	return err
}

// caller returns the program counter of the caller of an exported function.
func caller() uintptr {
	var counters [1]uintptr
	// The frames of runtime.Callers, of this function and of the exported one are skipped.
	runtime.Callers(3, counters[:])
	return counters[0]
}
