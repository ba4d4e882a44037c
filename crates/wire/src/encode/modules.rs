//! The commands of modules.

use super::{arguments, bytes, call_head, head, word};
use crate::ids::{ModuleNumber, TypeNumber};
use crate::op;
use crate::value::Arg;

/// Appends `module`.
pub fn module(out: &mut Vec<u8>, number: ModuleNumber, module: &[u8]) {
    word(out, head(op::MODULE, 0, number.0));
    bytes(out, module);
}

/// Appends `run`; at most 255 arguments, as in [`call`](super::call).
pub fn run(
    out: &mut Vec<u8>,
    module: ModuleNumber,
    export: &str,
    expected: Option<TypeNumber>,
    args: &[Arg<'_>],
) {
    let args = &args[..args.len().min(255)];
    word(out, call_head(op::RUN, module.0, args));
    word(out, u64::from(expected.unwrap_or(TypeNumber::NONE).0));
    bytes(out, export.as_bytes());
    arguments(out, args);
}
