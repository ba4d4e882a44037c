//! The code of a method that runs while replies are missing (`docs/book/language/actors.md`; 002
//! section 3).
//!
//! A request does not wait. The variable that takes its reply is pending until something needs it,
//! and there [`Stmt::Await`] stands: [`place_waits`] puts them where they are needed and nowhere
//! else. So independent requests overlap across statements and around loops, and each place that
//! waits is one join continuation.
//!
//! [`regions`] describes the result in the terms of the paper. It colours the statements (002
//! figure 3) and finds the maximal regions in which all requests are independent of each other. For
//! each region it tells the needs of its join continuation.
//!
//! Read [`place_waits`] first.

use std::collections::{BTreeSet, HashSet};

use cranelift_entity::EntityRef;
use smallvec::SmallVec;

use crate::places::Site;
use crate::program::{Body, Program};
use crate::stmt::{Block, Callee, Func, FuncId, FuncKind, Operand, Part, Stmt, Var, VarDecl};
use crate::types::TypeKind;

/// Variables whose reply may be missing.
type Pending = BTreeSet<Var>;

/// The effect of a block on pending variables: `out = may | (in - must)`, by each way it ends.
#[derive(Default)]
struct Effect {
    /// Requested in it, and perhaps pending at its end.
    may: Pending,
    /// Surely not pending at its end, unless in `may`.
    must: Pending,
    /// Requested anywhere in it.
    any: Pending,
}

/// Puts an [`Stmt::Await`] before each statement that reads or fills a variable whose reply may be
/// missing, and takes out those that wait for nothing. Tells the sites of waits in the body of a
/// loop over an iterator that is not built in, which must not wait because the iterator is on the
/// stack.
///
/// Cost: the size of the function times the depth of its loops.
pub fn place_waits(program: &Program, func: &mut Func) -> Vec<Site> {
    keep_local(program, func);
    let mut body = std::mem::take(&mut func.body);
    let mut placing = Placing::of(program, func.kind, &body);
    placing.block(&mut body, &mut Pending::new());
    let held = placing.held;
    func.body = body;
    held
}

/// The routines that make an array or a vector that nobody else knows.
const MAKERS: [&str; 3] = ["array_fill", "array_create", "vector_new"];

/// Lets a request wait in place whose reply is for an element of an array or vector that others may
/// know: they would look at it while replies are missing. Others know one that was not made here,
/// or that was used for anything but to store replies.
fn keep_local(program: &Program, func: &mut Func) {
    let mut body = std::mem::take(&mut func.body);
    Keeping { program, func }.block(&mut body, &mut Pending::new());
    func.body = body;
}

struct Keeping<'a> {
    program: &'a Program,
    func: &'a mut Func,
}

impl Keeping<'_> {
    /// `own` are the variables whose array or vector nobody else knows.
    fn block(&mut self, block: &mut Block, own: &mut Pending) {
        let mut kept = Vec::with_capacity(block.0.len());
        for mut stmt in std::mem::take(&mut block.0) {
            if let Stmt::Request { dst, element: Some(_), .. } = &stmt
                && !own.contains(dst)
            {
                self.in_place(stmt, &mut kept);
                continue;
            }
            self.stmt(&mut stmt, kept.last(), own);
            kept.push(stmt);
        }
        block.0 = kept;
    }

    fn stmt(&mut self, stmt: &mut Stmt, before: Option<&Stmt>, own: &mut Pending) {
        forget_used(stmt, own);
        let made = |stmt: &Stmt, var: Var| match stmt {
            Stmt::Call { callee: Callee::Routine(id), dsts, .. } => {
                let native = self.program.native_name(self.program.routines[*id].body);
                dsts.as_slice() == [var] && native.is_some_and(|name| MAKERS.contains(&name))
            }
            _ => false,
        };
        match &*stmt {
            Stmt::Let { dst, src: Operand::Var(src) } if before.is_some_and(|before| made(before, *src)) => {
                own.insert(*dst);
            }
            Stmt::Call { dsts, .. } if dsts.len() == 1 && made(stmt, dsts[0]) => {
                own.insert(dsts[0]);
            }
            _ => {}
        }
        if matches!(stmt, Stmt::While { .. } | Stmt::ForEach { .. }) {
            // A step comes after all that other steps do.
            forget(stmt, own);
        }
        let entered = own.clone();
        for block in stmt.blocks_mut() {
            let mut inner = entered.clone();
            self.block(block, &mut inner);
            own.retain(|var| inner.contains(var));
        }
        // Handlers begin, and loops and branches end, after any part of the body before.
        forget(stmt, own);
    }

    fn in_place(&mut self, stmt: Stmt, kept: &mut Vec<Stmt>) {
        let Stmt::Request { method, args, dst: array, element: Some(index), site } = stmt else { return };
        let ty = self.func.vars[array].ty;
        let types = &self.program.types;
        let element = match types.kind(ty) {
            TypeKind::Array(element) | TypeKind::Vector(element) => element,
            _ => return,
        };
        let Some(store) = types.find_method(ty, "store") else { return };
        let dst = self.func.vars.push(VarDecl { name: String::new(), ty: element });
        kept.push(Stmt::Request { method, args, dst, element: None, site });
        kept.push(Stmt::Call {
            callee: Callee::Method(store),
            args: SmallVec::from_slice(&[array.into(), index, dst.into()]),
            dsts: SmallVec::new(),
            site,
        });
    }
}

