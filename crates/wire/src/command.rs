//! The commands of a client, and their decoder.
//!
//! Read [`Command`] first, then [`decode`]. A command borrows its strings and lists ([`Args`],
//! [`Refs`], [`Ranges`], [`TypeNumbers`]) from the bytes of the client; nothing is copied.
//! [`decode`] takes one command from the front of the bytes, and checks its form, not its meaning:
//! numbers may be out of range, and structures may not match. The writers of commands are in
//! `encode`.

use crate::Digest;
use crate::error::{DecodeError, ErrorNumber};
use crate::ids::{MethodNumber, ModuleNumber, ProcedureNumber, Ref, RoutineNumber, TypeNumber};
use crate::module::ModuleRun;
use crate::op;
use crate::trace::{self, TraceContext};
use crate::value::{Arg, Args, Value, tag};
use crate::word::{Read, Reader, Stop, word_at};

/// A command, borrowed from the bytes it came in.
///
/// Commands that make results take the next future numbers of the batch, from -1 downwards:
///
/// - `Lookup`, `Constant`, `Cell`, `Rows`, `Emit`, `As`, `Is`, `Get`, `Transaction`, `Commit`,
///   `Abort`, `Wait`, `Run` take one.
/// - Calls take one for each result, and at least one.
/// - The call of a `Foreach` takes one for each value its iterator yields, and at least one.
/// - `Procedure` takes one for each parameter, `When` one for each value.
/// - `Others` takes one if it wants the name.
/// - Other commands take none.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Command<'a> {
    /// Opens a session; always the first command, and only then.
    Hello(Hello<'a>),
    /// Calls a method.
    Call {
        /// The method.
        method: MethodNumber,
        /// The receiver of the call.
        receiver: Ref,
        /// The arguments.
        args: Args<'a>,
    },
    /// Sends an actor a message whose answer nobody awaits.
    Send {
        /// The method that the message is for.
        method: MethodNumber,
        /// The actor that gets the message.
        receiver: Ref,
        /// The arguments.
        args: Args<'a>,
    },
    /// Calls a routine.
    CallRoutine {
        /// The routine.
        routine: RoutineNumber,
        /// The arguments.
        args: Args<'a>,
    },
    /// Calls a batched procedure.
    CallProcedure {
        /// The procedure; inside its own definition it is the recursive call.
        procedure: ProcedureNumber,
        /// The arguments.
        args: Args<'a>,
    },
    /// Finds a well-known object.
    Lookup {
        /// Its name.
        name: &'a str,
        /// The type it is expected to have, if any is.
        expected: Option<TypeNumber>,
    },
    /// Makes a future of a value.
    Constant(Value<'a>),
    /// Makes an empty cell.
    Cell {
        /// The type of its contents.
        element: TypeNumber,
    },
    /// Makes an empty table of rows, which lives as long as its batch.
    Rows {
        /// The types of its columns, at least one.
        columns: TypeNumbers<'a>,
    },
    /// Appends a row to a table. Its future is nil.
    Emit {
        /// The table.
        rows: Ref,
        /// A value for each column.
        values: Args<'a>,
    },
    /// Makes a future of the same object, seen as one of a type; signals `wrong_type` if it is
    /// none.
    As {
        /// The type.
        ty: TypeNumber,
        /// The object.
        object: Ref,
    },
    /// Makes a future that says if an object has a type.
    Is {
        /// The type.
        ty: TypeNumber,
        /// The object.
        object: Ref,
    },
    /// Makes a future of the contents of an object as they are now, which cross by value.
    Get {
        /// The object.
        object: Ref,
    },
    /// Gives the session a module, in place of an earlier one of this number.
    Module {
        /// Its number, which the client chooses.
        number: ModuleNumber,
        /// The module in WebAssembly.
        bytes: &'a [u8],
    },
    /// Runs a function of a module.
    Run(ModuleRun<'a>),
    /// Gives handles back.
    Free {
        /// The handles.
        handles: Refs<'a>,
        /// The number of batches before this one whose answers the client has not. A handle that
        /// one of these names again is not given back.
        unanswered: u8,
    },
    /// Ends the batch.
    Flush {
        /// The futures whose handles or values the client wants.
        wanted: Ranges<'a>,
        /// True if the reply reports only exceptions of calls that are wanted.
        quiet: bool,
        /// Set if the next batches may name the wanted futures: the number of batches before this
        /// one whose futures they may name too.
        kept: Option<u8>,
    },
    /// Asks for the interface description.
    Describe,
    /// Asks for all exceptions since the history was last cleared.
    History,
    /// Clears the exception history.
    ClearHistory,
    /// The first command of a batch that is a transaction of its own: a future that is nil when the
    /// batch is committed, or the reason why not. Runs when the batch has come whole, and again if
    /// others got in between.
    Transaction {
        /// The number of times that it runs at most; 0 for as often as the server lets it.
        tries: u16,
        /// The name by which it is done once, however often it is sent.
        batch: Option<BatchName>,
    },
    /// Commits the transaction: a future that is nil, or the reason why not. The next command
    /// begins the next one.
    Commit,
    /// Aborts the transaction: a future that is nil. The next command begins the next one.
    Abort,
    /// Waits until others have changed an object that the transaction has read: a future that is a
    /// bool.
    Wait {
        /// Milliseconds that it lasts at most.
        ms: u32,
    },
    /// Ends the session.
    Bye,
    /// Has the replies to this batch and later ones end with a profile, or not.
    Profile {
        /// True if they do.
        on: bool,
    },
    /// Begins a loop's condition.
    While,
    /// Begins a loop's body.
    Do {
        /// The condition.
        test: Ref,
    },
    /// Ends a loop.
    EndWhile,
    /// Begins a choice's condition.
    If,
    /// Begins a choice's first block.
    Then {
        /// The condition.
        test: Ref,
    },
    /// Begins a choice's second block.
    Else,
    /// Ends a choice.
    EndIf,
    /// Begins a loop over the iterator that the next command calls.
    Foreach,
    /// Ends a loop over an iterator.
    EndForeach,
    /// Leaves the innermost loop.
    Break,
    /// Goes on with the next step of the innermost loop.
    Continue,
    /// Begins a block whose exceptions are handled.
    Except,
    /// Begins the handler of one exception.
    When {
        /// Its name.
        name: &'a str,
        /// The types of its values, each of which takes a number; empty when they are not wanted.
        values: TypeNumbers<'a>,
    },
    /// Begins the handler of all other exceptions.
    Others {
        /// True if the exception's name is wanted, as a future of type string.
        named: bool,
    },
    /// Ends a block whose exceptions are handled.
    EndExcept,
    /// Begins the definition of a batched procedure.
    Procedure {
        /// Its name.
        name: &'a str,
        /// The types of its parameters, each of which takes a number.
        params: TypeNumbers<'a>,
        /// The type of its result, if it has one.
        result: Option<TypeNumber>,
    },
    /// Ends a run of the procedure being defined.
    Return(Option<Arg<'a>>),
    /// Ends the definition of a batched procedure.
    EndProcedure,
}

impl<'a> Command<'a> {
    /// Returns the operands, in order: the receiver or the table, the arguments, the condition, or
    /// the value. Handles that are given back and futures that are wanted are none.
    pub fn operands(&self) -> impl Iterator<Item = Arg<'a>> + use<'a> {
        let (first, args) = match *self {
            Command::Call { receiver, args, .. } | Command::Send { receiver, args, .. } => {
                (Some(Arg::Ref(receiver)), args)
            }
            Command::CallRoutine { args, .. }
            | Command::CallProcedure { args, .. }
            | Command::Run(ModuleRun { args, .. }) => (None, args),
            Command::Emit { rows, values } => (Some(Arg::Ref(rows)), values),
            Command::As { object, .. } | Command::Is { object, .. } | Command::Get { object } => {
                (Some(Arg::Ref(object)), Args::NONE)
            }
            Command::Do { test } | Command::Then { test } => (Some(Arg::Ref(test)), Args::NONE),
            Command::Constant(value) => (Some(Arg::Value(value)), Args::NONE),
            Command::Return(value) => (value, Args::NONE),
            Command::Hello(_)
            | Command::Lookup { .. }
            | Command::Cell { .. }
            | Command::Rows { .. }
            | Command::Module { .. }
            | Command::Free { .. }
            | Command::Flush { .. }
            | Command::Describe
            | Command::History
            | Command::ClearHistory
            | Command::Transaction { .. }
            | Command::Commit
            | Command::Abort
            | Command::Wait { .. }
            | Command::Bye
            | Command::Profile { .. }
            | Command::While
            | Command::EndWhile
            | Command::If
            | Command::Else
            | Command::EndIf
            | Command::Foreach
            | Command::EndForeach
            | Command::Break
            | Command::Continue
            | Command::Except
            | Command::When { .. }
            | Command::Others { .. }
            | Command::EndExcept
            | Command::Procedure { .. }
            | Command::EndProcedure => (None, Args::NONE),
        };
        first.into_iter().chain(args.iter())
    }

    /// Calls a function for each operand that is a reference, in order, and for those in compounds.
    #[inline]
    pub fn each_reference(&self, mut each: impl FnMut(Ref)) {
        for operand in self.operands() {
            match operand {
                Arg::Ref(reference) => each(reference),
                Arg::Value(Value::Compound(compound)) => compound.each_reference(&mut each),
                Arg::Value(_) => {}
            }
        }
    }
}

/// The name of a batch that is done once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchName {
    /// 128 random bits of the client's own: any holder of them can ask for the reply.
    pub client: u128,
    /// Grows with each batch of that client.
    pub number: u64,
}

impl BatchName {
    fn read(reader: &mut Reader<'_>) -> Read<BatchName> {
        let (low, high) = (reader.word()?, reader.word()?);
        Ok(BatchName { client: u128::from(high) << 64 | u128::from(low), number: reader.word()? })
    }
}

impl std::fmt::Debug for BatchName {
    /// Writes the name without the client's bits, which are a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "batch {}", self.number)
    }
}

/// The command that opens a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello<'a> {
    /// The version of the wire form that the client speaks.
    pub version: u32,
    /// The digest of the interface that the client was made for; zeros for none.
    pub digest: Digest,
    /// The token that lets the client in; empty for none.
    pub token: &'a str,
    /// The client's name for itself, for logs.
    pub client: &'a str,
    /// The client's place in a trace; none says nothing of it.
    pub trace: Option<TraceContext>,
}

