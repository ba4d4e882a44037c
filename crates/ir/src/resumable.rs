//! Loops that can be left in their middle and taken up again: no iterator is on the stack while
//! their bodies wait.
//!
//! A method that waits gives its stack back (its join continuation has the values it needs). An
//! iterator that is built in is Rust code with a frame of its own between the loop and its body.
//! [`loops_without_iterators`] writes such loops with the other operations of the collections, so
//! that the whole state of a loop is in variables:
//!
//! | over | becomes |
//! | --- | --- |
//! | `int.to`, `int.to_by` | counting, which ends instead of overflowing |
//! | `elements`, `indexes`, `members` of constant length | counting, with `fetch` or `member` |
//! | `elements`, `indexes` of an array | the same, but it reads the bounds again at each step |
//! | `elements` of a list | a variable for the rest of the list |
//! | `keys`, `values`, `pairs` of a map | a variable for the last age ([`builtin::MAP_ENTRY`]) |
//! | any other | its steps are stored in arrays first, over which the loop then counts |
//!
//! Each sees the elements that the iterator would have seen, however its body changes the
//! collection. The last row may be used only where the collection cannot change; that is so of
//! strings, and of directories outside transactions, in which nobody waits.
//!
//! The step forward stands at the head of a body, so that `continue` comes by it. Operations that
//! can signal stand inside handlers of their own even where they never do: handlers of the program
//! around the loop may take an exception of that name with other values.

use smallvec::{SmallVec, smallvec};

use crate::builtin;
use crate::places::Site;
use crate::program::Program;
use crate::stmt::{Arm, ArmMatch, Block, Callee, Const, Func, FuncKind, Operand, Stmt, Var, VarDecl};
use crate::types::{MethodRef, TypeId, TypeKind, Types};

/// Writes the loops over built-in iterators without these, if a statement in their bodies requests
/// or waits. In functions that may wait, it also writes loops that may take long, so that others
/// can have their turn. These are loops that count, and loops that send, call code of the program
/// or have other loops in them. The loops left go over values in memory, with built-in operations.
///
/// It comes before [`place_waits`](crate::requests::place_waits). The steps of a loop fill its
/// variables by statements then; these wait like all others if a reply is still due to one of the
/// variables.
///
/// Cost: linear in the size of the function.
pub fn loops_without_iterators(program: &mut Program, func: &mut Func) {
    write_loops(program, func, false);
}

/// Writes all loops over built-in iterators without these, whatever is in their bodies. They do the
/// same, but slower: this is for comparing the two.
pub fn all_loops_without_iterators(program: &mut Program, func: &mut Func) {
    write_loops(program, func, true);
}

fn write_loops(program: &mut Program, func: &mut Func, all: bool) {
    let mut body = std::mem::take(&mut func.body);
    let makes_way = func.kind == FuncKind::Script || body.has_request();
    Writing { program, func, all, makes_way, site: Site::default() }.block(&mut body);
    func.body = body;
}

struct Writing<'a> {
    program: &'a mut Program,
    func: &'a mut Func,
    /// True if all loops are written anew.
    all: bool,
    /// True if the function may wait.
    makes_way: bool,
    /// The place that the loop comes from.
    site: Site,
}

/// A loop over a built-in iterator.
struct Loop {
    method: MethodRef,
    args: SmallVec<[Operand; 3]>,
    vars: SmallVec<[Var; 1]>,
    body: Block,
}