/// Takes out the variables that a statement itself reads, or fills otherwise than by a reply for an
/// element.
fn forget_used(stmt: &Stmt, own: &mut Pending) {
    let element = matches!(stmt, Stmt::Request { element: Some(_), .. });
    let awaits = matches!(stmt, Stmt::Await { .. });
    stmt.parts(&mut |part| match part {
        Part::Reads(op) if !awaits => {
            if let Some(var) = var_of(op) {
                own.remove(&var);
            }
        }
        Part::Writes(var) if !element => {
            own.remove(&var);
        }
        Part::Reads(_) | Part::Writes(_) | Part::Block(_) => {}
    });
}

/// Takes out the variables that the blocks of a statement read, or fill otherwise than by replies
/// for elements.
fn forget(stmt: &Stmt, own: &mut Pending) {
    stmt.parts(&mut |part| {
        let Part::Block(block) = part else { return };
        for stmt in &block.0 {
            forget_used(stmt, own);
            forget(stmt, own);
        }
    });
}

/// Returns the place where a function touches a variable that may be pending, if there is one.
///
/// Cost: as [`place_waits`], and a copy of the function.
pub(crate) fn lacking(program: &Program, func: &Func) -> Option<Site> {
    let mut body = func.body.clone();
    let mut placing = Placing::of(program, func.kind, &func.body);
    placing.block(&mut body, &mut Pending::new());
    placing.added
}

/// Returns the functions that wait for actors or have transactions: those in which that is written,
/// and the scripts that call such of their own actor.
///
/// Cost: the size of the program times the length of the longest chain of such calls.
pub fn waiting(program: &Program) -> HashSet<FuncId> {
    let written =
        program.funcs.iter().filter(|(_, func)| func.body.may_wait() || func.body.has_transaction());
    let mut found: HashSet<FuncId> = written.map(|(id, _)| id).collect();
    loop {
        let before = found.len();
        for (id, func) in program.funcs.iter().filter(|(_, func)| func.kind == FuncKind::Script) {
            let calls = func.body.contains(&|stmt| match stmt {
                Stmt::Call { callee: callee @ Callee::Method(_), .. } => {
                    body_of(program, *callee).is_some_and(|body| found.contains(&body))
                }
                _ => false,
            });
            if calls {
                found.insert(id);
            }
        }
        if before == found.len() {
            return found;
        }
    }
}

/// Returns the code of a routine, or of a method that is called on its class's own type.
pub fn body_of(program: &Program, callee: Callee) -> Option<FuncId> {
    let body = match callee {
        Callee::Routine(routine) => program.routines.get(routine)?.body,
        Callee::Method(method) => *program.class_of_type(method.ty)?.bodies.get(method.method.index())?,
        Callee::Procedure(_) | Callee::Itself => return None,
    };
    match body {
        Body::Func(func) => Some(func),
        Body::Native(_) => None,
    }
}

