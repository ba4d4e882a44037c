//! Finds the functions that a call can run.

use bifrost_ir::{Body, Callee, ClassId, Func, FuncId, FuncKind, MethodRef, Operand, TypeKind, Var};
use bifrost_runtime::image::Image;

/// The functions that a call can run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Targets {
    /// This, whatever the receiver is.
    One(FuncId),
    /// Depending on the class of the receiver.
    Checked {
        /// The classes whose method is a function.
        classes: Vec<(ClassId, FuncId)>,
        /// True if there are no others.
        all: bool,
    },
    /// Too many, or one that is no function.
    Unknown,
}

/// Most classes that a receiver's table is compared with.
const CLASSES_MAX: usize = 3;

/// The place at which calls are made.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    pub(crate) image: &'a Image,
    /// The function that contains them.
    pub(crate) func: &'a Func,
    /// The class of its receiver, if it can be no other.
    pub(crate) class: Option<ClassId>,
}

impl Calls<'_> {
    /// The functions that a call can run. A receiver that is the method's own was found through its
    /// table already, so that one function is enough to know.
    pub(crate) fn targets(self, callee: Callee, receiver: Option<Operand>) -> Targets {
        let program = self.image.program();
        match callee {
            Callee::Routine(r) => match program.routines[r].body {
                Body::Func(func) => Targets::One(func),
                Body::Native(_) => Targets::Unknown,
            },
            Callee::Method(m) => {
                let own = self.func.kind == FuncKind::Method && receiver == Some(Var::from_u32(0).into());
                self.methods(m, own)
            }
            Callee::Procedure(_) | Callee::Itself => Targets::Unknown,
        }
    }

    fn methods(self, m: MethodRef, own: bool) -> Targets {
        if let (true, Some(class)) = (own, self.class) {
            return self.method(class, m).map_or(Targets::Unknown, Targets::One);
        }
        let classes = self.classes(m);
        let known: Vec<(ClassId, FuncId)> =
            classes.iter().filter_map(|c| self.method(*c, m).map(|func| (*c, func))).collect();
        let all = known.len() == classes.len();
        match known.as_slice() {
            [(_, func), rest @ ..] if own && all && rest.iter().all(|(_, other)| other == func) => {
                Targets::One(*func)
            }
            [] => Targets::Unknown,
            _ if classes.len() > CLASSES_MAX => Targets::Unknown,
            _ => Targets::Checked { classes: known, all },
        }
    }

    /// The classes that the receiver of a method can be of.
    fn classes(self, m: MethodRef) -> Vec<ClassId> {
        let program = self.image.program();
        let own = match program.types.kind(m.ty) {
            TypeKind::Class(class) => Some(class),
            _ => None,
        };
        let inherits = |class: ClassId| {
            std::iter::successors(Some(class), |c| program.classes[*c].superclass).any(|c| Some(c) == own)
        };
        let fits =
            |class: ClassId| inherits(class) || program.types.is_subtype(program.classes[class].ty, m.ty);
        program.classes.keys().filter(|class| fits(*class)).collect()
    }

    /// The function of a class's method, if it is one.
    fn method(self, class: ClassId, m: MethodRef) -> Option<FuncId> {
        let table = self.image.find_table(self.image.program().classes[class].ty)?;
        self.image.method_func(table.info(), self.image.dispatch().slot(m))
    }
}
