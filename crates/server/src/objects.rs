//! The objects of sessions: in a repository, and in a space for each session. A program that is run
//! by itself (`bifrost run --store`) has them as a session has.

use std::sync::Arc;

use bifrost_cache::{Cache, Counted, NotCommitted, Options, Report, Schema, SchemaError};
use bifrost_capsule::{Space, Watch};
use bifrost_engine::{Engine, Raised};
use bifrost_repository::{Gauges, Place, Repository};
use bifrost_runtime::Limits;
use bifrost_wire::Limit;

use crate::collector::{self, Collector};
use crate::memory::Memory;
use crate::roles::batch_time;
use crate::server::StartError;

/// The reason why a server has no objects.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The repository cannot be opened, or failed.
    #[error("the store cannot be used: {0}")]
    Repository(#[from] bifrost_repository::Error),
    /// The objects in the store are not those of this program.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The objects that `setup` made cannot be stored.
    #[error("the changes of `setup` are not stored: {0}")]
    Setup(NotCommitted),
    /// It cannot be found out if there are objects.
    #[error("the store's directory cannot be fetched: check the store with `bifrost store check`")]
    Directory,
}

/// The objects of a server, or of a program that is run by itself.
#[derive(Debug)]
pub struct Objects {
    engine: Arc<Engine>,
    limits: Limits,
    caching: Options,
    watch: Option<Watch>,
    memory: Option<Arc<Memory>>,
    schema: Arc<Schema>,
    /// The collector, which ends before a store can be opened again.
    _collector: Option<Collector>,
}

impl Objects {
    /// Opens a store, and runs `setup` to make the objects where there are none. Runs that last too
    /// long are ended by the watch, if there is one. With `report`, clients are not told things
    /// that only the owner of the server can use ([`Schema::reporting`]). The heaps of all contexts
    /// share the memory, if there is some to share.
    ///
    /// # Errors
    /// The store cannot be used, or `setup` failed.
    ///
    /// # Panics
    /// If the engine's objects cannot be kept ([`Run::kept`](bifrost_engine::Run)).
    pub fn open(
        engine: Arc<Engine>,
        place: &Place,
        limits: Limits,
        caching: Options,
        watch: Option<Watch>,
        report: Option<Report>,
        memory: Option<Arc<Memory>>,
    ) -> Result<Objects, StartError> {
        assert!(engine.image().modes().is_some(), "objects of a store have modes");
        let repository = place.open().map_err(StoreError::Repository)?;
        let collector = collector::start(&repository, place)?;
        let schema = Schema::reporting(engine.image().clone(), repository, report);
        let schema = schema.map_err(StoreError::Schema)?;
        let objects = Objects { engine, limits, caching, watch, memory, schema, _collector: collector };
        // `setup` may run for any time.
        let (space, cache) = objects.open_space(false)?;
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
                Err(NotCommitted::Conflict(_)) => {}
                Err(other) => return Err(StoreError::Setup(other).into()),
            }
        }
    }

    /// Returns the space of a session, and its cache.
    ///
    /// # Errors
    /// When the system has no random number for the seed.
    pub fn space(&self) -> Result<(Arc<Space>, Cache), StartError> {
        let (space, cache) = self.open_space(true)?;
        self.watch.iter().for_each(|watch| watch.add(&space));
        Ok((space, cache))
    }

    /// As [`Objects::space`], for a session with limits of its own.
    ///
    /// # Errors
    /// As for [`Objects::space`].
    pub(crate) fn space_with(
        &self,
        limits: &bifrost_session::Limits,
    ) -> Result<(Arc<Space>, Cache), StartError> {
        let space = Space::new(self.engine.clone(), self.limits)?;
        self.furnish(&space, limits);
        let cache = Cache::open_with(&mut space.lock(), self.schema.clone(), &self.caching);
        Ok((space, cache))
    }

    /// Makes the settings of a session's context, which is new.
    pub(crate) fn furnish(&self, space: &Space, limits: &bifrost_session::Limits) {
        self.share_memory(space, true);
        let most = usize::try_from(limits.get(Limit::TransactionObjects)).unwrap_or(usize::MAX);
        space.lock().set_transaction_objects(most);
        // A space that sleeps is not watched: now it has its context.
        self.watch.iter().for_each(|watch| watch.add_for(space, batch_time(limits)));
    }

    fn share_memory(&self, space: &Space, batches: bool) {
        if let Some(memory) = &self.memory {
            let poll = batches.then(|| space.poll().clone());
            space.lock().set_memory(memory.share(poll));
        }
    }

    /// Returns the context of a node, which runs for as long as it runs, and its cache.
    ///
    /// # Errors
    /// When the system has no random number for the seed.
    pub fn node_space(&self) -> Result<(Arc<Space>, Cache), StartError> {
        self.open_space(false)
    }

    /// Returns a space, which runs `batches` of a client or not, and its cache.
    fn open_space(&self, batches: bool) -> Result<(Arc<Space>, Cache), StartError> {
        let space = Space::new(self.engine.clone(), self.limits)?;
        self.share_memory(&space, batches);
        let cache = Cache::open_with(&mut space.lock(), self.schema.clone(), &self.caching);
        Ok((space, cache))
    }

    /// Returns the counts of the caches of all sessions.
    pub fn cached(&self) -> Counted {
        self.schema.counters().get()
    }

    /// Returns the gauges of the repository.
    pub fn gauges(&self) -> Gauges {
        self.schema.repository().gauges()
    }

    /// Returns the repository.
    pub(crate) fn repository(&self) -> &Arc<dyn Repository> {
        self.schema.repository()
    }

    /// Returns the bytes of stack of a thread that runs a session.
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
    let ended = space.on_stack(run).map_err(|e| Raised {
        name: "failure".to_owned(),
        values: format!("({e})"),
        places: vec![],
    })?;
    ended.map(|_| ())
}
