//! What goes between nodes, as bytes: messages and answers are written and read here.
//!
//! ```text
//! packet    its kind in one byte, then, each number in 4 bytes, little-endian:
//! MESSAGE   the actor's index and generation, its class, the method; the index and generation of who waits, or twice NOBODY; the arguments
//! ANSWER    the index and generation of who waits; the number of the exception and 1, or 0; its values, or the result
//! CREATE    the actor's index, its class, the creator; its arguments
//! GRANT     index and generation of something, and a node that was told of it
//! RELEASE   index and generation of something that the sender has forgotten, and how often it was told of it
//! ```
//!
//! The other kinds are those of [`search`]. Values are written as [`crate::transfer`] says.

use bifrost_ir::{MethodId, MethodRef, SignalId, Signature, TypeId, Types};
use smallvec::SmallVec;

use super::guest::chooser;
use super::layout::{away, exception, far, outgoing, owed};
use super::remote::{LOST, OWN, address_of, at_address, far_address, here};
use super::{Answer, Due, Kind, deliver_owed, method_of, search};
use crate::abi::{Outcome, Ret, Word};
use crate::content::Place;
use crate::cx::Cx;
use crate::image::Table;
use crate::object::{get, set};
use crate::transfer::{Address, Leaf, NotSent, decode, encode};

const MESSAGE: u8 = 1;
const ANSWER: u8 = 2;
const CREATE: u8 = 3;
pub(super) const GRANT: u8 = 4;
pub(super) const RELEASE: u8 = 5;

/// In place of who waits.
const NOBODY: u32 = u32::MAX;

fn places(types: &Types, signature: &Signature) -> SmallVec<[Place; 4]> {
    signature.params.iter().map(|param| Place::new(types, param.ty)).collect()
}

/// A packet of numbers, among packets.
pub(super) fn framed(kind: u8, numbers: &[u32]) -> Vec<u8> {
    let mut packet = (1 + 4 * numbers.len() as u32).to_le_bytes().to_vec();
    packet.push(kind);
    put(&mut packet, numbers);
    packet
}

pub(super) fn put(packet: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| packet.extend_from_slice(&number.to_le_bytes()));
}

/// What to end with when values could not be sent.
fn not_sent(cx: &mut Cx, why: NotSent) -> Ret {
    match why {
        NotSent::Ended(ret) => ret,
        other => cx.failure(&other.to_string()),
    }
}

/// Encodes values behind what a packet has.
unsafe fn write(
    cx: &mut Cx,
    values: &[Word],
    places: &[Place],
    to: u32,
    packet: &mut Vec<u8>,
) -> Result<(), Ret> {
    let mut address = |cx: &mut Cx, word: Word, leaf: Leaf| Ok(address_of(cx, word, leaf, to));
    // SAFETY: promised by the caller: the values have the types of the places.
    unsafe { encode(cx, values, places, &mut address, packet) }.map_err(|why| not_sent(cx, why))
}

/// Sends a message to an actor of another node: `Pending` with what the answer is for, or the outcome to end with.
pub(super) unsafe fn send(cx: *mut Cx, slot: u32, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller: the receiver is a remote actor with the slot's method, and the words are what that takes.
    unsafe {
        settle_open(cx);
        let actor = args[0];
        let (image, method) = ((*cx).image().clone(), method_of(actor, slot));
        let ty = Table::of(actor).info().ty;
        let types = &image.program().types;
        let places = places(types, &types.def(ty).methods[method].signature);
        let address = far_address(get(actor, far::PLACE), get(actor, far::GENERATION));
        if (*cx).actors.remote.is_lost(address.node) {
            return (*cx).failure(LOST);
        }
        let mut packet = (*cx).actors.remote.packet(MESSAGE);
        put(&mut packet, &[address.index, address.generation, ty.as_u32(), method.as_u32(), NOBODY, NOBODY]);
        if let Err(ret) = write(&mut *cx, &args[1..], &places, address.node, &mut packet) {
            return ret;
        }
        let made = match (*cx).alloc(image.of_actors.outgoing, outgoing::FIELDS) {
            Ok(made) => made.as_ptr() as Word,
            Err(full) => return (*cx).out_of_memory(full),
        };
        set(made, owed::KIND, Kind::Outgoing as Word);
        set(made, outgoing::METHOD, u64::from(ty.as_u32()) << 32 | u64::from(method.as_u32()));
        (*cx).actors.stats.sent += 1;
        (*cx).actors.remote.open = Some((made, address.node, packet));
        super::pending(made)
    }
}

