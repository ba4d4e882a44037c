//! One valid program, and the error for each way to break it.

use smallvec::smallvec;

use super::{Counted, Place, VerifyErrorKind as Kind, verify_func, verify_program};
use crate::program::{Body, Class, Field, Program, Routine};
use crate::stmt::{
    Arm, ArmMatch, Block, Callee, Choice, Const, Destination, Func, FuncKind, Operand, Stmt, Var, VarDecl,
};
use crate::types::{
    Method, MethodId, MethodRef, Param, SignalId, SignalSig, Signature, Supertype, TypeDef, TypeId, TypeKind,
    Types,
};
use crate::{ClassId, RoutineId, Site};

fn v(n: u32) -> Var {
    Var::from_u32(n)
}

fn int(n: i64) -> Operand {
    Const::Int(n).into()
}

fn method(p: &Program, ty: TypeId, name: &str) -> Callee {
    Callee::Method(p.types.find_method(ty, name).unwrap())
}

fn vars(types: &[TypeId]) -> cranelift_entity::PrimaryMap<Var, VarDecl> {
    types.iter().enumerate().map(|(i, ty)| VarDecl { name: format!("x{i}"), ty: *ty }).collect()
}

fn call(callee: Callee, args: &[Operand], dsts: &[Var]) -> Stmt {
    Stmt::Call { callee, args: args.into(), dsts: dsts.into(), site: Site(7) }
}

