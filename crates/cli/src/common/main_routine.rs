//! The routine `main` of a program.

use std::sync::Arc;

use bifrost_capsule::space::Space;
use bifrost_engine::Engine;
use bifrost_ir::{RoutineId, TypeKind, Types};

/// The routine `main` of a program.
pub struct Main {
    engine: Arc<Engine>,
    id: RoutineId,
    /// True if it takes a sequence of strings.
    pub takes_arguments: bool,
}

impl Main {
    /// Returns that of a program, if it has one.
    pub fn find(engine: &Arc<Engine>) -> Option<Main> {
        let found = |id, takes_arguments| Main { engine: engine.clone(), id, takes_arguments };
        if let Some(main) = engine.find_entry("main", 0) {
            return Some(found(main, false));
        }
        let program = engine.program();
        let main = engine.find_entry("main", 1)?;
        let ty = program.routines[main].signature.params[0].ty;
        let takes_strings = program.types.kind(ty) == TypeKind::Sequence(Types::STRING);
        takes_strings.then(|| found(main, true))
    }

    /// Calls it with the arguments, if it takes them.
    ///
    /// # Errors
    /// The exception that it ended with, and the places of a failure, for people.
    ///
    /// # Panics
    /// When the space is of another program.
    pub fn call(&self, space: &Space, arguments: &[String]) -> Result<(), String> {
        assert!(Arc::ptr_eq(space.engine(), &self.engine), "the space is of the same program");
        let mut cx = space.lock();
        let words = match self.takes_arguments {
            true => vec![
                self.engine
                    .arguments(&mut cx, arguments)
                    .map_err(|_| "failure(\"out of memory\")".to_owned())?,
            ],
            false => vec![],
        };
        // SAFETY: the context runs this engine's image, and `find` has seen what `main` takes.
        unsafe { self.engine.call(&mut cx, self.id, &words) }.map_err(|raised| raised.with_places())?;
        Ok(())
    }
}