/// Where the packet of a message says who waits.
const WAITER: usize = 1 + 4 * 4;

/// Posts the packet that was made last. With `owing` somebody waits for its answer.
unsafe fn post_open(cx: *mut Cx, owing: Option<Word>) {
    // SAFETY: promised by the caller.
    let remote = unsafe { &mut (*cx).actors.remote };
    let Some((made, node, mut packet)) = remote.open.take() else { return };
    if owing == Some(made) {
        let (index, generation) = remote.export(made);
        remote.exports[index as usize].asked = Some(node);
        packet[WAITER..WAITER + 4].copy_from_slice(&index.to_le_bytes());
        packet[WAITER + 4..WAITER + 8].copy_from_slice(&generation.to_le_bytes());
    }
    remote.post_packet(node, packet);
}

/// Posts the last message without an answer, unless that was done.
pub(super) unsafe fn settle_open(cx: *mut Cx) {
    // SAFETY: promised by the caller.
    unsafe { post_open(cx, None) };
}

/// Somebody waits for the answer to a message: it goes now.
pub(super) unsafe fn expect_answer(cx: *mut Cx, owing: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        if (*cx).actors.remote.open.as_ref().is_some_and(|(made, ..)| *made == owing) {
            post_open(cx, Some(owing));
        }
    }
}

/// Makes an actor on another node: the reference, or the outcome to end with.
pub(super) unsafe fn create(
    cx: *mut Cx,
    table: &'static Table,
    creator: u32,
    args: &[Word],
    node: u32,
) -> Ret {
    // SAFETY: promised by the caller: the class is one of actors, and the words behind the first are what its creator takes.
    unsafe {
        settle_open(cx);
        if (*cx).actors.remote.is_lost(node) {
            return (*cx).failure(LOST);
        }
        let image = (*cx).image().clone();
        let class = table.info().actor().expect("a class of actors");
        let func = &image.program().funcs[class.creators[creator as usize]];
        let places = places(&image.program().types, &func.signature);
        let remote = &mut (*cx).actors.remote;
        let own = remote.made[node as usize];
        let index = remote.network.as_mut().and_then(|network| network.next_index(node)).unwrap_or(own);
        let mut packet = (*cx).actors.remote.packet(CREATE);
        put(&mut packet, &[index, table.info().ty.as_u32(), creator]);
        if let Err(ret) = write(&mut *cx, &args[1..], &places, node, &mut packet) {
            return ret;
        }
        let generation = chooser((*cx).node(), (*cx).nodes()) + 1;
        let address = Address { capsule: 0, node, index, generation };
        let proxy = match at_address(&mut *cx, Leaf::Actor, address, table.info().ty) {
            Ok(proxy) => proxy,
            Err(why) => return (*cx).failure(&why.to_string()),
        };
        let remote = &mut (*cx).actors.remote;
        remote.made[node as usize] = own + 1;
        remote.post_packet(node, packet);
        (*cx).actors.stats.created_remotely += 1;
        Ret::of(proxy)
    }
}

/// Answers somebody on another node.
pub(super) unsafe fn answer(cx: *mut Cx, to: Word, answer: Answer) {
    // SAFETY: promised by the caller: `to` is somebody on another node, and the answer one of its method.
    unsafe {
        let place = get(to, away::PLACE);
        let (node, index) = ((place >> 32) as u32, place as u32);
        let generation = get(to, away::GENERATION) as u32;
        answer_at(cx, node, index, generation, get(to, away::METHOD), answer);
    }
}

