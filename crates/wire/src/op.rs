//! The one table of operation codes, from which code, documents and other languages' constants
//! come.

macro_rules! ops {
    ($($name:ident = $code:literal, $from:ident, $word:literal, $doc:literal;)*) => {
        $(#[doc = $doc] pub const $name: u8 = $code;)*

        /// All rows, in the order of their codes.
        pub static TABLE: &[Op] = &[$(Op { name: $word, code: $code, from: From::$from, doc: $doc }),*];
    };
}

/// The sender of a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// A command.
    Client,
    /// A reply.
    Server,
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// Its name.
    pub name: &'static str,
    /// The low byte of the first word.
    pub code: u8,
    /// The sender.
    pub from: From,
    /// A description of its effect.
    pub doc: &'static str,
}

/// The first word of a connection in the binary form: the code of `hello` and the letters
/// `BFROST\n`. Its first byte is no printable character, so that one byte tells the binary form
/// from the text form.
pub const MAGIC: u64 = u64::from_le_bytes(*b"\x89BFROST\n");

/// The flag of a `hello` that ends with a trace context.
pub const HELLO_TRACED: u32 = 1;

/// The flag of a `flush` whose reply reports only the exceptions of wanted calls.
pub const FLUSH_QUIET: u32 = 1;

/// The flag of a `flush` whose wanted futures later batches may name.
pub const FLUSH_KEPT: u32 = 2;

/// The flag of a `history` that clears it.
pub const HISTORY_CLEAR: u32 = 1;

/// The flag of a `profile` that turns profiles on.
pub const PROFILE_ON: u32 = 1;

/// The flag of a `flushed` that ends with a profile.
pub const FLUSHED_PROFILED: u32 = 1;

/// The flag of an `others` that wants the name of the exception.
pub const OTHERS_NAMED: u32 = 1;

/// The flag of a `transaction` that has a name.
pub const TRANSACTION_NAMED: u32 = 1;

ops! {
    CALL = 0x01, Client, "call", "Calls a method of a receiver.";
    CALL_ROUTINE = 0x02, Client, "call_routine", "Calls a stand-alone routine.";
    CALL_PROCEDURE = 0x03, Client, "call_procedure", "Calls a batched procedure.";
    LOOKUP = 0x04, Client, "lookup", "Finds a well-known object by name.";
    CONSTANT = 0x05, Client, "constant", "Makes a future of a value.";
    CELL = 0x06, Client, "cell", "Makes an empty cell.";
    FREE = 0x07, Client, "free", "Frees handles.";
    FLUSH = 0x08, Client, "flush", "Ends a batch and names the futures that are kept.";
    DESCRIBE = 0x09, Client, "describe", "Requests the interface description.";
    HISTORY = 0x0a, Client, "history", "Requests the exception history, or clears it.";
    BYE = 0x0b, Client, "bye", "Ends the session.";
    SEND = 0x0c, Client, "send", "Sends an actor a message of the past form.";
    ROWS = 0x0d, Client, "rows", "Makes an empty table of rows.";
    EMIT = 0x0e, Client, "emit", "Appends a row to a table.";
    PROFILE = 0x0f, Client, "profile", "Has the replies to batches tell their time, or not.";
    WHILE = 0x10, Client, "while", "Begins a loop; the calls of its condition follow.";
    DO = 0x11, Client, "do", "Ends the condition of a loop and begins its body.";
    END_WHILE = 0x12, Client, "end_while", "Ends the body of a loop.";
    IF = 0x13, Client, "if", "Begins a choice; the calls of its condition follow.";
    THEN = 0x14, Client, "then", "Ends the condition of a choice and begins its first block.";
    ELSE = 0x15, Client, "else", "Begins the second block of a choice.";
    END_IF = 0x16, Client, "end_if", "Ends a choice.";
    FOREACH = 0x17, Client, "foreach", "Begins a loop over an iterator; the iterator's call follows, then the body.";
    END_FOREACH = 0x18, Client, "end_foreach", "Ends a loop over an iterator.";
    BREAK = 0x19, Client, "break", "Leaves the innermost loop.";
    CONTINUE = 0x1a, Client, "continue", "Begins the next step of the innermost loop.";
    EXCEPT = 0x1b, Client, "except", "Begins a block whose exceptions are handled.";
    WHEN = 0x1c, Client, "when", "Begins the handler of one exception.";
    OTHERS = 0x1d, Client, "others", "Begins the handler of all other exceptions.";
    END_EXCEPT = 0x1e, Client, "end_except", "Ends a block whose exceptions are handled.";
    PROCEDURE = 0x1f, Client, "procedure", "Begins the definition of a batched procedure.";
    RETURN = 0x20, Client, "return", "Ends a batched procedure's run, with its result.";
    END_PROCEDURE = 0x21, Client, "end_procedure", "Ends the definition of a batched procedure.";
    AS = 0x22, Client, "as", "Takes an object as one of a type.";
    IS = 0x23, Client, "is", "Tests if an object has a type.";
    GET = 0x24, Client, "get", "Takes the contents of an object as a value.";
    MODULE = 0x25, Client, "module", "Gives the session a module, whose functions `run` runs.";
    RUN = 0x26, Client, "run", "Runs a function of a module.";
    TRANSACTION = 0x30, Client, "transaction", "Makes the batch a transaction, which the server runs again \
        after a conflict.";
    COMMIT = 0x31, Client, "commit", "Commits the transaction and begins the next one.";
    ABORT = 0x32, Client, "abort", "Aborts the transaction and begins the next one.";
    WAIT = 0x33, Client, "wait", "Waits until others change an object that the transaction has read.";
    HELLO = 0x89, Client, "hello", "Opens a session.";
    WELCOME = 0xc0, Server, "welcome", "Answers `hello`.";
    FLUSHED = 0xc1, Server, "flushed", "Answers `flush`: outcomes, exceptions, counters.";
    INTERFACE = 0xc2, Server, "interface", "Answers `describe`.";
    EXCEPTIONS = 0xc3, Server, "exceptions", "Answers `history`.";
    FAREWELL = 0xc4, Server, "farewell", "Answers `bye`; the last reply.";
    ERROR = 0xc5, Server, "error", "Ends the session with an error; the last reply.";
}

/// Returns the row of a code.
pub fn find(code: u8) -> Option<&'static Op> {
    TABLE.iter().find(|op| op.code == code)
}
