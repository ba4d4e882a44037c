//! The limits that a server tells its clients, so that a client can refuse an oversized batch
//! itself.

use serde::{Deserialize, Serialize};

macro_rules! limits {
    ($($name:ident = $number:literal, $config:literal, $default:literal, $text:literal;)*) => {
        /// A limit that the server announces in `welcome`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        #[repr(u32)]
        pub enum Limit {
            $(#[doc = $text] $name = $number,)*
        }

        impl Limit {
            /// All limits, in the order of their numbers.
            pub const ALL: &[Limit] = &[$(Limit::$name),*];

            /// Returns the limit of a number. Clients ignore numbers that they do not know.
            pub fn from_number(number: u32) -> Option<Limit> {
                match number { $($number => Some(Limit::$name),)* _ => None }
            }

            /// Returns its name in the configuration.
            pub fn name(self) -> &'static str {
                match self { $(Limit::$name => $config,)* }
            }

            /// Returns the limit of a server that is not configured otherwise.
            pub fn default_value(self) -> u64 {
                match self { $(Limit::$name => $default,)* }
            }

            /// Returns a description of the quantity that it bounds.
            pub fn text(self) -> &'static str {
                match self { $(Limit::$name => $text,)* }
            }
        }
    };
}

limits! {
    FrameBytes = 1, "frame_bytes_max", 1_048_576, "Bytes of one command.";
    BatchBytes = 2, "batch_bytes_max", 16_777_216, "Bytes of one batch.";
    BatchCommands = 3, "batch_commands_max", 100_000, "Commands of one batch.";
    Futures = 4, "futures_max", 100_000, "Futures of one batch.";
    Depth = 5, "depth_max", 64, "Nesting of structures.";
    Handles = 6, "handles_max", 1_048_576, "Handles that a session holds.";
    ReplyBytes = 7, "reply_bytes_max", 16_777_216, "Bytes of one reply.";
    Fuel = 8, "fuel_max", 10_000_000, "Steps of one batch: its own calls and rounds of loops; methods are \
        bounded by time.";
    BatchTimeMs = 9, "batch_time_ms_max", 10_000, "Milliseconds that one batch may run.";
    Exceptions = 10, "exceptions_max", 1_000, "Exceptions reported for one batch; the rest are counted.";
    IdleMs = 11, "idle_ms_max", 600_000, "Milliseconds that a session may be idle.";
    TransactionObjects = 12, "transaction_objects_max", 4_000_000, "Persistent objects that one transaction may read and make.";
    TransactionIdleMs = 13, "transaction_idle_ms_max", 60_000, "Milliseconds that a transaction may wait for its client; then it is aborted.";
    Tries = 14, "transaction_tries_max", 32, "Runs of a batch that is a transaction, the repetitions after \
        conflicts included.";
    Requests = 15, "requests_max", 10_000, "Requests and messages to actors that a session has under way; \
        at the limit the session waits.";
    Procedures = 16, "procedures_max", 10_000, "Batched procedures that a session defines.";
    Rows = 17, "rows_max", 1_000_000, "Rows of one table.";
    ProcedureDepth = 18, "procedure_depth_max", 10_000, "Nesting of calls of batched procedures.";
    WaitMs = 19, "wait_ms_max", 60_000, "Milliseconds that one `wait` lasts at most.";
    BatchesUnderWay = 20, "batches_under_way_max", 16, "Batches of a session that are not answered, whose \
        futures the next one may name; at most 255.";
    ProfileEntries = 21, "profile_entries_max", 1_024, "Commands and structures of one batch that its profile \
        lists; the rest are added up.";
    Modules = 22, "modules_max", 0, "Modules that a session has; with 0 it runs none.";
    ModuleBytes = 23, "module_bytes_max", 262_144, "Bytes of one module.";
    ModuleMemoryBytes = 24, "module_memory_bytes_max", 16_777_216, "Bytes of memory of one run of a module.";
}
