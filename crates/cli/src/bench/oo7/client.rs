//! The operations as a client runs them call by call: with futures for objects only, or with
//! promises too.
//!
//! The program is the same. With futures alone, each call that returns a basic value is claimed at
//! once, as in Bogle and Liskov 1994 (section 4): the client has no other way to hold it. With
//! promises (6.3 there, 4.4.2 of Zondervan 1995) a value is claimed when the client itself needs
//! it. Else it goes on to the next call as it is.
//!
//! [`Client`] has a method for each operation; it owns nothing but the choice between the two.

use std::collections::HashSet;

use bifrost_veneer::{Error, Promise, Session, Value};

use super::bifrost_stubs::{
    self as stubs, AtomicPart, BaseAssembly, ComplexAssembly, CompositePart, Database, Module, Random,
};

/// The runner of the operations.
pub struct Client<'s> {
    /// The session.
    pub session: &'s Session,
    /// The database.
    pub db: &'s Database,
    /// True if values are left as promises.
    pub promises: bool,
}

/// The action of a traversal at an atomic part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Nothing but count it.
    Nothing,
    /// Exchange x and y so often.
    Swap(i64),
    /// Move the date to the other one of its pair, so often.
    Toggle(i64),
}

/// The atomic parts of an action.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Parts {
    /// Root parts; the others are visited all the same.
    Roots,
    /// All.
    All,
}

/// Returns the title of a composite part's document.
fn title(id: i64) -> String {
    format!("Composite Part {id:08}")
}

/// Returns the text of its document, `size` bytes as a C string.
fn text(id: i64, size: i64) -> String {
    let line = format!("I am the documentation for composite part #{id:08}.\n");
    let length = usize::try_from(size - 1).unwrap_or_default();
    line.chars().cycle().take(length).collect()
}

