//! The waits of all nodes as text, for a program that ends because nothing can answer.
//!
//! It is made once, when nothing can happen any more: a collection finds the methods that wait.

use bifrost_runtime::actor_class::State;
use bifrost_runtime::actor_layout::join;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;
use rustc_hash::FxHashSet;

use crate::between::line::{LINES_MAX, Line, NAME_BYTES_MAX};
use crate::between::round_waits::NO_REQUEST;
use crate::context::{WithActors, image_of};
use crate::cycles::waits::{Waiter, each_answer, is_blocked, waiter_of};
use crate::object::{Actor, Join, Mail, Owing};
use crate::trace::What;

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
            told.add(NO_REQUEST, name, "an answer through a reply destination".to_owned());
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
        None if actor.state() == State::Dormant => ", which its actor disables".to_owned(),
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
