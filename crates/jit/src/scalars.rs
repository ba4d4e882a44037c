//! Objects that never leave their function are kept in variables: escape analysis and scalar
//! replacement on the IR.
//!
//! A variable is taken apart if it is only ever filled by constructors of one class, and has only
//! two kinds of uses. One is to get and set instance variables; the other is to call methods whose
//! bodies do no more than that: fields of records and structs, tags of oneofs, abbreviated methods.
//! Then each of its instance variables becomes a variable of the function, and no object is made.
//! Any other use of it (it is assigned, passed, stored, returned, compared, asked for its type)
//! makes it stay an object.
//!
//! Nothing can tell the difference: there is no other reference to the object, and the code that
//! replaces its methods signals nothing. The interpreter runs programs as they were, so that it
//! stays the oracle.

use std::collections::HashMap;

use bifrost_ir::dispatch::Dispatch;
use bifrost_ir::{
    Block, Body, Callee, ClassId, Func, FuncId, MethodRef, Operand, Part, Program, Stmt, Var, VarDecl,
};
use cranelift_codegen::entity::SecondaryMap;

/// The number of statements that a method may have to take the place of its call.
const STATEMENTS_MAX: usize = 12;

/// The number of variables that a function may get by this.
const VARIABLES_MAX: usize = 200;

/// Takes objects apart in all functions of a verified program, which stays one.
///
/// Cost: linear in the size of the functions that have constructors.
pub fn replace(program: &mut Program) {
    let dispatch = Dispatch::new(program);
    let program_now = &*program;
    let mut classes = Methods { program: program_now, dispatch: &dispatch, tables: HashMap::new() };
    let funcs = program_now.funcs.iter();
    let changed: Vec<(FuncId, Func)> =
        funcs.filter_map(|(id, func)| Some((id, replaced(&mut classes, func)?))).collect();
    for (id, func) in changed {
        program.funcs[id] = func;
    }
}

/// The function without the objects that never leave it, if there are any.
fn replaced(classes: &mut Methods<'_>, func: &Func) -> Option<Func> {
    let mut count = Counts::default();
    count.block(&func.body);
    // An object is as before when a transaction is aborted, a variable is not.
    if !count.constructs || func.body.has_transaction() {
        return None;
    }
    let mut scan = Scan { counts: &count.vars, facts: SecondaryMap::new(), calls: vec![] };
    for param in func.params() {
        scan.facts[param] = Fact::Object;
    }
    scan.block(&func.body);
    let (mut facts, calls) = (scan.facts, scan.calls);
    for (var, method) in calls {
        if let Fact::Made(class) = facts[var]
            && classes.simple(class, method).is_none()
        {
            facts[var] = Fact::Object;
        }
    }
    let mut func_after = func.clone();
    let mut fields = SecondaryMap::new();
    for (var, decl) in func.vars.iter() {
        if let Fact::Made(class) = facts[var] {
            let parts = classes.program.classes[class].fields.iter();
            let parts = parts.map(|f| VarDecl { name: format!("{}.{}", decl.name, f.name), ty: f.ty });
            fields[var] = Some((class, parts.map(|part| func_after.vars.push(part)).collect()));
        }
    }
    if fields.values().all(Option::is_none) {
        return None;
    }
    let body = std::mem::take(&mut func_after.body);
    let mut rewrite = Rewrite { classes, counts: &count.vars, fields, func: &mut func_after };
    let body = rewrite.block(&body);
    func_after.body = body;
    (func_after.vars.len() <= func.vars.len() + VARIABLES_MAX).then_some(func_after)
}

/// The methods that can be replaced.
struct Methods<'p> {
    program: &'p Program,
    dispatch: &'p Dispatch,
    /// For each class and slot the position of the method.
    tables: HashMap<ClassId, Vec<Option<u32>>>,
}

