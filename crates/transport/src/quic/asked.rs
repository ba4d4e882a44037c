//! The questions about calls that this process has answered, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use bifrost_rex::CallState;

static ANSWERS: [AtomicU64; CallState::ALL.len()] = [const { AtomicU64::new(0) }; CallState::ALL.len()];

/// Counts an answer.
pub(crate) fn note(state: CallState) {
    if let Some(count) = ANSWERS.get(usize::from(state.number()).wrapping_sub(1)) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the numbers of answers since the process began, with the states that they told.
pub fn answers() -> [(CallState, u64); CallState::ALL.len()] {
    std::array::from_fn(|at| (CallState::ALL[at].0, ANSWERS[at].load(Ordering::Relaxed)))
}
