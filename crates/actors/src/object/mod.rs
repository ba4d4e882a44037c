//! Typed references to the objects that belong to actors. The fields are in
//! [`actor_layout`](bifrost_runtime::actor_layout).
//!
//! A [`Word`](bifrost_runtime::abi::Word) does not say to which object it refers. The types here
//! do: [`Actor`], [`Message`], [`Join`] and the others are words whose maker has promised that
//! ([`Actor::new`]). So the functions of this crate that take them are safe, and read the fields
//! without a promise of their own. Two rules go with it:
//!
//! - A typed reference is used only while something keeps its object: a guard, a queue, another
//!   object. Objects never move, so a reference stays the same until then.
//! - A `Word` that is a *value* (an argument, a result, a variable) is trusted to have the type of
//!   its place. The verifier has shown that for programs, and `transfer` for packets.
//!
//! | type | object | fields in `actor_layout` |
//! | --- | --- | --- |
//! | [`Actor`] | an actor of this node, or a proxy of another node's | variables, mail; `far` |
//! | [`Mail`] | the queued messages of an actor | `mail` |
//! | [`Message`] | a queued message | `message` |
//! | [`Join`] | a method that waits or may wait | `join` |
//! | [`Replier`] | a destination of an answer as a value | `replier` |
//! | [`Outgoing`] | a message that went to another node | `outgoing` |
//! | [`Away`] | a waiter on another node | `away` |
//! | [`Owing`] | any of `Message`, `Join`, `Replier`, `Outgoing`: it owes an answer | `owed` |
//! | [`Party`] | any object that begins with a `Kind`: answers go to it | `owed` |
//! | `Watcher` | an entry in the list of an actor's monitors | `watcher` |
//! | [`Exception`] | an exception that is kept | `exception` |

/// Makes a type of references.
macro_rules! reference {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(pub(in crate::object) ::std::num::NonZero<Word>);

        impl $name {
            /// Makes a typed reference of a word.
            ///
            /// # Safety
            /// The word is a reference to such an object, which lives as long as the result and its
            /// copies are used.
            #[inline(always)]
            pub unsafe fn new(word: Word) -> $name {
                debug_assert!(word != 0, "a reference");
                // SAFETY: references are not 0.
                $name(unsafe { ::std::num::NonZero::new_unchecked(word) })
            }

            /// Makes one of a word that may be 0.
            ///
            /// # Safety
            /// As for `new`, or the word is 0.
            #[inline(always)]
            #[allow(dead_code, reason = "no field of some types can be 0")]
            pub unsafe fn of(word: Word) -> Option<$name> {
                ::std::num::NonZero::new(word).map($name)
            }

            /// Returns the reference as a word.
            #[inline(always)]
            pub fn word(self) -> Word {
                self.0.get()
            }

            #[inline(always)]
            pub(in crate::object) fn get(self, field: usize) -> Word {
                // SAFETY: `new` was promised such an object, which has the field.
                unsafe { ::bifrost_runtime::object::get(self.word(), field) }
            }

            #[inline(always)]
            #[allow(dead_code, reason = "objects that only others change")]
            pub(in crate::object) fn set(self, field: usize, word: Word) {
                // SAFETY: `new` was promised such an object, which has the field; the callers are
                // in this folder, and pass words of its type.
                unsafe { ::bifrost_runtime::object::set(self.word(), field, word) };
            }
        }
    };
}

/// Returns a reference as a word, or 0.
macro_rules! word_of {
    ($value:expr) => {
        $value.map_or(0, |reference| reference.word())
    };
}

/// Makes a field that is data: its reader and its writer.
macro_rules! data {
    ($($(#[$doc:meta])* $name:ident, $set:ident = $field:expr;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name(self) -> Word {
                self.get($field)
            }

            /// Changes it.
            #[inline(always)]
            pub fn $set(self, word: Word) {
                self.set($field, word);
            }
        )*
    };
}

/// Makes a field that is a reference or 0: its reader and its writer.
macro_rules! links {
    ($($(#[$doc:meta])* $name:ident, $set:ident: $to:ident = $field:expr;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name(self) -> Option<$to> {
                // SAFETY: the field has such a reference or 0, and its object lives as this one.
                unsafe { $to::of(self.get($field)) }
            }

            /// Changes it.
            #[inline(always)]
            pub fn $set(self, to: Option<$to>) {
                self.set($field, word_of!(to));
            }
        )*
    };
}

mod actor;
mod answer;
mod join;
mod message;

pub use actor::Actor;
pub use answer::{Answer, Exception, Owing, Party, Replier};
pub(crate) use answer::{Away, Known, Outgoing, Waiting};
pub(crate) use join::Delegated;
pub use join::Join;
pub(crate) use message::Watcher;
pub use message::{Call, Mail, Message};
