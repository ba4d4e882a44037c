package veneer

import (
	"cmp"
	"math"
	"slices"
)

// This file has the account of the failures that the program was not told of, and the refusal of
// calls.
//
// Every failure is untold at first: a signal, a call that the server refused or did not run, a call
// or structure that was not sent. A claim that fails with it or with its consequence tells it, and
// so does the list of exceptions; its consequences up to then are told with it. A failure is lost
// when no stub is left whose claim would tell it.
//
//	point                              tells, as Unseen
//	a claim that has a value           lost failures
//	a flush                            lost failures, and calls that were not sent
//	a commit, a batch as transaction   all untold failures of it, which is not committed
//
// The server keeps the same account in one bit: any failure since the history was cleared prevents
// a commit. Two commands keep both accounts equal. The first command of a batch is history clear
// when all failures before it were told. A call of the error-handle before commit stands for calls
// that were not sent.

// untold is a failure that was not told.
type untold struct {
	failure Failure
	// order is the number of the failure in the session.
	order       uint64
	transaction uint32
	// isRefused is true if it was not sent.
	isRefused bool
	// isInside is true if it was inside a structure, whose stubs nobody can claim.
	isInside bool
	// isClaimable is true if a stub is left that tells it.
	isClaimable bool
}

// account is the account of a session.
type account struct {
	untold map[Failure]*untold
	// consequences of an untold failure are told with it.
	consequences map[Failure][]Failure
	// omitted is the number of untold failures beyond those.
	omitted uint64
	// order is the number of the next failure.
	order uint64
	// most is the number of failures at which lost ones are looked for.
	most int
	// transaction is the one being recorded, and firstTransaction that at the begin of the batch.
	transaction      uint32
	firstTransaction uint32
	// isServerUnseen is true if failures of answered batches would prevent a commit.
	isServerUnseen bool
	// forgiven is the position up to which failures of this batch need not be told.
	forgiven uint32
	// shipped are the calls that were not sent, of the batch that is a transaction.
	shipped []Failure
	// isStale is true if the slots were not looked at since a failure was noted, or a slot emptied.
	isStale bool
}

func newAccount() account {
	return account{untold: map[Failure]*untold{}, consequences: map[Failure][]Failure{}}
}

// Telling.

func (a *account) tell(failure Failure) {
	for one := failure; one != nil; one = one.Cause() {
		delete(a.untold, one)
		for _, consequence := range a.consequences[one] {
			delete(a.untold, consequence)
		}
		delete(a.consequences, one)
	}
}

// tell tells the program of a failure, and so of all that it follows from and that followed.
func (r *recorder) tell(failure Failure) {
	if failure == inUse {
		return
	}
	if len(r.account.untold) > 0 {
		r.account.tell(failure)
		r.attend()
	}
}

// tellAll tells the program of everything.
func (r *recorder) tellAll() {
	clear(r.account.untold)
	clear(r.account.consequences)
	r.account.omitted = 0
	r.attend()
}

// forgive marks the failures of the calls up to now as told, and those that are still to come of
// them.
func (r *recorder) forgive() {
	r.tellAll()
	r.account.forgiven = uint32(len(r.futures))
	for _, b := range r.underWay {
		b.forgiven = math.MaxUint32
	}
}

// take takes some of the failures out, oldest first. Consequences of others among them are not
// named.
func (a *account) take(which func(*untold) bool) []Failure {
	var taken []*untold
	for _, entry := range a.untold {
		if which(entry) {
			taken = append(taken, entry)
		}
	}
	slices.SortFunc(taken, func(x, y *untold) int { return cmp.Compare(x.order, y.order) })
	var named []Failure
	for _, entry := range taken {
		if a.untold[entry.failure] != nil {
			named = append(named, entry.failure)
		}
		a.tell(entry.failure)
	}
	return named
}

// Noting.

func (a *account) note(entry untold) {
	entry.order, entry.isClaimable = a.order, true
	a.untold[entry.failure] = &entry
	a.order++
	a.isStale = true
}

// boundUntold keeps the number of lost failures bounded, when the stubs of all failures are there.
func (r *recorder) boundUntold() {
	if len(r.account.untold) > max(r.account.most, 2*historyMax) {
		r.findLost()
		r.account.most = 2 * len(r.account.untold)
	}
}

func (r *recorder) noteRefusal(failure Failure) {
	r.boundUntold()
	if r.isShipping {
		r.account.shipped = append(r.account.shipped, failure)
	}
	r.account.note(untold{
		failure: failure, transaction: r.account.transaction, isRefused: true,
		isInside: len(r.scopes) > 0,
	})
}