fn signature_of(cx: &Cx, method: Word) -> Signature {
    let method =
        MethodRef { ty: TypeId::from_u32((method >> 32) as u32), method: MethodId::from_u32(method as u32) };
    cx.image().program().types.method(method).signature.clone()
}

unsafe fn answer_at(cx: *mut Cx, node: u32, index: u32, generation: u32, method: Word, answer: Answer) {
    // SAFETY: promised by the caller.
    unsafe {
        settle_open(cx);
        if (*cx).actors.remote.is_lost(node) {
            return;
        }
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let signature = signature_of(&*cx, method);
        let mut packet = (*cx).actors.remote.packet(ANSWER);
        put(&mut packet, &[index, generation]);
        let written = match answer {
            Answer::Value(word) => {
                put(&mut packet, &[0]);
                let result = signature.results.first().map(|ty| Place::new(types, *ty));
                write(&mut *cx, &[word][..result.iter().len()], result.as_slice(), node, &mut packet)
            }
            Answer::Exception(kept) => write_exception(&mut *cx, kept, &signature, node, &mut packet),
        };
        if written.is_err() {
            // What cannot be sent is told instead.
            let failed = (*cx).kept_exception(&signature);
            packet.truncate(9);
            let _ = write_exception(&mut *cx, failed, &signature, node, &mut packet);
        }
        (*cx).actors.remote.post_packet(node, packet);
    }
}

/// The places of the values of an exception.
fn exception_places(types: &Types, signature: &Signature, id: SignalId) -> SmallVec<[Place; 4]> {
    match signature.signal(id) {
        Some(signal) => signal.values.iter().map(|ty| Place::new(types, *ty)).collect(),
        None if id == SignalId::FAILURE => SmallVec::from_iter([Place::new(types, Types::STRING)]),
        None => SmallVec::new(),
    }
}

unsafe fn write_exception(
    cx: &mut Cx,
    kept: Word,
    signature: &Signature,
    to: u32,
    packet: &mut Vec<u8>,
) -> Result<(), Ret> {
    // SAFETY: promised by the caller: a kept exception.
    unsafe {
        let image = cx.image().clone();
        let id = SignalId::from_u32(get(kept, exception::SIGNAL) as u32);
        let places = exception_places(&image.program().types, signature, id);
        let values: SmallVec<[Word; 4]> =
            (0..places.len()).map(|at| get(kept, exception::VALUES + at)).collect();
        put(packet, &[id.as_u32() + 1]);
        write(cx, &values, &places, to, packet)
    }
}

/// Answers through a place of answers of another node.
pub(super) unsafe fn deliver(cx: *mut Cx, destination: Word, value: Word) {
    // SAFETY: promised by the caller: a place of answers of another node, whose answers have the value's type.
    unsafe {
        settle_open(cx);
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let address = far_address(get(destination, owed::DUE), get(destination, owed::ELEMENT));
        if (*cx).actors.remote.is_lost(address.node) {
            return (*cx).actors.log("an answer is dropped: its node is lost");
        }
        let mut packet = (*cx).actors.remote.packet(ANSWER);
        put(&mut packet, &[address.index, address.generation >> 8, 0]);
        let result = replier_result(types, Table::of(destination).info().ty);
        let value = &[value][..result.iter().len()];
        let written = write(&mut *cx, value, result.as_slice(), address.node, &mut packet);
        match written {
            Ok(()) => (*cx).actors.remote.post_packet(address.node, packet),
            Err(_) => (*cx).actors.log("an answer could not be sent to its node"),
        }
    }
}

