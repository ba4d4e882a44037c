//! Transactions: in `main`, some around others' work, some in a loop; they keep objects, find them again, and end in all ways.

use super::{Generator, Local, Ty};

impl Generator {
    /// A few transactions.
    pub(super) fn transactions(&mut self, objects: usize) {
        let (one, other) = (self.basic(), self.basic());
        let text = Box::new(Ty::String);
        self.stored = vec![Ty::Array(Box::new(Ty::Int)), Ty::Cell(Box::new(one))];
        self.stored.push(Ty::Map(text.clone(), Box::new(other)));
        self.stored.push(Ty::Record(vec![Ty::Int, Ty::Array(text)]));
        self.stored.extend((0..objects).map(Ty::Object));
        for _ in 0..2 + self.below(3) {
            self.line("begin");
            self.indent += 1;
            // A value that comes out of the transaction, and an object that may stay in it.
            let (value, object) = (self.basic(), self.ty(2));
            self.declare(&value, 1);
            self.declare(&object, 1);
            let looped = self.chance(3);
            if looped {
                let name = self.fresh("k");
                self.line(&format!("{name}: int := 0"));
                self.line(&format!("while {name} < 3 do"));
                self.indent += 1;
                self.line(&format!("{name} := {name} + 1"));
                self.locals.push(Local { name, ty: Ty::Int, assigned: false });
            }
            self.transaction(looped);
            if looped {
                self.indent -= 1;
                self.line("end");
            }
            // What was kept is not to be had out here.
            self.show();
            self.indent -= 1;
            let other = self.fresh("x");
            self.line(&format!("end except others ({other}: string): print(\"signal \" || {other}) end"));
            self.locals.clear();
        }
    }

    fn transaction(&mut self, in_loop: bool) {
        // Only what cannot change is assigned from inside.
        let outside = self.locals.clone();
        for local in &mut self.locals {
            let never_changes = matches!(local.ty, Ty::Int | Ty::Real | Ty::Bool | Ty::Char | Ty::String);
            local.assigned &= never_changes;
        }
        self.context.in_loop = in_loop;
        self.line("transaction");
        self.indent += 1;
        for _ in 0..1 + self.below(3) {
            match self.below(4) {
                0 => self.block(2),
                1 => self.keep(),
                _ => self.find(),
            }
        }
        self.show();
        if self.chance(2) {
            self.leave();
        } else if self.chance(6) {
            let test = self.expr(&Ty::Bool, 1);
            self.line(&format!("if {test} then return end"));
        }
        self.indent -= 1;
        self.line("end");
        self.context.in_loop = false;
        self.locals = outside;
    }

    /// Gives an object a name, or takes one away.
    fn keep(&mut self) {
        let at = self.below(self.stored.len());
        if self.chance(6) {
            self.raise(&["not_found"]);
            return self.line(&format!("root().remove(\"k{at}\")"));
        }
        let ty = self.stored[at].clone();
        let value = self.expr(&ty, 2);
        self.line(&format!("root().insert(\"k{at}\", {value})"));
    }

    /// Works with an object that has a name, if it has one.
    fn find(&mut self) {
        let at = self.below(self.stored.len());
        let ty = self.stored[at].clone();
        let name = self.fresh("x");
        self.line("begin");
        self.line(&format!("typecase root().lookup(\"k{at}\")"));
        self.line(&format!("  when {} ({name}):", ty.name()));
        let locals = self.locals.len();
        self.locals.push(Local { name, ty, assigned: false });
        self.indent += 1;
        self.indent += 1;
        self.change();
        self.show();
        self.indent -= 1;
        self.block(2);
        self.indent -= 1;
        self.locals.truncate(locals);
        self.line("  others: print(\"none of these\")");
        self.line("end");
        let other = self.fresh("x");
        self.line("end except");
        self.line("  when not_found: print(\"nothing of that name\")");
        if self.chance(2) {
            self.line(&format!("  others ({other}: string): print(\"others \" || {other})"));
        }
        self.line("end");
    }
}
