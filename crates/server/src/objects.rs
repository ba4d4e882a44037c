//! Where the objects of sessions are: in one space that all share, or in a repository and a space for each. A program that is run by itself
//! (`bifrost run --store`) has them as a session has.

use std::sync::Arc;

use bifrost_cache::{Cache, Counted, NotCommitted, Options, Schema, SchemaError};
use bifrost_engine::{Engine, Raised};
use bifrost_repository::Gauges;
use bifrost_runtime::Limits;

use crate::server::StartError;
use crate::space::{Space, Watch};

/// Why a server has no objects.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The repository cannot be opened, or failed.
    #[error("the store cannot be used: {0}")]
    Repository(#[from] bifrost_repository::Error),
    /// What is stored are not objects of this program.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// What `setup` made cannot be stored.
    #[error("what `setup` made is not stored: {0}")]
    Setup(NotCommitted),
    /// Nobody knows whether there are objects.
    #[error("the store's directory cannot be fetched: look into the store with `bifrost store check`")]
    Directory,
}

/// The objects of a server, or of a program that is run by itself.
#[derive(Debug)]
pub struct Objects {
    engine: Arc<Engine>,
    limits: Limits,
    caching: Options,
    watch: Option<Watch>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Shared(Arc<Space>),
    Stored(Arc<Schema>),
}

impl Objects {
    /// Opens the store that the settings name, if they name one, and has `setup` make the objects where there are none. What runs
    /// too long is ended by the watch, if there is one.
    ///
    /// # Errors
    /// The store cannot be used, or `setup` failed.
    pub fn open(
        engine: Arc<Engine>,
        store: &str,
        limits: Limits,
        caching: Options,
        watch: Option<Watch>,
    ) -> Result<Objects, StartError> {
        if store.is_empty() {
            let space = Space::new(engine.clone(), limits)?;
            setup(&space).map_err(StartError::Setup)?;
            watch.iter().for_each(|watch| watch.add(&space));
            return Ok(Objects { engine, limits, caching, watch, place: Place::Shared(space) });
        }
        let place: bifrost_repository::Place = store.parse().map_err(StoreError::Repository)?;
        let repository = place.open().map_err(StoreError::Repository)?;
        let schema = Schema::new(engine.image().clone(), repository).map_err(StoreError::Schema)?;
        let objects = Objects { engine, limits, caching, watch, place: Place::Stored(schema) };
        let (space, cache) = objects.space()?;
        let cache = cache.expect("there is a store");
        loop {
            // A store that has objects has had its `setup`.
            let named = space.lock().has_names();
            if named.map_err(|_| StoreError::Directory)? {
                return Ok(objects);
            }
            setup(&space).map_err(StartError::Setup)?;
            let made = cache.commit(&mut space.lock(), None);
            match made {
                Ok(_) => return Ok(objects),
                // Another server has made them at the same moment.
                Err(NotCommitted::Conflict { .. }) => {}
                Err(other) => return Err(StoreError::Setup(other).into()),
            }
        }
    }

    /// The space of a session, and its cache if there is a store.
    ///
    /// # Errors
    /// When the system has no random number for the seed.
    pub fn space(&self) -> Result<(Arc<Space>, Option<Cache>), StartError> {
        match &self.place {
            Place::Shared(space) => Ok((space.clone(), None)),
            Place::Stored(schema) => {
                let space = Space::new(self.engine.clone(), self.limits)?;
                self.watch.iter().for_each(|watch| watch.add(&space));
                let cache = Cache::open_with(&mut space.lock(), schema.clone(), &self.caching);
                Ok((space, Some(cache)))
            }
        }
    }

    /// The space that all sessions share, if they do.
    pub fn shared(&self) -> Option<&Arc<Space>> {
        match &self.place {
            Place::Shared(space) => Some(space),
            Place::Stored(_) => None,
        }
    }

    /// What the caches of all sessions have done; nothing without a store.
    pub fn cached(&self) -> Counted {
        match &self.place {
            Place::Shared(_) => Counted::default(),
            Place::Stored(schema) => schema.counters().get(),
        }
    }

    /// What the repository has; nothing without a store.
    pub fn gauges(&self) -> Option<Gauges> {
        match &self.place {
            Place::Shared(_) => None,
            Place::Stored(schema) => Some(schema.repository().gauges()),
        }
    }

    /// The bytes of stack of a thread that runs a session.
    pub fn stack_bytes(&self) -> usize {
        Space::stack_bytes_for(&self.engine, self.limits)
    }
}

/// Runs `setup`, if the program has it.
fn setup(space: &Arc<Space>) -> Result<(), Raised> {
    let engine = space.engine().clone();
    let Some(setup) = engine.find_entry("setup", 0) else { return Ok(()) };
    // SAFETY: the context runs this engine's image, and `setup` takes nothing.
    let run = || unsafe { engine.call(&mut space.lock(), setup, &[]) };
    let ended =
        space.on_stack(run).map_err(|e| Raised { name: "failure".to_owned(), values: format!("({e})") })?;
    ended.map(|_| ())
}