/// The place of the answers of a type of places of answers.
fn replier_result(types: &Types, ty: TypeId) -> Option<Place> {
    match types.kind(ty) {
        bifrost_ir::TypeKind::Replier(result) => Some(Place::new(types, result)),
        _ => None,
    }
}

/// Why a packet was not understood.
pub(super) type Wrong = String;

pub(super) fn number(packet: &mut &[u8]) -> Result<u32, Wrong> {
    let (bytes, rest) = packet.split_first_chunk::<4>().ok_or("it ends too early")?;
    *packet = rest;
    Ok(u32::from_le_bytes(*bytes))
}

/// Does what packets of a node say. Killed, or returned.
pub(super) unsafe fn accept(cx: *mut Cx, from: u32, packets: &[u8]) -> Ret {
    // SAFETY: promised by the caller: the context is the current one.
    let lost = unsafe { (*cx).actors.remote.is_lost(from) };
    let mut rest = if lost { &[] } else { packets };
    while !rest.is_empty() {
        let parts = number(&mut rest).ok().and_then(|bytes| rest.split_at_checked(bytes as usize));
        let accepted = match parts {
            Some((packet, behind)) => {
                rest = behind;
                // SAFETY: promised by the caller: the context is the current one.
                let remote = unsafe { &mut (*cx).actors.remote };
                remote.under_way = remote.searches.is_under_way(from);
                // SAFETY: promised by the caller: the context is the current one.
                unsafe { accept_one(cx, from, packet) }
            }
            None => {
                rest = &[];
                Err("it ends too early".to_owned())
            }
        };
        match accepted {
            Ok(ret) if ret.outcome == Outcome::Killed as u64 => return ret,
            Ok(_) => {}
            // SAFETY: as above.
            Err(wrong) => unsafe {
                (*cx).actors.log(&format!("a packet of node {from} is dropped: {wrong}"))
            },
        }
    }
    // SAFETY: as above.
    unsafe {
        (*cx).actors.remote.under_way = false;
        search::pass_on(cx);
    }
    Ret::NOTHING
}

unsafe fn accept_one(cx: *mut Cx, from: u32, packet: &[u8]) -> Result<Ret, Wrong> {
    let (kind, mut rest) = packet.split_first().ok_or("it is empty")?;
    let rest = &mut rest;
    // SAFETY: promised by the caller.
    unsafe {
        match *kind {
            MESSAGE => accept_message(cx, from, rest),
            ANSWER => accept_answer(cx, rest).map(|()| Ret::NOTHING),
            CREATE => accept_creation(cx, from, rest),
            GRANT | RELEASE => {
                let (index, generation, third) = (number(rest)?, number(rest)?, number(rest)?);
                let (node, times) = if *kind == GRANT { (third, 1) } else { (from, -i64::from(third)) };
                (*cx).actors.remote.count(index, generation, node, times);
                Ok(Ret::NOTHING)
            }
            search::SEARCH..=search::WANT => search::accept(cx, from, *kind, rest).map(|()| Ret::NOTHING),
            other => Err(format!("{other} is no kind of packet")),
        }
    }
}

/// Values behind what a packet says.
unsafe fn read(cx: *mut Cx, packet: &mut &[u8], places: &[Place]) -> Result<SmallVec<[Word; 4]>, Wrong> {
    // SAFETY: promised by the caller; no code runs meanwhile.
    unsafe { decode(&mut *cx, packet, places, &mut at_address) }.map_err(|wrong| wrong.to_string())
}