impl Writing<'_> {
    /// Returns true if something in the block requests or waits, or, where the function may wait,
    /// takes long.
    fn block(&mut self, block: &mut Block) -> bool {
        let mut waits = false;
        let mut written = Vec::with_capacity(block.0.len());
        for mut stmt in std::mem::take(&mut block.0) {
            let mut inside = false;
            for block in stmt.blocks_mut() {
                inside |= self.block(block);
            }
            inside |= self.makes_way && self.counts(&stmt);
            waits |= inside || stmt.may_wait() || self.makes_way && self.takes_long(&stmt);
            match stmt {
                Stmt::ForEach { callee: Callee::Method(method), args, vars, body, site }
                    if (inside || self.all) && self.is_built_in(method) =>
                {
                    self.site = site;
                    self.write(Loop { method, args, vars, body }, &mut written);
                }
                stmt => written.push(stmt),
            }
        }
        block.0 = written;
        waits
    }

    /// Returns true if it is a loop over as many steps as a number says.
    fn counts(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::ForEach { callee: Callee::Method(method), .. } => {
                self.program.types.method(*method).builtin.is_some_and(|row| row.family == "int")
            }
            _ => false,
        }
    }

    /// Returns true if a statement alone may take more than a moment, or gives others something to
    /// do.
    fn takes_long(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::Send { .. } | Stmt::While { .. } | Stmt::ForEach { .. } => true,
            Stmt::Call { callee: Callee::Method(method), .. } => !self.is_built_in(*method),
            Stmt::Call { callee: Callee::Routine(routine), .. } => {
                self.program.native_name(self.program.routines[*routine].body).is_none()
            }
            Stmt::Call { callee: Callee::Procedure(_) | Callee::Itself, .. } => true,
            _ => false,
        }
    }

    fn is_built_in(&self, method: MethodRef) -> bool {
        self.program.types.method(method).builtin.is_some()
    }

    fn write(&mut self, it: Loop, out: &mut Vec<Stmt>) {
        let row = self.program.types.method(it.method).builtin.map(|row| (row.family, row.name()));
        match row {
            Some(("int", "to")) => self.count_up(it, out),
            Some(("int", "to_by")) => self.count_by(it, out),
            Some(("sequence" | "vector", "elements")) => self.elements(it, "fetch", out),
            Some(("sequence" | "vector", "indexes")) => self.indexes(it, out),
            Some(("group", "members")) => self.elements(it, "member", out),
            Some(("array", "elements")) => self.array(it, true, out),
            Some(("array", "indexes")) => self.array(it, false, out),
            Some(("list", "elements")) => self.list(it, out),
            Some(("map", "keys")) => self.map(it, [Some(0), None], out),
            Some(("map", "values")) => self.map(it, [None, Some(0)], out),
            Some(("map", "pairs")) => self.map(it, [Some(0), Some(1)], out),
            _ => self.collect(it, out),
        }
    }

    /// `from.to(limit)`
    fn count_up(&mut self, it: Loop, out: &mut Vec<Stmt>) {
        let [at, limit] = self.operands(&it, out);
        let more = self.var(Types::BOOL);
        let cond = Block(vec![self.call(it.method.ty, "le", &[at.into(), limit.into()], &[more])]);
        let next = self.call(it.method.ty, "add", &[at.into(), int(1)], &[at]);
        // Behind the last of all numbers nothing is below the limit.
        let none_more = Stmt::Let { dst: limit, src: int(i64::MIN) };
        let mut body = vec![
            Stmt::Let { dst: it.vars[0], src: at.into() },
            self.handle(vec![next], "overflow", vec![none_more]),
        ];
        body.extend(it.body.0);
        out.push(Stmt::While { cond, test: more.into(), body: Block(body) });
    }

    /// `from.to_by(limit, step)`
    fn count_by(&mut self, it: Loop, out: &mut Vec<Stmt>) {
        let int_type = it.method.ty;
        let [at, limit, step] = self.operands(&it, out);
        // Signals `zero` where the iterator does.
        out.push(self.call(int_type, "mod", &[at.into(), step.into()], &[]));
        let (up, more) = (self.var(Types::BOOL), self.var(Types::BOOL));
        out.push(self.call(int_type, "gt", &[step.into(), int(0)], &[up]));
        let below = self.call(int_type, "le", &[at.into(), limit.into()], &[more]);
        let above = self.call(int_type, "ge", &[at.into(), limit.into()], &[more]);
        let compare = Stmt::If { test: up.into(), then: Block(vec![below]), otherwise: Block(vec![above]) };
        out.push(compare.clone());
        let mut steps = vec![Stmt::Let { dst: it.vars[0], src: at.into() }];
        let next = self.call(int_type, "add", &[at.into(), step.into()], &[at]);
        steps.push(self.handle(vec![next, compare], "overflow", vec![assign(more, false)]));
        out.push(repeat(more.into(), steps, it.body));
    }

    /// Appends a loop over the elements of a collection that counts them from 1 and keeps its
    /// length.
    fn elements(&mut self, it: Loop, fetch: &str, out: &mut Vec<Stmt>) {
        let [all] = self.operands(&it, out);
        let loop_over = self.over(it.method.ty, all, fetch, &it.vars, it.body, out);
        out.push(loop_over);
    }

    /// Appends a loop over a collection that counts its elements from 1 and keeps its length.
    fn over(
        &mut self,
        ty: TypeId,
        all: Var,
        fetch: &str,
        vars: &[Var],
        body: Block,
        out: &mut Vec<Stmt>,
    ) -> Stmt {
        let at = self.copied(Types::INT, int(0), out);
        let next = self.count(at);
        let fetched = self.call(ty, fetch, &[all.into(), at.into()], vars);
        let steps = vec![next, self.handle(vec![fetched], "bounds", vec![Stmt::Break])];
        repeat(Operand::Const(Const::Bool(true)), steps, body)
    }

    /// Returns `at := at + 1` for a count that cannot overflow.
    fn count(&mut self, at: Var) -> Stmt {
        let next = self.call(Types::INT, "add", &[at.into(), int(1)], &[at]);
        self.handle(vec![next], "overflow", vec![Stmt::Break])
    }

    fn indexes(&mut self, it: Loop, out: &mut Vec<Stmt>) {
        let [all] = self.operands(&it, out);
        let (count, at) = (self.var(Types::INT), self.copied(Types::INT, int(0), out));
        out.push(self.call(it.method.ty, "length", &[all.into()], &[count]));
        let more = self.var(Types::BOOL);
        let cond = Block(vec![self.call(Types::INT, "lt", &[at.into(), count.into()], &[more])]);
        let mut body = vec![self.count(at), Stmt::Let { dst: it.vars[0], src: at.into() }];
        body.extend(it.body.0);
        out.push(Stmt::While { cond, test: more.into(), body: Block(body) });
    }

    /// Looks at the array again at each step, by index: elements that come are seen, and those that
    /// go are not.
    fn array(&mut self, it: Loop, elements: bool, out: &mut Vec<Stmt>) {
        let [all] = self.operands(&it, out);
        let (at, low, more) = (self.var(Types::INT), self.var(Types::INT), self.var(Types::BOOL));
        out.push(self.call(it.method.ty, "low", &[all.into()], &[at]));
        out.push(assign(more, true));
        let look = self.call(it.method.ty, "low", &[all.into()], &[low]);
        let come = self.call(Types::INT, "max", &[at.into(), low.into()], &[at]);
        let filled = if elements { &it.vars[..] } else { &[] };
        let fetched = self.call(it.method.ty, "fetch", &[all.into(), at.into()], filled);
        let mut steps = vec![look, come, self.handle(vec![fetched], "bounds", vec![Stmt::Break])];
        if !elements {
            steps.push(Stmt::Let { dst: it.vars[0], src: at.into() });
        }
        let next = self.call(Types::INT, "add", &[at.into(), int(1)], &[at]);
        steps.push(self.handle(vec![next], "overflow", vec![assign(more, false)]));
        out.push(repeat(more.into(), steps, it.body));
    }

    fn list(&mut self, it: Loop, out: &mut Vec<Stmt>) {
        let [rest] = self.operands(&it, out);
        let first = self.call(it.method.ty, "first", &[rest.into()], &it.vars);
        let next = self.call(it.method.ty, "next", &[rest.into()], &[rest]);
        let steps = vec![self.handle(vec![first, next], "empty", vec![Stmt::Break])];
        out.push(repeat(Operand::Const(Const::Bool(true)), steps, it.body));
    }

    /// `places`: which variable of the loop takes the key, and which the value.
    fn map(&mut self, it: Loop, places: [Option<usize>; 2], out: &mut Vec<Stmt>) {
        let parts: Vec<TypeId> = self.program.types.kind(it.method.ty).args().collect();
        let entry = builtin::instantiate(self.program, &builtin::MAP_ENTRY, &parts);
        let [all] = self.operands(&it, out);
        let last = self.copied(Types::INT, int(0), out);
        let mut dsts: SmallVec<[Var; 1]> = smallvec![last];
        for (place, ty) in places.into_iter().zip(parts) {
            dsts.push(place.map_or_else(|| self.var(ty), |place| it.vars[place]));
        }
        let args = smallvec![all.into(), last.into()];
        let found = Stmt::Call { callee: Callee::Routine(entry), args, dsts, site: self.site };
        let steps = vec![self.handle(vec![found], "not_found", vec![Stmt::Break])];
        out.push(repeat(Operand::Const(Const::Bool(true)), steps, it.body));
    }

    /// Appends an array for each variable of the loop, and a loop that counts over them.
    fn collect(&mut self, it: Loop, out: &mut Vec<Stmt>) {
        let types = self.program.types.method(it.method).signature.yields.clone().unwrap_or_default();
        let row = builtin::find_routine("array_new").expect("a row of the table");
        let (mut arrays, mut vars, mut stores) = (vec![], smallvec![], vec![]);
        for element in types {
            let ty = self.program.types.instance(TypeKind::Array(element));
            let make = builtin::instantiate(self.program, row, &[element]);
            let (array, var) = (self.var(ty), self.var(element));
            let callee = Callee::Routine(make);
            out.push(Stmt::Call { callee, args: smallvec![], dsts: smallvec![array], site: self.site });
            stores.push(self.call(ty, "append", &[array.into(), var.into()], &[]));
            arrays.push((ty, array));
            vars.push(var);
        }
        let (callee, args) = (Callee::Method(it.method), it.args);
        out.push(Stmt::ForEach { callee, args, vars, body: Block(stores), site: self.site });
        let at = self.copied(Types::INT, int(0), out);
        let mut steps = vec![self.count(at)];
        for ((ty, array), var) in arrays.into_iter().zip(it.vars) {
            let fetched = self.call(ty, "fetch", &[array.into(), at.into()], &[var]);
            steps.push(self.handle(vec![fetched], "bounds", vec![Stmt::Break]));
        }
        out.push(repeat(Operand::Const(Const::Bool(true)), steps, it.body));
    }

    fn var(&mut self, ty: TypeId) -> Var {
        self.func.vars.push(VarDecl { name: String::new(), ty })
    }

    /// Returns a variable with that value, which nothing else assigns.
    fn copied(&mut self, ty: TypeId, src: Operand, out: &mut Vec<Stmt>) -> Var {
        let dst = self.var(ty);
        out.push(Stmt::Let { dst, src });
        dst
    }

    /// Returns the receiver and the arguments of the iterator as they are before the loop, in
    /// variables of its own.
    fn operands<const N: usize>(&mut self, it: &Loop, out: &mut Vec<Stmt>) -> [Var; N] {
        let params = &self.program.types.method(it.method).signature.params;
        let types: SmallVec<[TypeId; 3]> =
            std::iter::once(it.method.ty).chain(params.iter().map(|param| param.ty)).collect();
        std::array::from_fn(|i| self.copied(types[i], it.args[i], out))
    }

    fn call(&mut self, ty: TypeId, name: &str, args: &[Operand], dsts: &[Var]) -> Stmt {
        let method =
            self.program.types.find_method(ty, name).expect("built-in types have the methods of their rows");
        let callee = Callee::Method(method);
        Stmt::Call {
            callee,
            args: args.iter().copied().collect(),
            dsts: dsts.iter().copied().collect(),
            site: self.site,
        }
    }

    /// Returns `body`, with the statements that run when it signals.
    fn handle(&mut self, body: Vec<Stmt>, signal: &str, then: Vec<Stmt>) -> Stmt {
        let takes = ArmMatch::Named(smallvec![self.program.types.signal(signal)]);
        Stmt::Except { body: Block(body), arms: vec![Arm { takes, vars: smallvec![], body: Block(then) }] }
    }
}