// noteFailure notes a failure that the server has told of, by the position of its call.
func (r *recorder) noteFailure(failure Failure, b *batch, position uint32) {
	if position <= b.forgiven {
		return
	}
	var first Failure
	for cause := failure.Cause(); cause != nil; cause = cause.Cause() {
		if r.account.untold[cause] != nil {
			first = cause
		}
	}
	if first != nil {
		r.account.consequences[first] = append(r.account.consequences[first], failure)
	}
	r.account.note(untold{failure: failure, transaction: b.transactionAt(position)})
}

// noteUnseen notes an error of a commit, which stands for the failures that it names.
func (r *recorder) noteUnseen(failure Failure, b *batch, position uint32) {
	r.account.note(untold{
		failure: failure, transaction: b.transactionAt(position), isRefused: true,
	})
}

// Lost failures.

// findLost finds the failures that no stub is left to tell, and keeps as many of them as the
// history has.
func (r *recorder) findLost() {
	a := &r.account
	if !a.isStale {
		return
	}
	a.isStale = false
	for _, entry := range a.untold {
		entry.isClaimable = false
	}
	for s := range r.failed {
		for one := s.failure; one != nil; one = one.Cause() {
			if entry := a.untold[one]; entry != nil {
				entry.isClaimable = !entry.isInside
			}
		}
	}
	var lost []*untold
	for _, entry := range a.untold {
		if !entry.isClaimable {
			lost = append(lost, entry)
		}
	}
	if len(lost) <= historyMax {
		return
	}
	slices.SortFunc(lost, func(x, y *untold) int { return cmp.Compare(x.order, y.order) })
	for _, entry := range lost[historyMax:] {
		delete(a.untold, entry.failure)
		a.omitted++
	}
}

// takeOmitted returns the number of failures that are not listed, which are told with it.
func (a *account) takeOmitted() uint64 {
	omitted := a.omitted
	a.omitted = 0
	return omitted
}

// surface tells of the failures that are lost, and, if wanted, of all that was not sent. It
// returns nil if there are none.
func (r *recorder) surface(refused bool) Failure {
	a := &r.account
	if len(a.untold) == 0 && a.omitted == 0 {
		return nil
	}
	r.findLost()
	// A consequence of a failure that a stub tells is lost all the same: its effects are missing.
	failures := a.take(func(u *untold) bool { return !u.isClaimable || refused && u.isRefused })
	omitted := a.takeOmitted()
	r.attend()
	if len(failures) == 0 && omitted == 0 {
		return nil
	}
	return &Unseen{failures, omitted, nil}
}

// unseen returns the failure of a commit or transaction that the server refused for unseen
// failures: it names those up to a transaction, which are told with it. It returns nil if there
// are none.
func (r *recorder) unseen(call CallName, through uint32) Failure {
	failures := r.account.take(func(u *untold) bool { return u.transaction <= through })
	omitted := r.account.takeOmitted()
	if len(failures) == 0 && omitted == 0 {
		return nil
	}
	return &Unseen{failures, omitted, &call}
}

// unseenNow is unseen for the transaction being recorded.
func (r *recorder) unseenNow(call CallName) Failure {
	if r.account.isServerUnseen && !r.account.isAllTold() {
		return r.unseen(call, r.account.transaction)
	}
	return nil
}

// The server's part of the account.

// isAllTold returns true if the program was told of all failures that the server knows of the
// transaction being recorded.
func (a *account) isAllTold() bool {
	if a.omitted > 0 {
		return false
	}
	for _, entry := range a.untold {
		if !entry.isRefused && entry.transaction == a.transaction {
			return false
		}
	}
	return true
}

// isPrevented returns true if calls that were not sent prevent the commit of the transaction being
// recorded.
func (a *account) isPrevented() bool {
	for _, entry := range a.untold {
		if entry.isRefused && entry.transaction == a.transaction {
			return true
		}
	}
	return false
}

// mustClear returns true if the next command is to be history clear. Failures of batches under way
// are not told yet.
func (r *recorder) mustClear() bool {
	return r.account.isServerUnseen && r.commands == 0 && len(r.scopes) == 0 && !r.isShipping &&
		len(r.underWay) == 0 && r.account.isAllTold()
}

// clearTold records history clear, if it is due.
func (r *recorder) clearTold() {
	if r.mustClear() {
		r.recordClear()
	}
}

// recordClear records history clear.
func (r *recorder) recordClear() {
	r.appendCommand(head(opHistory, historyClear, 0))
	r.serverCleared()
}

// serverCleared notes that the server's history is cleared with the next command.
func (r *recorder) serverCleared() {
	r.account.isServerUnseen = false
	r.attend()
}