impl<'p> Methods<'p> {
    /// The function that a method is in a class, if it only moves values about.
    fn simple(&mut self, class: ClassId, method: MethodRef) -> Option<&'p Func> {
        let program = self.program;
        let table = self.tables.entry(class).or_insert_with(|| self.dispatch.table(program, class));
        let at = (*table.get(self.dispatch.slot(method) as usize)?)?;
        let Body::Func(func) = *program.classes[class].bodies.get(at as usize)? else { return None };
        let func = &program.funcs[func];
        let receiver = Var::from_u32(0);
        let plain = |operand: &Operand| *operand != Operand::Var(receiver);
        let (last, before) = func.body.0.split_last()?;
        let Stmt::Return(values) = last else { return None };
        let moves = before.iter().all(|stmt| match stmt {
            Stmt::Let { dst, src } => *dst != receiver && plain(src),
            Stmt::Get { dst, object, .. } => *dst != receiver && !plain(object),
            Stmt::Set { object, value, .. } => !plain(object) && plain(value),
            _ => false,
        });
        (moves && before.len() < STATEMENTS_MAX && values.iter().all(plain)).then_some(func)
    }
}

/// The number of times that a variable is filled and used.
#[derive(Clone, Copy, Default)]
struct Count {
    filled: u32,
    used: u32,
}

#[derive(Default)]
struct Counts {
    vars: SecondaryMap<Var, Count>,
    constructs: bool,
}

impl Counts {
    fn block(&mut self, block: &Block) {
        for stmt in &block.0 {
            self.constructs |= matches!(stmt, Stmt::New { .. });
            stmt.parts(&mut |part| match part {
                Part::Reads(Operand::Var(var)) => self.vars[var].used += 1,
                Part::Reads(Operand::Const(_)) => {}
                Part::Writes(var) => self.vars[var].filled += 1,
                Part::Block(block) => self.block(block),
            });
        }
    }
}

/// The variable that a constructor is for, with the number of statements that this takes. It is `x`
/// of `x := new C()`, and of `t := new C()`, `x := t` if nothing else is done with `t`.
fn made(counts: &SecondaryMap<Var, Count>, stmts: &[Stmt]) -> Option<(Var, ClassId, usize)> {
    let Stmt::New { dst, class, .. } = stmts.first()? else { return None };
    let once = counts[*dst].filled == 1 && counts[*dst].used == 1;
    Some(match stmts.get(1) {
        Some(Stmt::Let { dst: to, src }) if once && *src == Operand::Var(*dst) => (*to, *class, 2),
        _ => (*dst, *class, 1),
    })
}

/// The facts about the contents of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Fact {
    /// Nothing yet.
    #[default]
    Unknown,
    /// Objects of this class that nothing else refers to.
    Made(ClassId),
    /// Anything.
    Object,
}

struct Scan<'c> {
    counts: &'c SecondaryMap<Var, Count>,
    facts: SecondaryMap<Var, Fact>,
    /// Methods called on variables.
    calls: Vec<(Var, MethodRef)>,
}

impl Scan<'_> {
    fn block(&mut self, block: &Block) {
        let mut rest = block.0.as_slice();
        while let Some((stmt, after)) = rest.split_first() {
            if let Some((var, class, count)) = made(self.counts, rest) {
                self.facts[var] = match self.facts[var] {
                    Fact::Unknown => Fact::Made(class),
                    Fact::Made(other) if other == class => Fact::Made(class),
                    _ => Fact::Object,
                };
                let Stmt::New { fields, .. } = stmt else { unreachable!("a constructor") };
                fields.iter().for_each(|field| self.leaves(*field));
                rest = &rest[count..];
                continue;
            }
            self.stmt(stmt);
            rest = after;
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Get { dst, object: Operand::Var(_), .. } => self.facts[*dst] = Fact::Object,
            Stmt::Set { object: Operand::Var(_), value, .. } => self.leaves(*value),
            Stmt::Call { callee: Callee::Method(method), args, dsts, .. }
                if let [Operand::Var(receiver), args @ ..] = args.as_slice() =>
            {
                self.calls.push((*receiver, *method));
                args.iter().for_each(|arg| self.leaves(*arg));
                dsts.iter().for_each(|dst| self.facts[*dst] = Fact::Object);
            }
            _ => stmt.parts(&mut |part| match part {
                Part::Reads(operand) => self.leaves(operand),
                Part::Writes(var) => self.facts[var] = Fact::Object,
                Part::Block(block) => self.block(block),
            }),
        }
    }

    fn leaves(&mut self, operand: Operand) {
        if let Operand::Var(var) = operand {
            self.facts[var] = Fact::Object;
        }
    }
}