/// Returns a loop that begins with `steps` and goes on with `body` while `test` is true.
fn repeat(test: Operand, mut steps: Vec<Stmt>, body: Block) -> Stmt {
    steps.extend(body.0);
    Stmt::While { cond: Block::default(), test, body: Block(steps) }
}

fn assign(dst: Var, value: bool) -> Stmt {
    Stmt::Let { dst, src: Operand::Const(Const::Bool(value)) }
}

fn int(value: i64) -> Operand {
    Operand::Const(Const::Int(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::place_waits;
    use crate::text::{parse, print_func};
    use crate::verify::verify_program;

    /// Returns a procedure that asks in a loop over `iterator`, whose variables are declared in
    /// `vars`; as it is written without iterators.
    fn written(vars: &str, filled: &str, iterator: &str, body: &str) -> String {
        let text = format!(
            "type asked actor
  take (n: int) returns (int) signals (empty)
end
private routine f (r: asked, n: int, s: string, q: sequence[int], a: array[int], c: vector[int], g: group[asked], l: list[int], m: map[string, int], d: directory) signals (zero)
  var t: int, u: int, b: bool, {vars}
  for {filled} in {iterator} do @5
{body}
  end
  return
end
"
        );
        let mut program = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")).program;
        let id = program.find_routine("f").and_then(|routine| match program.routines[routine].body {
            crate::program::Body::Func(func) => Some(func),
            crate::program::Body::Native(_) => None,
        });
        let id = id.expect("the procedure");
        let mut func = program.funcs[id].clone();
        loops_without_iterators(&mut program, &mut func);
        assert_eq!(place_waits(&program, &mut func), []);
        program.funcs[id] = func;
        let printed = print_func(&program, &program.funcs[id]);
        if let Err(errors) = verify_program(&program) {
            panic!("{}\n{printed}", errors[0]);
        }
        // Its own part: without the heading, the variables and the end.
        let lines = printed.lines().filter(|line| !line.trim_start().starts_with("var "));
        let lines: Vec<&str> = lines.collect();
        lines[1..lines.len() - 2].join("\n")
    }

    const ASKS: &str = "    t := request asked.take(r, 1)\n    u := int.bxor(t, 1)";

    #[test]
    fn ranges_count_and_end_before_they_overflow() {
        let found = written("i: int", "i", "int.to(1, n)", ASKS);
        let expected = "  %14 := 1
  %15 := n
  while
    %16 := int.le(%14, %15) @5
  test %16 do
    i := %14
    except
      %14 := int.add(%14, 1) @5
    when overflow:
      %15 := -9223372036854775808
    end
    t := request asked.take(r, 1)
    await t
    u := int.bxor(t, 1)
  end";
        assert_eq!(found, expected, "\n{found}");
    }

    #[test]
    fn a_loop_that_asks_nothing_stays() {
        let found = written("i: int", "i", "int.to(1, n)", "    t := int.bxor(i, 1)");
        assert!(found.contains("for i in int.to(1, n) do"), "{found}");
    }

    #[test]
    fn what_is_left_early_is_left() {
        let body =
            format!("{ASKS}\n    b := int.gt(u, 1)\n    if b then\n      continue\n    end\n    break");
        let found = written("i: int", "i", "int.to(1, n)", &body);
        assert!(found.contains("continue") && found.contains("break"), "{found}");
    }

    #[test]
    fn no_iterator_is_under_what_waits() {
        let int = "i: int";
        for (vars, filled, iterator, known) in [
            (int, "i", "int.to_by(n, 1, n)", "int.mod("),
            (int, "i", "sequence[int].elements(q)", "sequence[int].fetch("),
            (int, "i", "sequence[int].indexes(q)", "sequence[int].length("),
            (int, "i", "vector[int].elements(c)", "vector[int].fetch("),
            (int, "i", "vector[int].indexes(c)", "vector[int].length("),
            ("x: asked", "x", "group[asked].members(g)", "group[asked].member("),
            (int, "i", "array[int].elements(a)", "array[int].low("),
            (int, "i", "array[int].indexes(a)", "array[int].low("),
            (int, "i", "list[int].elements(l)", "list[int].next("),
            ("k: string", "k", "map[string, int].keys(m)", "\"map.entry\"[string, int]("),
            (int, "i", "map[string, int].values(m)", "\"map.entry\"[string, int]("),
            ("k: string, i: int", "k, i", "map[string, int].pairs(m)", "\"map.entry\"[string, int]("),
        ] {
            let found = written(vars, filled, iterator, ASKS);
            assert!(!found.contains("for ") && found.contains(known), "{iterator}\n{found}");
        }
        // Only a loop that stores is left.
        for (vars, filled, iterator) in [
            ("x: char", "x", "string.chars(s)"),
            ("x: string", "x", "string.split(s, s)"),
            ("x: string", "x", "directory.names(d)"),
            ("x: string, y: string", "x, y", "directory.list(d)"),
        ] {
            let found = written(vars, filled, iterator, ASKS);
            let (before, after) = found.split_once("await").expect("it waits");
            assert!(before.contains("append(") && !after.contains("for "), "{iterator}\n{found}");
        }
    }

    #[test]
    fn every_built_in_iterator_is_known_or_cannot_change_under_the_loop() {
        let rows = builtin::METHODS.iter().filter(|row| row.heading.contains(" yields "));
        let collected: Vec<String> = rows
            .map(|row| (row.key(), row.family))
            .filter(|(_, family)| {
                !["int", "sequence", "vector", "array", "list", "map", "group"].contains(family)
            })
            .map(|(key, _)| key)
            .collect();
        assert_eq!(collected, ["string.chars", "string.split", "directory.names", "directory.list"]);
    }
}
