//! Parts that tests share: the simulated world, boards with planted bugs, bodies of fuzz targets.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod bodies;
pub mod planted;
#[path = "../../../session/tests/support/random.rs"]
pub mod random;
pub mod world;
