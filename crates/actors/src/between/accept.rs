//! Packets that arrive: messages, answers and creations are read here, and done. The function to
//! read first is [`accept`]. Packets of a search are read in [`search`], those about rounds of
//! requests in [`rounds`].

use bifrost_ir::{MethodId, MethodRef, SignalId, TypeId, Types};
use bifrost_runtime::abi::{ARGS_MAX, Outcome, Ret, VALUES_MAX, Word};
use bifrost_runtime::actor_layout::Due;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::transfer::{Address, Pattern};

use crate::answers::{deliver_owed, deliver_to, owe};
use crate::between::addresses::{at_address, here};
use crate::between::credit::{Against, FAR_LONG};
use crate::between::kinds::{
    ANSWER, CREATE, CUT_DONE, FULL, GRANT, LOAD, MAIN_OVER, MESSAGE, RELEASE, ROOM, SEARCH, TAKEN, WAITS,
    WANT, WATCH,
};
use crate::between::packet::{NOBODY, Wrong, late, number, numbers};
use crate::between::placement::chooser;
use crate::between::remote::OWN;
use crate::between::write::{answer, exception_places, replier_result, settle_open};
use crate::between::{rounds, search, watches};
use crate::context::{WithActors, image_of, owing_of};
use crate::create::{bear, fail_creation};
use crate::exceptions::{Origin, kept_exception, log_lost};
use crate::mailbox;
use crate::node::Work;
use crate::object::{Actor, Answer, Away, Call, Known, Waiting};
use crate::queue::rest;
use crate::send::{run_code, try_send};

/// Handles the packets of a node. Returns the outcome `Killed` or `Returned`.
pub(crate) fn accept(cx: &mut Cx, from: u32, packets: &[u8]) -> Ret {
    let lost = cx.actors().remote.is_lost(from);
    let before = std::mem::replace(&mut cx.actors().remote.origin, from);
    let (mut rest, mut came) = (if lost { &[] } else { packets }, 0_u32);
    while !rest.is_empty() {
        let parts = number(&mut rest).ok().and_then(|bytes| rest.split_at_checked(bytes as usize));
        let accepted = match parts {
            Some((packet, behind)) => {
                rest = behind;
                if packet.first() == Some(&MESSAGE) {
                    came = came.saturating_add(4 + packet.len() as u32);
                }
                let remote = &mut cx.actors().remote;
                remote.under_way = remote.searches.is_under_way(from);
                match packet.split_first() {
                    Some((&MESSAGE, mut message)) => accept_message(cx, from, &mut message),
                    _ => accept_other(cx, from, packet),
                }
            }
            None => {
                rest = &[];
                Err("it ends too early".into())
            }
        };
        match accepted {
            Ok(ret) if ret.outcome() == Outcome::Killed => return ret,
            Ok(_) => {}
            Err(wrong) => {
                let never = matches!(wrong, Wrong::Never(_)) || cx.actors().remote.speaks_of_too_much();
                cx.actors().log(&format!("a packet of node {from} is dropped: {}", wrong.why()));
                if never && cx.actors().remote.distrust(from, wrong.why()) {
                    rest = &[];
                }
            }
        }
        // There may be many packets, and each may take a collection. A guest goes on after its run
        // was ended, and needs all answers.
        if !cx.is_guest() && cx.must_attend() {
            let stopped = cx.stop();
            if !stopped.returned() {
                return stopped;
            }
        }
    }
    cx.actors().remote.under_way = false;
    cx.actors().remote.origin = before;
    if came > 0 {
        if cx.heap().may_be_filled() {
            cx.collect();
        }
        if cx.heap().is_filled() {
            cx.actors().remote.credit.hold(from, Against::Heap);
        }
    }
    cx.actors().remote.came(from, came);
    search::pass_on(cx);
    Ret::NOTHING
}

