//! Commands are run, and their results become values of Rust.

use alloc::string::String;
use alloc::vec::Vec;

use crate::command::{self, Given, RESULTS_MAX};
use crate::{Failure, Object, fail, imports, received};

/// Bytes of a result: a tag and a word.
const RESULT_BYTES: usize = 16;

/// A type of results: basic ones, `String`, `Vec<u8>`, [`Object`], `()` for nothing, and tuples.
pub trait Outcome: Sized {
    /// Takes the results; none if they have other types or another number.
    fn of(results: &[Given]) -> Option<Self>;
}

macro_rules! outcome {
    ($($ty:ty, $pattern:pat => $value:expr;)*) => {$(
        impl Outcome for $ty {
            fn of(results: &[Given]) -> Option<$ty> {
                match *results {
                    [$pattern] => Some($value),
                    _ => None,
                }
            }
        }
    )*};
}

outcome! {
    bool, Given::Bool(b) => b;
    i64, Given::Int(i) => i;
    f64, Given::Real(r) => r;
    char, Given::Char(c) => c;
    Object, Given::Object(object) => object;
    String, Given::Object(object) => object.text();
    Vec<u8>, Given::Object(object) => object.bytes();
    Given, given => given;
}

impl Outcome for () {
    fn of(results: &[Given]) -> Option<()> {
        matches!(results, [] | [Given::Nil]).then_some(())
    }
}

impl<A: Outcome, B: Outcome> Outcome for (A, B) {
    fn of(results: &[Given]) -> Option<(A, B)> {
        let [a, b] = *results else { return None };
        Some((A::of(&[a])?, B::of(&[b])?))
    }
}

impl<A: Outcome, B: Outcome, C: Outcome> Outcome for (A, B, C) {
    fn of(results: &[Given]) -> Option<(A, B, C)> {
        let [a, b, c] = *results else { return None };
        Some((A::of(&[a])?, B::of(&[b])?, C::of(&[c])?))
    }
}

/// A type without [`Object`]s, which leaves a [`scope`](crate::scope).
pub trait Plain {}

impl Plain for () {}
impl Plain for bool {}
impl Plain for i64 {}
impl Plain for f64 {}
impl Plain for char {}
impl Plain for String {}
impl Plain for Vec<u8> {}
impl Plain for Failure {}
impl<T: Plain> Plain for Option<T> {}
impl<T: Plain, E: Plain> Plain for Result<T, E> {}
impl<A: Plain, B: Plain> Plain for (A, B) {}
impl<A: Plain, B: Plain, C: Plain> Plain for (A, B, C) {}

/// Runs a command whose failure ends the run.
pub(crate) fn must<R: Outcome>(command: &[u8]) -> R {
    let mut out = [0; RESULT_BYTES * RESULTS_MAX];
    let count = imports::run(command, &mut out);
    results(count, &out)
}

/// Runs a command whose failure is returned.
pub(crate) fn may<R: Outcome>(command: &[u8]) -> Result<R, Failure> {
    let mut out = [0; RESULT_BYTES * RESULTS_MAX];
    match imports::try_run(command, &mut out) {
        -1 => Err(Failure::Signalled(name())),
        count if count < 0 => Err(Failure::Refused(name())),
        count => Ok(results(count, &out)),
    }
}

/// Reads the results. The run ends if they are of other types than `R`.
fn results<R: Outcome>(count: i32, out: &[u8]) -> R {
    let count = usize::try_from(count).unwrap_or(0).min(RESULTS_MAX);
    let mut given = [Given::Nil; RESULTS_MAX];
    for (place, words) in given[..count].iter_mut().zip(out.chunks(RESULT_BYTES)) {
        let form = "a result of a call has a form that the module does not know";
        *place = command::given(words).unwrap_or_else(|| fail(form));
        if let Given::Object(object) = *place {
            received(object);
        }
    }
    R::of(&given[..count]).unwrap_or_else(|| fail("the module takes results of a call for another type's"))
}

/// The name of the last failure.
fn name() -> String {
    let mut bytes = alloc::vec![0; 64];
    let length = imports::failure(&mut bytes);
    if length > bytes.len() {
        bytes.resize(length, 0);
        imports::failure(&mut bytes);
    }
    bytes.truncate(length);
    String::from_utf8_lossy(&bytes).into_owned()
}