/// The result of [`decode`] at the front of the bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Decoded<'a> {
    /// A whole command, and how many bytes it has.
    Command(Command<'a>, usize),
    /// The start of one that has at least this many bytes in all (always more than there are).
    NeedMore(usize),
}

/// Reads the command at the front of `bytes`. Commands longer than `bytes_max` are refused by
/// their lengths, before their bytes have come.
///
/// Cost: no allocation; a call without string arguments is read in a few nanoseconds.
///
/// # Errors
/// The bytes are no command: the stream cannot be read further and the session ends.
#[inline]
pub fn decode(bytes: &[u8], bytes_max: usize) -> Result<Decoded<'_>, DecodeError> {
    let mut reader = Reader::new(bytes, bytes_max);
    match command(&mut reader) {
        Ok(command) => Ok(Decoded::Command(command, reader.at())),
        Err(Stop::Need(length)) => Ok(Decoded::NeedMore(length)),
        Err(Stop::Bad(error)) => Err(error),
    }
}

/// Reads the call of a method at the front of `bytes`: its method, receiver and arguments, and how
/// many bytes it has. None if there is another command, or not a whole and right one; [`decode`]
/// tells which.
///
/// Cost: that of [`decode`] without moving the command through memory, a few nanoseconds of the
/// forty that a call of a null method takes.
#[inline]
pub fn decode_call(bytes: &[u8], bytes_max: usize) -> Option<(MethodNumber, Ref, Args<'_>, usize)> {
    let mut reader = Reader::new(bytes, bytes_max);
    let word = reader.word().ok().filter(|word| *word as u8 == op::CALL)?;
    let (method, receiver, args) = call(&mut reader, word).ok()?;
    Some((method, receiver, args, reader.at()))
}

