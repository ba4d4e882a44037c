//! The future table F: the results of the batch under way (001 section 5.2).

use bifrost_ir::{MethodRef, TypeId};
use bifrost_runtime::abi::Word;

/// The state of a position of the batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Future {
    /// A value of a basic type.
    Basic(Word, TypeId),
    /// An object, with the type that the call's heading gives it.
    Object(Word, TypeId),
    /// The call had no result.
    Nothing,
    /// A table: its position among those of the batch.
    Rows(u32),
    /// Contents that were taken: their position among those of the batch.
    Contents(u32),
    /// An actor was asked for it: the number of the request, which is not joined yet.
    Open(u64, MethodRef),
    /// The call failed: the failure's position in the batch's list.
    Failed(u32),
    /// The object was made in a transaction that was aborted since.
    Undone,
    /// It belongs to the inside of a structure or procedure, and means nothing outside.
    Inner,
}
