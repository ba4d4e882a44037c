//! The way of an answer, from its debtor to the method that goes on with it (002 section 3, 003
//! section 4.3). The functions to read first are [`owe`], [`deliver_owed`] and [`fill`].
//!
//! The object that owes an answer begins with [`owed`](bifrost_runtime::actor_layout::owed). Its
//! destination is entered there when it is known ([`owe`]). A reply fills a variable of the join
//! that awaits it. A join that has all it waits for goes on in its turn ([`deliver_owed`]), or at
//! once if code delivers the answer ([`deliver_now`]). An answer that comes before its destination
//! is known is kept in a place of answers ([`keep_answer`]).

use bifrost_ir::TypeKind;
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_class::JoinLayout;
use bifrost_runtime::actor_layout::{Due, Kind, join};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::{Image, Table};
use bifrost_runtime::object::{self, get, set};

use crate::between::{guest, write as packets};
use crate::context::{WithActors, image_of};
use crate::exceptions::{log_lost, note_exception};
use crate::node::Held;
use crate::object::{Answer, Join, Message, Owing, Party, Replier};
use crate::queue::ready;
use crate::send::may_nest;
use crate::{cycles, deferred, run};

/// Enters the destination of the answer that an outcome `Pending` promised, a join or a caller.
/// Both objects are kept.
#[inline]
pub fn owe(cx: &mut Cx, owing: Owing, to: Option<Party>, due: Due, element: i64) {
    owing.set_destination(to, due, element);
    if let Some(to) = to.and_then(|to| to.join()) {
        to.set_last_request(Some(owing));
    }
    match owing.kind() {
        Kind::Outgoing if to.is_none() => packets::settle_open(cx),
        Kind::Outgoing => packets::expect_answer(cx, owing),
        Kind::Message => {
            if let Some(sent) = owing.message().filter(|_| to.is_some()) {
                cycles::suspect(cx, sent);
            }
        }
        Kind::Replier => {
            if let Some(place) = owing.replier() {
                owe_through(cx, place, to);
            }
        }
        _ => {}
    }
}

/// Enters the waiter for the answer that a place of answers keeps, or will keep.
#[cold]
fn owe_through(cx: &mut Cx, place: Replier, to: Option<Party>) {
    if place.is_used() {
        deliver_owed(cx, place.owing(), place.kept());
    } else if let (Some(to), Some(source)) = (to, place.source()) {
        cycles::suspect_kept(cx, source, to);
    }
}

/// Hands the destination of one answer on to another.
pub(crate) fn owe_as(cx: &mut Cx, owing: Owing, before: Owing) {
    owe(cx, owing, before.to(), before.due(), before.element());
}

/// Brings the answer that an object owes to its waiter. Returns the join that can go on now.
#[inline(always)]
fn bring(cx: &mut Cx, owing: Owing, answer: Answer) -> Option<Join> {
    let to = owing.to();
    let due = owing.due();
    match to.and_then(|to| to.join()) {
        Some(waiter) => fill(cx, waiter, due, owing.element(), answer),
        None => bring_elsewhere(cx, to, due, answer),
    }
}

/// Brings an answer to a destination that is no join of this node. Returns the join that can go on
/// now.
#[inline(never)]
fn bring_elsewhere(cx: &mut Cx, to: Option<Party>, due: Due, answer: Answer) -> Option<Join> {
    let Some(to) = to else {
        if let Answer::Exception(kept) = answer {
            log_lost(cx, kept);
        }
        return None;
    };
    if let Some(away) = to.away() {
        packets::answer(cx, away.waiting(), answer);
    } else if let Some(place) = to.replier() {
        place.keep(answer);
        if place.owing().to().is_some() {
            return bring(cx, place.owing(), answer);
        }
    } else if to.kind() == Kind::Client {
        guest::answered(cx, due.request(), answer);
    } else if to.kind() == Kind::Deferred {
        deferred::answered(cx, due.request(), answer);
    } else if to.message().is_some() {
        if let Answer::Value(why) = answer {
            deferred::complete(cx, due.request(), why);
        }
    } else {
        cx.actors().answered(answer);
    }
    None
}

/// Brings the answer that an object owes to its waiter, which goes on when its turn comes.
pub(crate) fn deliver_owed(cx: &mut Cx, owing: Owing, answer: Answer) {
    if let Some(waiter) = bring(cx, owing, answer) {
        ready(cx, waiter);
    }
}

