//! Stores that are there, and the bar of work on them.

use std::sync::Arc;

use bifrost_repository::{Place, Progress, Repository};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::{Exit, Failure};

/// Opens a store that is there.
///
/// # Errors
/// It is not there, or cannot be opened.
pub fn open(store: &str) -> Result<Arc<dyn Repository>, Failure> {
    let place: Place = store.parse()?;
    if !place.has_store()? {
        let why = format!("there is no store in `{place}`");
        return Err(Failure::new(Exit::Failed, why).help("`bifrost serve --store STORE` makes a store"));
    }
    Ok(place.open()?)
}

/// Makes a bar that is shown on terminals only.
pub fn bar(what: &'static str) -> impl FnMut(Progress) {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len} objects");
    bar.set_style(style.expect("the template is one"));
    bar.set_message(what);
    move |progress| {
        bar.set_length(progress.of.max(progress.done));
        bar.set_position(progress.done);
    }
}
