//! Calls of redb, whose failures become errors.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::Error;

thread_local! {
    /// The thread is in a call of redb, whose panics are errors and not printed.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Runs a call of redb, which may panic when it did not write the contents of its file. Such a
/// panic is an error, and prints nothing.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, Error> {
    HOOK.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            // A thread that ends has no such variable any more.
            if !GUARDED.try_with(Cell::get).unwrap_or(false) {
                print(panic);
            }
        }));
    });
    let before = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    match result {
        Ok(Ok(value)) => Ok(value),
        // The error of redb for a file that is not one of its own.
        Ok(Err(redb::Error::Io(source))) if source.kind() == io::ErrorKind::InvalidData => {
            Err(Error::Damaged { what: format!("the base: {source}") })
        }
        Ok(Err(redb::Error::Io(source))) => Err(Error::Io { what: "the base", source }),
        Ok(Err(redb::Error::PreviousIo)) => {
            Err(Error::Io { what: "the base", source: io::Error::other("an earlier failure") })
        }
        Ok(Err(redb::Error::Corrupted(what))) => Err(Error::Damaged { what: format!("the base: {what}") }),
        Ok(Err(other)) => Err(Error::Damaged { what: format!("the base: {other}") }),
        Err(_) => Err(Error::Damaged { what: "the base is corrupted".into() }),
    }
}