#[inline]
fn call<'a>(reader: &mut Reader<'a>, word: u64) -> Read<(MethodNumber, Ref, Args<'a>)> {
    let receiver = Ref(reader.word()? as i64);
    Ok((MethodNumber(number(word)), receiver, Args::read(reader, word)?))
}

/// Returns the second half of a first word.
#[inline]
fn number(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Returns the third and fourth byte of a first word.
#[inline]
fn flags(word: u64) -> u32 {
    (word >> 8) as u32 & 0xff_ffff
}

fn optional_type(number: u32) -> Option<TypeNumber> {
    TypeNumber(number).known()
}

#[inline]
fn command<'a>(reader: &mut Reader<'a>) -> Read<Command<'a>> {
    let word = reader.word()?;
    match word as u8 {
        op::CALL => {
            let (method, receiver, args) = call(reader, word)?;
            Ok(Command::Call { method, receiver, args })
        }
        op::CALL_ROUTINE => {
            let args = Args::read(reader, word)?;
            Ok(Command::CallRoutine { routine: RoutineNumber(number(word)), args })
        }
        op::CALL_PROCEDURE => {
            let args = Args::read(reader, word)?;
            Ok(Command::CallProcedure { procedure: ProcedureNumber(number(word)), args })
        }
        op::SEND => {
            let (method, receiver, args) = call(reader, word)?;
            Ok(Command::Send { method, receiver, args })
        }
        op::HELLO => hello(reader, word),
        _ => other(reader, word),
    }
}

