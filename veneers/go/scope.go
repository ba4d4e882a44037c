package veneer

import (
	"encoding/binary"
	"errors"
	"math"
)

// Scope gives back all stubs that were made in it, when it is closed: their results are not wanted
// any more, and their objects go back to the server. Scopes are nested.
type Scope struct {
	session *Session
	outer   *Scope
	stubs   []Ref
	isOpen  bool
}

// Scope opens a scope: defer s.Scope().Close().
func (s *Session) Scope() *Scope {
	s.scope = &Scope{s, s.scope, s.spareStubs, true}
	s.spareStubs = nil
	return s.scope
}

// Keep keeps stubs of the scope: they are of the scope around it from now on.
func (s *Scope) Keep(stubs ...Object) {
	for _, stub := range stubs {
		kept := stub.ref()
		for index := len(s.stubs) - 1; index >= 0; index-- {
			if s.stubs[index] != kept {
				continue
			}
			s.stubs[index] = Ref{}
			if s.outer != nil {
				s.outer.stubs = append(s.outer.stubs, kept)
			}
			break
		}
	}
}

// Close releases the stubs of the scope. Scopes inside it are closed with it. Closed again it does
// nothing.
func (s *Scope) Close() {
	if !s.isOpen {
		return
	}
	for s.session.scope != nil && s.session.scope != s {
		s.session.scope.Close()
	}
	for _, stub := range s.stubs {
		stub.Release()
	}
	clear(s.stubs)
	s.session.spareStubs = s.stubs[:0]
	s.session.scope, s.isOpen, s.stubs = s.outer, false, nil
}

// Batch records a batch that is a scope, and flushes it: of the stubs that it makes only those
// cross that it keeps.
//
//	var visits bf.Int
//	err := s.Batch(func(b *bf.Scope) {
//		visits = db.Fetch("eve").Visits()
//		b.Keep(visits)
//	})
func (s *Session) Batch(block func(*Scope)) error {
	scope := s.Scope()
	defer scope.Close()
	block(scope)
	scope.Close()
	return s.Flush()
}

// BatchName names a batch that is a transaction, so that the server does it once, however often it
// is sent: 128 bits of the client's, and a number.
type BatchName struct {
	Client [16]byte
	Number uint64
}

// TransactionOptions are the settings of a batch that is a transaction.
type TransactionOptions struct {
	// Tries is the number of runs at most, up to 65535; without it the server has its own.
	Tries int
	// Name is the name of the batch, or nil.
	Name *BatchName
}

// ErrTries is the error of a number of tries that a transaction cannot have.
var ErrTries = errors.New("a transaction is tried from 0, for the server's own number, to 65535 times")

// Transaction records a batch that is a transaction of its own and a scope, and commits it. The
// server runs it again after conflicts; the block runs once, here. An exception that nothing handles
// undoes it, and is in the error.
func (s *Session) Transaction(block func(*Scope)) error {
	return s.TransactionWith(TransactionOptions{}, block)
}

// TransactionWith is Transaction with settings.
func (s *Session) TransactionWith(options TransactionOptions, block func(*Scope)) error {
	outcome, err := s.ship(options, block)
	if err != nil {
		return err
	}
	return outcome.Claim()
}

// Shipped is a batch that is a transaction, and was sent.
type Shipped struct {
	session  *Session
	done     Ref
	refusals []Failure
	source   uintptr
}

// ShipTransaction is TransactionWith without waiting: the batch is sent, and Claim of the result
// waits for its outcome.
func (s *Session) ShipTransaction(options TransactionOptions, block func(*Scope)) (*Shipped, error) {
	outcome, err := s.ship(options, block)
	if err != nil {
		return nil, err
	}
	if _, wrong := s.core.beginFlush(false); wrong != nil {
		return nil, asError(wrong)
	}
	if wrong := s.send(true); wrong != nil {
		return nil, asError(wrong)
	}
	return outcome, nil
}

func (s *Session) ship(options TransactionOptions, block func(*Scope)) (*Shipped, error) {
	if options.Tries < 0 || options.Tries > math.MaxUint16 {
		return nil, ErrTries
	}
	source := s.place()
	if wrong := s.synchronize("transaction", source); wrong != nil {
		return nil, asError(wrong)
	}
	var name *batchName
	if options.Name != nil {
		name = options.Name.words()
	}
	slot, wrong := s.core.beginTransaction(uint32(options.Tries), name, source)
	if wrong != nil {
		return nil, asError(wrong)
	}
	scope := s.Scope()
	isDone := false
	defer func() {
		if isDone {
			return
		}
		scope.Close()
		s.core.abandonTransaction()
		s.flush()
		s.core.tellTransaction()
	}()
	block(scope)
	isDone = true
	scope.Close()
	return &Shipped{s, Ref{slot, slot.use}, s.core.endTransactionBatch(), source}, nil
}

// Claim waits for the outcome. The error is that of a transaction that was not committed.
func (t *Shipped) Claim() error {
	s := t.session
	failure := s.outcome(t.done)
	if failure != nil {
		s.core.tell(failure)
	}
	return asError(s.core.finishTransaction(failure, t.refusals, t.source))
}

// outcome waits for the outcome of a transaction.
func (s *Session) outcome(done Ref) Failure {
	if done.slot.isPending() {
		if wrong := s.await(done.slot, nil); wrong != nil {
			return wrong
		}
	}
	if done.slot.state == slotFailed {
		return done.slot.failure
	}
	return nil
}

// words returns the name as the wire form has it.
func (n *BatchName) words() *batchName {
	return &batchName{
		binary.BigEndian.Uint64(n.Client[8:]), binary.BigEndian.Uint64(n.Client[:8]), n.Number,
	}
}
