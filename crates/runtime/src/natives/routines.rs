//! Built-in routines. The first word is the routine's descriptor, which knows the table of the
//! result's class.

use bifrost_ir::{TypeId, Types, boxed};

use super::{heap, natives, open, sequence};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::{RoutineDesc, Table};
use crate::object::{self, array, cell, list, map, text, vector};

natives! {
    "array_new" => array_new / 1,
    "array_create" => array_create / 3,
    "array_fill" => array_fill / 4,
    "vector_new" => vector_new / 3,
    "sequence_of" => sequence_of / 2,
    "group_of" => group_of / 2,
    "group.count" => group_count / 2,
    "publish" => publish / 3,
    "published" => published / 2,
    "withdraw" => withdraw / 2,
    "message.catch" => begin_catch / 1,
    "later" => later / 2,
    "every" => every / 2,
    "monitor" => monitor / 2,
    "cancel" => cancel / 2,
    "stop" => stop / 2,
    "list_empty" => list_empty / 1,
    "list_of" => list_of / 2,
    "cell_new" => cell_new / 1,
    "map_new" => map_new / 1,
    "type.as" => type_as / 2,
    "type.is" => type_is / 2,
    "node" => node / 1,
    "nodes" => nodes / 1,
    "same_object" => same_object / 3,
    "random" => random / 2,
    "now_ms" => now_ms / 1,
    "caller" => caller / 1,
    "print" => print / 2,
    "root" => root / 1,
}

/// The table of the objects that a creator makes.
fn table(desc: Word) -> &'static Table {
    // SAFETY: routines are entered with their descriptor.
    unsafe { RoutineDesc::of(desc) }.table.expect("linking gives creators the table of their result")
}

extern "C" fn array_new(cx: &mut Cx, desc: Word) -> Ret {
    let table = table(desc);
    let mut fields = [0; array::FIELDS];
    fields[array::LOW] = 1;
    Ret::of(heap!(cx, cx.new_object(table, &fields)))
}

extern "C" fn array_create(cx: &mut Cx, desc: Word, low: Word, elements: Word) -> Ret {
    let table = table(desc);
    open!(cx, elements);
    // SAFETY: the argument is a sequence by the heading.
    let elements = unsafe { sequence::elements(elements) };
    Ret::of(heap!(cx, cx.new_array(table, low as i64, elements)))
}

extern "C" fn array_fill(cx: &mut Cx, desc: Word, low: Word, count: Word, v: Word) -> Ret {
    if (count as i64) < 0 {
        return cx.signal(cx.image().signals().bounds);
    }
    let table = table(desc);
    let storage = if count == 0 {
        0
    } else {
        let storage_table = cx.image().storage_table(table.info().element.unwrap_or(Types::ANY));
        let storage = heap!(cx, cx.alloc(storage_table, count as usize)).as_ptr();
        // SAFETY: the storage was just made with that many fields.
        unsafe { std::slice::from_raw_parts_mut(storage.add(bifrost_heap::OBJECT_WORDS), count as usize) }
            .fill(v);
        storage as Word
    };
    let _storage = cx.keep(storage);
    Ret::of(heap!(cx, cx.new_object(table, &[low, count, 0, storage])))
}

extern "C" fn vector_new(cx: &mut Cx, desc: Word, count: Word, v: Word) -> Ret {
    if (count as i64) < 0 {
        return cx.signal(cx.image().signals().bounds);
    }
    let made = heap!(cx, cx.alloc(table(desc), vector::ELEMENTS + count as usize)).as_ptr();
    // SAFETY: the vector was just made with room for its length and that many elements.
    unsafe {
        let fields = made.add(bifrost_heap::OBJECT_WORDS);
        fields.add(vector::LENGTH).write(count);
        std::slice::from_raw_parts_mut(fields.add(vector::ELEMENTS), count as usize).fill(v);
    }
    Ret::of(made as Word)
}

extern "C" fn map_new(cx: &mut Cx, desc: Word) -> Ret {
    let table = table(desc);
    Ret::of(heap!(cx, cx.new_object(table, &[0; map::FIELDS])))
}

extern "C" fn node(cx: &mut Cx, _desc: Word) -> Ret {
    Ret::int(cx.node().into())
}

extern "C" fn nodes(cx: &mut Cx, _desc: Word) -> Ret {
    Ret::int(cx.nodes().into())
}

