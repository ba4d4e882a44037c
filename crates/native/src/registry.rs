//! The natives that a server or runner knows: an explicit list.

use std::collections::HashMap;

use bifrost_ir::native::NativeHeading;
use bifrost_runtime::abi::Code;
use bifrost_runtime::native::{NativeFunction, Natives};

use crate::actor::{ActorType, NativeActor, NativeActors};
use crate::glue;
use crate::persist::Persist;

/// A function with its name and heading, as the attributes make it.
#[derive(Debug)]
pub struct Routine {
    name: String,
    function: NativeFunction,
}

impl Routine {
    /// Makes a routine of a function of the runtime's calling convention. `changes` is true for a
    /// method that may change its receiver.
    ///
    /// # Safety
    /// The code does not unwind, and its arguments and results are those of the heading.
    pub unsafe fn new(name: impl Into<String>, code: Code, heading: NativeHeading, changes: bool) -> Routine {
        Routine { name: name.into(), function: NativeFunction { code, heading, changes } }
    }
}

/// A class of Theta whose objects are values of this type. Implemented by
/// [`theta_class`](crate::theta_class).
pub trait NativeClass: Send + Sized + 'static {
    /// The name in `class native "..."`.
    const NAME: &'static str;

    /// Returns the methods, under `NAME.method`.
    fn methods() -> Vec<Routine>;
}

/// The natives that programs may declare.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    natives: Natives,
    /// Theta sources by their names for `import`.
    texts: Vec<(&'static str, &'static str)>,
}

impl Registry {
    /// Makes a registry without natives.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Returns the standard set ([`crate::standard`]). It reaches no files until its settings name
    /// them ([`crate::standard::Files`]).
    pub fn standard() -> Registry {
        crate::standard::add_to(Registry::new())
    }

    /// Adds a class.
    #[must_use]
    pub fn with_class<C: NativeClass>(self) -> Registry {
        C::methods().into_iter().fold(self, Registry::with_routine)
    }

    /// Adds a class of actors.
    #[must_use]
    pub fn with_actor<A: NativeActor>(mut self) -> Registry {
        let class = ActorType::of::<A>();
        let mut actors = self.natives.get::<NativeActors>().cloned().unwrap_or_default();
        for method in class.methods() {
            let code = Code(glue::no_entry as *const u8);
            let heading = method.heading().clone();
            let function = NativeFunction { code, heading, changes: false };
            // SAFETY: no node enters it, and it takes nothing but the context.
            unsafe { self.natives.add(format!("{}.{}", A::NAME, method.name()), function) };
        }
        actors.insert(class);
        self.natives.set(actors);
        self
    }

    /// Adds a class whose objects are stored.
    #[must_use]
    pub fn with_persistent_class<C: Persist>(mut self) -> Registry {
        self.natives.set_persistence(C::NAME, glue::persistence::<C>());
        self.with_class::<C>()
    }

    /// Adds a routine, as the `native ()` of a function with
    /// [`theta_routine`](crate::theta_routine) gives it.
    #[must_use]
    pub fn with_routine(mut self, routine: Routine) -> Registry {
        // SAFETY: promised by who made the routine.
        unsafe { self.natives.add(routine.name, routine.function) };
        self
    }

    /// Adds a Theta source that programs can import: `std/files.theta` for `import std.files`. A
    /// file of that name on the disk goes first.
    #[must_use]
    pub fn with_text(mut self, name: &'static str, text: &'static str) -> Registry {
        self.texts.push((name, text));
        self
    }

    /// Returns the names of the sources, each once.
    pub fn texts(&self) -> Vec<String> {
        let mut names: Vec<String> = self.texts.iter().map(|(name, _)| (*name).to_owned()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the source of that name.
    pub fn text(&self, name: &str) -> Option<&'static str> {
        self.texts.iter().rev().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Gives natives settings, which they ask for by type ([`Cx::settings`](crate::Cx::settings)).
    pub fn set<T: Clone + Send + Sync + 'static>(&mut self, settings: T) {
        self.natives.set(settings);
    }

    /// Gives natives settings, as [`Registry::set`], in a chain of calls.
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, settings: T) -> Registry {
        self.set(settings);
        self
    }

    /// Returns the natives in the form that engines take.
    pub fn natives(&self) -> &Natives {
        &self.natives
    }

    /// Returns the headings of all natives, for the checker.
    pub fn headings(&self) -> HashMap<String, NativeHeading> {
        self.natives.headings().map(|(name, heading)| (name.to_owned(), heading.clone())).collect()
    }

    /// Returns the heading of a native as a program writes it.
    pub fn heading(&self, name: &str) -> Option<String> {
        let own = name.rsplit([':', '.']).next().unwrap_or(name);
        Some(format!("{own} {}", self.natives.find(name)?.heading))
    }
}