struct Placing<'a> {
    program: &'a Program,
    site: Site,
    /// Loops around over iterators that are not built in.
    iterators: usize,
    held: Vec<Site>,
    /// The place of the first wait that was added.
    added: Option<Site>,
    /// The variables of a client's code that take replies and are never read, so that no statement
    /// waits for them. The runner of that code joins them at the end.
    unread: Pending,
    /// The selections around.
    selections: usize,
    /// The first answer to the method's own message that is given while replies are missing.
    early: Option<Site>,
}

impl<'a> Placing<'a> {
    fn new(program: &'a Program) -> Placing<'a> {
        Placing {
            program,
            site: Site::default(),
            iterators: 0,
            held: vec![],
            added: None,
            unread: Pending::new(),
            selections: 0,
            early: None,
        }
    }

    /// Makes the state for the body of a function.
    fn of(program: &'a Program, kind: FuncKind, body: &Block) -> Placing<'a> {
        let mut placing = Placing::new(program);
        if matches!(kind, FuncKind::Batch | FuncKind::Procedure) {
            asked(&body.0, &mut placing.unread);
            forget_read(body, &mut placing.unread);
        }
        placing
    }
}

/// The requests of some statements whose replies may be missing at certain points.
#[derive(Default, Debug)]
pub struct Missing {
    /// An answer to the message under way that is given while replies are missing.
    pub at_answer: Option<Site>,
    /// The variables whose replies may be missing behind the statements.
    pub at_end: SmallVec<[Var; 2]>,
}

/// Looks where replies to the requests of some statements may be missing.
///
/// Cost: as [`place_waits`], and a copy of the statements.
pub fn missing(program: &Program, stmts: &[Stmt]) -> Missing {
    let mut body = Block(stmts.to_vec());
    let (mut placing, mut pending) = (Placing::new(program), Pending::new());
    placing.block(&mut body, &mut pending);
    Missing { at_answer: placing.early, at_end: pending.into_iter().collect() }
}

/// Returns the variables that take replies of requests in statements.
pub fn asked_in<'a>(stmts: impl IntoIterator<Item = &'a Stmt>) -> SmallVec<[Var; 2]> {
    let mut vars = Pending::new();
    asked(stmts, &mut vars);
    vars.into_iter().collect()
}

/// Adds the variables that take replies.
fn asked<'a>(stmts: impl IntoIterator<Item = &'a Stmt>, vars: &mut Pending) {
    for stmt in stmts {
        if let Stmt::Request { dst, .. } = stmt {
            vars.insert(*dst);
        }
        stmt.parts(&mut |part| {
            if let Part::Block(block) = part {
                asked(&block.0, vars);
            }
        });
    }
}

/// Takes out the variables that are read or awaited.
fn forget_read(block: &Block, vars: &mut Pending) {
    for stmt in &block.0 {
        if let Stmt::Await { vars: awaited, .. } = stmt {
            awaited.iter().for_each(|var| {
                vars.remove(var);
            });
        }
        stmt.parts(&mut |part| match part {
            Part::Reads(op) => {
                if let Some(var) = var_of(op) {
                    vars.remove(&var);
                }
            }
            Part::Writes(_) => {}
            Part::Block(block) => forget_read(block, vars),
        });
    }
}

