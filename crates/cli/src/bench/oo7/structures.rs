//! The operations as batched control structures: each is sent whole and crosses once (Zondervan
//! 1995, chapter 5).
//!
//! Sets of visited parts are objects of the server, and so are counts, in cells. A recursive
//! operation is a procedure of the session; it is sent with its first run.
//!
//! [`Structures`] owns the procedures of its session; a method of it records one operation and
//! claims its count. [`super::client`] has the same operations call by call.

use std::cell::RefCell;
use std::collections::HashMap;

use bifrost_veneer::{Cell, Error, Procedure, Promise, Session};

use super::bifrost_stubs::{
    self as stubs, AtomicPart, BaseAssembly, ComplexAssembly, CompositePart, Database, IdSet,
};
use super::client::{Action, Parts};

/// The place, the visited parts, the count.
type VisitArgs = (AtomicPart, IdSet, Cell<i64>);
/// The place, the count.
type WalkArgs = (ComplexAssembly, Cell<i64>);
/// The place, the visited parts, the count, the id of the design root.
type ClimbArgs = (ComplexAssembly, IdSet, Cell<i64>, i64);
type Visit = Procedure<VisitArgs, ()>;
type Walk = Procedure<WalkArgs, ()>;
type Climb = Procedure<ClimbArgs, ()>;
type Newest = Procedure<WalkArgs, i64>;

/// The action of a traversal at a composite part.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum At {
    Parts(Parts, Action),
    Letters,
    Replace(String, String),
    Root,
}

/// The runner of the operations.
pub struct Structures<'s> {
    session: &'s Session,
    db: &'s Database,
    visits: RefCell<HashMap<Action, Visit>>,
    walks: RefCell<HashMap<At, Walk>>,
    climb: RefCell<Option<Climb>>,
    newest: RefCell<Option<Newest>>,
}

fn count(cell: &Cell<i64>, more: i64) {
    cell.put(cell.get() + more);
}

