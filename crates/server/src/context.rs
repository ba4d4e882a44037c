//! [`Context`]: the place where a session runs. It sleeps while the client is silent.

use std::sync::Arc;

use bifrost_capsule::{Space, SpaceGuard};
use bifrost_runtime::cx::Poll;
use bifrost_session::{Limits, Session};

use crate::bell::Bell;
use crate::connections::Place;
use crate::guests::GuestPlace;
use crate::roles::batch_time;
use crate::server::{Shared, StartError};

/// The place where a session runs.
pub(crate) struct Context {
    space: Arc<Space>,
    limits: Limits,
    guest: Option<GuestPlace>,
    asleep: bool,
}

impl Context {
    /// Opens a context, and its cache.
    ///
    /// # Errors
    /// When the system has no random number for the seed.
    pub(crate) fn open(
        shared: &Shared,
        limits: Limits,
        bell: &Bell,
    ) -> Result<(Context, bifrost_cache::Cache), StartError> {
        let (space, cache) = shared.objects.space_with(&limits)?;
        space.lock().set_make_way(bifrost_workers::make_way);
        let batch_time = Some(batch_time(&limits));
        let guest = shared.hosts.as_ref().and_then(|hosts| hosts.lock().enter(&space, bell, batch_time));
        Ok((Context { space, limits, guest, asleep: false }, cache))
    }

    /// Returns the poll, by which the session's run may be interrupted.
    pub(crate) fn poll(&self) -> &Arc<Poll> {
        self.space.poll()
    }

    /// Enters the name of the client's role, for native actors that it asks.
    pub(crate) fn set_caller(&self, role: &str) {
        if let Some(guest) = &self.guest {
            guest.set_caller(role);
        }
    }

    /// Notes at the place of the connection where its session runs.
    pub(crate) fn enter(&self, place: &Place) {
        place.runs_in(&self.space);
    }

    /// Returns the space, which the session may run in.
    pub(crate) fn space(&mut self, shared: &Shared, session: &Session) -> &Arc<Space> {
        if self.asleep {
            self.wake(shared, session);
        }
        &self.space
    }

    /// Locks the space, which the session may run in.
    pub(crate) fn lock(&mut self, shared: &Shared, session: &Session) -> SpaceGuard<'_> {
        self.space(shared, session).lock()
    }

    #[cold]
    fn wake(&mut self, shared: &Shared, session: &Session) {
        shared.objects.furnish(&self.space, &self.limits);
        self.space.lock().set_make_way(bifrost_workers::make_way);
        if let (Some(guest), Some(hosts)) = (&self.guest, &shared.hosts) {
            hosts.lock().furnish(guest, &self.space);
        }
        session.cache().enter(&mut self.space.lock());
        self.asleep = false;
    }

    /// Has the session let go of what can be had again, since its client is silent, and gives the
    /// context up if nothing is left. Returns about how many objects the session let go of.
    pub(crate) fn let_go(&mut self, session: &mut Session) -> usize {
        if self.asleep {
            return 0;
        }
        let mut cx = self.space.lock();
        let objects = session.let_go(&mut cx);
        if !self.guest.as_ref().is_some_and(GuestPlace::is_open) && session.leave(&cx) {
            drop(cx);
            self.space.sleep();
            self.asleep = true;
        }
        objects
    }

    /// Ends it, when its session is gone. The place of the connection keeps the figures of its
    /// heap.
    pub(crate) fn end(self, place: &Place) {
        if !self.asleep {
            let mut cx = self.space.lock();
            bifrost_actors::forget_requests(&mut cx);
            bifrost_actors::post_messages(&mut cx);
        }
        place.runs_no_more(self.space.heap_stats().past());
    }
}