impl Placing<'_> {
    /// Adds variables that replies may be missing for.
    fn expect(&self, pending: &mut Pending, vars: impl IntoIterator<Item = Var>) {
        pending.extend(vars.into_iter().filter(|var| !self.unread.contains(var)));
    }

    fn block(&mut self, block: &mut Block, pending: &mut Pending) {
        let mut placed = Vec::with_capacity(block.0.len());
        for mut stmt in std::mem::take(&mut block.0) {
            if let Stmt::Await { vars, .. } = &mut stmt {
                vars.retain(|var| pending.remove(var));
                if vars.is_empty() {
                    continue;
                }
                self.waits();
            } else {
                self.site = stmt.site().unwrap_or(self.site);
                if let Stmt::Select { .. } = stmt {
                    self.waits();
                }
                let vars = touched(&stmt, pending);
                if !vars.is_empty() {
                    vars.iter().for_each(|var| {
                        pending.remove(var);
                    });
                    self.waits();
                    self.added.get_or_insert(self.site);
                    placed.push(Stmt::Await { vars, site: self.site });
                }
            }
            self.inside(&mut stmt, pending);
            placed.push(stmt);
        }
        block.0 = placed;
    }

    fn waits(&mut self) {
        if self.iterators > 0 {
            self.held.push(self.site);
        }
    }

    /// Handles the rest of a statement, after its operands are there.
    fn inside(&mut self, stmt: &mut Stmt, pending: &mut Pending) {
        match stmt {
            Stmt::Request { dst, .. } => self.expect(pending, [*dst]),
            Stmt::Reply { site, .. } | Stmt::ReplyTo { site, .. } | Stmt::Delegate { site, .. }
                if self.selections == 0 && !pending.is_empty() =>
            {
                self.early.get_or_insert(*site);
            }
            Stmt::If { then, otherwise, .. } | Stmt::TypeIf { then, otherwise, .. } => {
                let mut other = pending.clone();
                self.block(then, pending);
                self.block(otherwise, &mut other);
                pending.append(&mut other);
            }
            Stmt::While { cond, test, body } => {
                let again = effect(cond).then(effect(body));
                self.expect(pending, again.may.iter().copied());
                self.block(cond, pending);
                // The condition stands between its calls and the body.
                if let Operand::Var(var) = test
                    && pending.remove(var)
                {
                    self.waits();
                    self.added.get_or_insert(self.site);
                    cond.0.push(Stmt::Await { vars: SmallVec::from_slice(&[*var]), site: self.site });
                }
                let mut inner = pending.clone();
                self.block(body, &mut inner);
                if leaves(body) {
                    self.expect(pending, again.any);
                }
            }
            Stmt::ForEach { callee, body, vars, .. } => {
                let once = effect(body);
                self.expect(pending, once.may.iter().copied());
                // Steps fill them, and a step may come while a request of the last one is under
                // way.
                vars.iter().for_each(|var| {
                    pending.remove(var);
                });
                let builtin = match *callee {
                    Callee::Method(m) => self.program.types.method(m).builtin.is_some(),
                    _ => false,
                };
                self.iterators += usize::from(!builtin);
                let mut inner = pending.clone();
                self.block(body, &mut inner);
                self.iterators -= usize::from(!builtin);
                if leaves(body) {
                    self.expect(pending, once.any);
                }
            }
            Stmt::Except { body, arms } => {
                let mut raised = pending.clone();
                self.expect(&mut raised, effect(body).any);
                self.block(body, pending);
                for arm in arms {
                    let mut here = raised.clone();
                    self.block(&mut arm.body, &mut here);
                    pending.append(&mut here);
                }
            }
            Stmt::Transaction { body, .. } => self.block(body, pending),
            Stmt::Select { arms, after, .. } => {
                self.selections += 1;
                let before = pending.clone();
                let bodies = arms.iter_mut().flat_map(|arm| [&mut arm.cond, &mut arm.body]);
                for block in bodies.chain(after.iter_mut().map(|(_, body)| body)) {
                    let mut here = before.clone();
                    // An exception leaves an arm where it is raised.
                    pending.append(&mut effect(block).any);
                    self.block(block, &mut here);
                    pending.append(&mut here);
                }
                self.selections -= 1;
            }
            _ => {}
        }
    }
}

/// Returns the pending variables that a statement reads or fills itself, not in its blocks.
fn touched(stmt: &Stmt, pending: &Pending) -> SmallVec<[Var; 2]> {
    let mut vars = SmallVec::new();
    let mut add = |var: Var| {
        if pending.contains(&var) && !vars.contains(&var) {
            vars.push(var);
        }
    };
    match stmt {
        // The test of a loop is read after its calls.
        Stmt::While { .. } => {}
        // Replies for elements of one array or vector may come in any order.
        Stmt::Request { args, element: Some(element), .. } => {
            args.iter().chain([element]).for_each(|op| var_of(*op).into_iter().for_each(&mut add));
        }
        _ => stmt.parts(&mut |part| match part {
            Part::Reads(op) => var_of(op).into_iter().for_each(&mut add),
            Part::Writes(var) => add(var),
            Part::Block(_) => {}
        }),
    }
    vars
}

fn var_of(operand: Operand) -> Option<Var> {
    match operand {
        Operand::Var(var) => Some(var),
        Operand::Const(_) => None,
    }
}

