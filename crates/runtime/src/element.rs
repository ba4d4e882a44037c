//! The methods that containers call on their elements.

/// A method by which containers treat their elements (`docs/book/language/library.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the methods of those names")]
pub enum ElementMethod {
    Equal,
    Similar,
    Lt,
    Copy,
    Unparse,
    Hash,
}

impl ElementMethod {
    pub(crate) const ALL: [ElementMethod; 6] = [
        ElementMethod::Equal,
        ElementMethod::Similar,
        ElementMethod::Lt,
        ElementMethod::Copy,
        ElementMethod::Unparse,
        ElementMethod::Hash,
    ];

    /// The method's name.
    pub fn name(self) -> &'static str {
        match self {
            ElementMethod::Equal => "equal",
            ElementMethod::Similar => "similar",
            ElementMethod::Lt => "lt",
            ElementMethod::Copy => "copy",
            ElementMethod::Unparse => "unparse",
            ElementMethod::Hash => "hash",
        }
    }
}
