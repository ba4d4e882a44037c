//! The exceptions of a reply as bytes: in the lists of `flushed`, and in `exceptions`.

use super::{begin, bytes, end, head, outcome, word};
use crate::op;
use crate::places::PlaceList;
use crate::reply::{ExceptionKind, Outcome};

/// The most loops around a call whose rounds an exception tells.
const ITERATIONS_MAX: usize = 255;

fn exception_head(out: &mut Vec<u8>, kind: u8, counts: [usize; 2], call: u32, iterations: &[u32]) {
    let [values, places] = counts;
    let rounds = &iterations[..iterations.len().min(ITERATIONS_MAX)];
    word(out, head(kind, values as u32 | (rounds.len() as u32) << 8 | (places as u32) << 16, call));
    for round in rounds {
        word(out, u64::from(*round));
    }
}

/// The name of an exception, its values and places.
pub(super) type Signalled<'s> = (&'s str, &'s [Outcome<'s>], PlaceList<'s>);

pub(super) fn signal(
    out: &mut Vec<u8>,
    call: u32,
    iterations: &[u32],
    (name, values, places): Signalled<'_>,
) {
    let values = &values[..values.len().min(255)];
    let counts = [values.len(), places.written().len()];
    exception_head(out, crate::reply::kind::SIGNAL, counts, call, iterations);
    bytes(out, name.as_bytes());
    for value in values {
        outcome(out, value);
    }
    places.write(out);
}

pub(super) fn exception(out: &mut Vec<u8>, call: u32, iterations: &[u32], kind: &ExceptionKind<'_>) {
    use crate::reply::kind;
    match kind {
        ExceptionKind::Signal { name, values, places } => {
            let (values, listed) = (values.iter().collect::<Vec<_>>(), places.iter().collect::<Vec<_>>());
            let places = PlaceList { places: &listed, more: places.more };
            signal(out, call, iterations, (name, &values, places));
        }
        ExceptionKind::Unhandled { argument, back, cause } => {
            exception_head(out, kind::UNHANDLED, [0, 0], call, iterations);
            let argument = u64::from(*argument & 0xff_ffff) | u64::from(*back) << 24;
            word(out, argument | u64::from(*cause) << 32);
        }
        ExceptionKind::Refused { number, text } => {
            exception_head(out, kind::REFUSED, [0, 0], call, iterations);
            word(out, u64::from(*number));
            bytes(out, text.as_bytes());
        }
    }
}

/// Writes an `exceptions` reply.
#[must_use = "the reply is whole only after `finish`"]
pub struct Exceptions<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    count: u32,
}

impl<'o> Exceptions<'o> {
    /// Starts the reply.
    pub fn begin(out: &'o mut Vec<u8>) -> Exceptions<'o> {
        let start = out.len();
        begin(out, 0);
        word(out, 0);
        Exceptions { out, start, count: 0 }
    }

    /// Appends an exception of a batch; batches of a session count from 1.
    pub fn exception(&mut self, batch: u64, call: u32, iterations: &[u32], kind: &ExceptionKind<'_>) {
        self.count += 1;
        word(self.out, batch);
        exception(self.out, call, iterations, kind);
    }

    /// Appends an exception with values.
    pub fn signal(&mut self, batch: u64, call: u32, iterations: &[u32], name: &str, values: &[Outcome<'_>]) {
        self.failure(batch, call, iterations, name, values, PlaceList::NONE);
    }

    /// Appends an exception with values and places.
    pub fn failure(
        &mut self,
        batch: u64,
        call: u32,
        iterations: &[u32],
        name: &str,
        values: &[Outcome<'_>],
        places: PlaceList<'_>,
    ) {
        self.count += 1;
        word(self.out, batch);
        signal(self.out, call, iterations, (name, values, places));
    }

    /// Ends the reply. `omitted` is how many exceptions are not listed because of a limit.
    pub fn finish(self, omitted: u64) {
        let first = head(op::EXCEPTIONS, 0, self.count).to_le_bytes();
        self.out[self.start..self.start + 8].copy_from_slice(&first);
        self.out[self.start + 16..self.start + 24].copy_from_slice(&omitted.to_le_bytes());
        end(self.out, self.start + 16);
    }
}
