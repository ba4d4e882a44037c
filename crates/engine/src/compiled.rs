//! The compiler that all programs of a process share: its code is never freed.

use std::sync::{Arc, OnceLock};

use bifrost_jit::Jit;
use bifrost_runtime::Engine;

use crate::Structures;

static JIT: OnceLock<Result<Arc<Jit>, String>> = OnceLock::new();

/// The engine that compiles each function at its first call.
pub(crate) fn engine() -> Result<Arc<dyn Engine>, String> {
    jit().map(|jit| jit as Arc<dyn Engine>)
}

/// Adds the counts of the compiler's structures.
pub(crate) fn counts(counts: Structures) -> Structures {
    let Some(Ok(jit)) = JIT.get() else { return counts };
    Structures {
        compiled: jit.structures() as u64,
        compilations: jit.structures_made(),
        code_bytes: jit.structure_bytes() as u64,
        ..counts
    }
}

/// The compiler.
pub(crate) fn jit() -> Result<Arc<Jit>, String> {
    JIT.get_or_init(|| Jit::new().map(Arc::new).map_err(|e| e.to_string())).clone()
}
