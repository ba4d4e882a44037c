//! W0005: requests that overlap, where messages of the first method reach the actor of the second.
//!
//! Pairs are found where the waits of a body are placed ([`Body::note_overlaps`]). The messages of
//! the first method are followed when all bodies are there. Actors that come from different
//! variables are told apart by their types alone.

use std::collections::{HashMap, HashSet};

use bifrost_ir::requests::body_of;
use bifrost_ir::{Block, Callee, ClassId, Func, FuncId, FuncKind, MethodRef, Operand, Part, Site, Stmt, Var};

use super::Checker;
use super::body::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::{FileId, Span};

/// Requests without a reply that are looked at for each request, the last first.
const MISSING_MAX: usize = 64;

/// Two requests, the second of which is sent while the reply to the first is missing.
pub(crate) struct Overlap {
    file: FileId,
    first: (MethodRef, Site),
    second: (MethodRef, Site),
}

/// The source of a reference to an actor, which is the same for the same actor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Value(Operand),
    /// An instance variable, and the number of assignments to any before.
    Field(Operand, ClassId, u32, u32),
    /// A creation, and the number of requests before.
    Made(Var, u32),
}

/// A request whose reply may be missing.
#[derive(Clone, Copy, PartialEq)]
struct Missing {
    var: Var,
    to: Origin,
    method: MethodRef,
    site: Site,
    number: u32,
}

impl Body<'_, '_> {
    /// Notes the pairs of a body whose waits are placed.
    pub fn note_overlaps(&mut self, func: &Func) {
        if let Some(file) = self.asked_in {
            let mut way =
                Way { file, found: &mut self.cx.overlaps, origins: HashMap::new(), sets: 0, asked: 0 };
            way.block(&func.body, &mut vec![]);
        }
    }
}

/// A way through a body, in the order of its text.
struct Way<'a> {
    file: FileId,
    found: &'a mut Vec<Overlap>,
    origins: HashMap<Var, Origin>,
    /// Assignments of instance variables.
    sets: u32,
    /// Requests.
    asked: u32,
}

impl Way<'_> {
    fn origin(&self, op: Operand) -> Origin {
        match op {
            Operand::Var(var) => self.origins.get(&var).copied().unwrap_or(Origin::Value(op)),
            Operand::Const(_) => Origin::Value(op),
        }
    }

    fn block(&mut self, block: &Block, missing: &mut Vec<Missing>) {
        block.0.iter().for_each(|stmt| self.stmt(stmt, missing));
        if let Some(Stmt::Return(_) | Stmt::Signal { .. } | Stmt::Exit { .. }) = block.0.last() {
            missing.clear();
        }
    }

    fn stmt(&mut self, stmt: &Stmt, missing: &mut Vec<Missing>) {
        match stmt {
            Stmt::Await { vars, .. } => missing.retain(|one| !vars.contains(&one.var)),
            Stmt::Request { method, args, dst, site, .. } => {
                let Some(to) = args.first().map(|to| self.origin(*to)) else { return };
                self.pairs(missing, to, (*method, *site));
                if missing.len() == MISSING_MAX {
                    missing.remove(0);
                }
                self.asked += 1;
                missing.push(Missing { var: *dst, to, method: *method, site: *site, number: self.asked });
            }
            Stmt::Let { dst, src } => {
                self.origins.insert(*dst, self.origin(*src));
            }
            Stmt::Get { dst, object, class, field } => {
                self.origins.insert(*dst, Origin::Field(*object, *class, *field, self.sets));
            }
            Stmt::Create { dst, .. } => {
                self.origins.insert(*dst, Origin::Made(*dst, self.asked));
            }
            Stmt::Set { .. } => self.sets += 1,
            Stmt::While { cond, body, .. } => {
                self.block(cond, missing);
                self.either(&[body], missing, true);
            }
            Stmt::Except { body, arms } => {
                let before = missing.clone();
                self.block(body, missing);
                for arm in arms {
                    let mut state = before.clone();
                    self.block(&arm.body, &mut state);
                }
            }
            _ => {
                let mut blocks: Vec<&Block> = vec![];
                stmt.parts(&mut |part| {
                    if let Part::Block(block) = part {
                        blocks.push(block);
                    }
                });
                self.either(&blocks, missing, matches!(stmt, Stmt::ForEach { .. }));
            }
        }
    }

    /// Goes through blocks of which a single block runs, or perhaps none.
    fn either(&mut self, blocks: &[&Block], missing: &mut Vec<Missing>, none: bool) {
        if blocks.is_empty() {
            return;
        }
        let before = missing.clone();
        if !none {
            missing.clear();
        }
        for block in blocks {
            let mut state = before.clone();
            self.block(block, &mut state);
            for one in state {
                if !missing.contains(&one) {
                    missing.push(one);
                }
            }
        }
        missing.drain(..missing.len().saturating_sub(MISSING_MAX));
    }

    /// Notes the pairs of a request and the requests before it. Messages to the same actor keep
    /// their order, and an actor that was made later is unknown to others.
    fn pairs(&mut self, missing: &[Missing], to: Origin, second: (MethodRef, Site)) {
        let mut seen: Vec<MethodRef> = vec![];
        for one in missing.iter().rev() {
            let later = matches!(to, Origin::Made(_, asked) if asked >= one.number);
            if one.to != to && !later && !seen.contains(&one.method) {
                seen.push(one.method);
                self.found.push(Overlap { file: self.file, first: (one.method, one.site), second });
            }
        }
    }
}