impl Client<'_> {
    /// Claims a value that the client does not need itself, unless it is left as a promise.
    fn hold<V: Value>(&self, value: Promise<V>) -> Result<Promise<V>, Error> {
        if !self.promises {
            value.claim()?;
        }
        Ok(value)
    }

    /// Returns the sum with a number.
    fn add(&self, value: Promise<i64>, number: i64) -> Result<Promise<i64>, Error> {
        match self.promises {
            true => Ok(value + number),
            false => Ok(self.session.value(value.claim()? + number)),
        }
    }

    /// Returns the sum of values that nothing else depends on.
    fn sum(&self, values: Vec<Promise<i64>>) -> Result<i64, Error> {
        values.iter().map(Promise::claim).sum()
    }

    fn module(&self, id: i64) -> Module {
        self.db.module_named(format!("Module {id:08}"))
    }

    fn root(&self) -> ComplexAssembly {
        self.module(1).design_root()
    }

    /// Comes to each composite part that is used privately below.
    fn walk(
        &self,
        above: &ComplexAssembly,
        each: &mut dyn FnMut(&CompositePart) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for i in 1..=above.sub_count().claim()? {
            let sub = above.sub_at(i);
            if !sub.is_base().claim()? {
                self.walk(&sub.as_complex(), each)?;
                continue;
            }
            let base = sub.as_base();
            for k in 1..=base.private_count().claim()? {
                each(&base.private_at(k))?;
            }
        }
        Ok(())
    }

    /// T1, T2 and T3, of one module.
    fn traverse(&self, root: &ComplexAssembly, parts: Parts, action: Action) -> Result<i64, Error> {
        let mut n = 0;
        self.walk(root, &mut |composite| {
            let part = composite.root_part();
            let mut seen = HashSet::from([part.id().claim()?]);
            n += self.act(&part, action)?;
            let others = if parts == Parts::All { action } else { Action::Nothing };
            let visited = self.visit(&part, &mut seen, others)?;
            n += if parts == Parts::All { visited } else { 0 };
            Ok(())
        })?;
        self.session.flush()?;
        Ok(n)
    }

    /// Visits the parts behind this one that were not seen.
    fn visit(&self, part: &AtomicPart, seen: &mut HashSet<i64>, action: Action) -> Result<i64, Error> {
        let mut n = 0;
        for i in 1..=part.to_count().claim()? {
            let next = part.to_at(i).target();
            if seen.insert(next.id().claim()?) {
                n += self.act(&next, action)? + self.visit(&next, seen, action)?;
            }
        }
        Ok(n)
    }

    fn act(&self, part: &AtomicPart, action: Action) -> Result<i64, Error> {
        match action {
            Action::Nothing => Ok(1),
            Action::Swap(times) => {
                for _ in 0..times {
                    let x = self.hold(part.x())?;
                    let y = self.hold(part.y())?;
                    part.set_x(y);
                    part.set_y(x);
                }
                Ok(times)
            }
            Action::Toggle(times) => {
                for _ in 0..times {
                    let date = part.build_date();
                    match self.promises {
                        true => drop(part.set_build_date(&date % 2 * 2 - 1 + &date)),
                        false => {
                            let date = date.claim()?;
                            part.set_build_date(if date % 2 == 1 { date + 1 } else { date - 1 });
                        }
                    }
                }
                Ok(times)
            }
        }
    }

    /// T1, T2 and T3.
    pub fn parts(&self, parts: Parts, action: Action) -> Result<i64, Error> {
        self.traverse(&self.root(), parts, action)
    }

    /// Returns the sum of the values that documents give.
    fn documents(&self, give: impl Fn(&stubs::Document) -> Promise<i64>) -> Result<i64, Error> {
        let mut given = Vec::new();
        self.walk(&self.root(), &mut |composite| {
            given.push(self.hold(give(&composite.documentation()))?);
            Ok(())
        })?;
        self.sum(given)
    }

    /// T4
    pub fn t4(&self) -> Result<i64, Error> {
        self.documents(|d| d.count_of('I'))
    }

    /// T5
    pub fn t5(&self, old: &str, new: &str) -> Result<i64, Error> {
        self.documents(|d| d.replace_start(old, new))
    }

    /// T6
    pub fn t6(&self) -> Result<i64, Error> {
        let mut n = 0;
        self.walk(&self.root(), &mut |composite| {
            self.hold(composite.root_part().id())?;
            n += 1;
            Ok(())
        })?;
        self.session.flush()?;
        Ok(n)
    }

    /// T7
    pub fn t7(&self) -> Result<i64, Error> {
        let root = self.root().id().claim()?;
        let random = stubs::new_random(self.session, 1);
        let id = self.hold(stubs::random_part_id(self.session, self.db, &random))?;
        let composite = self.db.atomic_part(id).part_of();
        let (mut bases, mut complexes) = (HashSet::new(), HashSet::new());
        for i in 1..=composite.private_user_count().claim()? {
            let base = composite.private_user_at(i);
            if !bases.insert(base.id().claim()?) {
                continue;
            }
            let mut above = base.super_assembly();
            loop {
                let id = above.id().claim()?;
                if !complexes.insert(id) || id == root {
                    break;
                }
                above = above.super_assembly();
            }
        }
        Ok((bases.len() + complexes.len()) as i64)
    }

    /// T8
    pub fn t8(&self) -> Result<i64, Error> {
        self.module(1).manual().count_of('I').claim()
    }

    /// T9
    pub fn t9(&self) -> Result<i64, Error> {
        let text = self.module(1).manual().text().claim()?;
        Ok(i64::from(text.chars().next() == text.chars().next_back()))
    }

    /// T10
    pub fn t10(&self) -> Result<i64, Error> {
        let modules = self.db.sizes().modules().claim()?;
        (1..=modules).map(|m| self.traverse(&self.module(m).design_root(), Parts::All, Action::Nothing)).sum()
    }

    /// Q1
    pub fn q1(&self) -> Result<i64, Error> {
        let random = stubs::new_random(self.session, 1);
        for _ in 0..10 {
            let id = self.hold(stubs::random_part_id(self.session, self.db, &random))?;
            self.hold(self.db.atomic_part(id).x())?;
        }
        self.session.flush()?;
        Ok(10)
    }

    /// Q2 and Q3: parts of this date and newer ones.
    pub fn newest(&self, date: i64) -> Result<i64, Error> {
        self.scan(&self.db.built_cursor(date), |_| Ok(()))
    }

    /// Q7
    pub fn q7(&self) -> Result<i64, Error> {
        self.scan(&self.db.atomic_part_cursor(), |_| Ok(()))
    }

    /// Returns the number of parts that a cursor comes to.
    fn scan(
        &self,
        cursor: &stubs::CursorOfAtomicPart,
        mut each: impl FnMut(AtomicPart) -> Result<(), Error>,
    ) -> Result<i64, Error> {
        let mut n = 0;
        while cursor.more().claim()? {
            each(cursor.next())?;
            n += 1;
        }
        self.session.flush()?;
        Ok(n)
    }

    /// Q4
    pub fn q4(&self) -> Result<i64, Error> {
        let total = self.hold(self.db.sizes().composites())?;
        let random = stubs::new_random(self.session, 1);
        let mut n = 0;
        for _ in 0..10 {
            let id = self.add(random.below(&total), 1)?;
            let titled = match self.promises {
                true => self.db.document_titled(stubs::document_title(self.session, id)),
                false => self.db.document_titled(title(id.claim()?)),
            };
            let composite = titled.part();
            for i in 1..=composite.private_user_count().claim()? {
                drop(composite.private_user_at(i));
                n += 1;
            }
        }
        self.session.flush()?;
        Ok(n)
    }

    /// Returns the dates of the composite parts that a base assembly uses privately.
    fn dates(&self, base: &BaseAssembly) -> Result<Vec<Promise<i64>>, Error> {
        let n = base.private_count().claim()?;
        (1..=n).map(|i| self.hold(base.private_at(i).build_date())).collect()
    }

    /// Q5
    pub fn q5(&self) -> Result<i64, Error> {
        let mut n = 0;
        for id in 1..=self.db.base_assembly_count().claim()? {
            let base = self.db.base_assembly(id);
            let date = self.hold(base.build_date())?;
            let mut newest = i64::MIN;
            for used in self.dates(&base)? {
                newest = newest.max(used.claim()?);
            }
            n += i64::from(newest > date.claim()?);
        }
        Ok(n)
    }

    /// Q6
    pub fn q6(&self) -> Result<i64, Error> {
        let mut n = 0;
        for m in 1..=self.db.sizes().modules().claim()? {
            self.newest_below(&self.module(m).design_root(), &mut n)?;
        }
        Ok(n)
    }

    /// Returns the newest date below; counts the assemblies that are older than theirs.
    fn newest_below(&self, complex: &ComplexAssembly, n: &mut i64) -> Result<i64, Error> {
        let date = self.hold(complex.build_date())?;
        let mut newest = i64::MIN;
        for i in 1..=complex.sub_count().claim()? {
            let sub = complex.sub_at(i);
            let below = match sub.is_base().claim()? {
                false => self.newest_below(&sub.as_complex(), n)?,
                true => {
                    let base = sub.as_base();
                    let date = self.hold(base.build_date())?;
                    let mut newest = i64::MIN;
                    for used in self.dates(&base)? {
                        newest = newest.max(used.claim()?);
                    }
                    *n += i64::from(newest > date.claim()?);
                    newest
                }
            };
            newest = newest.max(below);
        }
        *n += i64::from(newest > date.claim()?);
        Ok(newest)
    }

    /// Q8
    pub fn q8(&self) -> Result<i64, Error> {
        let mut ids = Vec::new();
        self.scan(&self.db.atomic_part_cursor(), |part| {
            let wanted = self.hold(part.doc_id())?;
            let found = self.hold(self.db.document(&wanted).id())?;
            ids.push((wanted, found));
            Ok(())
        })?;
        let mut n = 0;
        for (wanted, found) in ids {
            n += i64::from(wanted.claim()? == found.claim()?);
        }
        Ok(n)
    }

    /// Insert
    pub fn insert(&self) -> Result<i64, Error> {
        let random = self.db.random();
        random.seed(1);
        let before = self.db.composite_part_count().claim()?;
        let bases = self.hold(self.db.base_assembly_count())?;
        let size = self.db.sizes().document_size().claim()?;
        for id in before + 1..=before + 10 {
            let composite = self.new_part(&random, id, size)?;
            let base = self.add(random.below(&bases), 1)?;
            self.db.base_assembly(base).add_private(&composite);
        }
        self.session.flush()?;
        Ok(10)
    }

    fn new_part(&self, random: &Random, id: i64, size: i64) -> Result<CompositePart, Error> {
        let s = self.session;
        let kind = self.hold(stubs::draw_kind(s, random))?;
        let mut date = self.hold(random.below(1000))?;
        if id % 10 == 0 {
            date = self.add(date, 2000)?;
        }
        let composite = stubs::new_composite_part(s, id, kind, date);
        let document = stubs::new_document(s, &composite, title(id), text(id, size));
        composite.set_documentation(document);
        let parts = self.atomic_parts(random, id, &composite)?;
        self.connections(random, &composite, &parts)?;
        self.db.add_composite_part(&composite);
        Ok(composite)
    }

    fn atomic_parts(
        &self,
        random: &Random,
        id: i64,
        composite: &CompositePart,
    ) -> Result<Vec<AtomicPart>, Error> {
        let sizes = self.db.sizes();
        let n = sizes.atomic_per_composite().claim()?;
        let total = self.hold(sizes.composites())?;
        let mut parts = Vec::new();
        for i in 1..=n {
            let kind = self.hold(stubs::draw_kind(self.session, random))?;
            let date = self.add(random.below(1000), 1000)?;
            let x = self.hold(random.below(100_000))?;
            let y = self.hold(random.below(100_000))?;
            let document = self.add(random.below(&total), 1)?;
            let dates = self.db.dates();
            let id = (id - 1) * n + i;
            let part = stubs::new_atomic_part(self.session, id, kind, date, x, y, document, composite, dates);
            composite.add_part(&part);
            parts.push(part);
        }
        Ok(parts)
    }

    fn connections(
        &self,
        random: &Random,
        composite: &CompositePart,
        parts: &[AtomicPart],
    ) -> Result<(), Error> {
        let fan = self.db.sizes().connections_per_atomic().claim()?;
        for (i, part) in parts.iter().enumerate() {
            for k in 0..fan {
                let target = match k {
                    0 => parts[(i + 1) % parts.len()].clone(),
                    _ => composite.part_at(self.add(random.below(parts.len() as i64), 1)?),
                };
                let kind = self.hold(stubs::draw_kind(self.session, random))?;
                let length = self.hold(random.below(100_000))?;
                stubs::connect_(self.session, part, target, kind, length);
            }
        }
        Ok(())
    }

    /// Delete
    pub fn delete(&self) -> Result<i64, Error> {
        let last = self.db.composite_part_count().claim()?;
        let n = (last - self.db.sizes().composites().claim()?).clamp(0, 10);
        for id in last - n + 1..=last {
            self.db.remove_composite_part(self.db.composite_part(id));
        }
        self.session.flush()?;
        Ok(n)
    }
}
