//! The runtime that running code calls: mode tables, dispatch, helper calls, built-in types.
//!
//! Read [`abi`] first: it is the calling convention that compiled code, interpreter, built-in
//! functions and stubs share. [`image`] links a program to tables that code can be called through.
//! [`Cx`] is the context of one running piece of code: its heap, its limits, the exception under
//! way; [`collect`] and [`roots`] collect its heap. [`content`] is the walk over the contents of
//! objects, and [`transfer`] brings values to other heaps.
//!
//! Neither engine is named here. The one that runs a method's code the first time is asked through
//! [`Engine`]. Nor are actors: a context asks for theirs through
//! [`NodeHost`](node_host::NodeHost), and has the words of theirs that machine code uses
//! ([`node_words`]). The layout of their objects is in [`actor_layout`] and [`actor_class`], as it
//! belongs to the image of a program.

pub mod abi;
pub mod actor_class;
pub mod actor_layout;
pub mod caller;
pub mod collect;
pub mod content;
pub mod cx;
mod element;
pub mod engine;
pub mod image;
pub mod invoke;
mod link;
pub mod map_entries;
pub mod mode;
mod names;
pub mod native;
pub mod natives;
pub mod node_host;
pub mod node_words;
pub mod object;
pub mod places;
pub mod reference;
pub mod roots;
pub mod structure;
pub mod transfer;

pub use abi::{Code, Outcome, Ret};
pub use collect::HeapStats;
pub use cx::{Collect, Cx, Kill, Limits};
pub use engine::{Came, Engine, Form, Interpreter, MethodEntry};
pub use image::{ClassInfo, ElementMethod, Image, LinkError, RoutineDesc, Table};
pub use link::{link, link_with};
pub use mode::{Doom, Keeper, Mode, NotFetched, NotKept, Overtaken, UNDONE, changed_by_others};
pub use places::{LogBound, PLACES_MAX, PlaceList};
pub use reference::Object;
pub use roots::{Kept, Root, RootSet};
pub use structure::{Extent, StructureCode};
