//! Seeing the future (001 section 4): the objects that the calls that wait in a batch will touch
//! are known before they run.
//!
//! It begins the first time that an object has to be fetched while a piece of a batch is handled.
//! The commands behind it that have come are looked through, and the cache is told which objects
//! they name. Absent ones are then fetched together. A batch that finds everything in the cache
//! pays one comparison a command.

use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, Mode, Object, Table};
use bifrost_wire::{Decoded, Limit, Ref, decode};

use crate::session::Session;

/// Commands that are looked through at most.
const COMMANDS_MAX: usize = 4_096;

/// The state of looking ahead in the bytes that have come.
#[derive(Debug)]
pub(crate) struct Sight {
    /// The number of times that something was fetched before.
    fetched: u64,
    /// True if the commands were looked through.
    looked: bool,
}

impl Sight {
    /// Makes the state at the start of a piece of a batch.
    pub fn new(cx: &Cx) -> Sight {
        Sight { fetched: cx.fetched(), looked: false }
    }

    /// True if it is time to look: an object was fetched since.
    #[inline]
    pub fn is_due(&self, cx: &Cx) -> bool {
        self.fetched != cx.fetched()
    }
}

impl Session {
    /// Goes on after an object was fetched: looks through the commands behind, and keeps the cache
    /// within its limit. No code runs.
    #[cold]
    pub(crate) fn see(&self, cx: &mut Cx, sight: &mut Sight, bytes: &[u8]) {
        sight.fetched = cx.fetched();
        if !std::mem::replace(&mut sight.looked, true) {
            self.look_ahead(bytes);
        }
        self.transactions.cache().trim(cx);
    }

    /// Looks through the commands if the receiver of the first one is absent.
    #[inline]
    pub(crate) fn foresee(&self, sight: &mut Sight, receiver: Ref, bytes: &[u8]) {
        if !sight.looked && self.handles.get(receiver).is_some_and(is_absent) {
            sight.looked = true;
            self.look_ahead(bytes);
        }
    }

    #[cold]
    fn look_ahead(&self, mut bytes: &[u8]) {
        let frame = self.limits.size(Limit::FrameBytes);
        let mut named: Vec<Object> = Vec::new();
        for _ in 0..COMMANDS_MAX {
            let Ok(Decoded::Command(command, used)) = decode(bytes, frame) else { break };
            bytes = &bytes[used..];
            command.each_reference(|reference| {
                let object = self.handles.get(reference).filter(|word| is_absent(*word));
                // SAFETY: the words of handles are references.
                named.extend(object.map(|word| unsafe { Object::new(word) }));
            });
        }
        self.transactions.cache().expect(named.into_iter());
    }
}

fn is_absent(object: Word) -> bool {
    // SAFETY: what has a handle is a reference.
    unsafe { Table::of(object) }.mode() == Mode::Absent
}