impl Checker<'_> {
    /// Warns of the pairs whose first request leads to messages to an actor of the type that the
    /// second asks.
    pub(crate) fn check_overlaps(&mut self) {
        let mut messages: HashMap<MethodRef, Vec<MethodRef>> = HashMap::new();
        let mut told: HashSet<(FileId, Site)> = HashSet::new();
        for Overlap { file, first, second } in std::mem::take(&mut self.overlaps) {
            // The replies of a functional actor are the same at any time.
            let asked = self.program.class_of_type(second.0.ty).and_then(|class| class.actor.as_ref());
            if told.contains(&(file, second.1)) || asked.is_some_and(|actor| actor.functional) {
                continue;
            }
            let sent = messages.entry(first.0).or_insert_with(|| self.messages_of(first.0));
            let types = &self.program.types;
            let to = second.0.ty;
            let meets = |sent: &&MethodRef| types.is_subtype(sent.ty, to) || types.is_subtype(to, sent.ty);
            let Some(sent) = sent.iter().find(meets).copied() else { continue };
            told.insert((file, second.1));
            let [asked, also, by] = [first.0, second.0, sent].map(|method| &types.method(method).name);
            let class = types.name(sent.ty);
            let line = self.sources.line(file, first.1.0);
            let message = format!(
                "the request `{also}` overlaps with `{asked}` of line {line}, which sends `{by}` to `{class}`"
            );
            let help = format!(
                "use the reply to `{asked}` before, or write its request as a statement, which waits"
            );
            let span = Span { file, start: second.1.0, end: second.1.0 + 1 };
            self.report(Diagnostic::warning(Code::W0005, span, message).help(&help));
        }
    }

    /// Returns the messages that a method sends, also by its calls and requests, each once.
    /// Messages to the actor itself and to actors that it made are left out, but followed.
    fn messages_of(&self, first: MethodRef) -> Vec<MethodRef> {
        let mut sent = vec![];
        let mut seen: HashSet<FuncId> = HashSet::new();
        let mut left: Vec<FuncId> = body_of(&self.program, Callee::Method(first)).into_iter().collect();
        while let Some(id) = left.pop() {
            if !seen.insert(id) {
                continue;
            }
            let func = &self.program.funcs[id];
            let mut own: HashSet<Operand> = HashSet::new();
            if func.kind == FuncKind::Script {
                own.insert(Var::from_u32(0).into());
            }
            func.body.each(&mut |stmt| {
                let (callee, args) = match stmt {
                    Stmt::Create { dst, .. } => {
                        own.insert((*dst).into());
                        return;
                    }
                    Stmt::Let { dst, src } => {
                        match own.contains(src) {
                            true => own.insert((*dst).into()),
                            false => own.remove(&(*dst).into()),
                        };
                        return;
                    }
                    Stmt::Call { callee, .. } => (*callee, None),
                    Stmt::Send { method, args, .. }
                    | Stmt::Request { method, args, .. }
                    | Stmt::Delegate { method, args, .. } => (Callee::Method(*method), Some(args)),
                    _ => return,
                };
                left.extend(body_of(&self.program, callee));
                if let (Callee::Method(method), Some(args)) = (callee, args)
                    && args.first().is_some_and(|to| !own.contains(to))
                    && !sent.contains(&method)
                {
                    sent.push(method);
                }
            });
        }
        sent
    }
}