/// Enters a reply into the join that awaits it, and that has sent the request. Returns the join, if
/// it can go on now and is in no queue yet.
#[inline(always)]
pub(crate) fn fill(cx: &mut Cx, waiter: Join, due: Due, element: i64, answer: Answer) -> Option<Join> {
    let Answer::Value(value) = answer else { return fill_other(cx, waiter, due, element, answer) };
    if due.is_call() || due.is_element() || waiter.has(join::ENDED) {
        return fill_other(cx, waiter, due, element, answer);
    }
    let layout = waiter.layout();
    waiter.set_variable(layout.pending[usize::from(due.pending())] as usize, value);
    filled(waiter, layout, due)
}

/// Does the same for the other cases.
///
/// - The answer is an exception.
/// - The reply goes to an element.
/// - It is the end of a call of an actor on itself.
/// - The method has ended.
#[inline(never)]
fn fill_other(cx: &mut Cx, waiter: Join, due: Due, element: i64, answer: Answer) -> Option<Join> {
    if waiter.has(join::ENDED) {
        if let Answer::Exception(kept) = answer {
            log_lost(cx, kept);
        }
        return None;
    }
    let layout = waiter.layout();
    let call = due.is_call();
    match answer {
        // The element is the variable that takes the result.
        Answer::Value(value) if call => waiter.set_variable(element as usize, value),
        Answer::Value(value) => {
            // Code that has left keeps no array that nothing reads any more.
            match waiter.variable(layout.pending[usize::from(due.pending())] as usize) {
                0 => {}
                array => store_element(image_of(cx), array, element, value),
            }
        }
        Answer::Exception(kept) => note_exception(waiter, kept, due),
    }
    if !call {
        return filled(waiter, layout, due);
    }
    let missing = waiter.missing() - 1;
    waiter.set_missing(missing);
    let waits = waiter.flags() & (join::WAITS | join::SELECTS | join::READY) == join::WAITS;
    (waits && missing == 0).then_some(waiter)
}

/// Counts a reply, or an exception in its place. Returns the join, if it can go on now and is in no
/// queue yet.
#[inline(always)]
fn filled(waiter: Join, layout: &JoinLayout, due: Due) -> Option<Join> {
    let flags = waiter.flags();
    waiter.set_count(layout, due.pending(), waiter.count(layout, due.pending()) - 1);
    if flags & (join::WAITS | join::SELECTS) != join::WAITS
        || waiter.awaited() >> due.pending().min(63) & 1 == 0
    {
        return None;
    }
    let missing = waiter.missing() - 1;
    waiter.set_missing(missing);
    (missing == 0 && flags & join::READY == 0).then_some(waiter)
}

/// Answers the message that a method serves: the one taken in an arm of a selection, or that for
/// which the method itself runs. An exception is kept.
pub fn answer(cx: &mut Cx, running: Join, answer: Answer) {
    if let Some(taken) = running.taken() {
        taken.set_answered();
        return deliver_owed(cx, taken.owing(), answer);
    }
    let flags = running.flags() | join::ANSWERED;
    running.set_flags(flags);
    if flags & (join::DETACHED | join::NESTED) == join::DETACHED {
        return deliver_owed(cx, running.owing(), answer);
    }
    match answer {
        Answer::Value(word) => running.set_answer(word),
        Answer::Exception(kept) => running.set_failed(kept),
    }
}

/// True if the message that a method serves was answered.
pub fn is_answered(running: Join) -> bool {
    match running.taken() {
        None => running.has(join::ANSWERED),
        Some(taken) => taken.is_answered(),
    }
}

/// Has another object answer in place of the method: `owing` came with an outcome `Pending`.
pub fn delegate(cx: &mut Cx, running: Join, owing: Owing) {
    if let Some(taken) = running.taken() {
        taken.set_answered();
        return owe_as(cx, owing, taken.owing());
    }
    let flags = running.flags() | join::ANSWERED;
    running.set_flags(flags);
    if flags & (join::DETACHED | join::NESTED) == join::DETACHED {
        return owe_as(cx, owing, running.owing());
    }
    packets::expect_answer(cx, owing);
    running.set_delegated(owing);
}

/// Begins the arm of a selection for a message that was taken for it: until [`end_arm`], it is the
/// one that the method answers.
pub fn begin_arm(running: Join, taken: Message) {
    taken.set_next(running.taken());
    running.set_taken(Some(taken));
}

/// Ends the arm under way. A message without answer gets `given`.
pub fn end_arm(cx: &mut Cx, running: Join, given: Answer) {
    let Some(taken) = running.taken() else { return };
    if !taken.is_answered() {
        answer(cx, running, given);
    }
    running.set_taken(taken.next());
    taken.set_next(None);
}

