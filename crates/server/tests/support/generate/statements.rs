//! Statements.

use std::collections::BTreeSet;

use super::{Generator, Heading, Local, Ty, values_of};

impl Generator {
    pub(super) fn declare(&mut self, ty: &Ty, depth: usize) {
        let value = self.expr(ty, depth);
        let name = self.fresh("v");
        self.line(&format!("{name}: {} := {value}", ty.name()));
        self.locals.push(Local { name, ty: ty.clone(), assigned: true });
    }

    pub(super) fn block(&mut self, statements: usize) {
        let locals = self.locals.len();
        self.indent += 1;
        for _ in 0..statements {
            self.stmt(statements / 2);
        }
        if self.context.loops == 0 && self.chance(3) {
            self.show();
        }
        self.indent -= 1;
        self.locals.truncate(locals);
    }

    pub(super) fn loop_body(&mut self, size: usize) {
        let in_loop = std::mem::replace(&mut self.context.in_loop, true);
        self.context.loops += 1;
        self.block(1 + size);
        self.context.loops -= 1;
        self.context.in_loop = in_loop;
    }

    /// A statement, perhaps with handlers. `size` bounds what is inside it.
    pub(super) fn stmt(&mut self, size: usize) {
        let handled = self.chance(4);
        if !handled {
            self.plain(size);
            return;
        }
        let outside = std::mem::take(&mut self.raised);
        let in_loop = self.context.in_loop;
        self.line("begin");
        self.block(1 + size);
        if self.chance(4) {
            // A jump to a handler of this statement.
            let test = self.expr(&Ty::Bool, 1);
            let value = self.below(9);
            self.line(&format!("  if {test} then exit jump ({value}) end"));
            self.raised.insert("jump");
        }
        let raised: Vec<&'static str> = self.raised.iter().copied().collect();
        self.raised = outside;
        self.line("end except");
        let mut left = raised.clone();
        if raised.contains(&"jump") {
            let name = self.fresh("x");
            self.line(&format!("  when jump ({name}: int):"));
            self.line(&format!("    print(\"jump \" || {name}.unparse())"));
            left.retain(|s| *s != "jump");
        }
        for signal in raised.iter().filter(|s| **s != "jump") {
            if !self.chance(2) {
                continue;
            }
            left.retain(|s| s != signal);
            self.arm(signal);
        }
        if self.chance(2) {
            let name = self.fresh("x");
            self.line(&format!("  others ({name}: string):"));
            self.line(&format!("    print(\"others \" || {name})"));
        } else {
            self.raised.extend(left);
            if raised.is_empty() {
                self.line("  others:");
            } else if left_all(&raised, &self.raised) {
                self.line("  when failure (*):");
            }
        }
        self.line("end");
        self.context.in_loop = in_loop;
    }

    pub(super) fn arm(&mut self, signal: &'static str) {
        let values = values_of(signal);
        let locals = self.locals.len();
        if values.is_empty() {
            self.line(&format!("  when {signal}:"));
        } else if self.chance(3) {
            self.line(&format!("  when {signal} (*):"));
        } else {
            let names: Vec<String> = values.iter().map(|_| self.fresh("x")).collect();
            let decls: Vec<String> =
                names.iter().zip(values).map(|(n, t)| format!("{n}: {}", t.name())).collect();
            self.line(&format!("  when {signal} ({}):", decls.join(", ")));
            let fresh = names.into_iter().zip(values);
            self.locals.extend(fresh.map(|(name, ty)| Local { name, ty: ty.clone(), assigned: false }));
        }
        self.indent += 1;
        self.block(1);
        self.indent -= 1;
        self.locals.truncate(locals);
    }

    pub(super) fn plain(&mut self, size: usize) {
        match self.below(22) {
            0..=3 => {
                let ty = self.ty(2);
                self.declare(&ty, 2);
            }
            4..=6 => self.assign(),
            7..=9 => self.change(),
            10 | 11 if size > 0 => self.choice(size),
            12 if size > 0 && self.context.loops < 2 => self.counted(size),
            13..=15 if size > 0 && self.context.loops < 2 => self.iterate(size),
            16 => self.print(),
            17 => self.leave(),
            18 => self.cases(size),
            19 => {
                if let Some(heading) = self.context.heading.clone()
                    && let Some(types) = heading.yields
                {
                    let values = self.list(&types, 2);
                    self.line(&format!("yield ({values})"));
                    return;
                }
                self.print();
            }
            20 => self.several_results(),
            _ => self.assign(),
        }
    }

