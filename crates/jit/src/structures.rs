//! Code of clients' structures: made as that of methods, in memory that comes back.
//!
//! A structure is a module of its own for the code generator. Its memory is a part of the arena
//! ([`memory`](crate::memory)), so that entries of helpers are near it. When the code is dropped,
//! its stack maps are forgotten and its memory is free for the next. The differences in the code
//! itself are in [`lower::meter`](crate::lower).

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bifrost_ir::Func;
use bifrost_ir::loops::loops;
use bifrost_runtime::image::Image;
use bifrost_runtime::{Code, Extent, StructureCode};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError};

use crate::helper::{Entries, Helper};
use crate::lower::{self, Source};
use crate::maps::Maps;
use crate::memory::{Places, Taken};
use crate::{CompileError, Jit, analysis, guarded};

/// The resources that the code of a structure takes up while it is there.
struct Room {
    maps: Arc<Mutex<Maps>>,
    /// The addresses of its functions.
    starts: Vec<usize>,
    live: Arc<AtomicUsize>,
    /// Goes after the maps: then others may have the addresses.
    _memory: Arc<Taken>,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        for start in &self.starts {
            maps.remove(*start);
        }
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Jit {
    /// The code of a verified batch or batched procedure, or of a loop of it
    /// ([`bifrost_runtime::Engine::compile_structure`]). `None` if it is too large, if the code
    /// generator refuses it, or if [`STRUCTURE_BYTES_MAX`](crate::STRUCTURE_BYTES_MAX) are in use.
    ///
    /// Cost: one to a few milliseconds.
    pub fn compile_structure(
        &self,
        image: &Image,
        func: &Func,
        extent: Extent,
        procedures: &[Code],
    ) -> Option<StructureCode> {
        let code = guarded(AssertUnwindSafe(|| self.structure(image, func, extent, procedures))).ok()?;
        self.structures_made.fetch_add(1, Ordering::Relaxed);
        Some(code)
    }

    /// Bytes that code of structures has now.
    pub fn structure_bytes(&self) -> usize {
        self.structures.as_ref().map_or(0, |pool| pool.used_bytes())
    }

    /// The number of structures, and loops of structures, that have code now.
    pub fn structures(&self) -> usize {
        self.structures_live.load(Ordering::Relaxed)
    }

    /// The number of structures, and loops of structures, that were compiled so far.
    pub fn structures_made(&self) -> u64 {
        self.structures_made.load(Ordering::Relaxed)
    }

    fn structure(
        &self,
        image: &Image,
        func: &Func,
        extent: Extent,
        procedures: &[Code],
    ) -> Result<StructureCode, CompileError> {
        let none = || CompileError::Memory("this system has no place for code that is freed".to_owned());
        let pool = self.structures.as_ref().ok_or_else(none)?;
        let failed = |e: ModuleError| CompileError::Memory(e.to_string());
        let (part, itself) = match extent {
            Extent::Whole => (None, None),
            Extent::Loop { number, itself } => {
                let part = loops(&func.body).get(number as usize).copied();
                (Some(part.ok_or_else(|| CompileError::Refused("it has no such loop".to_owned()))?), itself)
            }
        };
        let source = Source { procedures, itself, part, ..Source::new(image, func, None) };
        let analysis = analysis::analyse(image, func, None, part)?;
        let memory = Taken::new(pool.clone());
        let mut builder = JITBuilder::with_isa(self.isa.clone(), cranelift_module::default_libcall_names());
        builder.memory_provider(Box::new(Places(memory.clone())));
        for (helper, _) in Helper::ALL {
            builder.symbol(format!("{helper:?}"), self.helper_places[helper as usize] as *const u8);
        }
        let mut module = JITModule::new(builder);
        let signature = lower::signature(0, self.isa.default_call_conv());
        let mut helpers: Entries = [0; Helper::ALL.len()];
        for (helper, _) in Helper::ALL {
            let name = module.declare_function(&format!("{helper:?}"), Linkage::Import, &signature);
            helpers[helper as usize] = name.map_err(failed)?.as_u32();
        }
        let mut names = Vec::new();
        for _ in 0..=analysis.closures {
            names.push(module.declare_anonymous_function(&signature).map_err(failed)?.as_u32());
        }
        let functions = lower::lower(source, analysis, self.isa.frontend_config(), &helpers, names);
        let mut compiled = Vec::new();
        for (name, function) in functions {
            let c = self.generate(name, function)?;
            module.define_function_bytes(c.name, c.alignment, &c.bytes, &c.relocations).map_err(failed)?;
            compiled.push(c);
        }
        module.finalize_definitions().map_err(failed)?;
        let run_at = self.lock().run_at;
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let mut starts = Vec::new();
        for c in compiled {
            let start = (module.get_finalized_function(c.name) as usize).wrapping_add(run_at);
            maps.add(start, c.bytes.len(), c.calls);
            starts.push(start);
        }
        // The structure itself is the last of its functions.
        let entry = starts.last().ok_or_else(|| CompileError::Refused("it vanished".to_owned()))?;
        let code = Code(*entry as *const u8);
        drop(maps);
        self.structures_live.fetch_add(1, Ordering::Relaxed);
        let live = self.structures_live.clone();
        let room = Room { maps: self.maps.clone(), starts, live, _memory: memory };
        Ok(StructureCode::new(code, Box::new(room)))
    }
}