fn hello<'a>(reader: &mut Reader<'a>, word: u64) -> Read<Command<'a>> {
    reader.check(word == op::MAGIC, "the magic word of hello")?;
    let version = reader.word()?;
    reader.check(version >> 32 <= u64::from(op::HELLO_TRACED), "a version")?;
    let mut digest = [0; 32];
    digest.copy_from_slice(reader.words(4)?);
    let token = reader.string()?;
    let client = reader.string()?;
    let trace = match version >> 32 {
        0 => None,
        _ => match TraceContext::parse(reader.string()?) {
            None => return reader.bad(ErrorNumber::BadWord, trace::FORM),
            context => context,
        },
    };
    Ok(Command::Hello(Hello { version: version as u32, digest, token, client, trace }))
}

/// Reads the commands that are not calls.
fn other<'a>(reader: &mut Reader<'a>, word: u64) -> Read<Command<'a>> {
    let number = number(word);
    let flags = flags(word);
    let code = word as u8;
    // Each may have besides its code: nothing, a number, or flags.
    let plain = |command: Command<'a>| {
        if word == u64::from(code) {
            Ok(command)
        } else {
            Err(Stop::Bad(DecodeError {
                number: ErrorNumber::BadWord,
                offset: 0,
                what: "zeros after the code",
            }))
        }
    };
    let numbered = |reader: &Reader<'a>| reader.check(flags == 0, "zeros between code and number");
    match code {
        op::LOOKUP => {
            numbered(reader)?;
            Ok(Command::Lookup { name: reader.string()?, expected: optional_type(number) })
        }
        op::CONSTANT => {
            reader.check(number == 0 && flags <= 0xff, "zeros after the tag")?;
            reader.check(flags != u32::from(tag::REF), "the tag of a value")?;
            Ok(Command::Constant(Value::read(reader, flags as u8)?))
        }
        op::CELL => {
            numbered(reader)?;
            Ok(Command::Cell { element: TypeNumber(number) })
        }
        op::ROWS => {
            reader.check(number == 0 && (1..=0xff).contains(&flags), "a count of columns")?;
            Ok(Command::Rows { columns: TypeNumbers::read(reader, flags)? })
        }
        op::EMIT => {
            let (method, rows, values) = call(reader, word)?;
            reader.check(method.0 == 0, "zeros after the tags")?;
            Ok(Command::Emit { rows, values })
        }
        op::AS | op::IS => {
            numbered(reader)?;
            let (ty, object) = (TypeNumber(number), Ref(reader.word()? as i64));
            Ok(if code == op::AS { Command::As { ty, object } } else { Command::Is { ty, object } })
        }
        op::GET => {
            plain(Command::While)?;
            Ok(Command::Get { object: Ref(reader.word()? as i64) })
        }
        op::MODULE => {
            numbered(reader)?;
            Ok(Command::Module { number: ModuleNumber(number), bytes: reader.byte_string()? })
        }
        op::RUN => ModuleRun::read(reader, word).map(Command::Run),
        op::FREE => {
            reader.check(flags <= 0xff, "a number of batches")?;
            let handles = Refs(reader.words(u64::from(number))?);
            Ok(Command::Free { handles, unanswered: flags as u8 })
        }
        op::FLUSH => {
            let (keeps, unanswered) = (flags & op::FLUSH_KEPT != 0, flags >> 8);
            let good = flags & 0xfc == 0 && unanswered <= 0xff && (keeps || unanswered == 0);
            reader.check(good, "flags and a number of batches")?;
            let wanted = Ranges(reader.words(u64::from(number))?);
            reader.check(wanted.are_ordered(), "ranges in order")?;
            let quiet = flags & op::FLUSH_QUIET != 0;
            Ok(Command::Flush { wanted, quiet, kept: keeps.then_some(unanswered as u8) })
        }
        op::DESCRIBE => plain(Command::Describe),
        op::HISTORY => {
            reader.check(number == 0 && flags <= 1, "a flag")?;
            Ok(if flags == op::HISTORY_CLEAR { Command::ClearHistory } else { Command::History })
        }
        op::PROFILE => {
            reader.check(number == 0 && flags <= 1, "a flag")?;
            Ok(Command::Profile { on: flags == op::PROFILE_ON })
        }
        op::TRANSACTION => {
            reader.check(number == 0 && flags & 0xff <= 1, "a flag and a number of tries")?;
            let batch =
                (flags & 0xff == op::TRANSACTION_NAMED).then(|| BatchName::read(reader)).transpose()?;
            Ok(Command::Transaction { tries: (flags >> 8) as u16, batch })
        }
        op::COMMIT => plain(Command::Commit),
        op::ABORT => plain(Command::Abort),
        op::WAIT => {
            numbered(reader)?;
            Ok(Command::Wait { ms: number })
        }
        op::BYE => plain(Command::Bye),
        op::WHILE => plain(Command::While),
        op::DO => {
            plain(Command::While)?;
            Ok(Command::Do { test: Ref(reader.word()? as i64) })
        }
        op::END_WHILE => plain(Command::EndWhile),
        op::IF => plain(Command::If),
        op::THEN => {
            plain(Command::If)?;
            Ok(Command::Then { test: Ref(reader.word()? as i64) })
        }
        op::ELSE => plain(Command::Else),
        op::END_IF => plain(Command::EndIf),
        op::FOREACH => plain(Command::Foreach),
        op::END_FOREACH => plain(Command::EndForeach),
        op::BREAK => plain(Command::Break),
        op::CONTINUE => plain(Command::Continue),
        op::EXCEPT => plain(Command::Except),
        op::WHEN => {
            reader.check(number == 0 && flags <= 0xff, "a count")?;
            let name = reader.string()?;
            Ok(Command::When { name, values: TypeNumbers::read(reader, flags)? })
        }
        op::OTHERS => {
            reader.check(number == 0 && flags <= 1, "a flag")?;
            Ok(Command::Others { named: flags == op::OTHERS_NAMED })
        }
        op::END_EXCEPT => plain(Command::EndExcept),
        op::PROCEDURE => {
            reader.check(flags <= 0xff, "a count")?;
            let name = reader.string()?;
            let params = TypeNumbers::read(reader, flags)?;
            Ok(Command::Procedure { name, params, result: optional_type(number) })
        }
        op::RETURN => {
            reader.check(number == 0, "zeros after the tag")?;
            let (count, tag) = (flags & 0xff, (flags >> 8) as u8);
            let value = match (count, flags >> 16, tag) {
                (0, 0, 0) => None,
                (1, 0, tag::REF) => Some(Arg::Ref(Ref(reader.word()? as i64))),
                (1, 0, tag) => Some(Arg::Value(Value::read(reader, tag)?)),
                _ => return reader.bad(ErrorNumber::BadWord, "a count and a tag"),
            };
            Ok(Command::Return(value))
        }
        op::END_PROCEDURE => plain(Command::EndProcedure),
        _ => reader.bad(ErrorNumber::BadWord, "the code of a command"),
    }
}

