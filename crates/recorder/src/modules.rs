//! Runs of modules: programs of the client that run in the server.

use std::sync::Arc;

use bifrost_wire::{ModuleNumber, TypeNumber, encode, op};

use crate::Source;
use crate::call::Operand;
use crate::error::{Error, Misuse};
use crate::recorder::{Admission, Maker, Recorded, Recorder, missing, misuse};

/// The function that a run enters.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// The module in WebAssembly.
    pub module: &'a Arc<[u8]>,
    /// The name of the function.
    pub export: &'a str,
    /// The client's number of the type of its result, and the name of that type for messages; none
    /// if it has no result.
    pub result: Option<(u32, &'a str)>,
}

impl<S: Source> Recorder<S> {
    /// Records the run of a function of a module, which has one result. The bytes of the module go
    /// before its first run in the session. Refused inside a structure.
    pub fn run_module<'a>(
        &mut self,
        admitted: Admission<S>,
        function: Function<'_>,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
        place: S,
    ) -> Recorded<S> {
        match admitted.and_then(|()| self.record_run(function, arguments)) {
            Ok(number) => Ok(Maker::Module(number)),
            Err(error) => Err(self.refuse_call(Maker::Module(0), place, error)),
        }
    }

    fn record_run<'a>(
        &mut self,
        function: Function<'_>,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
    ) -> Result<u32, Arc<Error<S>>> {
        if !self.scopes.is_empty() {
            return Err(misuse(Misuse::ModuleInside));
        }
        if self.bounds.modules == 0 {
            return Err(misuse(Misuse::NoModules));
        }
        let number = |(ty, name): (u32, &str)| self.numbers.ty(ty).ok_or_else(|| missing(name.into()));
        let expected = function.result.map(number).transpose()?;
        let start = self.batch.len();
        let sent = self.modules.iter().position(|sent| sent == function.module);
        let module = sent.unwrap_or(self.modules.len()) as u32;
        if sent.is_none() {
            if function.module.len() + 24 > self.bounds.frame_bytes {
                return Err(misuse(Misuse::TooLong));
            }
            encode::module(&mut self.batch, ModuleNumber(module), function.module);
        }
        let run = self.batch.len();
        let head = encode::head(op::RUN, 0, module);
        encode::word(&mut self.batch, head);
        encode::word(&mut self.batch, u64::from(expected.unwrap_or(TypeNumber::NONE).0));
        encode::bytes(&mut self.batch, function.export.as_bytes());
        // It takes back the run alone.
        if let Err(error) = self.record(run, head, arguments) {
            self.batch.truncate(start);
            return Err(error);
        }
        if sent.is_none() {
            self.recorded();
            self.modules.push(function.module.clone());
        }
        Ok(module)
    }
}