extern "C" fn sequence_of(_cx: &mut Cx, _desc: Word, elements: Word) -> Ret {
    Ret::of(elements)
}

/// A group is laid out as the sequence of its members.
extern "C" fn group_of(cx: &mut Cx, desc: Word, members: Word) -> Ret {
    let table = table(desc);
    open!(cx, members);
    // SAFETY: the argument is a sequence by the heading.
    let members = unsafe { sequence::elements(members) };
    Ret::of(heap!(cx, cx.new_sequence(table, &[members])))
}

extern "C" fn group_count(cx: &mut Cx, _desc: Word, count: Word) -> Ret {
    match count as i64 {
        count @ ..0 => {
            cx.failure(&format!("a group has no {count} actors: write a number from 0 on after `times`"))
        }
        count => Ret::int(count),
    }
}

/// The failure of names of actors in a context that runs none.
const NO_HOST: &str = "there are no actors here";

extern "C" fn publish(cx: &mut Cx, _desc: Word, name: Word, actor: Word) -> Ret {
    // SAFETY: the arguments are a string and an actor by the heading.
    unsafe {
        let name = text(name).to_owned();
        let Some(host) = cx.host() else { return cx.failure(NO_HOST) };
        host.publish(cx, &name, actor).err().unwrap_or(Ret::NOTHING)
    }
}

/// An actor of another type than is asked for has no such name.
extern "C" fn published(cx: &mut Cx, desc: Word, name: Word) -> Ret {
    // SAFETY: the argument is a string by the heading.
    let name = unsafe { text(name) }.to_owned();
    // SAFETY: routines are entered with their descriptor, and this one has a result.
    let routine = unsafe { RoutineDesc::of(desc) }.routine;
    let wanted = cx.image().program().routines[routine].signature.results[0];
    let Some(host) = cx.host() else { return cx.failure(NO_HOST) };
    match host.published(cx, &name) {
        // SAFETY: what has a name is an actor.
        Ok(Some(actor)) if unsafe { Table::of(actor) }.info().has_type(wanted) => Ret::of(actor),
        Ok(_) => cx.signal(cx.image().signals().not_found),
        Err(ret) => ret,
    }
}

extern "C" fn withdraw(cx: &mut Cx, _desc: Word, name: Word) -> Ret {
    // SAFETY: the argument is a string by the heading.
    let name = unsafe { text(name) }.to_owned();
    let Some(host) = cx.host() else { return cx.failure(NO_HOST) };
    match host.withdraw(cx, &name) {
        Ok(true) => Ret::NOTHING,
        Ok(false) => cx.signal(cx.image().signals().not_found),
        Err(ret) => ret,
    }
}

extern "C" fn begin_catch(cx: &mut Cx, _desc: Word) -> Ret {
    let Some(host) = cx.host() else { return cx.failure(NO_HOST) };
    host.begin_catch(cx).err().unwrap_or(Ret::NOTHING)
}

extern "C" fn later(cx: &mut Cx, _desc: Word, ms: Word) -> Ret {
    let Some(host) = cx.host() else { return cx.failure(NO_HOST) };
    host.start_timer(cx, ms as i64, false).map_or_else(|ret| ret, |number| Ret::of(number as Word))
}

extern "C" fn every(cx: &mut Cx, _desc: Word, ms: Word) -> Ret {
    let Some(host) = cx.host() else { return cx.failure(NO_HOST) };
    host.start_timer(cx, ms as i64, true).map_or_else(|ret| ret, |number| Ret::of(number as Word))
}

extern "C" fn monitor(cx: &mut Cx, _desc: Word, actor: Word) -> Ret {
    let Some(host) = cx.host() else { return cx.failure(NO_HOST) };
    // SAFETY: the argument is an actor by the heading.
    let watched = unsafe { host.monitor(cx, actor) };
    watched.map_or_else(|ret| ret, |number| Ret::of(number as Word))
}

extern "C" fn cancel(cx: &mut Cx, _desc: Word, number: Word) -> Ret {
    let Some(host) = cx.host() else { return cx.failure(NO_HOST) };
    Ret::of(Word::from(host.cancel(cx, number as i64)))
}

