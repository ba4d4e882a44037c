//! The recorder of a session that was greeted. The pure package has exchanged the greetings, and
//! hands in the server's answers again.

use bifrost_recorder::{Greeting, Settings};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::constants::Constants;
use crate::core::{Core, Recorder};

/// Returns the recorder of a session. `welcome` and `interface` are the replies of the server, the
/// second one empty if the interface was not asked for; `json` is the interface of the stubs.
///
/// Raises ValueError if they open no session.
#[pyfunction]
pub(crate) fn make_core(
    numbers: &Bound<'_, PyAny>,
    json: &str,
    welcome: &[u8],
    interface: &[u8],
    reply_bytes_max: usize,
    remap_futures: usize,
) -> PyResult<Core> {
    let stubs = numbers.getattr("stubs")?;
    let constants = Constants::of(&stubs, json)?;
    let settings = Settings { reply_bytes_max, remap_futures, trace: None };
    let mut greeting = Greeting::new(constants.0, "", "", settings);
    let mut recorder: Option<Recorder> = None;
    for reply in [welcome, interface] {
        greeting.sent(usize::MAX);
        if recorder.is_none() {
            recorder =
                greeting.handle_bytes(reply).map_err(|error| PyValueError::new_err(error.to_string()))?;
        }
    }
    let recorder = recorder.ok_or_else(|| PyValueError::new_err("the greeting is not over"))?;
    Ok(Core::new(recorder, numbers.clone().unbind(), stubs.unbind(), constants))
}