/// Returns a program with a type `counter`, a class of it, and a routine and an iterator.
fn program() -> Program {
    let mut p = Program::new();
    let full = p.types.signal("full");
    let bump = Signature {
        params: vec![Param { name: "by".into(), ty: Types::INT }],
        results: vec![Types::INT],
        yields: None,
        signals: vec![SignalSig { name: full, values: vec![Types::INT] }],
    };
    let heading = |name: &str, signature: &Signature, stands_for: Vec<MethodRef>| Method {
        name: name.into(),
        signature: signature.clone(),
        stands_for,
        doc: String::new(),
        builtin: None,
        public: true,
    };
    let def = |name: &str, kind, public| TypeDef {
        name: name.into(),
        kind,
        supertypes: Vec::new(),
        methods: Default::default(),
        immutable: false,
        actor: false,
        public,
        doc: String::new(),
    };
    let counter = p.types.add(def("counter", TypeKind::Object, true));
    let m = p.types.def_mut(counter).methods.push(heading("bump", &bump, Vec::new()));
    let own = p.types.add(def("Counter", TypeKind::Class(ClassId::from_u32(0)), false));
    p.types.def_mut(own).supertypes.push(Supertype { ty: counter, renames: Vec::new() });
    let up = MethodRef { ty: counter, method: m };
    p.types.def_mut(own).methods.push(heading("bump", &bump, vec![up]));

    let add = method(&p, Types::INT, "add");
    let gt = method(&p, Types::INT, "gt");
    let class = ClassId::from_u32(0);
    let overflow = p.types.find_signal("overflow").unwrap();
    // bump: count := count + by; if count > 10 then signal full(count) end; return count
    let body = p.funcs.push(Func {
        name: "Counter.bump".into(),
        kind: FuncKind::Method,
        signature: bump,
        vars: vars(&[own, Types::INT, Types::INT, Types::BOOL]),
        body: Block(vec![
            Stmt::Get { dst: v(2), object: v(0).into(), class, field: 0 },
            Stmt::Except {
                body: Block(vec![call(add, &[v(2).into(), v(1).into()], &[v(2)])]),
                arms: vec![Arm {
                    takes: ArmMatch::Named(smallvec![overflow]),
                    vars: smallvec![],
                    body: Block(vec![Stmt::Signal {
                        signal: full,
                        values: smallvec![int(0)],
                        site: Site::default(),
                    }]),
                }],
            },
            Stmt::Set { object: v(0).into(), class, field: 0, value: v(2).into() },
            call(gt, &[v(2).into(), int(10)], &[v(3)]),
            Stmt::If {
                test: v(3).into(),
                then: Block(vec![Stmt::Signal {
                    signal: full,
                    values: smallvec![v(2).into()],
                    site: Site::default(),
                }]),
                otherwise: Block(vec![]),
            },
            Stmt::Return(smallvec![v(2).into()]),
        ]),
        procedures: Vec::new(),
        written: crate::places::Written::Somewhere,
    });
    p.classes.push(Class {
        name: "Counter".into(),
        ty: own,
        superclass: None,
        fields: vec![Field { name: "count".into(), ty: Types::INT }],
        bodies: vec![crate::program::Body::Func(body)],
        actor: None,
    });

    // new_counter (n: int) returns (counter)
    let signature = Signature {
        params: vec![Param { name: "n".into(), ty: Types::INT }],
        results: vec![counter],
        ..Signature::default()
    };
    routine(
        &mut p,
        "new_counter",
        signature,
        vars(&[Types::INT, own]),
        vec![
            Stmt::New { dst: v(1), class, fields: vec![v(0).into()], site: Site(1) },
            Stmt::Return(smallvec![v(1).into()]),
        ],
    );

    // twice (n: int) yields (int, int)
    let signature = Signature {
        params: vec![Param { name: "n".into(), ty: Types::INT }],
        yields: Some(vec![Types::INT, Types::INT]),
        ..Signature::default()
    };
    let to = method(&p, Types::INT, "to");
    routine(
        &mut p,
        "twice",
        signature,
        vars(&[Types::INT, Types::INT]),
        vec![
            Stmt::ForEach {
                callee: to,
                args: smallvec![int(1), v(0).into()],
                vars: smallvec![v(1)],
                body: Block(vec![Stmt::Yield(smallvec![v(1).into(), v(1).into()])]),
                site: Site(2),
            },
            Stmt::Return(smallvec![]),
        ],
    );

    // run (c: counter) returns (int, string): loops, exits and handlers of all kinds.
    let twice = Callee::Routine(RoutineId::from_u32(1));
    let bump = method(&p, counter, "bump");
    let text = p.literal("none");
    let signature = Signature {
        params: vec![Param { name: "c".into(), ty: counter }],
        results: vec![Types::INT, Types::STRING],
        ..Signature::default()
    };
    let decls = vars(&[counter, Types::INT, Types::INT, Types::INT, Types::STRING, Types::BOOL, Types::ANY]);
    routine(
        &mut p,
        "run",
        signature,
        decls,
        vec![
            Stmt::Let { dst: v(4), src: Const::Str(text).into() },
            Stmt::Let { dst: v(6), src: v(4).into() },
            Stmt::Let { dst: v(1), src: int(0) },
            Stmt::Except {
                body: Block(vec![Stmt::ForEach {
                    callee: twice,
                    args: smallvec![int(5)],
                    vars: smallvec![v(2), v(3)],
                    body: Block(vec![
                        call(bump, &[v(0).into(), v(2).into()], &[v(1)]),
                        call(gt, &[v(1).into(), v(3).into()], &[v(5)]),
                        Stmt::If {
                            test: v(5).into(),
                            then: Block(vec![Stmt::Exit { signal: full, values: smallvec![v(3).into()] }]),
                            otherwise: Block(vec![Stmt::Continue]),
                        },
                    ]),
                    site: Site(3),
                }]),
                arms: vec![
                    Arm {
                        takes: ArmMatch::Named(smallvec![full]),
                        vars: smallvec![v(1)],
                        body: Block(vec![]),
                    },
                    Arm { takes: ArmMatch::Others, vars: smallvec![v(4)], body: Block(vec![]) },
                ],
            },
            Stmt::While {
                cond: Block(vec![call(gt, &[v(1).into(), int(3)], &[v(5)])]),
                test: v(5).into(),
                body: Block(vec![call(add, &[v(1).into(), int(-1)], &[v(1)]), Stmt::Break]),
            },
            Stmt::While {
                cond: Block(vec![]),
                test: Const::Bool(true).into(),
                body: Block(vec![Stmt::Return(smallvec![v(1).into(), v(4).into()])]),
            },
        ],
    );
    p
}