/// Reads a packet that is no message, and does it.
fn accept_other(cx: &mut Cx, from: u32, packet: &[u8]) -> Result<Ret, Wrong> {
    let (kind, mut rest) = packet.split_first().ok_or("it is empty")?;
    let rest = &mut rest;
    match *kind {
        ANSWER => accept_answer(cx, from, rest).map(|()| Ret::NOTHING),
        CREATE => accept_creation(cx, from, rest),
        GRANT | RELEASE => {
            let [index, generation, third] = numbers(rest)?;
            let (node, times) = if *kind == GRANT { (third, 1) } else { (from, -i64::from(third)) };
            let own = cx.node();
            let remote = &mut cx.actors().remote;
            if remote.under_way && *kind == GRANT {
                // The node that was told of it may be a guest, which takes no part in the
                // search.
                let address = Address { capsule: 0, node: own, index, generation };
                remote.searches.was_under_way(own, address);
            }
            match cx.actors().remote.count(index, generation, node, times) {
                true => Ok(Ret::NOTHING),
                false => Err("it refers to too many actors that were not made".into()),
            }
        }
        TAKEN => {
            for waiter in cx.actors().remote.credit.taken(from, number(rest)?) {
                cx.actors().push(Work::Join(waiter));
            }
            Ok(Ret::NOTHING)
        }
        WAITS..=CUT_DONE => rounds::accept(cx, from, *kind, rest).map(|()| Ret::NOTHING),
        FULL | ROOM => {
            let address = numbers(rest)?;
            let full = match *kind {
                FULL => Some(numbers(rest).map(|[low, high]| u64::from(high) << 32 | u64::from(low))?),
                _ => None,
            };
            mailbox::heard(cx, from, address, full);
            Ok(Ret::NOTHING)
        }
        LOAD => {
            let load = number(rest)?;
            cx.actors().remote.placement.told(from, load);
            Ok(Ret::NOTHING)
        }
        WATCH..=MAIN_OVER => watches::accept(cx, from, *kind, rest).map(|()| Ret::NOTHING),
        SEARCH..=WANT => search::accept(cx, from, *kind, rest).map(|()| Ret::NOTHING),
        other => Err(Wrong::Never(format!("{other} is not a kind of packet").into())),
    }
}

/// Reads the values at the front of the rest of a packet.
#[inline]
pub(crate) fn read(
    cx: &mut Cx,
    packet: &mut &[u8],
    pattern: &Pattern,
    words: &mut [Word],
) -> Result<(), Wrong> {
    pattern.read(cx, packet, &mut at_address, words).map_err(Wrong::from)
}

/// Refuses a message that is not understood: its waiter is told.
#[cold]
fn refuse(cx: &mut Cx, to: Waiting, wrong: Wrong) -> Result<Ret, Wrong> {
    if to.index != NOBODY {
        let _ = cx.failure(wrong.why());
        let kept = kept_exception(cx, &Origin::Method(to.method));
        answer(cx, to, Answer::Exception(kept));
    }
    Err(wrong)
}

/// True if so many messages wait for an actor.
pub(crate) fn has_long_mail(actor: Actor, messages: u64) -> bool {
    actor.mail().is_some_and(|post| post.count() >= messages)
}