impl<'s> Structures<'s> {
    /// Makes one with no procedures yet.
    pub fn new(session: &'s Session, db: &'s Database) -> Structures<'s> {
        Structures {
            session,
            db,
            visits: RefCell::default(),
            walks: RefCell::default(),
            climb: RefCell::default(),
            newest: RefCell::default(),
        }
    }

    /// Records something that counts, and claims the count.
    fn counted(&self, record: impl FnOnce(&Cell<i64>)) -> Result<i64, Error> {
        let cell = self.session.cell_with(0);
        record(&cell);
        cell.get().claim()
    }

    fn act(&self, part: &AtomicPart, action: Action, n: &Cell<i64>) {
        let s = self.session;
        let repeat = |times: i64, body: &dyn Fn()| match times {
            1 => body(),
            _ => s.foreach(s.value(1).to(times), |_| body()),
        };
        match action {
            Action::Nothing => count(n, 1),
            Action::Swap(times) => {
                repeat(times, &|| {
                    let x = part.x();
                    part.set_x(part.y());
                    part.set_y(x);
                });
                count(n, times);
            }
            Action::Toggle(times) => {
                repeat(times, &|| {
                    let date = part.build_date();
                    let odd = (&date % 2).eq_(1);
                    s.if_(odd, || drop(part.set_build_date(&date + 1)))
                        .else_(|| drop(part.set_build_date(&date - 1)));
                });
                count(n, times);
            }
        }
    }

    /// Visits the atomic parts that were not seen; `None` counts nothing.
    fn visit(&self, action: Action) -> Visit {
        if let Some(visit) = self.visits.borrow().get(&action) {
            return visit.clone();
        }
        let s = self.session;
        let visit: Visit =
            s.procedure::<VisitArgs, (), _>(&format!("visit {action:?}"), |this, (part, seen, n)| {
                s.if_(seen.add(part.id()), || {
                    self.act(&part, action, &n);
                    s.foreach(part.to(), |c| drop(this.call((c.target(), &seen, &n))));
                });
            });
        self.visits.borrow_mut().insert(action, visit.clone());
        visit
    }

    fn at_composite(&self, composite: &CompositePart, at: &At, visit: Option<&Visit>, n: &Cell<i64>) {
        let s = self.session;
        match (at, visit) {
            (At::Parts(Parts::All, _), Some(visit)) => {
                visit.call((composite.root_part(), stubs::new_id_set(s), n));
            }
            (At::Parts(_, action), visit) => {
                let part = composite.root_part();
                self.act(&part, *action, n);
                if let Some(visit) = visit {
                    visit.call((part, stubs::new_id_set(s), s.cell_with::<i64>(0)));
                }
            }
            (At::Letters, _) => drop(n.put(n.get() + composite.documentation().count_of('I'))),
            (At::Replace(old, new), _) => {
                n.put(n.get() + composite.documentation().replace_start(old, new));
            }
            (At::Root, _) => {
                composite.root_part().id();
                count(n, 1);
            }
        }
    }

    fn walk(&self, at: At) -> Walk {
        if let Some(walk) = self.walks.borrow().get(&at) {
            return walk.clone();
        }
        let visit = match at {
            At::Parts(Parts::All, action) => Some(self.visit(action)),
            At::Parts(Parts::Roots, _) => Some(self.visit(Action::Nothing)),
            _ => None,
        };
        let s = self.session;
        let walk: Walk = s.procedure::<WalkArgs, (), _>(&format!("walk {at:?}"), |this, (above, n)| {
            s.foreach(above.sub_assemblies(), |sub| {
                s.if_(sub.is_base(), || {
                    s.foreach(sub.as_base().private_parts(), |c| {
                        self.at_composite(&c, &at, visit.as_ref(), &n)
                    });
                })
                .else_(|| drop(this.call((sub.as_complex(), &n))));
            });
        });
        self.walks.borrow_mut().insert(at, walk.clone());
        walk
    }

    fn root(&self) -> ComplexAssembly {
        self.db.module_named("Module 00000001").design_root()
    }

    fn traverse(&self, at: At) -> Result<i64, Error> {
        let walk = self.walk(at);
        self.counted(|n| drop(walk.call((self.root(), n))))
    }

    /// T1, T2 and T3.
    pub fn parts(&self, parts: Parts, action: Action) -> Result<i64, Error> {
        self.traverse(At::Parts(parts, action))
    }

    /// T4
    pub fn t4(&self) -> Result<i64, Error> {
        self.traverse(At::Letters)
    }

    /// T5
    pub fn t5(&self, old: &str, new: &str) -> Result<i64, Error> {
        self.traverse(At::Replace(old.to_owned(), new.to_owned()))
    }

    /// T6
    pub fn t6(&self) -> Result<i64, Error> {
        self.traverse(At::Root)
    }

    fn climb(&self) -> Climb {
        if let Some(climb) = &*self.climb.borrow() {
            return climb.clone();
        }
        let s = self.session;
        let climb: Climb = s.procedure::<ClimbArgs, (), _>("climb", |this, (at, seen, n, root)| {
            let id = at.id();
            s.if_(seen.add(&id), || {
                count(&n, 1);
                s.if_(id.ne_(&root), || drop(this.call((at.super_assembly(), &seen, &n, &root))));
            });
        });
        self.climb.borrow_mut().insert(climb).clone()
    }

    /// T7
    pub fn t7(&self) -> Result<i64, Error> {
        let (s, climb) = (self.session, self.climb());
        self.counted(|n| {
            let random = stubs::new_random(s, 1);
            let root = self.root().id();
            let (bases, complexes) = (stubs::new_id_set(s), stubs::new_id_set(s));
            let part = self.db.atomic_part(stubs::random_part_id(s, self.db, &random));
            s.foreach(part.part_of().private_users(), |b| {
                s.if_(bases.add(b.id()), || {
                    count(n, 1);
                    climb.call((b.super_assembly(), &complexes, n, &root));
                });
            });
        })
    }

    /// T10
    pub fn t10(&self) -> Result<i64, Error> {
        let walk = self.walk(At::Parts(Parts::All, Action::Nothing));
        self.counted(|n| {
            self.session.foreach(self.db.modules(), |m| drop(walk.call((m.design_root(), n))));
        })
    }

    /// CU
    pub fn cu(&self) -> Result<i64, Error> {
        let t1 = self.walk(At::Parts(Parts::All, Action::Nothing));
        let t2a = self.walk(At::Parts(Parts::Roots, Action::Swap(1)));
        self.counted(|n| {
            t1.call((self.root(), self.session.cell_with::<i64>(0)));
            t2a.call((self.root(), n));
        })
    }

    /// Q1
    pub fn q1(&self) -> Result<i64, Error> {
        let s = self.session;
        self.counted(|n| {
            let random = stubs::new_random(s, 1);
            s.foreach(s.value(1).to(10), |_| {
                self.db.atomic_part(stubs::random_part_id(s, self.db, &random)).x();
                count(n, 1);
            });
        })
    }

    /// Q2 and Q3: parts of this date and newer ones.
    pub fn newest(&self, date: i64) -> Result<i64, Error> {
        self.counted(|n| self.session.foreach(self.db.built_since(date), |_| count(n, 1)))
    }

    /// Q4
    pub fn q4(&self) -> Result<i64, Error> {
        let s = self.session;
        self.counted(|n| {
            let (random, total) = (stubs::new_random(s, 1), self.db.sizes().composites());
            s.foreach(s.value(1).to(10), |_| {
                let title = stubs::document_title(s, random.below(&total) + 1);
                let composite = self.db.document_titled(title).part();
                s.foreach(composite.private_users(), |_| count(n, 1));
            });
        })
    }

    /// Q5
    pub fn q5(&self) -> Result<i64, Error> {
        let s = self.session;
        self.counted(|n| {
            s.foreach(self.db.modules(), |m| {
                s.foreach(m.assemblies(), |base| {
                    let date = base.build_date();
                    s.foreach(base.private_parts(), |c| {
                        s.if_(c.build_date().gt(&date), || {
                            count(n, 1);
                            s.break_();
                        });
                    });
                });
            });
        })
    }

    /// Raises the cell to a value.
    fn raise(&self, cell: &Cell<i64>, value: &Promise<i64>) {
        self.session.if_(value.gt(cell.get()), || drop(cell.put(value)));
    }

    fn newest_used(&self, base: &BaseAssembly, n: &Cell<i64>) -> Promise<i64> {
        let s = self.session;
        let newest = s.cell_with::<i64>(-1);
        s.foreach(base.private_parts(), |c| self.raise(&newest, &c.build_date()));
        s.if_(newest.get().gt(base.build_date()), || count(n, 1));
        newest.get()
    }

    fn newest_below(&self) -> Newest {
        if let Some(newest) = &*self.newest.borrow() {
            return newest.clone();
        }
        let s = self.session;
        let newest: Newest = s.procedure::<WalkArgs, i64, _>("newest below", |this, (at, n)| {
            let newest = s.cell_with::<i64>(-1);
            s.foreach(at.sub_assemblies(), |sub| {
                s.if_(sub.is_base(), || self.raise(&newest, &self.newest_used(&sub.as_base(), &n)))
                    .else_(|| self.raise(&newest, &this.call((sub.as_complex(), &n))));
            });
            s.if_(newest.get().gt(at.build_date()), || count(&n, 1));
            newest.get()
        });
        self.newest.borrow_mut().insert(newest).clone()
    }

    /// Q6
    pub fn q6(&self) -> Result<i64, Error> {
        let newest = self.newest_below();
        self.counted(|n| {
            self.session.foreach(self.db.modules(), |m| drop(newest.call((m.design_root(), n))));
        })
    }

    /// Q7
    pub fn q7(&self) -> Result<i64, Error> {
        self.counted(|n| self.session.foreach(self.db.atomic_parts(), |_| count(n, 1)))
    }

    /// Q8
    pub fn q8(&self) -> Result<i64, Error> {
        let s = self.session;
        self.counted(|n| {
            s.foreach(self.db.atomic_parts(), |part| {
                let id = part.doc_id();
                s.except(|| s_count_if(s, self.db.document(&id).id().eq_(&id), n))
                    .when_named::<()>("not_found", |_| {});
            });
        })
    }

    /// Insert
    pub fn insert(&self) -> Result<i64, Error> {
        let s = self.session;
        self.counted(|n| {
            let (random, bases) = (self.db.random(), self.db.base_assembly_count());
            random.seed(1);
            s.foreach(s.value(1).to(10), |_| {
                let composite = self.new_part(&random);
                self.db.base_assembly(random.below(&bases) + 1).add_private(composite);
                count(n, 1);
            });
        })
    }

    fn new_part(&self, random: &stubs::Random) -> CompositePart {
        let (s, sizes) = (self.session, self.db.sizes());
        let id = self.db.composite_part_count() + 1;
        let kind = stubs::draw_kind(s, random);
        let date = s.cell_with::<i64>(random.below(1000));
        s.if_((&id % 10).eq_(0), || count(&date, 2000));
        let composite = stubs::new_composite_part(s, &id, kind, date.get());
        let line = s.value("I am the documentation for composite part #".to_owned());
        let line = line + stubs::padded(s, &id) + ".\n";
        let text = stubs::repeated(s, line, sizes.document_size() - 1);
        composite.set_documentation(stubs::new_document(s, &composite, stubs::document_title(s, &id), text));
        let per = sizes.atomic_per_composite();
        let dates = self.db.dates();
        s.foreach(s.value(1).to(&per), |i| {
            let id = (&id - 1) * &per + i;
            let (kind, date) = (stubs::draw_kind(s, random), random.below(1000) + 1000);
            let (x, y) = (random.below(100_000), random.below(100_000));
            let document = random.below(sizes.composites()) + 1;
            let part = stubs::new_atomic_part(s, id, kind, date, x, y, document, &composite, &dates);
            composite.add_part(part);
        });
        s.foreach(s.value(1).to(&per), |i| {
            s.foreach(s.value(1).to(sizes.connections_per_atomic()), |k| {
                let target = s.cell_with::<i64>(&i % &per + 1);
                s.if_(k.gt(1), || drop(target.put(random.below(&per) + 1)));
                let kind = stubs::draw_kind(s, random);
                let (from, to) = (composite.part_at(&i), composite.part_at(target.get()));
                stubs::connect_(s, from, to, kind, random.below(100_000));
            });
        });
        self.db.add_composite_part(&composite);
        composite
    }

    /// Delete
    pub fn delete(&self) -> Result<i64, Error> {
        let s = self.session;
        self.counted(|n| {
            let generated = self.db.sizes().composites();
            s.foreach(s.value(1).to(10), |_| {
                let last = self.db.composite_part_count();
                s.if_(last.le(&generated), || s.break_());
                self.db.remove_composite_part(self.db.composite_part(last));
                count(n, 1);
            });
        })
    }
}

fn s_count_if(s: &Session, holds: Promise<bool>, n: &Cell<i64>) {
    s.if_(holds, || count(n, 1));
}
