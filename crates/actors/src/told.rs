//! The waits of all nodes as text, for a program that ends because nothing can answer.
//!
//! It is made once, when nothing can happen any more: a collection finds the methods that wait.

use std::collections::BTreeSet;

use bifrost_runtime::actor_class::State;
use bifrost_runtime::actor_layout::join;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::host::WithActors;
use crate::image_of;
use crate::object::{Actor, Join, Mail, Owing};
use crate::packets::{Wrong, number, numbers, put};
use crate::rounds::NO_REQUEST;
use crate::trace::What;
use crate::waits::{Waiter, each_answer, is_blocked, waiter_of};

/// The most lines that a node tells.
const LINES_MAX: usize = 256;

/// The most lines in a text.
const TEXT_LINES_MAX: usize = 12;

/// The most bytes of a name.
const NAME_BYTES_MAX: usize = 1024;

/// A wait of a method; or, without its object, the name of the method that awaits the answer to a
/// request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The request that a method of another node waits for, in place of its name.
    request: [u32; 3],
    waiter: String,
    what: String,
}

impl Line {
    pub(crate) fn write(&self, packet: &mut Vec<u8>) {
        put(packet, &self.request);
        for text in [&self.waiter, &self.what] {
            put(packet, &[text.len() as u32]);
            packet.extend_from_slice(text.as_bytes());
        }
    }

    /// Reads all lines of a packet.
    pub(crate) fn read_all(packet: &mut &[u8]) -> Result<Vec<Line>, Wrong> {
        let mut lines = Vec::new();
        while !packet.is_empty() {
            if lines.len() == LINES_MAX {
                return Err("it has too many lines".into());
            }
            let request = numbers(packet)?;
            let mut text = || {
                let bytes = number(packet)? as usize;
                let (text, rest) = packet.split_at_checked(bytes).ok_or("it ends too early")?;
                *packet = rest;
                match std::str::from_utf8(text) {
                    Ok(text) if bytes <= NAME_BYTES_MAX => Ok(text.to_owned()),
                    _ => Err(Wrong::from("it has a name that is none")),
                }
            };
            let (waiter, what) = (text()?, text()?);
            lines.push(Line { request, waiter, what });
        }
        Ok(lines)
    }
}

/// The waits of this node, as they are collected.
struct Told {
    node: u32,
    lines: Vec<Line>,
    /// The joins whose waits are known.
    explained: FxHashSet<Join>,
}

impl Told {
    fn add(&mut self, request: [u32; 3], waiter: String, what: String) {
        if self.lines.len() < LINES_MAX {
            self.lines.push(Line { request, waiter, what });
        }
    }

    /// Returns the name of the method of a join.
    fn name(&self, cx: &Cx, waiter: Join) -> String {
        self.on_node(&image_of(cx).program().funcs[waiter.layout().func].name)
    }

    fn on_node(&self, name: &str) -> String {
        let end = (0..=name.len().min(NAME_BYTES_MAX / 4)).rfind(|end| name.is_char_boundary(*end));
        format!("{} on node {}", &name[..end.unwrap_or_default()], self.node)
    }

    fn waits(&mut self, cx: &Cx, waiter: Waiter, what: String) {
        match waiter {
            Waiter::Method(waiter) => {
                self.explained.insert(waiter);
                let name = self.name(cx, waiter);
                self.add(NO_REQUEST, name, what);
            }
            Waiter::Away(away) => {
                let at = away.waiting();
                self.add([at.node, at.index, at.generation], String::new(), what);
            }
        }
    }
}

/// Returns the waits of this node.
pub(crate) fn lines(cx: &mut Cx) -> Vec<Line> {
    // SAFETY: the collector hands over objects.
    let joins = cx.living(|object| unsafe { Table::of(object) }.info().name == "join");
    // Nothing is allocated in the heap while these are looked at.
    // SAFETY: the tables of this name are those of joins.
    let joins = joins.into_iter().filter_map(|word| unsafe { Join::of(word) });
    let waiting = |waiter: &Join| waiter.flags() & (join::WAITS | join::ENDED) == join::WAITS;
    let joins: Vec<Join> = joins.filter(waiting).collect();
    let mut told = Told { node: cx.node(), lines: Vec::new(), explained: FxHashSet::default() };
    tell_asked(cx, &mut told);
    for waiter in &joins {
        let name = told.name(cx, *waiter);
        each_answer(*waiter, &mut 0, |other| told.waits(cx, other, name.clone()));
        if waiter.has(join::SELECTS) {
            told.add(NO_REQUEST, name, "a message".to_owned());
        }
    }
    let mut met = FxHashSet::default();
    let busy: Vec<Actor> = cx.actors().suspects.busy().to_vec();
    for actor in busy.into_iter().filter(|actor| met.insert(*actor)) {
        tell_queued(cx, &mut told, actor);
    }
    for waiter in joins {
        if is_blocked(waiter) && !told.explained.contains(&waiter) {
            let name = told.name(cx, waiter);
            told.add(NO_REQUEST, name, "an answer that nobody is about to give".to_owned());
        }
    }
    told.lines
}

/// Adds the names of the methods that await answers of other nodes.
fn tell_asked(cx: &mut Cx, told: &mut Told) {
    let asked: Vec<(u32, u32, Owing)> = cx.actors().remote.asked_objects().collect();
    for (index, generation, owing) in asked {
        if let Some(Waiter::Method(waiter)) = waiter_of(owing) {
            told.explained.insert(waiter);
            let name = told.name(cx, waiter);
            told.add([told.node, index, generation], name, String::new());
        }
    }
}

/// Adds the waits for the answers to the messages that are queued for an actor of this node.
fn tell_queued(cx: &mut Cx, told: &mut Told, actor: Actor) {
    let class = actor.class();
    let Some(post) = actor.mail_in(class) else { return };
    let program = image_of(cx).program();
    let how = match post.waiter() {
        None if actor.state() == State::Dormant => ", which its actor refuses".to_owned(),
        None => String::new(),
        Some(waiter) => format!(", behind {}", program.funcs[waiter.layout().func].name),
    };
    for sent in Mail::lists(class).flat_map(|list| post.list(list)) {
        if told.lines.len() >= LINES_MAX {
            return;
        }
        if let Some(waiter) = waiter_of(sent.owing()) {
            let method = What::Message(actor.method_ref(sent.slot())).name(program);
            let name = told.on_node(&method);
            told.waits(cx, waiter, format!("{name}{how}"));
        }
    }
}

/// Returns the lines of all nodes as one text: those of `main` first.
pub(crate) fn text(lines: &[Line]) -> String {
    let (names, waits): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.what.is_empty());
    let names: FxHashMap<[u32; 3], &str> = names.iter().map(|line| (line.request, &*line.waiter)).collect();
    let waits = waits.iter().filter_map(|line| {
        // A request that is not named has an answer that nobody awaits any more.
        let waiter = if line.request == NO_REQUEST { &*line.waiter } else { names.get(&line.request)? };
        Some((!waiter.starts_with("main "), format!("{waiter} waits for {}", line.what)))
    });
    let waits: BTreeSet<(bool, String)> = waits.collect();
    let left = waits.len().saturating_sub(TEXT_LINES_MAX);
    let mut told: Vec<String> = waits.into_iter().take(TEXT_LINES_MAX).map(|(_, line)| line).collect();
    if left > 0 {
        told.push(format!("and {left} more"));
    }
    told.join("; ")
}
