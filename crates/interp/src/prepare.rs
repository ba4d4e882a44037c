//! Prepares functions: translates the IR to prepared nodes ([`node`]).
//!
//! Read [`prepare`] first. It walks the statements once, and gives each variable, each constant and
//! the scratch word a place in the frame. Nothing is checked: the function must be verified.
//! Dispatch that is known before the run is done here: of basic types, routines and operations.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bifrost_ir::builtin::Op;
use bifrost_ir::loops::loops;
use bifrost_ir::requests::live_at_waits;
use bifrost_ir::{
    ArmMatch, Block, Body, Callee, Const, Destination, Func, FuncId, FuncKind, MethodRef, Operand, Program,
    Site, Stmt, Var, ways,
};
use bifrost_runtime::abi::Word;
use bifrost_runtime::actor_class::JoinLayout;
use bifrost_runtime::image::Image;
use bifrost_runtime::structure::environment;

use crate::node::{
    self, Arm, Await, Call, Choice, Create, Except, ForEach, If, Message, Node, Nodes, Place, Prepared,
    Request, Select, SelfCall, Target, Transaction, TypeIf, While,
};

/// Prepares a verified function. `procedures` are the prepared forms of [`Func::procedures`], `id`
/// is its number if it is one of the program's, and `nodes` are those that calls become.
pub(crate) fn prepare(
    image: &Image,
    func: &Func,
    procedures: &[Arc<Prepared>],
    id: Option<FuncId>,
    nodes: Nodes,
) -> Prepared {
    let mut p = Preparer {
        image,
        program: image.program(),
        func,
        procedures,
        nodes,
        constants: HashMap::new(),
        pending: HashMap::new(),
        template: vec![0; func.vars.len() + 1],
        ways: HashMap::new(),
        awaited: HashSet::new(),
        waits: HashMap::new(),
        loops: HashMap::new(),
    };
    if matches!(func.kind, FuncKind::Batch | FuncKind::Procedure) {
        p.loops =
            (0..).zip(loops(&func.body)).map(|(number, l)| (std::ptr::from_ref(l.stmt), number)).collect();
    }
    let waits = func.kind == FuncKind::Script || func.body.has_request();
    if waits {
        let ways = (0..).zip(ways::ways_in(image.program(), &func.body));
        p.ways = ways.map(|(number, way)| (std::ptr::from_ref(way.stmt), number)).collect();
        p.pending = ways::pending(func).into_iter().zip(0..).collect();
        func.body.each(&mut |stmt| {
            if let Stmt::Await { vars, .. } = stmt {
                p.awaited.extend(vars);
            }
        });
        live_at_waits(func, &mut |stmt, behind, raised| {
            p.waits.insert(stmt, (behind.clone(), raised.clone()));
        });
    }
    let body = p.block(&func.body);
    let waits = waits && id.is_some();
    if let Some(id) = id.filter(|_| waits) {
        image.set_join_layout(id, || JoinLayout::new(image, id, &p.template));
    }
    Prepared {
        name: func.name.clone(),
        kind: func.kind,
        id,
        params: func.param_count(),
        template: p.template.into(),
        references: references(image, func),
        body,
        results: func.signature.results.len(),
        iterator: func.signature.is_iterator(),
        cost: i64::from(matches!(func.kind, FuncKind::Batch | FuncKind::Procedure)),
        asks: asks(func),
        waits,
        structure: None,
    }
}

/// The words of an activation that hold references: a result on its way out of a loop that is code,
/// and variables.
fn references(image: &Image, func: &Func) -> Box<[u32]> {
    let result = func.signature.results.first().filter(|ty| image.is_reference(**ty));
    let vars = func.vars.iter().filter(|(_, var)| image.is_reference(var.ty));
    let vars = vars.map(|(var, _)| environment::VARS + var.as_u32());
    result.map(|_| environment::RESULT).into_iter().chain(vars).collect()
}

/// True if a function is code that clients send and asks actors.
pub(crate) fn asks(func: &Func) -> bool {
    let asks = |stmt: &Stmt| matches!(stmt, Stmt::Request { .. } | Stmt::Send { .. });
    matches!(func.kind, FuncKind::Batch | FuncKind::Procedure) && func.body.contains(&asks)
}