/// Does as [`delegate`], for a method that goes on: its destination may not be known when the
/// answer comes. Returns the outcome `Returned`, or the outcome to end with.
pub fn delegate_early(cx: &mut Cx, running: Join, owing: Owing) -> Ret {
    let flags = running.flags();
    let known = running.taken().is_some() || flags & (join::DETACHED | join::NESTED) == join::DETACHED;
    if known || owing.replier().is_some() {
        delegate(cx, running, owing);
        return Ret::NOTHING;
    }
    let image = image_of(cx);
    let signature = &image.program().funcs[running.layout().func].signature;
    let reference = signature.results.first().is_some_and(|ty| image.is_reference(*ty));
    match keep_answer(cx, owing, reference) {
        Ok(kept) => {
            delegate(cx, running, kept.owing());
            Ret::NOTHING
        }
        Err(ret) => ret,
    }
}

/// Makes a place that keeps the answer which an object owes until its destination is known
/// ([`owe`]). `reference` is true if the answer is one.
///
/// # Errors
/// The outcome to end with: the heap is full.
pub fn keep_answer(cx: &mut Cx, owing: Owing, reference: bool) -> Result<Replier, Ret> {
    let _owing = cx.keep(owing.word());
    let made = new_replier(cx, image_of(cx).of_actors.kept[usize::from(reference)])?;
    made.set_source(owing);
    owe(cx, owing, Some(made.party()), Due::new(0, false), 0);
    Ok(made)
}

/// Makes the destination of an answer, as a value; the table is one of such. The method that
/// answers through it is [`delegate`]d to.
///
/// # Errors
/// The outcome to end with: the heap is full.
pub fn new_replier(cx: &mut Cx, table: &'static Table) -> Result<Replier, Ret> {
    Replier::make(cx, table).map_err(|full| cx.out_of_memory(full))
}

/// Answers through a destination, with a value of its type. A second answer is ignored, and logged.
/// The waiter goes on when its turn comes.
pub(crate) fn deliver_to(cx: &mut Cx, destination: Replier, value: Word) {
    if let Some(waiter) = bring_to(cx, destination, value) {
        ready(cx, waiter);
    }
}

/// Does as [`deliver_to`], for code that runs: a message of the past form to the waiter. It goes on
/// at once, above the sender on its stack, if that is not too deep. Returns the outcome `Returned`
/// or `Killed`.
pub fn deliver_now(cx: &mut Cx, destination: Replier, value: Word) -> Ret {
    let Some(waiter) = bring_to(cx, destination, value) else { return Ret::NOTHING };
    if !may_nest(cx) {
        ready(cx, waiter);
        return Ret::NOTHING;
    }
    cx.words.past_sent = 1;
    match run::resume(cx, waiter) {
        ret if ret.outcome() == Outcome::Killed => ret,
        _ => Ret::NOTHING,
    }
}

/// Enters the answer where it is awaited. Returns the join that can go on now.
#[inline(always)]
fn bring_to(cx: &mut Cx, destination: Replier, value: Word) -> Option<Join> {
    if cx.in_program_transaction() {
        let types = &image_of(cx).program().types;
        let reference = matches!(
            types.kind(destination.ty()),
            TypeKind::Replier(result) if image_of(cx).is_reference(result)
        );
        cx.actors().hold(Held::Answer { destination, value, reference });
        return None;
    }
    if destination.is_far() {
        packets::deliver(cx, destination, value);
        return None;
    }
    if destination.is_used() {
        cx.actors().log("a second answer to a message is ignored");
        return None;
    }
    destination.keep(Answer::Value(value));
    bring(cx, destination.owing(), Answer::Value(value))
}

/// Stores an element of an array or vector that has it, and that nothing else refers to. The word
/// has the element's type.
pub fn store_element(image: &Image, container: Word, index: i64, value: Word) {
    use object::{array, vector};
    // SAFETY: the container is a reference to such an object, as the function's type says.
    unsafe {
        match is_vector(image, container) {
            true => set(container, vector::ELEMENTS + (index - 1) as usize, value),
            false => {
                let at = (index - get(container, array::LOW) as i64) as usize;
                let head = get(container, array::HEAD) as usize;
                set(get(container, array::STORAGE), head + at, value);
            }
        }
    }
}

fn is_vector(image: &Image, container: Word) -> bool {
    // SAFETY: the container is a reference.
    let ty = unsafe { Table::of(container) }.info().ty;
    matches!(image.program().types.kind(ty), TypeKind::Vector(_))
}

/// True if an array or vector has an element.
pub fn has_element(image: &Image, container: Word, index: i64) -> bool {
    use object::{array, vector};
    // SAFETY: the container is a reference to such an object, as the function's type says.
    let (low, length) = unsafe {
        match is_vector(image, container) {
            true => (1, get(container, vector::LENGTH)),
            false => (get(container, array::LOW) as i64, get(container, array::LENGTH)),
        }
    };
    index >= low && index.wrapping_sub(low) < length as i64
}