    pub(super) fn assign(&mut self) {
        let assigned: Vec<Local> = self.locals.iter().filter(|l| l.assigned).cloned().collect();
        if self.chance(3) && !self.context.ivars.is_empty() {
            let n = self.context.ivars.len();
            let at = self.below(n);
            let (name, ty) = self.context.ivars[at].clone();
            let value = self.expr(&ty, 2);
            return self.line(&format!("{name} := {value}"));
        }
        if assigned.is_empty() {
            return self.declare(&Ty::Int, 2);
        }
        let one = assigned[self.below(assigned.len())].clone();
        let value = self.expr(&one.ty, 3);
        if self.chance(5)
            && let Some(other) = assigned.iter().find(|l| l.name != one.name)
        {
            let second = self.expr(&other.ty.clone(), 1);
            return self.line(&format!("{}, {} := {value}, {second}", one.name, other.name));
        }
        self.line(&format!("{} := {value}", one.name));
    }

    /// Changes an object that a local names.
    pub(super) fn change(&mut self) {
        let Some((name, ty)) = self.local_where(|t| {
            matches!(
                t,
                Ty::Array(_) | Ty::Cell(_) | Ty::Vector(_) | Ty::Map(..) | Ty::Record(_) | Ty::Boxed(_)
            )
        }) else {
            return self.assign();
        };
        match &ty {
            Ty::Array(t) => match self.below(6) {
                0 | 1 => {
                    let v = self.expr(t, 2);
                    let method = self.random.pick(&["append", "append_low"]);
                    self.line(&format!("if {name}.length() < 8 then {name}.{method}({v}) end"));
                }
                2 => {
                    self.raise(&["bounds"]);
                    let method = self.random.pick(&["remove", "remove_low"]);
                    self.line(&format!("{name}.{method}()"));
                }
                3 if self.chance(3) => self.line(&format!("{name}.clear()")),
                4 if matches!(**t, Ty::Int | Ty::String | Ty::Char) => self.line(&format!("{name}.sort()")),
                _ => self.store(&name, t),
            },
            Ty::Vector(t) => self.store(&name, t),
            Ty::Cell(t) => {
                let v = self.expr(t, 2);
                self.line(&format!("{name}.put({v})"));
            }
            Ty::Map(k, v) => {
                let k = self.expr(k, 1);
                if self.chance(4) {
                    self.raise(&["not_found"]);
                    self.line(&format!("{name}.remove({k})"));
                } else {
                    let v = self.expr(v, 2);
                    self.line(&format!("if {name}.length() < 8 then {name}[{k}] := {v} end"));
                }
            }
            Ty::Record(f) => {
                let i = self.below(f.len());
                let v = self.expr(&f[i], 2);
                self.line(&format!("{name}.f{i} := {v}"));
            }
            Ty::Boxed(t) => {
                let v = self.expr(t, 2);
                self.line(&format!("{name}.give({v})"));
            }
            _ => {}
        }
    }

    pub(super) fn store(&mut self, name: &str, element: &Ty) {
        let (i, v) = (self.index(1), self.expr(element, 2));
        self.raise(&["bounds"]);
        self.line(&format!("{name}[{i}] := {v}"));
    }

    pub(super) fn choice(&mut self, size: usize) {
        let test = self.expr(&Ty::Bool, 2);
        self.line(&format!("if {test} then"));
        self.block(size);
        if self.chance(3) {
            let test = self.expr(&Ty::Bool, 2);
            self.line(&format!("elseif {test} then"));
            self.block(size);
        }
        if self.chance(2) {
            self.line("else");
            self.block(size);
        }
        self.line("end");
    }

    pub(super) fn counted(&mut self, size: usize) {
        let (name, most) = (self.fresh("k"), 1 + self.below(4));
        let test = self.expr(&Ty::Bool, 1);
        self.line(&format!("{name}: int := 0"));
        self.line(&format!("while {name} < {most} & ({test} | {name} < 2) do"));
        self.line(&format!("  {name} := {name} + 1"));
        self.locals.push(Local { name, ty: Ty::Int, assigned: false });
        self.loop_body(size);
        self.line("end");
    }