impl Effect {
    fn then(mut self, mut next: Effect) -> Effect {
        self.may.retain(|var| !next.must.contains(var));
        self.may.append(&mut next.may);
        self.must.append(&mut next.must);
        self.any.append(&mut next.any);
        self
    }

    /// Joins the effects of two blocks of which one runs.
    fn or(mut self, mut other: Effect) -> Effect {
        self.may.append(&mut other.may);
        self.must.retain(|var| other.must.contains(var));
        self.any.append(&mut other.any);
        self
    }
}

fn effect(block: &Block) -> Effect {
    block.0.iter().fold(Effect::default(), |before, stmt| before.then(effect_of(stmt)))
}

fn effect_of(stmt: &Stmt) -> Effect {
    let mut own = Effect::default();
    let mut settle = |op: Operand| own.must.extend(var_of(op));
    match stmt {
        Stmt::While { .. } => {}
        Stmt::Request { args, element: Some(element), .. } => {
            args.iter().chain([element]).for_each(|op| settle(*op))
        }
        _ => stmt.parts(&mut |part| match part {
            Part::Reads(op) => settle(op),
            Part::Writes(var) => settle(var.into()),
            Part::Block(_) => {}
        }),
    }
    match stmt {
        Stmt::Request { dst, .. } => {
            own.may.insert(*dst);
            own.any.insert(*dst);
            own
        }
        Stmt::If { then, otherwise, .. } | Stmt::TypeIf { then, otherwise, .. } => {
            own.then(effect(then).or(effect(otherwise)))
        }
        Stmt::While { cond, test, body } => {
            let mut test_settles = Effect::default();
            test_settles.must.extend(var_of(*test));
            let once = effect(cond).then(test_settles);
            let body = effect(body);
            let again = Effect { any: body.any.clone(), may: body.may, must: BTreeSet::new() };
            own.then(once).then(again)
        }
        Stmt::ForEach { body, .. } => {
            let body = effect(body);
            own.then(Effect { must: BTreeSet::new(), ..body })
        }
        Stmt::Except { body, arms } => {
            let body = effect(body);
            let raised = Effect { may: body.any.clone(), must: BTreeSet::new(), any: body.any.clone() };
            let arms = arms.iter().map(|arm| effect(&arm.body));
            let arms = arms.fold(None, |all: Option<Effect>, arm| {
                Some(match all {
                    Some(all) => all.or(arm),
                    None => arm,
                })
            });
            match arms {
                Some(arms) => own.then(body.or(raised.then(arms))),
                None => own.then(body),
            }
        }
        Stmt::Transaction { body, .. } => own.then(effect(body)),
        Stmt::Select { arms, after, .. } => {
            let arms = arms.iter().map(|arm| {
                let whole = effect(&arm.cond).then(effect(&arm.body));
                // An exception leaves the arm where it is raised.
                let left = Effect { may: whole.any.clone(), must: BTreeSet::new(), any: BTreeSet::new() };
                whole.or(left)
            });
            let all = arms.chain(after.iter().map(|(_, body)| effect(body)));
            let one = all.reduce(Effect::or).unwrap_or_default();
            own.then(one)
        }
        _ => own,
    }
}

/// Returns true if a loop's body may end it, or one of its steps, before its own end.
fn leaves(block: &Block) -> bool {
    block.0.iter().any(|stmt| match stmt {
        Stmt::Break | Stmt::Continue => true,
        Stmt::While { .. } | Stmt::ForEach { .. } => false,
        _ => {
            let mut found = false;
            stmt.parts(&mut |part| {
                if let Part::Block(block) = part {
                    found = found || leaves(block);
                }
            });
            found
        }
    })
}

/// The colour of a statement: its relation to requests (002 figure 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Colour {
    /// It has none.
    White,
    /// It has some, all independent of each other: they may share one join continuation.
    Gray,
    /// Something in it needs the reply to a request in it.
    Black,
}

/// Returns the colour of a statement. Waits must have been placed.
///
/// Cost: the size of the statement times the depth of its loops.
pub fn colour(stmt: &Stmt) -> Colour {
    let mut asked = BTreeSet::new();
    let dependent = depends(stmt, &mut asked);
    match (asked.is_empty(), dependent) {
        (_, true) => Colour::Black,
        (false, false) => Colour::Gray,
        (true, false) => Colour::White,
    }
}

