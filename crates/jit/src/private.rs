//! Finds the objects that only the function knows that makes them.
//!
//! Arrays are private if they never leave it, and are never longer or shorter. The facts about
//! their bounds and the place of their elements hold as long as the function runs, across all
//! calls. There need be no more of them than their storage. Only statements in the function's
//! outermost block make them, before all uses: so their variables have one value.
//!
//! Actors that are as good as any other ([`ActorClass::any`]) and get one request right behind
//! their creation: where their method is called at once, no object is made for them.

use std::collections::{HashMap, HashSet};

use bifrost_ir::{
    Block, Body, Callee, ClassId, Destination, Func, MethodRef, Operand, Part, Program, Stmt, Var,
};
use bifrost_runtime::actor_class::ActorClass;
use bifrost_runtime::image::Image;

/// Methods and iterators of arrays that leave bounds and storage as they are, and hand the array to
/// nobody.
const QUIET: &[&str] = &["fetch", "store", "length", "empty", "low", "high", "elements", "indexes"];

/// The variables of a function that such an array is given to. `shared` tells which ones closures
/// share: they are read elsewhere.
///
/// Cost: linear in the size of the function.
pub(crate) fn find(program: &Program, func: &Func, shared: &[bool]) -> HashSet<Var> {
    let mut private = HashSet::new();
    // A transaction may bring objects back to their states of before.
    if func.body.has_transaction() {
        return private;
    }
    for stmt in &func.body.0 {
        match stmt {
            Stmt::Call { callee, dsts, .. } if makes_array(program, *callee) => private.extend(dsts),
            Stmt::Let { dst, src: Operand::Var(src) } if private.contains(src) => _ = private.insert(*dst),
            _ => {}
        }
    }
    if private.is_empty() {
        return private;
    }
    let mut uses = Uses {
        program,
        private: &private,
        leaves: HashSet::new(),
        written: HashMap::new(),
        named: Vec::new(),
    };
    uses.block(&func.body);
    let Uses { mut leaves, written, named, .. } = uses;
    leaves.extend(private.iter().filter(|var| written[var] != 1 || shared[var.as_u32() as usize]));
    // A value that leaves by one name is private by none.
    while let Some((a, b)) = named.iter().find(|(a, b)| leaves.contains(a) != leaves.contains(b)) {
        leaves.extend([*a, *b]);
    }
    private.retain(|var| !leaves.contains(var));
    private
}

fn makes_array(program: &Program, callee: Callee) -> bool {
    let Callee::Routine(routine) = callee else { return false };
    let body = program.routines[routine].body;
    matches!(body, Body::Native(_)) && program.native_name(body) == Some("array_fill")
}

struct Uses<'a> {
    program: &'a Program,
    /// The variables that are looked at.
    private: &'a HashSet<Var>,
    leaves: HashSet<Var>,
    /// The number of times that something is written to each.
    written: HashMap<Var, usize>,
    /// Pairs of variables that have the same array.
    named: Vec<(Var, Var)>,
}

impl Uses<'_> {
    fn block(&mut self, block: &Block) {
        for stmt in &block.0 {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        // The first operand may be the array.
        let mut quiet = match stmt {
            Stmt::Call { callee: Callee::Method(m), .. }
            | Stmt::ForEach { callee: Callee::Method(m), .. } => self.is_quiet(*m),
            Stmt::Let { dst, src: Operand::Var(src) } => {
                let named = self.private.contains(dst) && self.private.contains(src);
                if named {
                    self.named.push((*dst, *src));
                }
                named
            }
            _ => false,
        };
        let stores = matches!(stmt, Stmt::Request { element: Some(_), .. });
        let awaits = matches!(stmt, Stmt::Await { .. });
        stmt.parts(&mut |part| match part {
            Part::Reads(operand) => {
                if let Operand::Var(var) = operand
                    && !quiet
                    && !awaits
                {
                    self.leaves.insert(var);
                }
                quiet = false;
            }
            Part::Writes(var) => *self.written.entry(var).or_default() += usize::from(!stores),
            Part::Block(block) => self.block(block),
        });
    }

    fn is_quiet(&self, m: MethodRef) -> bool {
        let row = self.program.types.method(m).builtin;
        row.is_some_and(|row| row.family == "array" && QUIET.contains(&row.name()))
    }
}

/// An actor that is created for one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForRequest {
    pub(crate) class: ClassId,
    pub(crate) creator: u32,
    pub(crate) place: Destination,
}

/// The variables of a function that such an actor is given to, which is no other than any of its
/// class.
///
/// Cost: linear in the size of the function.
pub(crate) fn for_requests(image: &Image, func: &Func) -> HashMap<Var, ForRequest> {
    let mut found = Vec::new();
    in_blocks(&func.body, &mut |block| for_requests_in(image, block, &mut found));
    if found.is_empty() {
        return HashMap::new();
    }
    let mut uses: HashMap<Var, usize> = HashMap::new();
    func.body.each(&mut |stmt| {
        stmt.parts(&mut |part| match part {
            Part::Reads(Operand::Var(var)) | Part::Writes(var) => *uses.entry(var).or_default() += 1,
            _ => {}
        });
    });
    // Each name is given and taken once.
    found.retain(|new| new.names.iter().all(|name| uses[name] == 2));
    found.iter().flat_map(|new| new.names.iter().map(|name| (*name, new.it))).collect()
}

/// A new actor and the names that it has had, the one that counts last.
struct New {
    names: Vec<Var>,
    it: ForRequest,
}

fn in_blocks<'a>(block: &'a Block, see: &mut dyn FnMut(&'a Block)) {
    see(block);
    for stmt in &block.0 {
        stmt.parts(&mut |part| {
            if let Part::Block(block) = part {
                in_blocks(block, see);
            }
        });
    }
}

/// Those of one block: between the creation and the request nothing is done that others could see.
fn for_requests_in(image: &Image, block: &Block, found: &mut Vec<New>) {
    let types = &image.program().types;
    let mut made: Vec<New> = Vec::new();
    let called = |made: &[New], name: &Var| made.iter().position(|new| new.names.last() == Some(name));
    for stmt in &block.0 {
        match stmt {
            Stmt::Create { dst, class, creator, place, args, .. } if args.is_empty() => {
                let table = image.find_table(image.program().classes[*class].ty);
                let any =
                    table.and_then(|table| table.info().actor()).and_then(|class: &ActorClass| class.any);
                let near = matches!(place, Destination::Here | Destination::Anywhere);
                if any.is_some() && near {
                    let it = ForRequest { class: *class, creator: *creator, place: *place };
                    made.push(New { names: vec![*dst], it });
                }
            }
            Stmt::Request { args, method, .. } => {
                if let Some(Operand::Var(to)) = args.first()
                    && let Some(at) = called(&made, to)
                    && image.program().classes[made[at].it.class].ty == method.ty
                {
                    found.push(made.swap_remove(at));
                }
                made.clear();
            }
            Stmt::Let { dst, src: Operand::Var(src) } => {
                if let Some(at) = called(&made, src) {
                    made[at].names.push(*dst);
                }
            }
            Stmt::Let { .. } => {}
            Stmt::Call { callee: Callee::Method(m), .. } if types.kind(m.ty).is_basic() => {}
            _ => made.clear(),
        }
    }
}