fn routine(
    p: &mut Program,
    name: &str,
    signature: Signature,
    vars: cranelift_entity::PrimaryMap<Var, VarDecl>,
    body: Vec<Stmt>,
) {
    let func = p.funcs.push(Func {
        name: name.into(),
        kind: FuncKind::Routine,
        signature: signature.clone(),
        vars,
        body: Block(body),
        procedures: Vec::new(),
        written: crate::places::Written::Somewhere,
    });
    p.add_routine(Routine {
        name: name.into(),
        signature,
        body: Body::Func(func),
        type_args: Vec::new(),
        public: true,
        doc: String::new(),
    });
}

#[test]
fn a_valid_program_is_accepted() {
    assert_eq!(verify_program(&program()), Ok(()));
}

/// Returns the errors of a function of `program()` after a change.
fn broken(name: &str, change: impl FnOnce(&Program, &mut Func)) -> Vec<Kind> {
    let p = program();
    let mut func = p.funcs.values().find(|f| f.name == name).unwrap().clone();
    change(&p, &mut func);
    verify_func(&p, &func).unwrap_err().into_iter().map(|e| e.kind).collect()
}

#[test]
fn operands_have_the_expected_types() {
    let errors = broken("run", |p, f| {
        let add = method(p, Types::INT, "add");
        f.body.0.insert(0, call(add, &[int(1), Const::Bool(true).into()], &[v(4)]));
        f.body.0.insert(1, Stmt::Let { dst: v(6), src: int(1) });
    });
    let named = |ty: TypeId, name: &str| super::NamedType { id: ty, name: name.into() };
    assert_eq!(
        errors,
        [
            Kind::WrongType {
                place: Place::Argument(0),
                expected: named(Types::INT, "int"),
                found: named(Types::BOOL, "bool"),
            },
            Kind::WrongType {
                place: Place::Result(0),
                expected: named(Types::STRING, "string"),
                found: named(Types::INT, "int"),
            },
            Kind::WrongType {
                place: Place::Source,
                expected: named(Types::ANY, "any"),
                found: named(Types::INT, "int"),
            },
        ]
    );
    assert_eq!(errors[0].to_string(), "argument 1: expected `int`, found `bool`");
}

#[test]
fn variables_are_assigned_before_use() {
    let unassigned = |place, n: u32| Kind::UnassignedVar { place, var: v(n), name: format!("x{n}") };
    // Assigned in the loop's body only.
    let errors = broken("run", |_, f| f.body.0.insert(4, Stmt::Let { dst: v(1), src: v(2).into() }));
    assert_eq!(errors, [unassigned(Place::Source, 2)]);
    // Assigned in one branch only.
    let errors = broken("Counter.bump", |_, f| {
        f.body.0.insert(
            0,
            Stmt::If {
                test: Const::Bool(true).into(),
                then: Block(vec![Stmt::Let { dst: v(2), src: int(1) }]),
                otherwise: Block(vec![]),
            },
        );
        f.body.0.insert(1, Stmt::Let { dst: v(1), src: v(2).into() });
    });
    assert_eq!(errors, [unassigned(Place::Source, 2)]);
    // A branch that ends does not count.
    let p = program();
    let mut f = p.funcs.values().find(|f| f.name == "Counter.bump").unwrap().clone();
    f.body.0.insert(
        0,
        Stmt::If {
            test: Const::Bool(true).into(),
            then: Block(vec![Stmt::Let { dst: v(2), src: int(1) }]),
            otherwise: Block(vec![Stmt::Return(smallvec![int(0)])]),
        },
    );
    f.body.0.insert(1, Stmt::Let { dst: v(1), src: v(2).into() });
    assert_eq!(verify_func(&p, &f), Ok(()));
    // A handler starts before the body.
    let errors = broken("run", |_, f| {
        let Stmt::Except { arms, .. } = &mut f.body.0[3] else { panic!() };
        arms[1].body.0.push(Stmt::Let { dst: v(1), src: v(3).into() });
    });
    assert_eq!(errors, [unassigned(Place::Source, 3)]);
}