unsafe fn accept_message(cx: *mut Cx, from: u32, packet: &mut &[u8]) -> Result<Ret, Wrong> {
    let [index, generation, ty, method, waiter, of] = [(); 6].map(|()| number(packet));
    let (index, generation, ty, method, waiter, of) = (index?, generation?, ty?, method?, waiter?, of?);
    // SAFETY: promised by the caller; the class and the method are compared with the program's.
    unsafe {
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let ty = known_type(types, ty)?;
        let known = (method as usize) < types.def(ty).methods.len() && types.def(ty).actor;
        let method = known.then(|| MethodRef { ty, method: MethodId::from_u32(method) });
        let method = method.ok_or("there is no such method")?;
        let def = types.method(method);
        let node = (*cx).node();
        let own = u64::from(ty.as_u32()) << 32 | u64::from(method.method.as_u32());
        let refuse = |cx: *mut Cx, wrong: Wrong| {
            if waiter != NOBODY {
                let _ = (*cx).failure(&wrong);
                let kept = (*cx).kept_exception(&def.signature);
                answer_at(cx, from, waiter, of, own, Answer::Exception(kept));
            }
            Err(wrong)
        };
        let Some(actor) = here(&mut *cx, Address { capsule: 0, node, index, generation }, ty) else {
            return refuse(cx, "there is no such actor".to_owned());
        };
        let _actor = (*cx).keep(actor);
        let values = match read(cx, packet, &places(types, &def.signature)) {
            Ok(values) => values,
            Err(wrong) => return refuse(cx, wrong),
        };
        let references = values.iter().zip(&def.signature.params);
        let references = references.filter(|(_, param)| image.is_reference(param.ty));
        let references: SmallVec<[Word; 4]> = references.map(|(word, _)| *word).collect();
        let _values = (*cx).keep_all(&references);
        let mut words: SmallVec<[Word; 8]> = SmallVec::from_slice(&[actor]);
        words.extend_from_slice(&values);
        let ret = super::send(cx, image.dispatch().slot(method), &words);
        if ret.outcome == Outcome::Killed as u64 {
            return Ok(ret);
        }
        match Outcome::from(ret) {
            Outcome::Pending if waiter == NOBODY => settle_open(cx),
            Outcome::Pending => {
                let _owing = (*cx).keep(ret.value);
                let made = (*cx).alloc_beyond(image.of_actors.away, away::FIELDS);
                set(made, owed::KIND, Kind::Away as Word);
                set(made, away::PLACE, u64::from(from) << 32 | u64::from(waiter));
                set(made, away::GENERATION, u64::from(of));
                set(made, away::METHOD, own);
                super::owe(cx, ret.value, made, Due { pending: 0, element: false, request: 0 }, 0);
            }
            Outcome::Returned if waiter == NOBODY => {}
            Outcome::Returned => answer_at(cx, from, waiter, of, own, Answer::Value(ret.value)),
            _ => {
                let kept = (*cx).kept_exception(&def.signature);
                match waiter {
                    NOBODY => (*cx).log_lost(kept),
                    _ => answer_at(cx, from, waiter, of, own, Answer::Exception(kept)),
                }
            }
        }
        Ok(Ret::NOTHING)
    }
}

fn known_type(types: &Types, number: u32) -> Result<TypeId, Wrong> {
    let known = (number as usize) < types.len();
    // Not every number can be made an id.
    known.then(|| TypeId::from_u32(number)).ok_or_else(|| format!("there is no type {number}"))
}

unsafe fn accept_answer(cx: *mut Cx, packet: &mut &[u8]) -> Result<(), Wrong> {
    let (index, generation, signal) = (number(packet)?, number(packet)?, number(packet)?);
    // SAFETY: promised by the caller; what others know are objects of their kinds.
    unsafe {
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let node = (*cx).node();
        let remote = &mut (*cx).actors.remote;
        if remote.under_way {
            let generation = generation << 8 | OWN;
            remote.searches.was_under_way(node, Address { capsule: 0, node, index, generation });
        }
        let waiter = remote.take(index, generation).ok_or("nobody waits for it")?;
        let _kept = (*cx).keep(waiter);
        let is_actor = Table::of(waiter).info().actor().is_some();
        match if is_actor { Kind::Caller } else { Kind::of(waiter) } {
            Kind::Replier => {
                let result = replier_result(types, Table::of(waiter).info().ty);
                let values = read(cx, packet, result.as_slice())?;
                super::deliver_to(cx, waiter, values.first().copied().unwrap_or(0));
            }
            Kind::Outgoing => {
                let signature = signature_of(&*cx, get(waiter, outgoing::METHOD));
                let answer = match read_answer(cx, packet, &signature, signal) {
                    Ok(answer) => answer,
                    Err(wrong) => {
                        let _ = (*cx).failure(&wrong);
                        Answer::Exception((*cx).kept_exception(&signature))
                    }
                };
                deliver_owed(cx, waiter, answer);
            }
            _ => return Err("nobody waits for it".to_owned()),
        }
        Ok(())
    }
}