/// Returns true if something waits for a request that came before it in the statement, or that is
/// in `asked`, to which those of the statement are added.
fn depends(stmt: &Stmt, asked: &mut Pending) -> bool {
    let mut found = match stmt {
        Stmt::Await { vars, .. } => vars.iter().any(|var| asked.contains(var)),
        Stmt::Request { dst, .. } => {
            asked.insert(*dst);
            false
        }
        _ => false,
    };
    if matches!(stmt, Stmt::While { .. } | Stmt::ForEach { .. }) {
        // A second time around, everything that the loop asks for came before.
        asked.append(&mut effect_of(stmt).any);
    }
    stmt.parts(&mut |part| {
        if let Part::Block(block) = part {
            found = block.0.iter().fold(found, |found, stmt| depends(stmt, asked) || found);
        }
    });
    found
}

/// A maximal region in which all requests are independent of each other, so that they run at once
/// (002 section 3.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// The places that its requests come from, in the order of the text.
    pub requests: Vec<Site>,
    /// The number of replies that it awaits, if that is known before it runs: none of them stands
    /// in a branch or a loop.
    pub replies: Option<usize>,
    /// The places where its replies are awaited: its join continuations, in the order of the text.
    /// Empty if nothing needs them.
    pub joins: Vec<Join>,
}

/// A place that waits: a join continuation, and the contents of its closure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Join {
    /// The statement that needs the replies.
    pub site: Site,
    /// The variables that take them.
    pub awaited: Vec<Var>,
    /// The other variables that the code behind it reads.
    pub live: Vec<Var>,
}

/// Returns the regions of a function in which waits have been placed, in the order of its text.
///
/// Cost: the size of the function times the depth of its loops.
pub fn regions(func: &Func) -> Vec<Region> {
    let mut found = Found { regions: vec![], vars: vec![] };
    found.block(&func.body);
    let mut walk = Walk { func, joins: vec![], see: None, see_await: None };
    walk.block(&func.body, &Pending::new(), &Ends::default());
    let (Found { mut regions, vars }, mut joins) = (found, walk.joins);
    joins.sort_by_key(|join| join.site);
    for (region, vars) in regions.iter_mut().zip(&vars) {
        let first = region.requests.first().copied().unwrap_or_default();
        let own = |join: &&Join| join.awaited.iter().any(|var| vars.contains(var));
        let (after, before): (Vec<_>, Vec<_>) = joins.iter().filter(own).partition(|join| join.site >= first);
        // A join further up waits for the requests that a loop has made the last time around.
        region.joins = after.into_iter().chain(before).cloned().collect();
    }
    regions
}

/// Shows for each statement, the last first, which variables may be read from there on: before it,
/// and behind it, at the handlers around it too.
///
/// Cost: as for [`regions`], times the number of variables that are live at once.
pub fn live<'a>(func: &'a Func, see: &'a mut Show<'a>) {
    let mut walk = Walk { func, joins: vec![], see: Some(see), see_await: None };
    walk.block(&func.body, &Pending::new(), &Ends::default());
}

struct Found {
    regions: Vec<Region>,
    /// The variables of each region's requests.
    vars: Vec<Pending>,
}

/// Shows every wait, with the variables that are read behind it, otherwise than by an exception,
/// and at the handlers around or behind these. A wait reads nothing.
///
/// Cost: as [`live`].
pub fn live_at_waits<'a>(func: &'a Func, see: &'a mut Show<'a>) {
    let mut walk = Walk { func, joins: vec![], see: None, see_await: Some(see) };
    walk.block(&func.body, &Pending::new(), &Ends::default());
}

/// A callback that is shown a statement, and the variables live before and behind it.
pub type Show<'a> = dyn FnMut(&Stmt, &BTreeSet<Var>, &BTreeSet<Var>) + 'a;

/// A way backwards through a function.
struct Walk<'a> {
    func: &'a Func,
    joins: Vec<Join>,
    see: Option<&'a mut Show<'a>>,
    see_await: Option<&'a mut Show<'a>>,
}

/// The variables live where a block is left otherwise than by its end.
#[derive(Clone, Default)]
struct Ends {
    at_break: Pending,
    at_continue: Pending,
    /// At the handlers around.
    raised: Pending,
}

