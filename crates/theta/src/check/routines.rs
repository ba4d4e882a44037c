//! Stand-alone routines, and the walk over all bodies.

use bifrost_ir::{
    Block, Body, Class, ClassId, Func, FuncId, FuncKind, Routine, RoutineId, Signature, TypeId, TypeKind,
};
use cranelift_entity::PrimaryMap;

use super::instances::Use;
use super::{Checker, Env};
use crate::ast::Heading;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// The facts about a routine.
pub(crate) struct RoutineInfo {
    /// Position in [`crate::resolve::Names::routines`].
    def: usize,
    pub id: RoutineId,
    env: Env,
    purpose: Use,
    /// Position in [`Checker::demands`].
    pub demands: usize,
}

/// Returns the error E0215, without its help.
fn cannot_be_remote(heading: &Heading, word: Span, why: &str) -> Diagnostic {
    let message = format!("clients cannot call `{}`: {why}", heading.name);
    Diagnostic::error(Code::E0215, word, message)
}

impl<'a> Checker<'a> {
    /// Headings of all routines.
    pub(crate) fn complete_routines(&mut self) {
        for def in 0..self.names.routines.len() {
            let heading = &self.names.routines[def].ast.heading;
            if let Some(word) = heading.remote
                && !heading.parms.is_empty()
            {
                let why = "it has type parameters, and clients know no instantiations of it";
                self.report(
                    cannot_be_remote(heading, word, why)
                        .help("write a routine without type parameters that calls it, and mark that one"),
                );
            }
            if let Some((args, purpose)) = self.standing(&heading.name, &heading.parms) {
                self.add_routine(def, args, purpose, heading.name.span);
            }
        }
    }

    /// Returns an instantiation of a routine, with its code to come.
    pub(crate) fn new_routine(
        &mut self,
        def: usize,
        args: &[TypeId],
        name: String,
        purpose: Use,
    ) -> RoutineInfo {
        let placed = &self.names.routines[def];
        let (heading, exported) = (&placed.ast.heading, placed.exported());
        let env = Env::new(placed.inner).with(&heading.parms, args);
        let mut name = match &placed.module {
            Some(module) if !placed.public => format!("{module}.{name}"),
            _ => name,
        };
        let voice = self.voice_of(purpose);
        let (signature, demands) = self.with_voice(voice, |cx| {
            let demands = cx.resolve_wheres(&env, &heading.name, &heading.parms, &heading.wheres);
            if purpose == Use::Stands {
                cx.assume(&demands);
            }
            (cx.resolve_heading(&env, heading), demands)
        });
        self.demands.push(demands);
        if name == "main" && self.program.find_routine("main").is_some() {
            // The entry of the program is that of the first text.
            name = format!("{}.main", self.sources.name(heading.name.span.file));
        }
        let func = self.placeholder();
        let id = self.program.add_routine(Routine {
            name,
            signature,
            body: Body::Func(func),
            type_args: args.to_vec(),
            public: heading.remote.is_some() && heading.parms.is_empty(),
            doc: heading.doc.clone(),
        });
        if heading.parms.is_empty() {
            self.with_voice(voice, |cx| cx.check_remote(heading, exported, id));
        }
        RoutineInfo { def, id, env, purpose, demands: self.demands.len() - 1 }
    }

    /// Reports E0215 for a routine that is marked `remote` and that clients cannot call.
    pub(crate) fn check_remote(&mut self, heading: &Heading, exported: Result<(), &str>, id: RoutineId) {
        let Some(word) = heading.remote else { return };
        let routine = &self.program.routines[id];
        let crosses = routine.signature.types().all(|ty| !self.program.types.kind(ty).is_routine());
        let (why, help) = if routine.is_entry() {
            ("it runs the program itself", "leave the word out, or give the routine another name".to_owned())
        } else if routine.is_migration() {
            let help = "leave the word out, or give the routine a name that begins otherwise".to_owned();
            ("it is a migration of stored objects", help)
        } else if let Err(module) = exported {
            let help = format!("list it: `module {module} exports ..., {}`", heading.name);
            ("its module does not export it", help)
        } else if !crosses {
            ("clients cannot give or take routines", "take and return objects and values".to_owned())
        } else {
            return;
        };
        self.report(cannot_be_remote(heading, word, why).help(help));
    }

    /// Returns a class without variables and methods.
    pub(crate) fn new_class(&mut self, name: String, doc: &str) -> (ClassId, TypeId) {
        let id = self.program.classes.next_key();
        let ty =
            self.program.types.add(super::items::empty_type(&name, TypeKind::Class(id), false, false, doc));
        self.program.classes.push(Class {
            name,
            ty,
            superclass: None,
            fields: vec![],
            bodies: vec![],
            actor: None,
        });
        (id, ty)
    }

    /// Returns a function whose code comes later.
    pub(crate) fn placeholder(&mut self) -> FuncId {
        self.program.funcs.push(Func {
            name: String::new(),
            kind: FuncKind::Routine,
            signature: Signature::default(),
            vars: PrimaryMap::new(),
            body: Block::default(),
            procedures: vec![],
            written: bifrost_ir::Written::Nowhere,
        })
    }

    /// Checks every maker, method and routine, each once; their instantiations come after them.
    pub(crate) fn check_bodies(&mut self) {
        self.settle_at_once();
        let (mut class, mut routine) = (0, 0);
        while !self.is_full() {
            if class < self.classes.len() {
                self.check_class(class);
                class += 1;
            } else if routine < self.routines.len() {
                self.check_routine_body(routine);
                routine += 1;
            } else {
                return;
            }
        }
    }

    fn check_routine_body(&mut self, at: usize) {
        let RoutineInfo { def, id, env, purpose, demands } = &self.routines[at];
        let (def, id, env, purpose, demands) = (*def, *id, env.clone(), *purpose, *demands);
        let ast = self.names.routines[def].ast;
        if !self.is_walked(purpose) || !self.may_walk(purpose, text_of(ast.heading.span, ast.end)) {
            return;
        }
        let Body::Func(func) = self.program.routines[id].body else { return };
        let name = self.program.routines[id].name.clone();
        let signature = self.program.routines[id].signature.clone();
        let voice = self.voice_of(purpose);
        self.program.funcs[func] = self.with_voice(voice, |cx| {
            let env = cx.narrowed(&env, &cx.demands[demands]);
            cx.check_routine(env, None, name, signature, ast)
        });
    }

    /// Returns true if bodies of definitions with this purpose are looked at in this walk.
    pub(crate) fn is_walked(&self, purpose: Use) -> bool {
        self.walk == super::Walk::Instances || purpose != (Use::Runs { generic: true })
    }
}

/// Returns the span from a heading to the end of its body.
pub(crate) fn text_of(heading: Span, end: Span) -> Span {
    heading.to(end)
}
