//! The command that runs a function of a module.

use crate::ids::{ModuleNumber, TypeNumber};
use crate::value::Args;
use crate::word::{Read, Reader};

/// A run of a function of a module.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModuleRun<'a> {
    /// The module.
    pub module: ModuleNumber,
    /// The name of the function.
    pub export: &'a str,
    /// The type that its result has, if the client knows it.
    pub expected: Option<TypeNumber>,
    /// The arguments.
    pub args: Args<'a>,
}

impl<'a> ModuleRun<'a> {
    /// Reads the words behind a first word.
    pub(crate) fn read(reader: &mut Reader<'a>, word: u64) -> Read<ModuleRun<'a>> {
        let expected = reader.word()?;
        reader.check(expected <= u64::from(u32::MAX), "the number of a type")?;
        let export = reader.string()?;
        let args = Args::read(reader, word)?;
        let module = ModuleNumber((word >> 32) as u32);
        Ok(ModuleRun { module, export, expected: TypeNumber(expected as u32).known(), args })
    }
}