impl Found {
    /// Collects the maximal gray statements; neighbours of which none waits for another are one
    /// region.
    fn block(&mut self, block: &Block) {
        let mut open: Option<(Region, Pending)> = None;
        for stmt in &block.0 {
            let mut asked = open.as_ref().map_or(Pending::new(), |(_, vars)| vars.clone());
            let colour = colour(stmt);
            if depends(stmt, &mut asked)
                && let Some((region, vars)) = open.take()
            {
                self.regions.push(region);
                self.vars.push(vars);
            }
            match colour {
                Colour::White => {}
                Colour::Gray => {
                    let (region, vars) = open.get_or_insert_with(|| {
                        (Region { requests: vec![], replies: Some(0), joins: vec![] }, Pending::new())
                    });
                    region.add(stmt, vars);
                }
                Colour::Black => {
                    if let Some((region, vars)) = open.take() {
                        self.regions.push(region);
                        self.vars.push(vars);
                    }
                    stmt.parts(&mut |part| {
                        if let Part::Block(block) = part {
                            self.block(block);
                        }
                    });
                }
            }
        }
        if let Some((region, vars)) = open {
            self.regions.push(region);
            self.vars.push(vars);
        }
    }
}

impl Walk<'_> {
    /// Walks a block backwards; returns the variables live before it.
    fn block(&mut self, block: &Block, after: &Pending, ends: &Ends) -> Pending {
        let mut live = after.clone();
        for stmt in block.0.iter().rev() {
            let behind = self.see.is_some().then(|| &live | &ends.raised);
            live = self.before(stmt, live, ends);
            if let (Some(see), Some(behind)) = (&mut self.see, behind) {
                see(stmt, &live, &behind);
            }
        }
        live
    }

    fn before(&mut self, stmt: &Stmt, after: Pending, ends: &Ends) -> Pending {
        let mut live = after;
        match stmt {
            Stmt::Await { vars, site } => {
                if let Some(see) = &mut self.see_await {
                    see(stmt, &live, &ends.raised);
                    return live;
                }
                live.extend(&ends.raised);
                let kept = live.iter().copied().filter(|var| !vars.contains(var)).collect();
                self.joins.push(Join { site: *site, awaited: vars.to_vec(), live: kept });
                // The collection that takes an element is needed until all are there.
                live.extend(vars.iter().copied());
                return live;
            }
            Stmt::Break => return ends.at_break.clone(),
            Stmt::Continue => return ends.at_continue.clone(),
            Stmt::Return(_) | Stmt::Signal { .. } => live.clear(),
            Stmt::Exit { .. } => live = ends.raised.clone(),
            Stmt::While { cond, test, body } => {
                let mut head = live.clone();
                head.extend(self.exposed(cond));
                head.extend(var_of(*test));
                head.extend(self.exposed(body));
                let inner =
                    Ends { at_break: live.clone(), at_continue: head.clone(), raised: ends.raised.clone() };
                let body = self.block(body, &head, &inner);
                live.extend(body);
                live.extend(var_of(*test));
                return self.block(cond, &live, ends);
            }
            Stmt::ForEach { body, vars, .. } => {
                let mut head = live.clone();
                head.extend(self.exposed(body));
                vars.iter().for_each(|var| {
                    head.remove(var);
                });
                let inner =
                    Ends { at_break: live.clone(), at_continue: head.clone(), raised: ends.raised.clone() };
                self.block(body, &head, &inner);
                live = head;
            }
            Stmt::Except { body, arms } => {
                let mut inner = ends.clone();
                for arm in arms {
                    let mut arm_live = self.block(&arm.body, &live, ends);
                    arm.vars.iter().for_each(|var| {
                        arm_live.remove(var);
                    });
                    inner.raised.append(&mut arm_live);
                }
                return self.block(body, &live, &inner);
            }
            Stmt::If { then, otherwise, .. } | Stmt::TypeIf { then, otherwise, .. } => {
                let mut other = self.block(otherwise, &live, ends);
                live = self.block(then, &live, ends);
                live.append(&mut other);
            }
            Stmt::Transaction { body, .. } => live = self.block(body, &live, ends),
            Stmt::Select { arms, after, .. } => {
                let mut all = Pending::new();
                // An exception leaves an arm to the code behind.
                let mut inner = ends.clone();
                inner.raised.extend(&live);
                for arm in arms {
                    let mut taken = self.block(&arm.body, &live, &inner);
                    taken.extend(var_of(arm.test));
                    let mut cond = self.block(&arm.cond, &taken, ends);
                    arm.vars.iter().for_each(|var| {
                        cond.remove(var);
                    });
                    all.append(&mut cond);
                }
                if let Some((_, body)) = after {
                    all.extend(self.block(body, &live, ends));
                }
                live = all;
            }
            _ => {}
        }
        let element = matches!(stmt, Stmt::Request { element: Some(_), .. });
        let mut reads = Pending::new();
        stmt.parts(&mut |part| match part {
            Part::Reads(op) => reads.extend(var_of(op)),
            Part::Writes(var) if element => reads.extend([var]),
            Part::Writes(var) if !matches!(stmt, Stmt::Select { .. } | Stmt::TypeIf { .. }) => {
                live.remove(&var);
            }
            Part::Writes(_) | Part::Block(_) => {}
        });
        if let Stmt::TypeIf { var, .. } = stmt {
            live.remove(var);
        }
        live.append(&mut reads);
        if self.see_await.is_none() {
            live.extend(&ends.raised);
        }
        debug_assert!(live.iter().all(|var| self.func.vars.get(*var).is_some()));
        live
    }
}