extern "C" fn stop(cx: &mut Cx, _desc: Word, actor: Word) -> Ret {
    let Some(host) = cx.host() else { return cx.failure(NO_HOST) };
    // SAFETY: the argument is an actor by the heading.
    unsafe { host.stop(cx, actor) }.err().unwrap_or(Ret::NOTHING)
}

extern "C" fn list_empty(cx: &mut Cx, desc: Word) -> Ret {
    let table = table(desc);
    Ret::of(heap!(cx, cx.new_object(table, &[0; list::FIELDS])))
}

extern "C" fn list_of(cx: &mut Cx, desc: Word, elements: Word) -> Ret {
    let table = table(desc);
    let mut at = heap!(cx, cx.new_object(table, &[0; list::FIELDS]));
    let kept = cx.keep(at);
    open!(cx, elements);
    // SAFETY: the argument is a sequence by the heading.
    let elements = unsafe { sequence::elements(elements) };
    for (length, v) in (1..).zip(elements.iter().rev()) {
        at = heap!(cx, cx.new_object(table, &[*v, at, length]));
        kept.set(at);
    }
    Ret::of(at)
}

extern "C" fn cell_new(cx: &mut Cx, desc: Word) -> Ret {
    let table = table(desc);
    Ret::of(heap!(cx, cx.new_object(table, &[0; cell::FIELDS])))
}

/// The type that a routine was instantiated with.
fn type_argument(cx: &Cx, desc: Word) -> TypeId {
    // SAFETY: routines are entered with their descriptor.
    let routine = unsafe { RoutineDesc::of(desc) }.routine;
    cx.image().program().routines[routine].type_args[0]
}

extern "C" fn type_as(cx: &mut Cx, desc: Word, object: Word) -> Ret {
    let ty = type_argument(cx, desc);
    // SAFETY: the argument is an object by the heading.
    let info = unsafe { Table::of(object) }.info();
    if info.has_type(ty) {
        return Ret::of(object);
    }
    if info.boxed == Some(ty) {
        open!(cx, object);
        // SAFETY: it is an object of a class of boxed values, which has this field.
        return Ret::of(unsafe { object::get(object, boxed::VALUE as usize) });
    }
    cx.signal_named("wrong_type")
}

extern "C" fn type_is(cx: &mut Cx, desc: Word, object: Word) -> Ret {
    let ty = type_argument(cx, desc);
    // SAFETY: the argument is an object by the heading.
    let info = unsafe { Table::of(object) }.info();
    Ret::bool(info.has_type(ty) || info.boxed == Some(ty))
}

/// Boxed basic values are compared by the values, as `equal` does.
extern "C" fn same_object(cx: &mut Cx, _desc: Word, a: Word, b: Word) -> Ret {
    // SAFETY: the arguments are objects by the heading.
    let (info, other) = unsafe { (Table::of(a).info(), Table::of(b).info()) };
    let Some(held) = info.boxed.filter(|_| info.ty == other.ty) else {
        return Ret::bool(a == b);
    };
    open!(cx, a);
    open!(cx, b);
    let at = boxed::VALUE as usize;
    // SAFETY: both are objects of a class of boxed values, which has this field.
    let (a, b) = unsafe { (object::get(a, at), object::get(b, at)) };
    Ret::bool(match held {
        Types::REAL => f64::from_bits(a) == f64::from_bits(b),
        _ => a == b,
    })
}

extern "C" fn random(cx: &mut Cx, _desc: Word, n: Word) -> Ret {
    if (n as i64) < 1 {
        return cx.signal(cx.image().signals().bounds);
    }
    Ret::of(cx.random(n))
}

extern "C" fn now_ms(cx: &mut Cx, _desc: Word) -> Ret {
    Ret::int(cx.now_ms())
}

extern "C" fn caller(cx: &mut Cx, _desc: Word) -> Ret {
    let role = cx.caller().to_owned();
    Ret::of(heap!(cx, cx.new_string(&role)))
}

extern "C" fn print(cx: &mut Cx, _desc: Word, line: Word) -> Ret {
    // SAFETY: the argument is a string by the heading.
    cx.print(unsafe { text(line) });
    Ret::NOTHING
}

extern "C" fn root(cx: &mut Cx, _desc: Word) -> Ret {
    if !cx.in_transaction() {
        return cx.no_transaction();
    }
    Ret::of(cx.root_object())
}
