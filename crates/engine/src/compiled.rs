//! The compiler that all programs of a process share: its code is never freed.

use std::sync::{Arc, OnceLock};

use bifrost_jit::Jit;
use bifrost_runtime::Engine;

static JIT: OnceLock<Result<Arc<Jit>, String>> = OnceLock::new();

/// The engine that compiles each function at its first call.
pub(crate) fn engine() -> Result<Arc<dyn Engine>, String> {
    jit().map(|jit| jit as Arc<dyn Engine>)
}

/// The compiler.
pub(crate) fn jit() -> Result<Arc<Jit>, String> {
    JIT.get_or_init(|| Jit::new().map(Arc::new).map_err(|e| e.to_string())).clone()
}