#[test]
fn counts_ends_and_places_of_statements() {
    let count = |what, expected, found| Kind::WrongCount { what, expected, found };
    assert_eq!(
        broken("new_counter", |_, f| {
            f.body.0.pop();
        }),
        [Kind::ReturnMissing]
    );
    assert_eq!(
        broken("new_counter", |_, f| f.body.0[1] = Stmt::Return(smallvec![])),
        [count(Counted::ReturnValues, 1, 0)]
    );
    assert_eq!(
        broken("new_counter", |_, f| {
            f.body.0[0] = Stmt::New { dst: v(1), class: ClassId::from_u32(0), fields: vec![], site: Site(1) };
        }),
        [count(Counted::Fields, 1, 0)]
    );
    assert_eq!(broken("new_counter", |_, f| f.body.0.insert(0, Stmt::Break)), [Kind::BreakOutsideLoop]);
    assert_eq!(
        broken("new_counter", |_, f| f.body.0.insert(0, Stmt::Yield(smallvec![]))),
        [Kind::YieldOutsideIterator]
    );
    assert_eq!(
        broken("run", |_, f| {
            let Stmt::While { cond, .. } = &mut f.body.0[4] else { panic!() };
            cond.0.push(Stmt::Continue);
        }),
        [Kind::BreakInCondition]
    );
    assert_eq!(
        broken("run", |p, f| f.body.0.insert(0, call(method(p, Types::INT, "to"), &[int(1), int(2)], &[]))),
        [Kind::IteratorInCall { callee: "int.to".into() }]
    );
    assert_eq!(
        broken("twice", |p, f| {
            let Stmt::ForEach { callee, .. } = &mut f.body.0[0] else { panic!() };
            *callee = method(p, Types::INT, "add");
        }),
        [Kind::NotAnIterator { callee: "int.add".into() }]
    );
    assert_eq!(
        broken("twice", |_, f| f.body.0[1] = Stmt::Return(smallvec![int(1)])),
        [count(Counted::ReturnValues, 0, 1)]
    );
    assert_eq!(
        broken("run", |_, f| {
            f.body.0[5] = Stmt::While {
                cond: Block(vec![]),
                test: Const::Bool(true).into(),
                body: Block(vec![Stmt::Break]),
            };
        }),
        [Kind::ReturnMissing]
    );
}

#[test]
fn exceptions_are_declared_and_handled() {
    let exit = |p: &Program, values: &[Operand]| Stmt::Exit {
        signal: p.types.find_signal("full").unwrap(),
        values: values.into(),
    };
    assert_eq!(
        broken("run", |p, f| f.body.0.insert(0, exit(p, &[int(1)]))),
        [Kind::NoHandlerForExit { signal: "full".into() }]
    );
    assert_eq!(
        broken("run", |p, f| {
            let Stmt::Except { body, .. } = &mut f.body.0[3] else { panic!() };
            body.0.insert(0, exit(p, &[]));
        }),
        [Kind::ArmCount { signal: "full".into(), expected: 1, found: 0 }]
    );
    assert_eq!(
        broken("run", |p, f| {
            let Stmt::Except { body, .. } = &mut f.body.0[3] else { panic!() };
            body.0.insert(0, exit(p, &[Const::Nil.into()]));
        }),
        [Kind::ArmType {
            signal: "full".into(),
            index: 1,
            expected: super::NamedType { id: Types::INT, name: "int".into() },
            found: super::NamedType { id: Types::NULL, name: "null".into() },
        }]
    );
    assert_eq!(
        broken("run", |p, f| {
            let signal = p.types.find_signal("full").unwrap();
            f.body.0.insert(0, Stmt::Signal { signal, values: smallvec![int(1)], site: Site::default() });
        }),
        [Kind::SignalNotDeclared { signal: "full".into() }]
    );
    assert_eq!(
        broken("run", |_, f| {
            f.body.0.insert(
                0,
                Stmt::Signal { signal: SignalId::FAILURE, values: smallvec![], site: Site::default() },
            );
        }),
        [Kind::WrongCount { what: Counted::ExceptionValues, expected: 1, found: 0 }]
    );
}

