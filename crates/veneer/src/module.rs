//! Modules: programs in WebAssembly that a client ships to its server.

use std::sync::Arc;

use bifrost_recorder::Function;

use crate::call::{Element, IntoArgs, client_type, operands, results};
use crate::error::Place;
use crate::procedure::{Params, has_result};
use crate::session::Session;

/// A program in WebAssembly that [`Session::run_wasm`] runs in the server. Clones are the same
/// module.
#[derive(Clone, PartialEq, Eq)]
pub struct Module(Arc<[u8]>);

impl Module {
    /// Makes a module of its bytes. The server checks them.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Module {
        Module(bytes.into())
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "module of {} bytes", self.0.len())
    }
}

impl Session {
    /// Runs a function of a module in the server, as one call of the batch:
    /// `s.run_wasm::<(DataElem, i64), i64>(&module, "touch", (&elem, 5))`.
    ///
    /// `P` is the tuple of the argument types, `R` that of the result, `()` for none. A parameter
    /// of `i64` takes an integer, one of `f64` a real, one of `i32` anything. The server checks the
    /// arguments and the result. The bytes of the module are sent once in a session. A server that
    /// announces no modules is not asked.
    #[track_caller]
    pub fn run_wasm<P: Params, R: Element>(
        &self,
        module: &Module,
        export: &str,
        arguments: impl IntoArgs<P>,
    ) -> R::Future {
        let place = Place::caller();
        arguments.with(|arguments| {
            let live = &mut *self.core.live.borrow_mut();
            let admitted = live.admit();
            let name = std::any::type_name::<R>();
            let result = has_result::<R>().then(|| (client_type::<R>(live.recorder.numbers()), name));
            let function = Function { module: &module.0, export, result };
            let arguments = operands(&self.core, arguments);
            let recorded = live.recorder.run_module(admitted, function, arguments, place);
            results(&self.core, &mut live.recorder, recorded, place)
        })
    }
}
