//! Seeing the future (001 section 4): what the calls that wait in a batch will touch is known before they run.
//!
//! The first time that something has to be fetched while a piece of a batch is worked off, the commands behind it that have come
//! are looked through, and the cache is told which objects they name; absent ones are then fetched together. A batch that
//! finds everything in the cache pays one comparison a command.

use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, Mode, Table};
use bifrost_wire::{Arg, Args, Command, Decoded, Limit, Ref, decode};

use crate::session::Session;

/// Commands that are looked through at most.
const COMMANDS_MAX: usize = 4_096;

/// What was seen of what has come.
#[derive(Debug)]
pub(crate) struct Sight {
    /// The number of times that something was fetched before.
    fetched: u64,
    /// True if the commands were looked through.
    looked: bool,
}

impl Sight {
    /// At the start of a piece of a batch.
    pub fn new(cx: &Cx) -> Sight {
        Sight { fetched: cx.fetched(), looked: false }
    }

    /// True if to look: something was fetched since.
    #[inline]
    pub fn is_due(&self, cx: &Cx) -> bool {
        self.fetched != cx.fetched()
    }
}

impl Session {
    /// Goes on after something was fetched: looks through the commands behind, and keeps the cache within its limit. No code
    /// runs.
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
        let mut named: Vec<Word> = Vec::new();
        for _ in 0..COMMANDS_MAX {
            let Ok(Decoded::Command(command, used)) = decode(bytes, frame) else { break };
            bytes = &bytes[used..];
            let mut name = |reference: Ref| {
                named.extend(self.handles.get(reference).filter(|object| is_absent(*object)));
            };
            let mut name_all = |args: Args<'_>, receiver: Option<Ref>| {
                receiver.into_iter().for_each(&mut name);
                for arg in args.iter() {
                    if let Arg::Ref(reference) = arg {
                        name(reference);
                    }
                }
            };
            match command {
                Command::Call { receiver, args, .. } | Command::Send { receiver, args, .. } => {
                    name_all(args, Some(receiver))
                }
                Command::CallRoutine { args, .. } | Command::CallProcedure { args, .. } => {
                    name_all(args, None)
                }
                _ => {}
            }
        }
        self.transactions.cache().expect(named.into_iter());
    }
}

fn is_absent(object: Word) -> bool {
    // SAFETY: what has a handle is a reference.
    unsafe { Table::of(object) }.mode() == Mode::Absent
}
