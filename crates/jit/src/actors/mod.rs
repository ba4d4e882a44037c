//! Actors as machine code: the entries of their tables, their turns, and the statements that send,
//! wait and answer.
//!
//! | file | code |
//! | --- | --- |
//! | `entries.rs` | the entries of tables by state, for each method |
//! | `turns.rs` | the turns of a class's actors |
//! | `sends.rs` | messages: `send`, requests, `delegate` |
//! | `waits.rs` | `await`, loops that make way, calls of an actor on itself; the exits of code |
//! | `answers.rs` | `reply`, and the ends of methods |
//! | `create.rs` | new actors |
//! | `places.rs` | the places at which code may leave |
//!
//! What the code calls when the straight way is not enough is in crate `actors` (`entries.rs`).

pub(crate) mod answers;
pub(crate) mod create;
pub(crate) mod entries;
pub(crate) mod places;
pub(crate) mod sends;
pub(crate) mod turns;
pub(crate) mod waits;
