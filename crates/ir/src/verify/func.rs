//! The verifier of one function: the rules of [`super`] that concern functions; `program` has the
//! others.
//!
//! Read [`verify`] first: it checks the heading, then the body with a [`Checker`], which walks the
//! statements in order. The checker carries the variables that are assigned so far and the
//! structures around the statement; it collects all errors.

use super::flow::Assigned;
use super::{
    Counted, DEPTH_MAX, ERRORS_MAX, NamedType, Place, VALUES_MAX, VerifyError, VerifyErrorKind as Kind,
    WORDS_MAX, YIELDS_MAX,
};
use crate::builtin;
use crate::places::Site;
use crate::program::{ClassId, Program};
use crate::stmt::{
    ABORTED, Arm, ArmMatch, Block, Callee, Choice, Const, Destination, Func, FuncKind, Operand, Stmt, Var,
};
use crate::tagged;
use crate::types::{MethodRef, SignalId, Signature, TypeId, TypeKind, Types};

pub(super) fn verify(program: &Program, func: &Func) -> Result<(), Vec<VerifyError>> {
    let mut checker = Checker {
        program,
        func,
        errors: Vec::new(),
        assigned: Assigned::nothing(func.vars.len()),
        loops: Vec::new(),
        handlers: Vec::new(),
        outside: 0,
        depth: 0,
        transaction: false,
        over: Vec::new(),
        taken: Vec::new(),
        site: Site::default(),
        signals: program.types.signals().count(),
    };
    if checker.heading() {
        for var in func.params() {
            checker.assigned.set(var);
        }
        checker.block(&func.body);
        let returns = !func.signature.results.is_empty() && func.kind != FuncKind::Script;
        if checker.assigned.reachable() && returns {
            checker.error(Kind::ReturnMissing);
        }
    }
    if checker.errors.is_empty()
        && func.body.has_request()
        && let Some(site) = crate::requests::lacking(program, func)
    {
        checker.site = site;
        checker.error(Kind::WaitMissing);
    }
    if checker.errors.is_empty() { Ok(()) } else { Err(checker.errors) }
}

/// Returns true if a type id is one of the program's.
pub(super) fn type_in_range(types: &Types, ty: TypeId) -> bool {
    (ty.as_u32() as usize) < types.len()
}

/// The structure that encloses a statement.
enum Loop {
    /// A loop's body, and the variables assigned at all its `break`s.
    Body(Assigned),
    /// The condition of a `while`.
    Condition,
}

struct Checker<'a> {
    program: &'a Program,
    func: &'a Func,
    errors: Vec<VerifyError>,
    assigned: Assigned,
    loops: Vec<Loop>,
    handlers: Vec<&'a [Arm]>,
    /// The number of handlers that stand outside the arm of a `select` that the statement is in:
    /// exceptions do not get there.
    outside: usize,
    depth: usize,
    /// True if there is a transaction around the statement.
    transaction: bool,
    /// The iterators of the loops around it.
    over: Vec<Callee>,
    /// The headings of the messages that `select` has taken around it.
    taken: Vec<&'a Signature>,
    site: Site,
    signals: usize,
}

