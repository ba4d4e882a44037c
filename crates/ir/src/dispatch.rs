//! Which slot of a class's table holds which method (selector colouring).
//!
//! A call through a type must find its method with one load at a constant index, whatever class the
//! receiver has. Methods that stand for each other through subtyping, inheritance and renaming form
//! one *selector*; selectors that some class needs together get different slots. A class has
//! selectors of its own for the calls that its code makes on `self`. They are apart from those of
//! the types that it implements, because inheritance with renaming is no subtyping
//! (`docs/book/language/classes.md`). Tables stay dense because selectors that no class shares may
//! have the same slot.
//!
//! Source: 003 section 3.2 (several tables per class, entered at a constant index); the colouring
//! is the usual one for selector tables.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::EntityRef;

use crate::builtin::{METHODS, has_table};
use crate::program::{ClassId, Program};
use crate::types::{Method, MethodRef, TypeId, TypeKind};

/// The slots of all methods of a program.
#[derive(Clone, Debug, Default)]
pub struct Dispatch {
    /// The slot of each method of each type.
    slots: Vec<Vec<u32>>,
    table_len: u32,
}

impl Dispatch {
    /// Returns the slot through which a method is called.
    pub fn slot(&self, m: MethodRef) -> u32 {
        self.slots[m.ty.index()][m.method.index()]
    }

    /// Returns all slots that a method of a class's own type fills in the class's table.
    pub fn slots<'a>(&'a self, program: &'a Program, m: MethodRef) -> impl Iterator<Item = u32> + 'a {
        let def = program.types.method(m);
        std::iter::once(m).chain(filled(program, m.ty, def)).map(|m| self.slot(m))
    }

    /// Returns the number of slots that every table has.
    pub fn table_len(&self) -> u32 {
        self.table_len
    }

    /// Computes the slots.
    ///
    /// Cost: for each class, the number of its selectors; the colouring is greedy.
    pub fn new(program: &Program) -> Dispatch {
        let mut first = Vec::with_capacity(program.types.len());
        let mut count = METHODS.len();
        for (_, def) in program.types.iter() {
            first.push(count);
            count += def.methods.len();
        }
        let index = |m: MethodRef| first[m.ty.index()] + m.method.index();
        let mut selectors = Union::new(count);
        for (ty, def) in program.types.iter() {
            for (method, m) in def.methods.iter() {
                let this = index(MethodRef { ty, method });
                if let Some(builtin) = m.builtin {
                    // All instantiations of a family share their selectors.
                    let row = METHODS.iter().position(|row| std::ptr::eq(row, builtin));
                    selectors.join(this, row.expect("a built-in method is a row of the table"));
                }
                // A class's own type gets the methods of the types that it implements by `filled`;
                // they are not joined. A class that inherits a method under a new name and has
                // another of the old one needs both for a type's one method.
                let own = matches!(def.kind, TypeKind::Class(_));
                for up in m.stands_for.iter().filter(|up| own == is_own(program, **up)) {
                    selectors.join(this, index(*up));
                }
            }
        }

        // The selectors that each class (or built-in family) needs at once.
        let mut together: BTreeSet<BTreeSet<usize>> = BTreeSet::new();
        let needed = |ty: TypeId, selectors: &mut Union| -> BTreeSet<usize> {
            program
                .types
                .def(ty)
                .methods
                .iter()
                .flat_map(|(method, m)| {
                    std::iter::once(MethodRef { ty, method }).chain(filled(program, ty, m))
                })
                .map(|m| selectors.find(index(m)))
                .collect()
        };
        for class in program.classes.values() {
            together.insert(needed(class.ty, &mut selectors));
        }
        for (ty, def) in program.types.iter() {
            if has_table(def.kind) {
                together.insert(needed(ty, &mut selectors));
            }
        }
        let mut conflicts: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for set in &together {
            for s in set {
                conflicts.entry(*s).or_default().extend(set.iter().filter(|t| *t != s));
            }
        }
        let mut colour: BTreeMap<usize, u32> = BTreeMap::new();
        let mut order: Vec<usize> = conflicts.keys().copied().collect();
        order.sort_by_key(|s| (std::cmp::Reverse(conflicts[s].len()), *s));
        for s in order {
            let taken: BTreeSet<u32> = conflicts[&s].iter().filter_map(|t| colour.get(t).copied()).collect();
            let free = (0..).find(|c| !taken.contains(c)).expect("there are infinitely many colours");
            colour.insert(s, free);
        }
        let slots = program
            .types
            .iter()
            .map(|(ty, def)| {
                def.methods
                    .keys()
                    .map(|method| {
                        colour.get(&selectors.find(index(MethodRef { ty, method }))).copied().unwrap_or(0)
                    })
                    .collect()
            })
            .collect();
        let table_len = colour.values().max().map_or(0, |c| c + 1);
        Dispatch { slots, table_len }
    }

    /// Returns, for each slot of a class's table, the position of the method of the class's own
    /// type that fills it.
    pub fn table(&self, program: &Program, class: ClassId) -> Vec<Option<u32>> {
        self.type_table(program, program.classes[class].ty)
    }

    /// Does the same for a type, for built-in types that have tables.
    pub fn type_table(&self, program: &Program, ty: TypeId) -> Vec<Option<u32>> {
        let mut table = vec![None; self.table_len as usize];
        for method in program.types.def(ty).methods.keys() {
            for slot in self.slots(program, MethodRef { ty, method }) {
                table[slot as usize] = Some(method.as_u32());
            }
        }
        table
    }
}

/// Returns true if a method is one of a class's own type.
fn is_own(program: &Program, m: MethodRef) -> bool {
    matches!(program.types.kind(m.ty), TypeKind::Class(_))
}

/// Returns the methods of implemented types that a method of a class's own type is called through.
fn filled<'a>(program: &'a Program, ty: TypeId, m: &'a Method) -> impl Iterator<Item = MethodRef> + 'a {
    let own = matches!(program.types.kind(ty), TypeKind::Class(_));
    m.stands_for.iter().copied().filter(move |up| own && !is_own(program, *up))
}

/// Union-find over method numbers.
struct Union {
    parent: Vec<usize>,
}

impl Union {
    fn new(n: usize) -> Union {
        Union { parent: (0..n).collect() }
    }

    fn find(&mut self, mut i: usize) -> usize {
        while self.parent[i] != i {
            self.parent[i] = self.parent[self.parent[i]];
            i = self.parent[i];
        }
        i
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b)] = a.min(b);
    }
}
