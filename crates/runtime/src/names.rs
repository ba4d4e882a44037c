//! The names in a directory object, and their objects.

use crate::abi::Word;
use crate::object::{self, directory, text};

fn get(this: Word, field: usize) -> Word {
    // SAFETY: the callers pass directories.
    unsafe { object::get(this, field) }
}

/// The names and objects, alternately.
pub(crate) fn entries<'a>(this: Word) -> &'a [Word] {
    match get(this, directory::LENGTH) as usize {
        0 => &[],
        // SAFETY: a directory with names has a storage with two fields for each; the callers use
        // the slice before they change it.
        count => unsafe { object::slice(get(this, directory::STORAGE), 0, 2 * count) },
    }
}

/// The position of a name, or that at which it would be.
pub(crate) fn position(this: Word, name: &str) -> Result<usize, usize> {
    let (pairs, _) = entries(this).as_chunks::<2>();
    // SAFETY: names are strings.
    pairs.binary_search_by(|[known, _]| unsafe { text(*known) }.cmp(name))
}

/// The object of a name in a directory that is open.
pub(crate) fn find(this: Word, name: &str) -> Option<Word> {
    position(this, name).ok().map(|at| entries(this)[2 * at + 1])
}