struct Rewrite<'r, 'p> {
    classes: &'r mut Methods<'p>,
    counts: &'r SecondaryMap<Var, Count>,
    /// The variables that replace each variable that is taken apart.
    fields: SecondaryMap<Var, Option<(ClassId, Vec<Var>)>>,
    func: &'r mut Func,
}

impl Rewrite<'_, '_> {
    fn block(&mut self, block: &Block) -> Block {
        let mut out = Vec::with_capacity(block.0.len());
        let mut rest = block.0.as_slice();
        while let Some((stmt, after)) = rest.split_first() {
            if let Stmt::New { fields, .. } = stmt
                && let Some((var, _, count)) = made(self.counts, rest)
                && let Some((_, parts)) = &self.fields[var]
            {
                out.extend(parts.iter().zip(fields).map(|(dst, src)| Stmt::Let { dst: *dst, src: *src }));
                rest = &rest[count..];
                continue;
            }
            self.stmt(stmt, &mut out);
            rest = after;
        }
        Block(out)
    }

    fn stmt(&mut self, stmt: &Stmt, out: &mut Vec<Stmt>) {
        match stmt {
            Stmt::Get { dst, object, field, .. } if let Some((_, parts)) = self.parts(*object) => {
                out.push(Stmt::Let { dst: *dst, src: parts[*field as usize].into() });
            }
            Stmt::Set { object, field, value, .. } if let Some((_, parts)) = self.parts(*object) => {
                out.push(Stmt::Let { dst: parts[*field as usize], src: *value });
            }
            Stmt::Call { callee: Callee::Method(method), args, dsts, .. }
                if let Some((class, parts)) = self.parts(args[0]) =>
            {
                let method =
                    self.classes.simple(class, *method).expect("those with other methods stay objects");
                self.in_place(method, &parts, &args[1..], dsts, out);
            }
            _ => {
                let mut stmt = stmt.clone();
                stmt.blocks_mut().into_iter().for_each(|block| *block = self.block(block));
                out.push(stmt);
            }
        }
    }

    /// The class and variables of a variable that is taken apart.
    fn parts(&self, object: Operand) -> Option<(ClassId, Vec<Var>)> {
        let Operand::Var(var) = object else { return None };
        self.fields[var].clone()
    }

    /// A method in place of its call.
    fn in_place(
        &mut self,
        method: &Func,
        parts: &[Var],
        args: &[Operand],
        dsts: &[Var],
        out: &mut Vec<Stmt>,
    ) {
        let mut own = SecondaryMap::with_default(Var::from_u32(0));
        for (var, decl) in method.vars.iter().skip(1) {
            own[var] = self.func.vars.push(decl.clone());
        }
        let operand = |operand: Operand| match operand {
            Operand::Var(var) => Operand::Var(own[var]),
            constant => constant,
        };
        let params = method.params().skip(1);
        out.extend(params.zip(args).map(|(param, arg)| Stmt::Let { dst: own[param], src: *arg }));
        for stmt in &method.body.0 {
            match stmt {
                Stmt::Let { dst, src } => out.push(Stmt::Let { dst: own[*dst], src: operand(*src) }),
                Stmt::Get { dst, field, .. } => {
                    out.push(Stmt::Let { dst: own[*dst], src: parts[*field as usize].into() });
                }
                Stmt::Set { field, value, .. } => {
                    out.push(Stmt::Let { dst: parts[*field as usize], src: operand(*value) });
                }
                Stmt::Return(values) => {
                    let results = dsts.iter().zip(values);
                    out.extend(results.map(|(dst, value)| Stmt::Let { dst: *dst, src: operand(*value) }));
                }
                _ => unreachable!("a simple method moves values"),
            }
        }
    }
}