#[test]
fn batches_stay_outside() {
    let errors = broken("new_counter", |_, f| f.kind = FuncKind::Batch);
    assert_eq!(errors, [Kind::ClassInBatch]);
    let errors = broken("new_counter", |_, f| {
        f.body.0.insert(0, call(Callee::Itself, &[int(1)], &[]));
        f.body.0.insert(1, call(Callee::Procedure(0), &[int(1)], &[]));
    });
    assert_eq!(errors, [Kind::ProcedureOutsideBatch, Kind::NoSuchCallee(Callee::Procedure(0))]);
}

#[test]
fn deep_nesting_is_refused_without_recursion() {
    let mut block = Block(vec![]);
    for _ in 0..100_000 {
        block = Block(vec![Stmt::Except { body: block, arms: vec![] }]);
    }
    let p = program();
    let mut func = p.funcs.values().next().unwrap().clone();
    func.body = block;
    let errors = verify_func(&p, &func).unwrap_err();
    // Taken apart by hand: dropping it would recurse.
    let mut block = func.body;
    while let Some(Stmt::Except { body, .. }) = block.0.pop() {
        block = body;
    }
    assert!(errors.iter().any(|e| e.kind == Kind::TooDeep), "{errors:?}");
}

#[test]
fn random_changes_never_panic() {
    let p = program();
    for seed in 1..20_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut func = p.funcs[crate::FuncId::from_u32(random.below(4))].clone();
        for _ in 0..=random.below(4) {
            mutate(&mut func, &mut random);
        }
        let result = std::panic::catch_unwind(|| verify_func(&p, &func).is_err());
        assert!(result.is_ok(), "seed {seed}: {func:#?}");
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32 % n.max(1)
    }

    /// Returns mostly a small number, now and then an absurd one.
    fn id(&mut self) -> u32 {
        if self.below(20) == 0 { u32::MAX - 1 } else { self.below(12) }
    }

    fn operand(&mut self) -> Operand {
        match self.below(8) {
            0 => int(i64::from(self.id())),
            1 => Const::Bool(true).into(),
            2 => Const::Str(crate::Literal::from_u32(self.id())).into(),
            3 => Const::Nil.into(),
            _ => v(self.id()).into(),
        }
    }

    fn callee(&mut self) -> Callee {
        match self.below(4) {
            0 => Callee::Routine(RoutineId::from_u32(self.id())),
            1 => Callee::Procedure(self.id()),
            2 => Callee::Itself,
            _ => Callee::Method(MethodRef {
                ty: TypeId::from_u32(self.id()),
                method: crate::MethodId::from_u32(self.id()),
            }),
        }
    }

    fn method(&mut self) -> MethodRef {
        MethodRef { ty: TypeId::from_u32(self.id()), method: MethodId::from_u32(self.id()) }
    }

    fn stmt(&mut self) -> Stmt {
        let class = ClassId::from_u32(self.id());
        match self.below(21) {
            0 => Stmt::Break,
            1 => Stmt::Continue,
            2 => Stmt::Return(smallvec![self.operand()]),
            3 => Stmt::Yield(smallvec![self.operand(), self.operand()]),
            4 => Stmt::Signal {
                signal: SignalId::from_u32(self.id()),
                values: smallvec![self.operand()],
                site: Site::default(),
            },
            5 => Stmt::Exit { signal: SignalId::from_u32(self.id()), values: smallvec![self.operand()] },
            6 => Stmt::Get { dst: v(self.id()), object: self.operand(), class, field: self.id() },
            7 => Stmt::Set { object: self.operand(), class, field: self.id(), value: self.operand() },
            8 => Stmt::New { dst: v(self.id()), class, fields: vec![self.operand()], site: Site(1) },
            9 => Stmt::Let { dst: v(self.id()), src: self.operand() },
            10 => Stmt::ForEach {
                callee: self.callee(),
                args: smallvec![self.operand()],
                vars: smallvec![v(self.id())],
                body: Block(vec![self.stmt()]),
                site: Site(1),
            },
            12 => Stmt::Create {
                dst: v(self.id()),
                class,
                creator: self.id(),
                args: smallvec![self.operand()],
                place: Destination::On(self.operand()),
                site: Site(1),
            },
            13 => Stmt::Send { method: self.method(), args: smallvec![self.operand()], site: Site(1) },
            14 => Stmt::Request {
                method: self.method(),
                args: smallvec![self.operand()],
                dst: v(self.id()),
                element: [None, Some(self.operand())][self.below(2) as usize],
                site: Site(1),
            },
            15 => Stmt::Await { vars: smallvec![v(self.id())], site: Site(1) },
            16 => Stmt::Delegate { method: self.method(), args: smallvec![self.operand()], site: Site(1) },
            17 => Stmt::Select {
                arms: vec![Choice {
                    method: self.method(),
                    vars: smallvec![v(self.id())],
                    cond: Block(vec![self.stmt()]),
                    test: self.operand(),
                    body: Block(vec![self.stmt()]),
                }],
                after: Some((self.operand(), Block(vec![self.stmt()]))),
                site: Site(1),
            },
            18 => Stmt::ReplyTo { dst: v(self.id()), site: Site(1) },
            19 => Stmt::Deliver { replier: self.operand(), values: smallvec![self.operand()], site: Site(1) },
            11 => Stmt::Transaction { body: Block(vec![self.stmt()]), site: Site(1) },
            _ => call(self.callee(), &[self.operand()], &[v(self.id())]),
        }
    }
}

