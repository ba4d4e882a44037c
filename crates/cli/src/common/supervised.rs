//! Words to the supervisor of a server: systemd, by the socket of `NOTIFY_SOCKET`.
//!
//! Without a supervisor nothing is sent. A unit with `WatchdogSec=` gets a sign of life at half of
//! that time, from a worker that runs sessions: it starts a server again whose workers hang.

use bifrost_server::Server;
use sd_notify::{NotifyState, notify, watchdog_enabled};

/// Tells the supervisor something. One that does not listen changes nothing.
pub fn tell(state: NotifyState<'_>) {
    if let Err(error) = notify(&[state]) {
        tracing::warn!(%error, "supervisor.deaf");
    }
}

/// Tells that the server is ready, and gives signs of life from now on if they are expected.
pub fn tell_ready(server: &Server) {
    tell(NotifyState::Ready);
    if let Some(time) = watchdog_enabled() {
        server.pulse(time / 2, || tell(NotifyState::Watchdog));
    }
}

/// Tells that the settings are read again, until the server is ready.
pub fn tell_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => drop(notify(&[NotifyState::Reloading, now])),
        Err(_) => tell(NotifyState::Reloading),
    }
}