unsafe fn read_answer(
    cx: *mut Cx,
    packet: &mut &[u8],
    signature: &Signature,
    signal: u32,
) -> Result<Answer, Wrong> {
    // SAFETY: promised by the caller.
    unsafe {
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let Some(signal) = signal.checked_sub(1) else {
            let result: SmallVec<[Place; 1]> =
                signature.results.iter().map(|ty| Place::new(types, *ty)).collect();
            let values = read(cx, packet, &result)?;
            return Ok(Answer::Value(values.first().copied().unwrap_or(0)));
        };
        if signal as usize >= types.signals().count() {
            return Err(format!("there is no exception {signal}"));
        }
        let id = SignalId::from_u32(signal);
        let values = read(cx, packet, &exception_places(types, signature, id))?;
        (*cx).signal_id = u64::from(signal);
        for (at, value) in values.iter().enumerate() {
            (*cx).signal_values[at] = *value;
        }
        Ok(Answer::Exception((*cx).kept_exception(signature)))
    }
}

unsafe fn accept_creation(cx: *mut Cx, from: u32, packet: &mut &[u8]) -> Result<Ret, Wrong> {
    let (index, ty, creator) = (number(packet)?, number(packet)?, number(packet)?);
    // SAFETY: promised by the caller; the class and the creator are compared with the program's.
    unsafe {
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let ty = known_type(types, ty)?;
        let table = image.find_table(ty).ok_or("there is no such class")?;
        let class = table.info().actor().ok_or("it is no class of actors")?;
        let func = class.creators.get(creator as usize).ok_or("there is no such creator")?;
        let node = (*cx).node();
        let chosen_by = chooser(from, (*cx).nodes());
        let address = Address { capsule: 0, node, index, generation: chosen_by + 1 };
        let actor = here(&mut *cx, address, ty).ok_or("the address is used")?;
        let _actor = (*cx).keep(actor);
        let remote = &mut (*cx).actors.remote;
        remote.count(index, chosen_by + 1, from, 1);
        let born = remote.born.get_mut(chosen_by as usize).and_then(|born| born.get_mut(&index));
        match born {
            // Grants and releases that came before may have let it go.
            None => return Err("nobody knows the new actor".to_owned()),
            Some(born) if born.created => return Err("the address is used".to_owned()),
            Some(born) => born.created = true,
        }
        let signature = &image.program().funcs[*func].signature;
        let values = match read(cx, packet, &places(types, signature)) {
            Ok(values) => values,
            Err(wrong) => {
                let _ = (*cx).failure(&wrong);
                super::create::stillborn(cx, actor);
                return Err(wrong);
            }
        };
        let references = values.iter().zip(&signature.params);
        let references = references.filter(|(_, param)| image.is_reference(param.ty));
        let references: SmallVec<[Word; 4]> = references.map(|(word, _)| *word).collect();
        let _values = (*cx).keep_all(&references);
        let mut words: SmallVec<[Word; 8]> = SmallVec::from_slice(&[actor]);
        words.extend_from_slice(&values);
        (*cx).actors.stats.created += 1;
        let ret = super::create::bear(cx, actor, *func, &words);
        if ret.outcome == Outcome::Killed as u64 {
            return Ok(ret);
        }
        Ok(super::rest(cx, actor, Ret::NOTHING))
    }
}