fn mutate(func: &mut Func, random: &mut Random) {
    match random.below(10) {
        0 => {
            let kinds =
                [FuncKind::Routine, FuncKind::Method, FuncKind::Script, FuncKind::Batch, FuncKind::Procedure];
            func.kind = kinds[random.below(5) as usize];
        }
        1 => func.signature.results.push(TypeId::from_u32(random.id())),
        2 => func.signature.yields = Some(vec![TypeId::from_u32(random.id())]),
        3 => {
            func.vars.push(VarDecl { name: String::new(), ty: TypeId::from_u32(random.id()) });
        }
        4 => func.signature.params.push(Param { name: String::new(), ty: TypeId::from_u32(random.id()) }),
        _ => mutate_block(&mut func.body, random),
    }
}

fn mutate_block(block: &mut Block, random: &mut Random) {
    let at = random.below(block.0.len() as u32 + 1) as usize;
    match block.0.get_mut(at) {
        Some(Stmt::If { then, otherwise, test }) => match random.below(3) {
            0 => *test = random.operand(),
            1 => mutate_block(then, random),
            _ => mutate_block(otherwise, random),
        },
        Some(Stmt::While { cond, body, .. }) => {
            mutate_block(if random.below(2) == 0 { cond } else { body }, random)
        }
        Some(Stmt::ForEach { body, vars, .. }) => match random.below(3) {
            0 => vars.push(v(random.id())),
            _ => mutate_block(body, random),
        },
        Some(Stmt::Except { body, arms }) => match arms.first_mut() {
            Some(arm) if random.below(2) == 0 => {
                arm.vars.push(v(random.id()));
                mutate_block(&mut arm.body, random);
            }
            _ => mutate_block(body, random),
        },
        Some(Stmt::Call { callee, args, dsts, .. }) => match random.below(4) {
            0 => *callee = random.callee(),
            1 => args.push(random.operand()),
            2 => {
                args.pop();
            }
            _ => dsts.push(v(random.id())),
        },
        Some(stmt) if random.below(2) == 0 => *stmt = random.stmt(),
        _ => block.0.insert(at, random.stmt()),
    }
}