    pub(super) fn iterate(&mut self, size: usize) {
        let locals = self.locals.len();
        let many =
            |t: &Ty| matches!(t, Ty::Array(_) | Ty::Sequence(_) | Ty::List(_) | Ty::Vector(_) | Ty::Map(..));
        let mut vars = vec![Ty::Int];
        // An array may get longer as fast as it is walked through.
        let mut counted = false;
        let text = match self.below(7) {
            0 | 1 => {
                let (from, to) = (self.below(3), self.below(6));
                format!("{from}.to({to})")
            }
            2 => {
                let (from, to, step) = (self.below(9), self.below(9), self.below(5) as i64 - 2);
                self.raise(&["zero"]);
                format!("{from}.to_by({to}, {step})")
            }
            3 => {
                vars = vec![Ty::Char];
                format!("{}.chars()", self.expr(&Ty::String, 1))
            }
            4 if self.context.iterators > 0 => {
                let n = self.context.iterators;
                let at = self.below(n);
                let heading = self.iterators[at].clone();
                vars = heading.yields.clone().unwrap_or_default();
                let args = self.list(&heading.args, 1);
                self.raise(&heading.signals);
                format!("{}({args})", heading.name)
            }
            5 => {
                let ty = self.basic();
                let all = self.expr(&Ty::Sequence(Box::new(ty.clone())), 1);
                let text = format!("each_twice[{}]({all})", ty.name());
                vars = vec![ty];
                text
            }
            _ => match self.local_where(many) {
                Some((name, Ty::Map(k, v))) => match self.below(3) {
                    0 => {
                        vars = vec![*k];
                        format!("{name}.keys()")
                    }
                    1 => {
                        vars = vec![*v];
                        format!("{name}.values()")
                    }
                    _ => {
                        vars = vec![*k, *v];
                        format!("{name}.pairs()")
                    }
                },
                Some((name, Ty::Array(t))) => {
                    counted = true;
                    vars = vec![*t];
                    format!("{name}.elements()")
                }
                Some((name, Ty::Sequence(t) | Ty::List(t) | Ty::Vector(t))) => {
                    vars = vec![*t];
                    format!("{name}.elements()")
                }
                _ => "1.to(3)".to_owned(),
            },
        };
        let names: Vec<String> = vars.iter().map(|_| self.fresh("i")).collect();
        let decls: Vec<String> = names.iter().zip(&vars).map(|(n, t)| format!("{n}: {}", t.name())).collect();
        let rounds = counted.then(|| self.fresh("n"));
        if let Some(rounds) = &rounds {
            self.line(&format!("{rounds}: int := 0"));
        }
        self.line(&format!("for {} in {text} do", decls.join(", ")));
        if let Some(rounds) = &rounds {
            self.line(&format!("  {rounds} := {rounds} + 1"));
            self.line(&format!("  if {rounds} > 12 then break end"));
        }
        let fresh = names.into_iter().zip(vars);
        self.locals.extend(fresh.map(|(name, ty)| Local { name, ty, assigned: false }));
        self.loop_body(size);
        self.line("end");
        self.locals.truncate(locals);
    }

    pub(super) fn print(&mut self) {
        let ty = self.ty(2);
        if ty.prints() {
            let value = self.expr(&ty, 2);
            self.line(&format!("print(clip({value}.unparse()))"));
        } else {
            let value = self.expr(&Ty::Int, 2);
            self.line(&format!("print({value}.unparse())"));
        }
    }

    /// Prints the locals that can be printed, and the instance variables.
    pub(super) fn show(&mut self) {
        let locals = self.locals.iter().map(|l| (l.name.clone(), l.ty.clone()));
        let shown: Vec<_> =
            locals.chain(self.context.ivars.iter().cloned()).filter(|(_, ty)| ty.prints()).collect();
        for (name, _) in shown {
            self.line(&format!("print(\"{name} \" || clip({name}.unparse()))"));
        }
    }

    /// Leaves the loop or the routine, perhaps.
    pub(super) fn leave(&mut self) {
        let test = self.expr(&Ty::Bool, 2);
        let heading = self.context.heading.clone();
        let text = match (self.below(3), heading) {
            (0, _) if self.context.in_loop => self.random.pick(&["break", "continue"]).to_owned(),
            (1, Some(h)) if !h.signals.is_empty() => {
                let signal = h.signals[self.below(h.signals.len())];
                match self.list(values_of(signal), 1) {
                    values if values.is_empty() => format!("signal {signal}"),
                    values => format!("signal {signal} ({values})"),
                }
            }
            (2, Some(h)) if h.yields.is_none() && !h.results.is_empty() => {
                format!("return ({})", self.list(&h.results, 1))
            }
            (_, Some(h)) if h.yields.is_some() => "return".to_owned(),
            _ => "signal failure (\"stop\")".to_owned(),
        };
        self.line(&format!("if {test} then {text} end"));
    }