// noteAnswer notes that a batch was answered.
func (r *recorder) noteAnswer(hasFailures bool) {
	r.account.isServerUnseen = r.account.isServerUnseen || hasFailures
	r.account.isStale = true
}

// takeShippedRefusals takes out the calls of the batch that is a transaction that were not sent;
// the program is told of them.
func (r *recorder) takeShippedRefusals() []Failure {
	refusals := r.account.shipped
	r.account.shipped = nil
	for _, failure := range refusals {
		r.tell(failure)
	}
	return refusals
}

// tellSince tells the program of all failures from an order on.
func (r *recorder) tellSince(mark uint64) {
	r.account.take(func(u *untold) bool { return u.order >= mark })
	r.attend()
}

// Refusals.

// attend sets the size at which recording is looked at more closely.
func (r *recorder) attend() {
	r.attentionBytes = publishBytes
	if r.broken != nil || r.poison != nil || r.mustClear() {
		r.attentionBytes = 0
	}
}

// refuse notes a call, a marker or a structure that cannot be recorded, and returns the failure of
// its stubs. Inside a structure the outermost one is refused with it, if it is another.
func (r *recorder) refuse(name string, source uintptr, why Failure) Failure {
	// All calls of a refused structure have its failure, which is noted once.
	if r.poison == why || why == inUse {
		return why
	}
	failure := why
	if _, hasEnded := why.(*Ended); !hasEnded {
		failure = notSent(name, source, why)
		if len(r.scopes) > 0 {
			around := r.scopes[0]
			if around.kind.String() != name || around.source != source {
				failure = &NotSent{unsentName(around.kind.String(), around.source), failure}
			}
		}
		r.remember(failure, r.batchNumber)
		r.noteRefusal(failure)
	}
	if len(r.scopes) > 0 {
		r.poison = failure
		r.attend()
	}
	return failure
}

// notSent returns the failure of a call that was refused. A stub that was not made itself stands
// for the first one that was not.
func notSent(name string, source uintptr, why Failure) Failure {
	cause := why
	for one := why; one != nil; one = one.Cause() {
		if _, isOne := one.(*NotSent); isOne {
			cause = one
		}
	}
	return &NotSent{unsentName(name, source), cause}
}

// unsentName returns the name of a call that was not sent.
func unsentName(name string, source uintptr) CallName {
	return CallName{name, 0, nil, source}
}

// refusal returns the reason why the open structure is not sent, or the session is closed; nil for
// neither.
func (r *recorder) refusal() Failure {
	if r.broken != nil {
		return r.broken
	}
	return r.poison
}

// remember enters a failure into the history.
func (r *recorder) remember(failure Failure, batch uint64) {
	if len(r.history) < historyMax {
		r.history = append(r.history, HistoryEntry{batch, failure})
	} else {
		r.historyOmitted++
	}
}

// exceptions returns all failures of answered batches, and all calls that were not sent, since the
// history was last cleared, oldest first. The program is told of them.
func (r *recorder) exceptions() []HistoryEntry {
	r.tellAll()
	return r.history
}

// clearExceptions clears the history: the failures of the calls up to now count as told. It
// returns true if the server's history is to be cleared too, with clearServer. That is refused
// inside a structure.
func (r *recorder) clearExceptions(source uintptr) bool {
	r.history, r.historyOmitted = nil, 0
	r.forgive()
	switch {
	case r.isShipping:
		r.refuse("history", source, misused(MisuseInTransaction))
	case len(r.scopes) > 0:
		r.refuse("history", source, misused(MisuseOpenStructure))
	default:
		r.serverCleared()
		return true
	}
	return false
}

// clearServer records the clearing of the server's history, if it was admitted.
func (r *recorder) clearServer(admitted Failure) {
	if admitted == nil {
		r.recordClear()
	}
}

// profileDue checks the program's wish for the profiles of its batches, or for no more of them. It
// returns true if that changes anything: then recordProfile records it.
func (r *recorder) profileDue(on bool) (bool, Failure) {
	switch {
	case r.broken != nil:
		return false, r.broken
	case len(r.scopes) > 0:
		return false, misused(MisuseOpenStructure)
	case r.isShipping:
		return false, misused(MisuseInTransaction)
	case !r.bounds.hasProfiles:
		return false, misused(MisuseNoProfiles)
	}
	return on != r.isProfiled, nil
}

// recordProfile has the server measure this batch and all later ones, or no more.
func (r *recorder) recordProfile(admitted Failure, on bool) Failure {
	if admitted != nil {
		return admitted
	}
	flags := uint32(0)
	if on {
		flags = profileOn
	}
	r.appendCommand(head(opProfile, flags, 0))
	r.isProfiled = on
	return nil
}