impl<'a> Checker<'a> {
    fn error(&mut self, kind: Kind) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(VerifyError { site: self.site, kind });
        }
    }

    fn named(&self, id: TypeId) -> NamedType {
        NamedType { id, name: self.program.types.name(id).to_owned() }
    }

    fn signal_name(&self, signal: SignalId) -> String {
        self.program.types.signal_name(signal).to_owned()
    }

    /// Rules 1 and 13 for the heading and the variables; false if the rest cannot be checked.
    fn heading(&mut self) -> bool {
        let (func, types) = (self.func, &self.program.types);
        let signature = &func.signature;
        let all = signature.types().chain(func.vars.values().map(|v| v.ty));
        for ty in all {
            if !type_in_range(types, ty) {
                self.error(Kind::NoSuchType(ty));
            }
        }
        for s in &signature.signals {
            self.signal_in_range(s.name);
            self.values_fit(s.values.len());
        }
        if !self.errors.is_empty() {
            return false;
        }
        if signature.yields.is_some() && !signature.results.is_empty() {
            self.error(Kind::ReturnsAndYields);
        }
        self.values_fit(signature.results.len());
        let yields = signature.yields.as_ref().map_or(0, Vec::len);
        if yields > YIELDS_MAX {
            self.error(Kind::TooManyYields { values: yields });
        }
        let words = 1 + signature.params.len() + usize::from(signature.is_iterator());
        // The parameters of batches and their procedures are the values they use from outside,
        // constants included. Only the interpreter enters them, which takes any number.
        if !matches!(func.kind, FuncKind::Batch | FuncKind::Procedure) && words > WORDS_MAX {
            self.error(Kind::TooManyWords { words });
        }
        if matches!(func.kind, FuncKind::Batch | FuncKind::Procedure) && signature.is_iterator() {
            self.error(Kind::IteratorInCall { callee: func.name.clone() });
        }
        let first = func.param_count() - signature.params.len();
        let fits = func.vars.len() >= func.param_count()
            && signature.params.iter().zip(func.vars.values().skip(first)).all(|(p, v)| p.ty == v.ty)
            && (first == 0
                || func.vars.values().next().is_some_and(|v| matches!(types.kind(v.ty), TypeKind::Class(_))));
        if !fits {
            self.error(Kind::WrongParams);
        }
        fits
    }

    fn values_fit(&mut self, values: usize) {
        if values > VALUES_MAX {
            self.error(Kind::TooManyValues { values });
        }
    }

    fn signal_in_range(&mut self, signal: SignalId) -> bool {
        let fits = (signal.as_u32() as usize) < self.signals;
        if !fits {
            self.error(Kind::NoSuchSignal(signal));
        }
        fits
    }

    fn block(&mut self, block: &'a Block) {
        if self.depth >= DEPTH_MAX {
            // Nothing below is looked at, so this error must not be lost.
            if self.errors.len() >= ERRORS_MAX {
                self.errors.pop();
            }
            self.error(Kind::TooDeep);
            return;
        }
        self.depth += 1;
        for stmt in &block.0 {
            if self.errors.len() >= ERRORS_MAX {
                break;
            }
            self.stmt(stmt);
        }
        self.depth -= 1;
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Let { dst, src } => {
                if let Some(ty) = self.operand(*src, Place::Source) {
                    self.fill(*dst, ty, Place::Source);
                }
            }
            Stmt::Call { callee, args, dsts, site } => {
                self.site = *site;
                self.call(*callee, args, dsts);
            }
            Stmt::New { dst, class, fields, site } => {
                self.site = *site;
                self.construct(*dst, *class, fields);
            }
            Stmt::NewSequence { dst, elements, site } => {
                self.site = *site;
                self.sequence(*dst, elements);
            }
            Stmt::Get { dst, object, class, field } => {
                self.own_state(*object, *class);
                if let Some(ty) = self.select(*object, *class, *field) {
                    self.fill(*dst, ty, Place::Source);
                }
            }
            Stmt::Set { object, class, field, value } => {
                self.own_state(*object, *class);
                let ty = self.select(*object, *class, *field);
                self.expect(*value, ty, Place::Source);
            }
            Stmt::If { test, then, otherwise } => {
                self.expect(*test, Some(Types::BOOL), Place::Test);
                let before = self.assigned.clone();
                self.block(then);
                let after_then = std::mem::replace(&mut self.assigned, before);
                self.block(otherwise);
                self.assigned.join(&after_then);
            }
            Stmt::TypeIf { object, var, then, otherwise } => self.type_if(*object, *var, then, otherwise),
            Stmt::While { cond, test, body } => self.while_loop(cond, *test, body),
            Stmt::ForEach { callee, args, vars, body, site } => {
                self.site = *site;
                self.for_each(*callee, args, vars, body);
            }
            Stmt::Break => self.leave_step(true),
            Stmt::Continue => self.leave_step(false),
            Stmt::Return(values) => {
                let nothing = self.func.signature.is_iterator() || self.func.kind == FuncKind::Script;
                let types = if nothing { &[][..] } else { &self.func.signature.results };
                self.values(values, types, Counted::ReturnValues);
                self.assigned.end();
            }
            Stmt::Yield(values) => match &self.func.signature.yields {
                Some(types) => self.values(values, types, Counted::YieldValues),
                None => self.error(Kind::YieldOutsideIterator),
            },
            Stmt::Signal { signal, values, site } => {
                self.site = *site;
                self.signal(*signal, values);
            }
            Stmt::Exit { signal, values } => self.exit(*signal, values),
            Stmt::Except { body, arms } => self.except(body, arms),
            Stmt::Transaction { body, site } => {
                self.site = *site;
                self.transaction(body);
            }
            Stmt::Create { dst, class, creator, args, place, site } => {
                self.site = *site;
                self.create(*dst, *class, *creator, args, *place);
            }
            Stmt::Send { method, args, site } => {
                self.site = *site;
                self.message(*method, args);
            }
            Stmt::Request { method, args, dst, element, site } => {
                self.site = *site;
                self.request(*method, args, *dst, *element);
            }
            Stmt::Await { vars, site } => {
                self.site = *site;
                self.waits();
                for var in vars {
                    if self.func.vars.get(*var).is_none() {
                        self.error(Kind::NoSuchVar(*var));
                    }
                }
                self.reaches_handlers(SignalId::FAILURE, &[Types::STRING]);
            }
            Stmt::Reply { values, site } => {
                self.site = *site;
                self.in_script();
                let answered = self.answered();
                self.values(values, &answered.results, Counted::ReturnValues);
            }
            Stmt::ReplyTo { dst, site } => {
                self.site = *site;
                self.in_script();
                self.reply_to(*dst);
            }
            Stmt::Deliver { replier, values, site } => {
                self.site = *site;
                self.deliver(*replier, values);
            }
            Stmt::Delegate { method, args, site } => {
                self.site = *site;
                self.in_script();
                if let Some(signature) = self.message(*method, args) {
                    let results = Signature { params: vec![], ..signature.clone() };
                    let own = Signature { params: vec![], ..self.answered().clone() };
                    if !self.program.types.conforms(&results, &own) {
                        let callee = self.program.callee_name(Callee::Method(*method), self.func);
                        self.error(Kind::MethodDoesNotConform { name: callee, up: self.func.name.clone() });
                    }
                }
            }
            Stmt::Select { arms, after, site } => {
                self.site = *site;
                self.in_script();
                self.waits();
                self.select_message(arms, after.as_ref());
            }
        }
    }

    /// Checks rule 17 for the instance variables of actors.
    fn own_state(&mut self, object: Operand, class: ClassId) {
        let own = self.func.kind.has_receiver() && object == Operand::Var(Var::from_u32(0));
        if let Some(def) = self.program.classes.get(class).filter(|def| def.actor.is_some() && !own) {
            self.error(Kind::StateOfActor { class: def.name.clone() });
        }
    }

    /// Checks rule 17 for statements that only scripts may have.
    fn in_script(&mut self) {
        if self.func.kind != FuncKind::Script {
            self.error(Kind::OutsideScript);
        }
    }

    /// Returns the heading of the message that is answered here.
    fn answered(&self) -> &'a Signature {
        self.taken.last().copied().unwrap_or(&self.func.signature)
    }

    fn reply_to(&mut self, dst: Var) {
        let Some(decl) = self.func.vars.get(dst) else { return self.error(Kind::NoSuchVar(dst)) };
        let result = self.answered().results.first().copied().unwrap_or(Types::NULL);
        if self.program.types.kind(decl.ty) != TypeKind::Replier(result) {
            let found = self.named(decl.ty);
            self.error(Kind::NoReplier(found));
        }
        self.assign(dst);
    }

    fn deliver(&mut self, replier: Operand, values: &[Operand]) {
        if matches!(self.func.kind, FuncKind::Batch | FuncKind::Procedure) {
            self.error(Kind::RequestHere);
        }
        let Some(ty) = self.operand(replier, Place::Receiver) else { return };
        match self.program.types.kind(ty) {
            TypeKind::Replier(Types::NULL) => self.values(values, &[], Counted::ReturnValues),
            TypeKind::Replier(result) => self.values(values, &[result], Counted::ReturnValues),
            _ => {
                let found = self.named(ty);
                self.error(Kind::NoReplier(found));
            }
        }
    }

    /// Checks rules 17 and 18 for statements that wait.
    fn waits(&mut self) {
        if !self.may_request() {
            self.error(Kind::RequestHere);
        }
        // Batches and their procedures wait on their session's stack.
        let on_stack = matches!(self.func.kind, FuncKind::Batch | FuncKind::Procedure);
        if let Some(callee) = self.over.last().filter(|_| !on_stack) {
            let callee = self.program.callee_name(*callee, self.func);
            self.error(Kind::WaitInLoop { callee });
        }
    }

    /// Checks rule 17 for requests and the statements that wait for them.
    fn may_request(&self) -> bool {
        let allowed = match self.func.kind {
            FuncKind::Script | FuncKind::Batch | FuncKind::Procedure => true,
            FuncKind::Routine => !self.func.signature.is_iterator(),
            FuncKind::Method => false,
        };
        allowed && !self.transaction
    }

    fn create(&mut self, dst: Var, class: ClassId, creator: u32, args: &[Operand], place: Destination) {
        if matches!(self.func.kind, FuncKind::Batch | FuncKind::Procedure) {
            self.error(Kind::ClassInBatch);
        }
        if let Destination::On(node) = place {
            self.expect(node, Some(Types::INT), Place::Source);
        }
        let Some(def) = self.program.classes.get(class) else {
            self.error(Kind::NoSuchClass(class));
            return;
        };
        let found = def.actor.as_ref().and_then(|actor| actor.creators.get(creator as usize));
        let Some(creator) = found.and_then(|func| self.program.funcs.get(*func)) else {
            self.error(Kind::NoSuchCreator { class: def.name.clone() });
            return;
        };
        let params = &creator.signature.params;
        self.count(Counted::Arguments, params.len(), args.len());
        for (i, arg) in args.iter().enumerate() {
            self.expect(*arg, params.get(i).map(|p| p.ty), Place::Argument(i));
        }
        self.fill(dst, def.ty, Place::Object);
    }

    /// Returns the heading of the method that a message is for.
    fn message(&mut self, method: MethodRef, args: &[Operand]) -> Option<&'a Signature> {
        let handlers = std::mem::take(&mut self.handlers);
        let signature = self.callee(Callee::Method(method), args);
        self.handlers = handlers;
        let signature = signature?;
        if !self.program.types.def(method.ty).actor || signature.is_iterator() {
            let callee = self.program.callee_name(Callee::Method(method), self.func);
            self.error(Kind::MessageToObject { callee });
        }
        Some(signature)
    }

    fn request(&mut self, method: MethodRef, args: &[Operand], dst: Var, element: Option<Operand>) {
        if !self.may_request() {
            self.error(Kind::RequestHere);
        }
        let Some(signature) = self.message(method, args) else { return };
        // A signal that comes instead of a reply is raised where the reply is awaited; here it is
        // looked at once for all those places.
        for s in &signature.signals {
            self.reaches_handlers(s.name, &s.values);
        }
        let result = signature.results.first().copied().unwrap_or(Types::NULL);
        self.count(Counted::Results, 1, signature.results.len().max(1));
        let Some(index) = element else { return self.fill(dst, result, Place::Result(0)) };
        self.expect(index, Some(Types::INT), Place::Element(0));
        let Some(ty) = self.operand(dst.into(), Place::Object) else { return };
        match self.program.types.kind(ty) {
            TypeKind::Array(element) | TypeKind::Vector(element) => {
                self.subtype(result, element, Place::Result(0))
            }
            _ => {
                let found = self.named(ty);
                self.error(Kind::NoElements(found));
            }
        }
    }

    fn select_message(&mut self, arms: &'a [Choice], after: Option<&'a (Operand, Block)>) {
        if let Some((limit, _)) = after {
            self.expect(*limit, Some(Types::INT), Place::Source);
        }
        let own = self.func.vars.values().next().map(|receiver| receiver.ty);
        let before = self.assigned.clone();
        let mut met = Assigned::unreachable();
        for arm in arms {
            self.assigned = before.clone();
            let heading = self.program.signature(Callee::Method(arm.method), self.func);
            let Some(signature) = heading.filter(|_| Some(arm.method.ty) == own) else {
                self.error(Kind::NoSuchCallee(Callee::Method(arm.method)));
                continue;
            };
            self.count(Counted::StepValues, signature.params.len(), arm.vars.len());
            for (i, (var, param)) in arm.vars.iter().zip(&signature.params).enumerate() {
                self.fill(*var, param.ty, Place::StepVar(i));
            }
            self.loops.push(Loop::Condition);
            self.block(&arm.cond);
            self.loops.pop();
            self.expect(arm.test, Some(Types::BOOL), Place::Test);
            self.taken.push(signature);
            let outside = std::mem::replace(&mut self.outside, self.handlers.len());
            self.block(&arm.body);
            self.outside = outside;
            self.taken.pop();
            // With errors it may be too deep to be looked through.
            if !self.errors.is_empty() || arm.may_raise() {
                met.join(&before);
            }
            met.join(&self.assigned);
        }
        if let Some((_, body)) = after {
            self.assigned = before;
            self.block(body);
            met.join(&self.assigned);
        }
        self.assigned = met;
    }

    /// Checks rule 16, but for the callers of the function.
    fn transaction(&mut self, body: &'a Block) {
        if self.transaction {
            self.error(Kind::NestedTransaction);
        }
        let procedure = self.func.kind == FuncKind::Routine && !self.func.signature.is_iterator();
        if !procedure && self.func.kind != FuncKind::Script {
            self.error(Kind::TransactionOutsideRoutine);
        }
        let changeable = self.over.iter().rev().find(|callee| !self.program.iterates_immutable(**callee));
        if let Some(callee) = changeable {
            let callee = self.program.callee_name(*callee, self.func);
            self.error(Kind::TransactionInLoop { callee });
        }
        if let Some(aborted) = self.program.types.find_signal(ABORTED) {
            self.reaches_handlers(aborted, &[Types::STRING]);
        }
        self.reaches_handlers(SignalId::FAILURE, &[Types::STRING]);
        let around = std::mem::replace(&mut self.transaction, true);
        self.block(body);
        self.transaction = around;
    }

    /// Returns the type of the operand, if that is known. Rules 1, 2, 4.
    fn operand(&mut self, operand: Operand, place: Place) -> Option<TypeId> {
        match operand {
            Operand::Const(c) => Some(match c {
                Const::Nil => Types::NULL,
                Const::Bool(_) => Types::BOOL,
                Const::Int(_) => Types::INT,
                Const::Real(_) => Types::REAL,
                Const::Char(_) => Types::CHAR,
                Const::Str(literal) => {
                    if self.program.literals.get(literal).is_none() {
                        self.error(Kind::NoSuchLiteral(literal));
                    }
                    Types::STRING
                }
            }),
            Operand::Var(var) => {
                let Some(decl) = self.func.vars.get(var) else {
                    self.error(Kind::NoSuchVar(var));
                    return None;
                };
                if !self.assigned.has(var) {
                    self.error(Kind::UnassignedVar { place, var, name: decl.name.clone() });
                }
                Some(decl.ty)
            }
        }
    }

    fn expect(&mut self, operand: Operand, expected: Option<TypeId>, place: Place) {
        if let (Some(found), Some(expected)) = (self.operand(operand, place), expected) {
            self.subtype(found, expected, place);
        }
    }

    fn subtype(&mut self, found: TypeId, expected: TypeId, place: Place) {
        if !self.program.types.is_subtype(found, expected) {
            let kind = Kind::WrongType { place, expected: self.named(expected), found: self.named(found) };
            self.error(kind);
        }
    }

    /// Checks that a variable can take a value of type `ty`, and assigns it.
    fn fill(&mut self, var: Var, ty: TypeId, place: Place) {
        match self.func.vars.get(var) {
            Some(decl) => {
                self.subtype(ty, decl.ty, place);
                self.assign(var);
            }
            None => self.error(Kind::NoSuchVar(var)),
        }
    }

    fn assign(&mut self, var: Var) {
        if self.func.kind.has_receiver() && var == Var::from_u32(0) {
            self.error(Kind::AssignedReceiver);
        }
        self.assigned.set(var);
    }

    fn count(&mut self, what: Counted, expected: usize, found: usize) {
        if expected != found {
            self.error(Kind::WrongCount { what, expected, found });
        }
    }

    fn values(&mut self, values: &[Operand], types: &[TypeId], what: Counted) {
        self.count(what, types.len(), values.len());
        for (i, v) in values.iter().enumerate() {
            self.expect(*v, types.get(i).copied(), Place::Value(i));
        }
    }

    /// Returns the heading of the callee, after checking its possible callers and the operands.
    /// Rules 3, 11.
    fn callee(&mut self, callee: Callee, args: &[Operand]) -> Option<&'a Signature> {
        let (program, func) = (self.program, self.func);
        let Some(signature) = program.signature(callee, func) else {
            self.error(Kind::NoSuchCallee(callee));
            return None;
        };
        let in_batch = matches!(func.kind, FuncKind::Batch | FuncKind::Procedure);
        let public = match callee {
            Callee::Method(m) => {
                program.types.def(m.ty).public && program.types.method(m).public
                    || program.columns.iter().any(|(_, append)| *append == m)
            }
            Callee::Routine(r) => {
                let routine = &program.routines[r];
                routine.public || program.native_name(routine.body).is_some_and(builtin::is_for_clients)
            }
            Callee::Procedure(i) => {
                if !in_batch || func.procedures[i as usize].kind != FuncKind::Procedure {
                    self.error(Kind::ProcedureOutsideBatch);
                }
                true
            }
            Callee::Itself => {
                if func.kind != FuncKind::Procedure {
                    self.error(Kind::ProcedureOutsideBatch);
                }
                true
            }
        };
        if in_batch && !public {
            self.error(Kind::NotPublic { callee: program.callee_name(callee, func) });
        }
        if let Some(ty) = signature.types().find(|ty| !type_in_range(&program.types, *ty)) {
            self.error(Kind::NoSuchType(ty));
            return None;
        }
        let mut args = args;
        if let Callee::Method(m) = callee {
            if let Some((receiver, rest)) = args.split_first() {
                self.expect(*receiver, Some(m.ty), Place::Receiver);
                args = rest;
                self.count(Counted::Arguments, signature.params.len(), args.len());
            } else {
                self.error(Kind::WrongCount {
                    what: Counted::Arguments,
                    expected: 1 + signature.params.len(),
                    found: 0,
                });
            }
        } else {
            self.count(Counted::Arguments, signature.params.len(), args.len());
        }
        for (i, arg) in args.iter().enumerate() {
            self.expect(*arg, signature.params.get(i).map(|p| p.ty), Place::Argument(i));
        }
        for s in &signature.signals {
            self.reaches_handlers(s.name, &s.values);
        }
        self.reaches_handlers(SignalId::FAILURE, &[Types::STRING]);
        Some(signature)
    }

    fn call(&mut self, callee: Callee, args: &[Operand], dsts: &[Var]) {
        let Some(signature) = self.callee(callee, args) else { return };
        if signature.is_iterator() {
            let callee = self.program.callee_name(callee, self.func);
            self.error(Kind::IteratorInCall { callee });
            return;
        }
        if let Callee::Method(method) = callee
            && self.program.types.def(method.ty).actor
            && (self.func.kind != FuncKind::Script || args.first() != Some(&Var::from_u32(0).into()))
        {
            let callee = self.program.callee_name(callee, self.func);
            self.error(Kind::CallOfActor { callee });
        }
        if !dsts.is_empty() {
            self.count(Counted::Results, signature.results.len(), dsts.len());
        }
        for (i, (dst, ty)) in dsts.iter().zip(&signature.results).enumerate() {
            self.fill(*dst, *ty, Place::Result(i));
        }
    }

    fn for_each(&mut self, callee: Callee, args: &[Operand], vars: &[Var], body: &'a Block) {
        let Some(signature) = self.callee(callee, args) else { return };
        let Some(yields) = &signature.yields else {
            let callee = self.program.callee_name(callee, self.func);
            self.error(Kind::NotAnIterator { callee });
            return;
        };
        self.count(Counted::StepValues, yields.len(), vars.len());
        let mut after = self.assigned.clone();
        for (i, (var, ty)) in vars.iter().zip(yields).enumerate() {
            self.fill(*var, *ty, Place::StepVar(i));
        }
        self.loops.push(Loop::Body(Assigned::unreachable()));
        self.over.push(callee);
        self.block(body);
        self.over.pop();
        self.loops.pop();
        // The loop may have no step at all; the variables that the steps assign come on top of
        // that.
        std::mem::swap(&mut self.assigned, &mut after);
    }

    /// Checks rule 15.
    fn type_if(&mut self, object: Operand, var: Var, then: &'a Block, otherwise: &'a Block) {
        if matches!(self.func.kind, FuncKind::Batch | FuncKind::Procedure) {
            self.error(Kind::ClassInBatch);
        }
        let found = self.operand(object, Place::Object);
        let wanted = self.func.vars.get(var).map(|decl| decl.ty);
        if wanted.is_none() {
            self.error(Kind::NoSuchVar(var));
        }
        for ty in [found, wanted].into_iter().flatten() {
            if self.program.types.kind(ty).is_basic() {
                let found = self.named(ty);
                self.error(Kind::BasicHasNoClass { found });
            }
        }
        let before = self.assigned.clone();
        self.assigned.set(var);
        self.block(then);
        let after_then = std::mem::replace(&mut self.assigned, before);
        self.block(otherwise);
        self.assigned.join(&after_then);
    }

    fn while_loop(&mut self, cond: &'a Block, test: Operand, body: &'a Block) {
        self.loops.push(Loop::Condition);
        self.block(cond);
        self.loops.pop();
        self.expect(test, Some(Types::BOOL), Place::Test);
        let mut after = self.assigned.clone();
        if test == Operand::Const(Const::Bool(true)) {
            after.end();
        }
        self.loops.push(Loop::Body(Assigned::unreachable()));
        self.block(body);
        if let Some(Loop::Body(breaks)) = self.loops.pop() {
            after.join(&breaks);
        }
        self.assigned = after;
    }

    fn leave_step(&mut self, for_good: bool) {
        match self.loops.last_mut() {
            Some(Loop::Body(breaks)) => {
                if for_good {
                    breaks.join(&self.assigned);
                }
            }
            Some(Loop::Condition) => self.error(Kind::BreakInCondition),
            None => self.error(Kind::BreakOutsideLoop),
        }
        self.assigned.end();
    }

    fn construct(&mut self, dst: Var, class: ClassId, fields: &[Operand]) {
        // A client may give the values of structs, oneofs and `maybe` by their parts.
        if matches!(self.func.kind, FuncKind::Batch | FuncKind::Procedure)
            && !tagged::is_of_value(self.program, class)
        {
            self.error(Kind::ClassInBatch);
        }
        let Some(def) = self.program.classes.get(class) else {
            self.error(Kind::NoSuchClass(class));
            return;
        };
        if self.program.native_class(class).is_some() {
            self.error(Kind::NativeClass(def.name.clone()));
        }
        self.count(Counted::Fields, def.fields.len(), fields.len());
        for (i, value) in fields.iter().enumerate() {
            self.expect(*value, def.fields.get(i).map(|f| f.ty), Place::Field(i));
        }
        self.fill(dst, def.ty, Place::Object);
    }

    fn sequence(&mut self, dst: Var, elements: &[Operand]) {
        let Some(decl) = self.func.vars.get(dst) else {
            self.error(Kind::NoSuchVar(dst));
            return;
        };
        let TypeKind::Sequence(element) = self.program.types.kind(decl.ty) else {
            let found = self.named(decl.ty);
            self.error(Kind::NotASequence { found });
            return;
        };
        for (i, value) in elements.iter().enumerate() {
            self.expect(*value, Some(element), Place::Element(i));
        }
        self.assign(dst);
    }

    /// Returns the type of an instance variable. Rule 10.
    fn select(&mut self, object: Operand, class: ClassId, field: u32) -> Option<TypeId> {
        if matches!(self.func.kind, FuncKind::Batch | FuncKind::Procedure) {
            self.error(Kind::ClassInBatch);
        }
        let found = self.operand(object, Place::Object);
        let Some(def) = self.program.classes.get(class) else {
            self.error(Kind::NoSuchClass(class));
            return None;
        };
        if let Some(found) = found
            && !super::program::is_of_class(self.program, found, class)
        {
            let kind = Kind::NotOfClass { class: def.name.clone(), found: self.named(found) };
            self.error(kind);
        }
        if self.program.native_class(class).is_some() {
            self.error(Kind::NativeClass(def.name.clone()));
        }
        let ty = def.fields.get(field as usize).map(|f| f.ty);
        if ty.is_none() {
            self.error(Kind::NoSuchField { class: def.name.clone(), field });
        }
        ty
    }

    fn signal(&mut self, signal: SignalId, values: &[Operand]) {
        if self.signal_in_range(signal) {
            let failure = [Types::STRING];
            let declared = match self.answered().signal(signal) {
                Some(s) => Some(s.values.as_slice()),
                None => (signal == SignalId::FAILURE).then_some(&failure[..]),
            };
            match declared {
                Some(types) => self.values(values, types, Counted::ExceptionValues),
                None => {
                    let signal = self.signal_name(signal);
                    self.error(Kind::SignalNotDeclared { signal });
                }
            }
        }
        self.assigned.end();
    }

    fn exit(&mut self, signal: SignalId, values: &[Operand]) {
        self.values_fit(values.len());
        let types: Vec<Option<TypeId>> =
            values.iter().enumerate().map(|(i, v)| self.operand(*v, Place::Value(i))).collect();
        if self.signal_in_range(signal) {
            let types: Option<Vec<TypeId>> = types.into_iter().collect();
            let outside = std::mem::take(&mut self.outside);
            let taken = self.reaches_handlers(signal, types.as_deref().unwrap_or(&[]));
            self.outside = outside;
            if !taken {
                let signal = self.signal_name(signal);
                self.error(Kind::NoHandlerForExit { signal });
            }
        }
        self.assigned.end();
    }

    /// Checks the innermost arm that takes an exception against its values; false if there is none.
    /// Rule 9.
    fn reaches_handlers(&mut self, signal: SignalId, values: &[TypeId]) -> bool {
        let reached = self.handlers.get(self.outside..).unwrap_or_default();
        let arm = reached.iter().rev().find_map(|arms| arms.iter().find(|arm| takes(arm, signal)));
        let Some(arm) = arm else { return false };
        if arm.vars.is_empty() || arm.takes == ArmMatch::Others {
            return true;
        }
        if arm.vars.len() != values.len() {
            let signal = self.signal_name(signal);
            self.error(Kind::ArmCount { signal, expected: arm.vars.len(), found: values.len() });
            return true;
        }
        for (index, (var, found)) in arm.vars.iter().zip(values).enumerate() {
            // Variables out of range are reported where the arm is checked.
            let Some(decl) = self.func.vars.get(*var) else { continue };
            if !self.program.types.is_subtype(*found, decl.ty) {
                let kind = Kind::ArmType {
                    signal: self.signal_name(signal),
                    index: index + 1,
                    expected: self.named(decl.ty),
                    found: self.named(*found),
                };
                self.error(kind);
            }
        }
        true
    }

    fn except(&mut self, body: &'a Block, arms: &'a [Arm]) {
        let before = self.assigned.clone();
        self.handlers.push(arms);
        self.block(body);
        self.handlers.pop();
        let mut after = self.assigned.clone();
        for arm in arms {
            self.assigned = before.clone();
            self.values_fit(arm.vars.len());
            match &arm.takes {
                ArmMatch::Named(signals) => {
                    for signal in signals {
                        self.signal_in_range(*signal);
                    }
                    for var in &arm.vars {
                        match self.func.vars.get(*var) {
                            Some(_) => self.assign(*var),
                            None => self.error(Kind::NoSuchVar(*var)),
                        }
                    }
                }
                ArmMatch::Others => match arm.vars.as_slice() {
                    [] => {}
                    [var] => self.fill(*var, Types::STRING, Place::ArmVar(0)),
                    _ => self.error(Kind::OthersTakesName),
                },
            }
            self.block(&arm.body);
            after.join(&self.assigned);
        }
        self.assigned = after;
    }
}

fn takes(arm: &Arm, signal: SignalId) -> bool {
    match &arm.takes {
        ArmMatch::Named(signals) => signals.contains(&signal),
        ArmMatch::Others => true,
    }
}
