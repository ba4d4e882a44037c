//! What passes between nodes: packets, the objects that others know, and the sessions that are
//! guests.

pub(crate) mod accept;
pub(crate) mod addresses;
pub(crate) mod credit;
pub(crate) mod guest;
pub(crate) mod kinds;
pub(crate) mod line;
pub(crate) mod loss;
pub(crate) mod names;
pub(crate) mod network;
pub(crate) mod outbox;
pub mod outlet;
pub(crate) mod packet;
pub(crate) mod placement;
pub(crate) mod remote;
pub(crate) mod requests;
pub(crate) mod round_waits;
pub(crate) mod rounds;
pub(crate) mod search;
pub(crate) mod tasks;
pub(crate) mod watches;
pub(crate) mod write;