impl Region {
    /// Adds the requests of a gray statement.
    fn add(&mut self, stmt: &Stmt, vars: &mut Pending) {
        if let Stmt::Request { dst, site, .. } = stmt {
            self.requests.push(*site);
            self.replies = self.replies.map(|count| count + 1);
            vars.insert(*dst);
            return;
        }
        stmt.parts(&mut |part| {
            if let Part::Block(block) = part {
                block.0.iter().for_each(|stmt| {
                    if colour(stmt) != Colour::White {
                        self.add(stmt, vars);
                        self.replies = None;
                    }
                });
            }
        });
    }
}

impl Walk<'_> {
    /// Returns the variables that a block reads and may not have filled itself before.
    fn exposed(&self, block: &Block) -> Pending {
        let mut reads = Pending::new();
        let mut filled = Pending::new();
        expose(block, &mut filled, &mut reads, self.see_await.is_none());
        reads
    }
}

fn expose(block: &Block, filled: &mut Pending, reads: &mut Pending, waits_read: bool) {
    for stmt in &block.0 {
        if !waits_read && matches!(stmt, Stmt::Await { .. }) {
            continue;
        }
        let plain = !matches!(stmt, Stmt::Request { element: Some(_), .. });
        let mut writes = SmallVec::<[Var; 2]>::new();
        let mut read =
            |op: Operand, filled: &Pending| reads.extend(var_of(op).filter(|var| !filled.contains(var)));
        let mut blocks = SmallVec::<[&Block; 2]>::new();
        stmt.parts(&mut |part| match part {
            Part::Reads(op) => read(op, filled),
            Part::Writes(var) if plain => writes.push(var),
            Part::Writes(var) => read(var.into(), filled),
            Part::Block(block) => blocks.push(block),
        });
        match blocks.as_slice() {
            [] => filled.extend(writes),
            // The variables of a statement are filled in its blocks. Variables that every block
            // fills, of those from which control comes out, are filled after them.
            blocks => {
                let mut inner = filled.clone();
                inner.extend(writes.iter().copied());
                let mut after: Option<Pending> = None;
                for block in blocks {
                    let mut own = inner.clone();
                    expose(block, &mut own, reads, waits_read);
                    if !jumps(block) {
                        after =
                            Some(after.map_or(own.clone(), |all| all.intersection(&own).copied().collect()));
                    }
                }
                let one_runs = matches!(
                    stmt,
                    Stmt::If { .. } | Stmt::TypeIf { .. } | Stmt::Except { .. } | Stmt::Transaction { .. }
                );
                let after = after.into_iter().flatten().filter(|var| one_runs && !writes.contains(var));
                filled.extend(after);
            }
        }
    }
}

/// Returns true if control never comes to the end of a block.
fn jumps(block: &Block) -> bool {
    matches!(
        block.0.last(),
        Some(Stmt::Break | Stmt::Continue | Stmt::Return(_) | Stmt::Signal { .. } | Stmt::Exit { .. })
    )
}
