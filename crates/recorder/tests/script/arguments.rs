//! Arguments of a step.

use bifrost_recorder::{Compose, Operand, Owner, Slot};
use bifrost_wire::OwnedValue;

/// An argument of a step.
#[derive(Debug)]
pub enum Argument {
    Stub(Slot),
    Value(OwnedValue),
    Items(Items),
    Foreign,
}

/// The items of a compound.
#[derive(Debug)]
pub struct Items(pub Vec<Argument>);

impl Compose for Items {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn each(&self, _: Owner, put: &mut dyn FnMut(Operand<'_>)) {
        self.0.iter().for_each(|item| put(item.operand()));
    }
}

impl Argument {
    pub fn operand(&self) -> Operand<'_> {
        match self {
            Argument::Stub(slot) => Operand::Stub(*slot),
            Argument::Value(value) => Operand::Value(value.view()),
            // There is one session.
            Argument::Items(items) => Operand::Compound(items, Owner(0)),
            Argument::Foreign => Operand::Foreign,
        }
    }
}
