//! The waits of all nodes as text, for a program that ends because nothing can answer.
//!
//! It is made once, when nothing can happen any more: a collection finds the methods that wait.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::host::WithActors;
use crate::packets::{Wrong, number, numbers, put};
use crate::rounds::NO_REQUEST;
use crate::trace::What;
use crate::waits::{Waiter, each_answer, is_blocked, waiter_of};
use crate::{State, class_of, image_of, layout_of, method_of, state};
use bifrost_ir::MethodRef;
use bifrost_runtime::abi::Word;
use bifrost_runtime::actor_layout::{away, join, mail, message};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;
use bifrost_runtime::object::get;

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
    explained: FxHashSet<Word>,
}

impl Told {
    fn add(&mut self, request: [u32; 3], waiter: String, what: String) {
        if self.lines.len() < LINES_MAX {
            self.lines.push(Line { request, waiter, what });
        }
    }

    /// Returns the name of the method of a join.
    unsafe fn name(&self, cx: *mut Cx, waiter: Word) -> String {
        // SAFETY: promised by the caller: `cx` is the current context, and `waiter` a join.
        let name = unsafe { &image_of(cx).program().funcs[layout_of(waiter).func].name };
        self.on_node(name)
    }

    fn on_node(&self, name: &str) -> String {
        let end = (0..=name.len().min(NAME_BYTES_MAX / 4)).rfind(|end| name.is_char_boundary(*end));
        format!("{} on node {}", &name[..end.unwrap_or_default()], self.node)
    }

    unsafe fn waits(&mut self, cx: *mut Cx, waiter: Waiter, what: String) {
        // SAFETY: promised by the caller, as for `name`.
        unsafe {
            match waiter {
                Waiter::Method(waiter) => {
                    self.explained.insert(waiter);
                    let name = self.name(cx, waiter);
                    self.add(NO_REQUEST, name, what);
                }
                Waiter::Away(at) => {
                    let place = get(at, away::PLACE);
                    let request = [(place >> 32) as u32, place as u32, get(at, away::GENERATION) as u32];
                    self.add(request, String::new(), what);
                }
            }
        }
    }
}

/// Returns the waits of this node.
///
/// # Safety
/// `cx` is the current context, between two turns.
pub(crate) unsafe fn lines(cx: *mut Cx) -> Vec<Line> {
    // SAFETY: promised by the caller; nothing is allocated in the heap while what lives is looked
    // at.
    unsafe {
        let joins = (*cx).living(|object| Table::of(object).info().name == "join");
        let mut told = Told { node: (*cx).node(), lines: Vec::new(), explained: FxHashSet::default() };
        let asked =
            (*cx).actors().remote.exports.iter().enumerate().filter(|(_, export)| export.asked.is_some());
        for (index, export) in asked {
            if let Some(Waiter::Method(waiter)) = waiter_of(export.word) {
                told.explained.insert(waiter);
                let name = told.name(cx, waiter);
                told.add([told.node, index as u32, export.generation], name, String::new());
            }
        }
        let waiting = |waiter: &Word| get(*waiter, join::FLAGS) & (join::WAITS | join::ENDED) == join::WAITS;
        let joins: Vec<Word> = joins.into_iter().filter(waiting).collect();
        for waiter in &joins {
            let name = told.name(cx, *waiter);
            each_answer(*waiter, &mut 0, |other| told.waits(cx, other, name.clone()));
            if get(*waiter, join::FLAGS) & join::SELECTS != 0 {
                told.add(NO_REQUEST, name, "a message".to_owned());
            }
        }
        let mut met = FxHashSet::default();
        let busy: Vec<Word> = (*cx).actors().suspects.busy().to_vec();
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
}

/// Adds the waits for the answers to the messages that are queued for an actor.
unsafe fn tell_queued(cx: *mut Cx, told: &mut Told, actor: Word) {
    // SAFETY: promised by the caller: an actor of this node.
    unsafe {
        let class = class_of(actor);
        let post = get(actor, class.mail);
        if post == 0 {
            return;
        }
        let how = match get(post, mail::WAITING) {
            0 if state(actor) == State::Dormant => ", which its actor refuses".to_owned(),
            0 => String::new(),
            waiter => format!(", behind {}", image_of(cx).program().funcs[layout_of(waiter).func].name),
        };
        for list in (mail::LISTS..mail::fields(class.lists)).step_by(2) {
            let mut sent = get(post, list);
            while sent != 0 && told.lines.len() < LINES_MAX {
                if let Some(waiter) = waiter_of(sent) {
                    let method = method_of(actor, message::slot(sent));
                    let method = MethodRef { ty: Table::of(actor).info().ty, method };
                    let name = told.on_node(&What::Message(method).name(image_of(cx).program()));
                    told.waits(cx, waiter, format!("{name}{how}"));
                }
                sent = get(sent, message::NEXT);
            }
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
