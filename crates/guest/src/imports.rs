//! The imports of a module as safe functions, and the macro for its exports.
//!
//! All other code of the crate is without `unsafe`. Outside of a module there is no session: every
//! function panics there.

#[cfg(target_arch = "wasm32")]
mod session {
    #[link(wasm_import_module = "bifrost")]
    unsafe extern "C" {
        pub fn run(at: *const u8, length: usize, out: *mut u8, room: usize) -> i32;
        pub fn try_run(at: *const u8, length: usize, out: *mut u8, room: usize) -> i32;
        pub fn text(position: u32, out: *mut u8, room: usize) -> usize;
        pub fn failure(out: *mut u8, room: usize) -> usize;
        pub safe fn raise() -> i32;
        pub fn fail(at: *const u8, length: usize) -> i32;
        pub safe fn release(position: u32) -> i32;
        pub fn r#type(at: *const u8, length: usize) -> u32;
        pub fn method(at: *const u8, length: usize) -> u32;
        pub fn routine(at: *const u8, length: usize) -> u32;
    }
}

/// The same imports outside of a module, for tests of the rest.
#[cfg(not(target_arch = "wasm32"))]
mod session {
    const OUTSIDE: &str = "only a module in a server has a session";

    pub unsafe fn run(_: *const u8, _: usize, _: *mut u8, _: usize) -> i32 {
        panic!("{OUTSIDE}")
    }
    pub unsafe fn try_run(_: *const u8, _: usize, _: *mut u8, _: usize) -> i32 {
        panic!("{OUTSIDE}")
    }
    pub unsafe fn text(_: u32, _: *mut u8, _: usize) -> usize {
        panic!("{OUTSIDE}")
    }
    pub unsafe fn failure(_: *mut u8, _: usize) -> usize {
        panic!("{OUTSIDE}")
    }
    pub fn raise() -> i32 {
        panic!("{OUTSIDE}")
    }
    pub unsafe fn fail(_: *const u8, _: usize) -> i32 {
        panic!("{OUTSIDE}")
    }
    pub fn release(_: u32) -> i32 {
        panic!("{OUTSIDE}")
    }
    pub unsafe fn r#type(_: *const u8, _: usize) -> u32 {
        panic!("{OUTSIDE}")
    }
    pub unsafe fn method(_: *const u8, _: usize) -> u32 {
        panic!("{OUTSIDE}")
    }
    pub unsafe fn routine(_: *const u8, _: usize) -> u32 {
        panic!("{OUTSIDE}")
    }
}

/// The kind of a name that [`find`] looks up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Named {
    Type,
    Method,
    Routine,
}

/// Runs a command, writes its results, and returns their number. A failure ends the run.
pub(crate) fn run(command: &[u8], out: &mut [u8]) -> i32 {
    // SAFETY: both ranges are borrowed for the time of the call.
    unsafe { session::run(command.as_ptr(), command.len(), out.as_mut_ptr(), out.len()) }
}

/// Runs a command; returns -1 or -2 after a failure, which is kept.
pub(crate) fn try_run(command: &[u8], out: &mut [u8]) -> i32 {
    // SAFETY: both ranges are borrowed for the time of the call.
    unsafe { session::try_run(command.as_ptr(), command.len(), out.as_mut_ptr(), out.len()) }
}

/// Writes as many bytes of a string or of bytes as there is room for, and returns their number.
pub(crate) fn text(position: u32, out: &mut [u8]) -> usize {
    // SAFETY: the range is borrowed for the time of the call.
    unsafe { session::text(position, out.as_mut_ptr(), out.len()) }
}

/// Writes the name of the last failure, as [`text`] does.
pub(crate) fn failure(out: &mut [u8]) -> usize {
    // SAFETY: the range is borrowed for the time of the call.
    unsafe { session::failure(out.as_mut_ptr(), out.len()) }
}

/// Ends the run with the last failure of [`try_run`].
pub(crate) fn raise() -> ! {
    session::raise();
    unreachable!("the run has ended")
}

/// Ends the run with the exception `failure`.
pub(crate) fn fail(text: &str) -> ! {
    // SAFETY: the range is borrowed for the time of the call.
    unsafe { session::fail(text.as_ptr(), text.len()) };
    unreachable!("the run has ended")
}

/// Forgets the results from a position on.
pub(crate) fn release(position: u32) {
    session::release(position);
}

/// Returns the number of a name, or `u32::MAX`, which is the number of nothing.
pub(crate) fn find(kind: Named, name: &str) -> u32 {
    let (at, length) = (name.as_ptr(), name.len());
    // SAFETY: the range is borrowed for the time of the call.
    unsafe {
        match kind {
            Named::Type => session::r#type(at, length),
            Named::Method => session::method(at, length),
            Named::Routine => session::routine(at, length),
        }
    }
}

/// Exports functions, which clients run by their names.
///
/// A parameter is an `i64`, an `f64` or an [`Object`](crate::Object), and so is the result, if
/// there is one. Strings, bytes and all other values arrive as objects.
///
/// ```
/// use bifrost_guest::{Method, Object, export};
///
/// static VISITS: Method = Method::named("DataElem:visits");
///
/// export! {
///     /// Doubles the visits of a person.
///     fn twice(person: Object) -> i64 {
///         2 * VISITS.call::<i64>(person, &[])
///     }
/// }
/// ```
#[macro_export]
macro_rules! export {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$meta])*
        #[allow(unsafe_code, reason = "the name of an export is in no other library of the module")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) $(-> $result)? $body
    )*};
}
