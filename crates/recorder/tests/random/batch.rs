//! The positions of a batch and the types of its results, from the bytes of its commands.

use bifrost_wire::interface::{Kind, Numbering};
use bifrost_wire::{Command, Decoded, FRAME_BYTES_MAX, TypeNumber, Value, decode};

use crate::script;

/// The result that a position stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Made {
    /// An object or value of a type.
    Of(TypeNumber),
    /// A value of this kind.
    Kind(Kind),
    /// Nil, in a call without results and its like.
    Nil,
    /// A table with columns of these types.
    Rows(Vec<TypeNumber>),
    /// The contents of an object.
    Contents,
    /// The end of a transaction, with its number if the server may refuse it for unseen failures.
    End,
}

/// The commands of bytes that are whole commands.
pub fn commands(bytes: &[u8]) -> impl Iterator<Item = (Command<'_>, usize)> {
    script::split(bytes).into_iter().map(|bytes| match decode(bytes, FRAME_BYTES_MAX) {
        Ok(Decoded::Command(command, length)) => (command, length),
        other => panic!("whole commands are sent: {other:?}"),
    })
}

/// The procedures of a session: the type of each one's result, by number.
pub type Procedures = Vec<Option<TypeNumber>>;

/// Returns the results that a command makes, in the order of their positions.
pub fn results(server: &Numbering, procedures: &Procedures, command: &Command<'_>) -> Vec<Made> {
    let of = |types: &[TypeNumber]| match types {
        [] => vec![Made::Nil],
        types => types.iter().copied().map(Made::Of).collect(),
    };
    match *command {
        Command::Call { method, .. } => {
            server.method(method).map_or(vec![Made::Nil], |(_, m)| of(m.heading.futures()))
        }
        Command::CallRoutine { routine, .. } => {
            server.routine(routine).map_or(vec![Made::Nil], |r| of(r.heading.futures()))
        }
        Command::CallProcedure { procedure, .. } => {
            let result = procedures.get(procedure.index()).copied().flatten();
            vec![result.map_or(Made::Nil, Made::Of)]
        }
        Command::Lookup { expected, .. } => vec![expected.map_or(Made::Nil, Made::Of)],
        Command::Constant(value) => vec![match value {
            Value::Nil => Made::Nil,
            Value::Bool(_) => Made::Kind(Kind::Bool),
            Value::Int(_) => Made::Kind(Kind::Int),
            Value::Real(_) => Made::Kind(Kind::Real),
            Value::Char(_) => Made::Kind(Kind::Char),
            Value::Str(_) => Made::Kind(Kind::String),
            Value::Bytes(_) => Made::Kind(Kind::Bytes),
            Value::Compound(_) => Made::Contents,
        }],
        Command::Cell { element } => {
            vec![server.interface().find_kind(Kind::Cell, Some(element)).map_or(Made::Nil, Made::Of)]
        }
        Command::Rows { columns } => vec![Made::Rows(columns.iter().collect())],
        Command::As { ty, .. } => vec![Made::Of(ty)],
        Command::Is { .. } | Command::Wait { .. } => vec![Made::Kind(Kind::Bool)],
        Command::Get { .. } => vec![Made::Contents],
        Command::Send { .. } | Command::Emit { .. } => vec![Made::Nil],
        Command::Commit | Command::Abort | Command::Transaction { .. } => vec![Made::End],
        Command::When { values, .. } => values.iter().map(Made::Of).collect(),
        Command::Others { named: true } => vec![Made::Kind(Kind::String)],
        Command::Procedure { params, .. } => params.iter().map(Made::Of).collect(),
        _ => Vec::new(),
    }
}