struct Preparer<'a> {
    image: &'a Image,
    program: &'a Program,
    func: &'a Func,
    procedures: &'a [Arc<Prepared>],
    nodes: Nodes,
    constants: HashMap<Const, Place>,
    /// The numbers of variables that may be pending.
    pending: HashMap<Var, u16>,
    template: Vec<Word>,
    /// Of a function that may wait: the numbers of the ways into it.
    ways: HashMap<*const Stmt, u32>,
    awaited: HashSet<Var>,
    /// Of code that clients send: the numbers of its loops.
    loops: HashMap<*const Stmt, u32>,
    /// By wait: the variables that are live behind it, and at the handlers around.
    waits: HashMap<*const Stmt, (BTreeSet<Var>, BTreeSet<Var>)>,
}

impl Preparer<'_> {
    /// The word behind the variables, which takes results that are dropped.
    fn scratch(&self) -> Place {
        self.func.vars.len() as Place
    }

    fn var(&self, v: Var) -> Place {
        v.as_u32()
    }

    fn vars(&self, vars: &[Var]) -> Box<[Place]> {
        vars.iter().map(|v| self.var(*v)).collect()
    }

    fn operand(&mut self, operand: Operand) -> Place {
        let constant = match operand {
            Operand::Var(v) => return self.var(v),
            Operand::Const(c) => c,
        };
        if let Some(place) = self.constants.get(&constant) {
            return *place;
        }
        let place = self.word(match constant {
            Const::Nil => 0,
            Const::Bool(b) => Word::from(b),
            Const::Int(i) => i as Word,
            Const::Real(bits) => bits,
            Const::Char(c) => Word::from(u32::from(c)),
            Const::Str(literal) => self.image.literal(literal),
        });
        self.constants.insert(constant, place);
        place
    }

    /// A place with a word that is the same each time.
    fn word(&mut self, word: Word) -> Place {
        self.template.push(word);
        self.template.len() as Place - 1
    }

    fn operands(&mut self, operands: &[Operand]) -> Box<[Place]> {
        operands.iter().map(|o| self.operand(*o)).collect()
    }

    /// The words of a call that are references.
    fn reference_words(&self, callee: Callee, args: &[Operand]) -> Box<[Place]> {
        // A routine's descriptor goes before its arguments.
        let first = u32::from(!matches!(callee, Callee::Method(_)));
        let reference = |operand: &Operand| match operand {
            Operand::Var(v) => self.image.is_reference(self.func.vars[*v].ty),
            Operand::Const(_) => false,
        };
        (first..).zip(args).filter(|(_, arg)| reference(arg)).map(|(i, _)| i).collect()
    }

    fn block(&mut self, block: &Block) -> Box<[Node]> {
        block.0.iter().map(|s| self.stmt(s)).collect()
    }

    fn stmt(&mut self, stmt: &Stmt) -> Node {
        match stmt {
            Stmt::Let { dst, src } => Node::Move { dst: self.var(*dst), src: self.operand(*src) },
            Stmt::Call { callee, args, dsts, site } => match ways::own_method(self.program, *callee) {
                Some(func) => Node::SelfCall(Box::new(SelfCall {
                    func,
                    args: self.operands(args),
                    dst: dsts.first().map_or(self.scratch(), |v| self.var(*v)),
                    site: *site,
                    way: self.way(stmt),
                })),
                None => self.call(*callee, args, dsts, *site),
            },
            Stmt::New { dst, class, fields, site } => match self.image.lasting(*class) {
                Some(object) => Node::Move { dst: self.var(*dst), src: self.word(object) },
                None => Node::New {
                    table: self.image.table_of(self.program.classes[*class].ty),
                    fields: self.operands(fields),
                    dst: self.var(*dst),
                    site: *site,
                },
            },
            Stmt::NewSequence { dst, elements, site } => Node::NewSequence {
                table: self.image.table_of(self.func.vars[*dst].ty),
                elements: self.operands(elements),
                dst: self.var(*dst),
                site: *site,
            },
            Stmt::Get { dst, object, field, .. } => {
                Node::Get { dst: self.var(*dst), object: self.operand(*object), field: *field }
            }
            Stmt::Set { object, field, value, .. } => {
                Node::Set { object: self.operand(*object), field: *field, value: self.operand(*value) }
            }
            Stmt::If { test, then, otherwise } => Node::If(Box::new(If {
                test: self.operand(*test),
                then: self.block(then),
                otherwise: self.block(otherwise),
            })),
            Stmt::TypeIf { object, var, then, otherwise } => Node::TypeIf(Box::new(TypeIf {
                object: self.operand(*object),
                ty: self.func.vars[*var].ty,
                var: self.var(*var),
                then: self.block(then),
                otherwise: self.block(otherwise),
            })),
            Stmt::While { cond, test, body } => Node::While(Box::new(While {
                number: self.number(stmt),
                way: self.way(stmt),
                cond: self.block(cond),
                test: self.operand(*test),
                body: self.block(body),
            })),
            Stmt::ForEach { callee, args, vars, body, site } => Node::ForEach(Box::new(ForEach {
                number: self.number(stmt),
                references: self.reference_words(*callee, args),
                call: self.general_call(*callee, args, &[], *site),
                vars: self.vars(vars),
                body: self.block(body),
            })),
            Stmt::Break => Node::Break,
            Stmt::Continue => Node::Continue,
            Stmt::Return(values) => Node::Return(self.operands(values)),
            Stmt::Yield(values) => Node::Yield(self.operands(values)),
            Stmt::Signal { signal, values, site } => {
                Node::Signal { signal: *signal, values: self.operands(values), site: *site }
            }
            Stmt::Exit { signal, values } => Node::Exit { signal: *signal, values: self.operands(values) },
            Stmt::Transaction { body, site } => {
                Node::Transaction(Box::new(Transaction { body: self.block(body), site: *site }))
            }
            Stmt::Create { dst, class, creator, args, place, site } => Node::Create(Box::new(Create {
                table: self.image.table_of(self.program.classes[*class].ty),
                creator: *creator,
                args: self.operands(args),
                place: match place {
                    Destination::Here => node::Destination::Here,
                    Destination::On(node) => node::Destination::On(self.operand(*node)),
                    Destination::Anywhere => node::Destination::Anywhere,
                },
                dst: self.var(*dst),
                site: *site,
            })),
            Stmt::Send { method, args, site } => Node::Send(Box::new(self.message(*method, args, *site))),
            Stmt::Delegate { method, args, site } => {
                Node::Delegate(Box::new(self.message(*method, args, *site)))
            }
            Stmt::Request { method, args, dst, element, site } => Node::Request(Box::new(Request {
                awaited: self.awaited.contains(dst),
                message: self.message(*method, args, *site),
                dst: self.var(*dst),
                pending: self.pending(*dst),
                element: element.map(|index| self.operand(index)),
            })),
            Stmt::Await { vars, site } => {
                let (read, kept) = self.waits.get(&std::ptr::from_ref(stmt)).cloned().unwrap_or_default();
                let numbers = |of: &dyn Fn(&Var) -> bool| {
                    vars.iter().filter(|var| of(var)).map(|var| self.pending(*var)).collect()
                };
                Node::Await(Box::new(Await {
                    pending: numbers(&|_| true),
                    read: numbers(&|var| read.contains(var)),
                    kept: numbers(&|var| kept.contains(var)),
                    site: *site,
                    way: self.way(stmt),
                }))
            }
            Stmt::Reply { values, .. } => Node::Reply(values.first().map(|value| self.operand(*value))),
            Stmt::Select { arms, after, site } => Node::Select(Box::new(Select {
                arms: arms.iter().map(|arm| self.choice(arm)).collect(),
                after: after.as_ref().map(|(limit, block)| (self.operand(*limit), self.block(block))),
                site: *site,
                way: self.way(stmt).expect("a selection stands where a path leads"),
            })),
            Stmt::ReplyTo { dst, site } => Node::ReplyTo {
                table: self.image.table_of(self.func.vars[*dst].ty),
                dst: self.var(*dst),
                site: *site,
            },
            Stmt::Deliver { replier, values, .. } => Node::Deliver {
                replier: self.operand(*replier),
                value: values.first().map(|value| self.operand(*value)),
            },
            Stmt::Except { body, arms } => Node::Except(Box::new(Except {
                body: self.block(body),
                arms: arms
                    .iter()
                    .map(|arm| Arm {
                        signals: match &arm.takes {
                            ArmMatch::Named(names) => names.iter().copied().collect(),
                            ArmMatch::Others => Box::default(),
                        },
                        vars: self.vars(&arm.vars),
                        body: self.block(&arm.body),
                    })
                    .collect(),
            })),
        }
    }

    /// The number of the way in at a statement.
    fn way(&self, stmt: &Stmt) -> Option<u32> {
        self.ways.get(&std::ptr::from_ref(stmt)).copied()
    }

    /// The number of a loop; 0 in functions of the program, whose loops are not numbered.
    fn number(&self, stmt: &Stmt) -> u32 {
        self.loops.get(&std::ptr::from_ref(stmt)).copied().unwrap_or(0)
    }

    /// The number of a variable that may be pending.
    fn pending(&self, var: Var) -> u16 {
        self.pending[&var]
    }

    fn message(&mut self, method: MethodRef, args: &[Operand], site: Site) -> Message {
        Message { slot: self.image.dispatch().slot(method), method, args: self.operands(args), site }
    }

    fn choice(&mut self, arm: &bifrost_ir::Choice) -> Choice {
        Choice {
            method: arm.method.method,
            slot: self.image.dispatch().slot(arm.method),
            vars: self.vars(&arm.vars),
            cond: self.block(&arm.cond),
            test: self.operand(arm.test),
            body: self.block(&arm.body),
        }
    }

    /// A call, as the most special node that fits (000 section 6.4.3), or as one in general.
    fn call(&mut self, callee: Callee, args: &[Operand], dsts: &[Var], site: Site) -> Node {
        if let (Callee::Method(m), Nodes::Special) = (callee, self.nodes) {
            let method = self.program.types.method(m);
            let basic = self.program.types.kind(m.ty).is_basic();
            if let Some(op) = self.op(m) {
                let a = self.operand(args[0]);
                let b = args.get(1).map_or(a, |b| self.operand(*b));
                let dst = dsts.first().map_or(self.scratch(), |v| self.var(*v));
                return Node::Op { op, dst, a, b, site };
            }
            if !basic && self.image.has_engine() && method.signature.results.len() <= 1 && args.len() <= 3 {
                let slot = self.image.dispatch().slot(m);
                let receiver = self.operand(args[0]);
                let dst = dsts.first().map_or(self.scratch(), |v| self.var(*v));
                return match args {
                    [_] => Node::Method0 { slot, receiver, dst, site },
                    [_, a] => Node::Method1 { slot, receiver, a: self.operand(*a), dst, site },
                    [_, a, b, ..] => {
                        let (a, b) = (self.operand(*a), self.operand(*b));
                        Node::Method2 { slot, receiver, a, b, dst, site }
                    }
                    [] => unreachable!("a method call has a receiver"),
                };
            }
        }
        Node::Call(Box::new(self.general_call(callee, args, dsts, site)))
    }

    /// The operation that a method is, if it is one of a basic type.
    fn op(&self, m: MethodRef) -> Option<Op> {
        let basic = self.program.types.kind(m.ty).is_basic();
        self.program.types.method(m).builtin.filter(|_| basic)?.op
    }

    fn general_call(&mut self, callee: Callee, args: &[Operand], dsts: &[Var], site: Site) -> Call {
        let target = match callee {
            Callee::Method(m) if self.program.types.kind(m.ty).is_basic() => match self.op(m) {
                Some(op) => Target::Op(op),
                None => Target::Native(self.image.basic_native(m).expect("linking found every native")),
            },
            Callee::Method(m) if self.image.has_engine() => Target::Slot(self.image.dispatch().slot(m)),
            Callee::Method(m) => Target::Interpret(self.image.dispatch().slot(m)),
            Callee::Routine(r) => match self.program.routines[r].body {
                Body::Func(func) if !self.image.has_engine() => Target::InterpretFunc(func),
                _ => Target::Routine(self.image.routine(r)),
            },
            Callee::Procedure(i) => Target::Procedure(self.procedures[i as usize].clone()),
            Callee::Itself => Target::Itself,
        };
        debug_assert!(!matches!(target, Target::Itself) || self.func.kind == FuncKind::Procedure);
        Call { target, args: self.operands(args), dsts: self.vars(dsts), site }
    }
}