/// Reads a message, and runs its method or queues it.
fn accept_message(cx: &mut Cx, from: u32, packet: &mut &[u8]) -> Result<Ret, Wrong> {
    let [index, generation, ty, method, waiter, of] = numbers(packet)?;
    let image = image_of(cx);
    let ty = known_type(&image.program().types, ty)?;
    let class = image.find_table(ty).and_then(|table| table.info().actor());
    let class = class.filter(|class| (method as usize) < class.methods).ok_or("there is no such method")?;
    let method = MethodRef { ty, method: MethodId::from_u32(method) };
    let away = Waiting { node: from, index: waiter, generation: of, method };
    let address = Address { capsule: 0, node: cx.node(), index, generation };
    let Some(actor) = here_actor(cx, address, ty) else {
        return refuse(cx, away, late("there is no such actor"));
    };
    let arguments = &class.message(method.method).arguments;
    let count = 1 + arguments.len();
    let mut words = [0; ARGS_MAX];
    words[0] = actor.word();
    // Words lead to no object, and code keeps its arguments.
    let entered = image.has_engine();
    let _actor = (!entered || !arguments.is_plain()).then(|| cx.keep(actor.word()));
    if let Err(wrong) = read(cx, packet, arguments, &mut words[1..count]) {
        return refuse(cx, away, wrong);
    }
    let _values = arguments.keep(cx, &words[1..count]);
    let slot = image.dispatch().slot(method);
    if from < cx.nodes() {
        cx.actors().mailboxes.arrives(Some(actor));
    }
    // SAFETY: the words are an actor with the method, and its arguments, which are kept.
    let call = unsafe { Call::new(slot, &words[..count]) };
    let ret = match entered {
        true => run_code(cx, call.entry(), call.words()),
        false => match try_send(cx, call) {
            Ok(ret) | Err(ret) => ret,
        },
    };
    cx.actors().mailboxes.arrives(None);
    hold_back(cx, from, [index, generation], ret);
    settle_message(cx, away, ret)
}

/// Notes that a message of another node was queued: the node is told if the mailbox is nearly full,
/// and gets its acknowledgement later if the mail is long.
#[inline(always)]
fn hold_back(cx: &mut Cx, from: u32, address: [u32; 2], ret: Ret) {
    // A queued message knows its actor; after any other the actor may be no more.
    if ret.outcome() != Outcome::Pending {
        return;
    }
    let Some(sent) = owing_of(ret).message() else { return };
    let actor = sent.receiver();
    let told = mailbox::came(cx, from, actor, address);
    // The sender to a mailbox that is nearly full is told of that one, and others need not wait for
    // it.
    if !told && has_long_mail(actor, FAR_LONG) {
        let since_ns = if cx.actors().is_ordered() { 0 } else { cx.now_ns() };
        cx.actors().remote.credit.hold(from, Against::mail(actor, since_ns));
    }
}

/// Handles the outcome of a message of another node: its waiter gets the answer, now or later.
#[inline(always)]
fn settle_message(cx: &mut Cx, away: Waiting, ret: Ret) -> Result<Ret, Wrong> {
    let awaited = away.index != NOBODY;
    match ret.outcome() {
        Outcome::Returned if !awaited => {}
        Outcome::Killed => return Ok(ret),
        Outcome::Pending if !awaited => settle_open(cx),
        Outcome::Pending => {
            let _owing = cx.keep(ret.value);
            let made = Away::make(cx, away);
            owe(cx, owing_of(ret), Some(made.party()), Due::new(0, false), 0);
        }
        Outcome::Returned => answer(cx, away, Answer::Value(ret.value)),
        _ => {
            let kept = kept_exception(cx, &Origin::Method(away.method));
            match awaited {
                false => log_lost(cx, kept),
                true => answer(cx, away, Answer::Exception(kept)),
            }
        }
    }
    Ok(Ret::NOTHING)
}

/// Returns the actor of this node at an address of a class of actors.
pub(crate) fn here_actor(cx: &mut Cx, address: Address, ty: TypeId) -> Option<Actor> {
    let found = here(cx, address, ty)?;
    // SAFETY: it has the type, which is a class of actors.
    Some(unsafe { Actor::new(found) })
}

pub(crate) fn known_type(types: &Types, number: u32) -> Result<TypeId, Wrong> {
    let known = (number as usize) < types.len();
    // Not every number can be made an id.
    known.then(|| TypeId::from_u32(number)).ok_or("there is no such type".into())
}