/// Handles, still in the bytes they came in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refs<'a>(&'a [u8]);

impl<'a> Refs<'a> {
    /// Returns the number of references.
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the handles in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Ref> + use<'a> {
        self.0.chunks_exact(8).map(|w| Ref(word_at(w, 0) as i64))
    }
}

impl std::fmt::Debug for Refs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Ranges of futures, still in the bytes they came in: none is empty, they ascend, and none touches
/// the next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ranges<'a>(&'a [u8]);

impl<'a> Ranges<'a> {
    /// Returns the ranges in order: each the position of its first future and how many there are.
    #[inline]
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + DoubleEndedIterator + use<'a> {
        self.0.chunks_exact(8).map(|w| {
            let word = word_at(w, 0);
            (word as u32, (word >> 32) as u32)
        })
    }

    /// Returns the positions of all futures, ascending.
    ///
    /// Cost: a client can name 2^32 of them in one word, so compare [`Ranges::count`] with the
    /// batch's futures first.
    pub fn positions(&self) -> impl Iterator<Item = u32> + use<'a> {
        // No overflow: `are_ordered` has seen that every range ends within u32.
        self.ranges().flat_map(|(first, count)| first..=first + (count - 1))
    }

    /// Returns the number of futures that the ranges name.
    #[inline]
    pub fn count(&self) -> u64 {
        self.ranges().map(|(_, count)| u64::from(count)).sum()
    }

    /// Returns the greatest position, 0 if there is none.
    #[inline]
    pub fn last(&self) -> u32 {
        self.ranges().next_back().map_or(0, |(first, count)| first + (count - 1))
    }

    fn are_ordered(&self) -> bool {
        let mut next = 1u64;
        self.ranges().all(|(first, count)| {
            let good = u64::from(first) >= next && count > 0 && first.checked_add(count - 1).is_some();
            // One more than touching, so that a set of futures has one encoding.
            next = u64::from(first) + u64::from(count) + 1;
            good
        })
    }
}

impl std::fmt::Debug for Ranges<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

/// Types, still in the bytes they came in: one word each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TypeNumbers<'a>(&'a [u8]);

impl<'a> TypeNumbers<'a> {
    fn read(reader: &mut Reader<'a>, count: u32) -> Read<TypeNumbers<'a>> {
        let types = reader.words(u64::from(count))?;
        reader
            .check(types.chunks_exact(8).all(|w| word_at(w, 0) < u64::from(u32::MAX)), "numbers of types")?;
        Ok(TypeNumbers(types))
    }

    /// Returns the number of types.
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the types in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = TypeNumber> + use<'a> {
        self.0.chunks_exact(8).map(|w| TypeNumber(word_at(w, 0) as u32))
    }
}

impl std::fmt::Debug for TypeNumbers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
