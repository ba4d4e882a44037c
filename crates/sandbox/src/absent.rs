//! The types of the crate in a program without the feature `wasm`: there is no module, and so no
//! run.

use std::convert::Infallible;
use std::sync::Arc;

use crate::{Bounds, LoadError, Signature, Step, Value};

/// The modules of the process: none.
#[derive(Debug)]
pub struct Modules(());

impl Modules {
    /// Returns the modules of the process.
    pub fn shared() -> &'static Modules {
        &Modules(())
    }

    /// Refuses a module.
    ///
    /// # Errors
    /// Always.
    pub fn load(&self, _bytes: &[u8]) -> Result<Arc<Module>, LoadError> {
        Err(LoadError::NotBuiltIn)
    }

    /// The number of modules that are kept: 0.
    pub fn kept(&self) -> usize {
        0
    }
}

/// A compiled module. There is none.
#[derive(Debug)]
pub struct Module(Infallible);

impl Module {
    /// Returns the heading of an export.
    pub fn signature(&self, _export: &str) -> Option<&Signature> {
        match self.0 {}
    }

    /// Bytes of its machine code.
    pub fn code_bytes(&self) -> usize {
        match self.0 {}
    }
}

/// A run of a module. There is none.
#[derive(Debug)]
pub struct Run(Infallible);

impl Run {
    /// Begins a run.
    pub fn begin(module: &Arc<Module>, _export: &str, _args: &[Value], _bounds: Bounds) -> Run {
        match module.0 {}
    }

    /// Runs to the next call, slice or end.
    pub fn step(&mut self) -> Step {
        match self.0 {}
    }

    /// Takes the input of a call, and leaves a buffer for the next.
    pub fn swap_input(&mut self, _input: &mut Vec<u8>) {
        match self.0 {}
    }

    /// Answers a call.
    pub fn answer(&mut self, _code: i32, _output: &[u8]) {
        match self.0 {}
    }

    /// Instructions since the last call of this function.
    pub fn take_instructions(&mut self) -> u64 {
        match self.0 {}
    }
}