fn accept_answer(cx: &mut Cx, from: u32, packet: &mut &[u8]) -> Result<(), Wrong> {
    let [index, generation, signal] = numbers(packet)?;
    let node = cx.node();
    let remote = &mut cx.actors().remote;
    if remote.under_way {
        let generation = generation << 8 | OWN;
        remote.searches.was_under_way(node, Address { capsule: 0, node, index, generation });
    }
    let (known, asked) = remote.awaited(index, generation).ok_or_else(|| late("no request waits for it"))?;
    match known {
        Known::Replier(destination) => {
            remote.take(index, generation);
            let _kept = cx.keep(destination.word());
            let result = replier_result(&image_of(cx).program().types, destination.ty());
            let mut value = [0];
            read(cx, packet, &result, &mut value[..result.len()])?;
            deliver_to(cx, destination, value[0]);
            Ok(())
        }
        Known::Outgoing(sent) if asked == Some(from) => {
            remote.take(index, generation);
            let _kept = cx.keep(sent.word());
            let (answer, wrong) = match read_answer(cx, packet, sent.method(), signal) {
                Ok(answer) => (answer, Ok(())),
                Err(wrong) => {
                    let _ = cx.failure(wrong.why());
                    (Answer::Exception(kept_exception(cx, &Origin::Runtime)), Err(wrong))
                }
            };
            deliver_owed(cx, sent.owing(), answer);
            wrong
        }
        Known::Outgoing(_) | Known::Actor(_) => Err("no request of that node waits for it".into()),
    }
}

/// Reads the result or the exception of a method of a class of actors.
fn read_answer(cx: &mut Cx, packet: &mut &[u8], method: MethodRef, signal: u32) -> Result<Answer, Wrong> {
    let image = image_of(cx);
    let types = &image.program().types;
    let Some(signal) = signal.checked_sub(1) else {
        let class = image.table_of(method.ty).info().actor().expect("a class of actors");
        let result = &class.message(method.method).result;
        let mut value = [0];
        read(cx, packet, result, &mut value[..result.len()])?;
        return Ok(Answer::Value(value[0]));
    };
    if signal as usize >= types.signals().count() {
        return Err("there is no such exception".into());
    }
    let (id, signature) = (SignalId::from_u32(signal), &types.method(method).signature);
    let pattern = Pattern::new(exception_places(types, signature, id));
    let mut values = [0; VALUES_MAX];
    read(cx, packet, &pattern, &mut values[..pattern.len()])?;
    cx.signal_id = u64::from(signal);
    cx.begin_places();
    cx.signal_values = values;
    Ok(Answer::Exception(kept_exception(cx, &Origin::Method(method))))
}

/// Reads the creation of an actor, and runs its creator.
fn accept_creation(cx: &mut Cx, from: u32, packet: &mut &[u8]) -> Result<Ret, Wrong> {
    let [index, ty, creator] = numbers(packet)?;
    let image = image_of(cx);
    let ty = known_type(&image.program().types, ty)?;
    let table = image.find_table(ty).ok_or("there is no such class")?;
    let class = table.info().actor().ok_or("it is not a class of actors")?;
    let func = class.creators.get(creator as usize).ok_or("there is no such creator")?;
    let node = cx.node();
    let chosen_by = chooser(from, cx.nodes());
    let address = Address { capsule: 0, node, index, generation: chosen_by + 1 };
    let actor = here_actor(cx, address, ty).ok_or_else(|| late("the address is used"))?;
    let _actor = cx.keep(actor.word());
    let remote = &mut cx.actors().remote;
    remote.count(index, chosen_by + 1, from, 1);
    if !remote.set_born(chosen_by, index) {
        // Grants and releases that came before may have let it go.
        return Err(late("no reference to the new actor exists, or the address is used"));
    }
    let arguments = &class.creations[creator as usize];
    let count = 1 + arguments.len();
    let mut words = [0; ARGS_MAX];
    words[0] = actor.word();
    if let Err(wrong) = read(cx, packet, arguments, &mut words[1..count]) {
        let _ = cx.failure(wrong.why());
        fail_creation(cx, actor);
        return Err(wrong);
    }
    let _values = arguments.keep(cx, &words[1..count]);
    cx.words.stats.created += 1;
    if !class.functional {
        cx.actors().remote.placement.tell(from);
    }
    let ret = bear(cx, actor, *func, &words[..count]);
    if ret.outcome() == Outcome::Killed {
        return Ok(ret);
    }
    Ok(rest(cx, actor, Ret::NOTHING))
}
