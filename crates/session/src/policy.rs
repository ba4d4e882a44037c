//! The rights of a session: the one place where they are decided.
//!
//! A [`Policy`] belongs to a role, and all sessions of the role share it; a server without roles
//! has one for all. It has three parts:
//!
//! | part | decides | asked |
//! | --- | --- | --- |
//! | root names | whether clients change names | at each call of a method of `directory` |
//! | roots | the names that clients may use | by `lookup`, and by routines behind those methods |
//! | routines | the routines that exist for clients | at each number of a routine, by `describe` |
//!
//! A handle is the only way to an object, so roots are the fence of a role. A client that calls a
//! method of the root directory enters a routine of `bifrost_runtime` instead (`granted.lookup`
//! for `lookup`), which asks the context's [`Caller`]. Prepared structures are shared by sessions
//! of all roles, and their content says which of the two they enter.
//!
//! The program's own code is not asked: a routine that a client calls may name objects for it.

use std::sync::Arc;

use bifrost_runtime::caller::Caller;
use bifrost_runtime::{Cx, invoke};
use bifrost_wire::interface::{Interface, Numbering};
use bifrost_wire::{Args, ErrorNumber, Ref, RoutineNumber};

use crate::calls::Words;
use crate::failures::FailureKind;
use crate::session::Session;
use crate::tables::{MethodRow, NamesRow, Tables};

pub use bifrost_runtime::caller::Names;

/// The rights of clients to the names of the root directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RootNames {
    /// Clients look names up, list them, give them and take them away.
    ReadWrite,
    /// Clients look names up and list them.
    #[default]
    ReadOnly,
}

/// The rights of the sessions of a role.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Those to the names of the root directory.
    root_names: RootNames,
    /// The role, and the names that its clients may use; none without roles.
    caller: Option<Arc<Caller>>,
    /// The interface of its clients, if it is another one than the program's.
    shown: Option<Shown>,
}

/// The part of an interface that the clients of a role see.
#[derive(Clone, Debug)]
struct Shown {
    numbering: Arc<Numbering>,
    json: Vec<u8>,
    /// For each routine number of the role, that of the program.
    routines: Vec<RoutineNumber>,
}

/// The way of a call of a method of the root directory.
pub(crate) enum Way {
    /// As any call.
    Free,
    /// Through the routine that is bounded by the names of the role.
    Granted,
    /// None.
    Refused(FailureKind),
}

impl Policy {
    /// Makes the policy of all sessions, without roles.
    pub fn of_all(root_names: RootNames) -> Policy {
        Policy { root_names, ..Policy::default() }
    }

    /// Makes the policy of a role: clients use the names in `roots`, and call the routines in
    /// `routines`. The routine `root` always exists: `roots` are its bounds.
    pub fn of_role(
        tables: &Tables,
        role: &str,
        root_names: RootNames,
        roots: Names,
        routines: &Names,
    ) -> Policy {
        let shown = (!routines.is_all()).then(|| {
            let whole = tables.numbering().interface();
            let (numbers, shown) = (0..)
                .map(RoutineNumber)
                .zip(&whole.routines)
                .filter(|(number, routine)| tables.is_root(*number) || routines.contains(&routine.name))
                .map(|(number, routine)| (number, routine.clone()))
                .unzip();
            let interface = Interface { types: whole.types.clone(), routines: shown };
            Shown {
                json: interface.to_json(),
                numbering: Arc::new(Numbering::new(interface)),
                routines: numbers,
            }
        });
        Policy { root_names, caller: Some(Arc::new(Caller { role: role.to_owned(), roots })), shown }
    }

    /// Returns the name of the role; empty without roles.
    pub fn role(&self) -> &str {
        self.caller.as_ref().map_or("", |caller| &caller.role)
    }

    /// Returns the interface that clients see, with its numbers.
    pub fn numbering<'a>(&'a self, tables: &'a Tables) -> &'a Arc<Numbering> {
        self.shown.as_ref().map_or(tables.numbering(), |shown| &shown.numbering)
    }

    /// Returns the interface as `describe` answers.
    pub(crate) fn json<'a>(&'a self, tables: &'a Tables) -> &'a [u8] {
        self.shown.as_ref().map_or(tables.json(), |shown| &shown.json)
    }

    /// Returns the program's number of a routine; none if the role has no routine of the number.
    #[inline]
    pub(crate) fn routine(&self, number: RoutineNumber) -> Option<RoutineNumber> {
        match &self.shown {
            None => Some(number),
            Some(shown) => shown.routines.get(number.index()).copied(),
        }
    }

    /// Returns the identity under which the named batches of a client are stored. It is another one
    /// in each role, so that no role is answered with the stored replies of another.
    pub(crate) fn batches_of(&self, client: u128) -> u128 {
        let Some(caller) = &self.caller else { return client };
        let mut hasher = blake3::Hasher::new_derive_key("bifrost 1 named batches of a role");
        hasher.update(&client.to_le_bytes()).update(caller.role.as_bytes());
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }

    /// True if clients may use a name of the root directory.
    pub(crate) fn grants(&self, name: &str) -> bool {
        self.caller.as_ref().is_none_or(|caller| caller.roots.contains(name))
    }

    /// True if there are names that clients may not use.
    pub(crate) fn has_bounds(&self) -> bool {
        self.caller.as_ref().is_some_and(|caller| !caller.roots.is_all())
    }

    /// Returns the way of a call of a method of the root directory.
    pub(crate) fn way(&self, row: &NamesRow) -> Way {
        if row.changes && self.root_names == RootNames::ReadOnly {
            let text = "the names of the root directory are read-only for this session";
            return Way::Refused(FailureKind::refused(ErrorNumber::NotAllowed, text));
        }
        if self.has_bounds() { Way::Granted } else { Way::Free }
    }
}

impl Session {
    /// Changes the rights of the session from its next command on.
    pub fn set_policy(&mut self, policy: impl Into<Arc<Policy>>) {
        self.policy = policy.into();
        self.is_entered = false;
    }

    /// Enters the role in the context.
    #[cold]
    pub(crate) fn enter_role(&mut self, cx: &mut Cx) {
        cx.set_caller(self.policy.caller.clone());
        self.is_entered = true;
    }

    /// Calls a method of the root directory within the names of the role.
    #[cold]
    pub(crate) fn call_granted(
        &mut self,
        cx: &mut Cx,
        (row, names): (&'static MethodRow, &'static NamesRow),
        receiver: Ref,
        args: Args<'_>,
        past: bool,
    ) {
        let mut words = Words::from_slice(&[0]);
        let ready = self.receiver(row, receiver, past).and_then(|receiver| {
            words.push(receiver);
            self.arguments(cx, &row.call.params, args, &mut words)
        });
        if let Err(kind) = ready {
            return self.fail_call(row.call.numbers, kind);
        }
        if !self.spend(cx, row.call.numbers) {
            return;
        }
        // SAFETY: the receiver and the arguments were just checked against the method's heading,
        // which is that of the routine behind its first parameter.
        let ret = unsafe { invoke::routine(cx, names.granted.desc, &mut words) };
        self.finished(cx, row, ret);
    }
}