    pub(super) fn cases(&mut self, size: usize) {
        let Some((name, ty)) =
            self.local_where(|t| matches!(t, Ty::Oneof(_) | Ty::Maybe(_) | Ty::Object(_) | Ty::Any))
        else {
            return self.assign();
        };
        let tags: Vec<(String, Option<Ty>)> = match &ty {
            Ty::Oneof(tags) => {
                tags.iter().enumerate().map(|(i, t)| (format!("f{i}"), Some(t.clone()))).collect()
            }
            Ty::Maybe(t) => vec![("none".to_owned(), None), ("some".to_owned(), Some((**t).clone()))],
            Ty::Object(up) => {
                let below = (0..self.objects.len()).filter(|i| self.objects[*i].above == Some(*up));
                let below = below.map(Ty::Object).collect();
                return self.typecase(&name, below, size);
            }
            Ty::Any => {
                let mut arms = vec![Ty::Int, Ty::Real, Ty::Bool, Ty::Char, Ty::String];
                arms.push(Ty::Array(Box::new(self.basic())));
                arms.retain(|_| self.chance(2));
                return self.typecase(&name, arms, size);
            }
            _ => return,
        };
        self.line(&format!("tagcase {name}"));
        let all = self.chance(2);
        for (tag, value) in &tags {
            if !all && self.chance(2) {
                continue;
            }
            let locals = self.locals.len();
            match value {
                Some(ty) if self.chance(2) => {
                    let x = self.fresh("x");
                    self.line(&format!("  when {tag} ({x}: {}):", ty.name()));
                    self.locals.push(Local { name: x, ty: ty.clone(), assigned: false });
                }
                _ => self.line(&format!("  when {tag}:")),
            }
            self.indent += 1;
            self.block(size.min(2));
            self.indent -= 1;
            self.locals.truncate(locals);
        }
        if !all {
            self.line("  others: print(\"other tag\")");
        }
        self.line("end");
    }

    pub(super) fn typecase(&mut self, name: &str, arms: Vec<Ty>, size: usize) {
        if arms.is_empty() {
            return self.print();
        }
        self.line(&format!("typecase {name}"));
        for ty in arms {
            let locals = self.locals.len();
            let x = self.fresh("x");
            self.line(&format!("  when {} ({x}):", ty.name()));
            if ty.prints() {
                self.line(&format!("    print(clip({x}.unparse()))"));
            }
            self.locals.push(Local { name: x, ty, assigned: false });
            self.indent += 1;
            self.block(size.min(2));
            self.indent -= 1;
            self.locals.truncate(locals);
        }
        self.line("  others: print(\"none of these\")");
        self.line("end");
    }

    pub(super) fn several_results(&mut self) {
        let in_loop = self.context.loops > 0;
        let found: Vec<Heading> = self.routines[..self.context.routines]
            .iter()
            .filter(|(h, leaf)| h.results.len() == 2 && (*leaf || !in_loop))
            .map(|(h, _)| h.clone())
            .collect();
        if found.is_empty() || self.context.calls == 0 {
            return self.assign();
        }
        self.context.calls -= 1;
        let heading = found[self.below(found.len())].clone();
        let args = self.list(&heading.args, 1);
        self.raise(&heading.signals);
        let names: Vec<String> = heading.results.iter().map(|_| self.fresh("v")).collect();
        if heading.results[0] == heading.results[1] {
            self.line(&format!(
                "{}: {} := {}({args})",
                names.join(", "),
                heading.results[0].name(),
                heading.name
            ));
            let fresh = names.into_iter().zip(heading.results);
            self.locals.extend(fresh.map(|(name, ty)| Local { name, ty, assigned: true }));
        } else {
            self.line(&format!("{}({args})", heading.name));
        }
    }
}

/// Whether nothing of what was raised has an arm.
fn left_all(raised: &[&'static str], left: &BTreeSet<&'static str>) -> bool {
    raised.iter().all(|s| left.contains(s))
}
