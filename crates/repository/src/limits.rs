//! The bounds of a store.

/// The most bytes that the records of one commit may have together.
pub const COMMIT_BYTES_MAX: usize = 256 << 20;
/// The bytes that an object is counted as besides its record where bytes of memory are counted.
pub const OBJECT_BYTES: u64 = 64;
/// The most bytes of the objects of a store in memory, if nothing else is said.
pub const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// The most bytes of a batch's reply that is kept with its commit.
pub const REPLY_BYTES_MAX: usize = 64 << 10;
/// The number of sessions whose last reply is kept; those that committed last.
pub const SESSIONS_KEPT_MAX: usize = 100_000;
/// The number of bytes of replies that are kept.
pub const REPLIES_KEPT_BYTES_MAX: usize = 64 << 20;
/// The most classes of a store.
pub const CLASSES_MAX: usize = 1 << 16;
/// The most fields, and the most supertypes, of a class.
pub const FIELDS_MAX: usize = 1 << 16;
/// The most bytes of a class's specification, and of its name.
pub const SPECIFICATION_BYTES_MAX: usize = 1 << 20;
/// The number of written orefs that are remembered for validation and for
/// [`crate::Repository::changes`].
pub const CHANGES_KEPT_MAX: usize = 1 << 20;
/// The number of bytes at which a group of commits takes no more of them.
pub const GROUP_BYTES_MAX: usize = 64 << 20;
