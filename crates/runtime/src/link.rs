//! Linking with the built-in natives.

use std::sync::Arc;

use bifrost_ir::Program;

use crate::engine::Engine;
use crate::image::{Image, LinkError};
use crate::native::Natives;
use crate::natives;

/// Links a verified program. Without an engine only the interpreter can run its functions.
///
/// # Errors
/// [`LinkError`]; nothing is kept.
pub fn link(program: Program, engine: Option<Arc<dyn Engine>>) -> Result<Arc<Image>, LinkError> {
    link_with(program, engine, Natives::default(), false)
}

/// Links a verified program that may use these natives. With `modes` objects may be in modes other
/// than the ordinary one, so that they can be kept in a repository.
///
/// # Errors
/// [`LinkError`]; nothing is kept.
pub fn link_with(
    program: Program,
    engine: Option<Arc<dyn Engine>>,
    added: Natives,
    modes: bool,
) -> Result<Arc<Image>, LinkError> {
    Image::link(program, engine, &natives::registry(), added, modes)
}
