//! Small objects that show a recorder's tables.

use bifrost_recorder::Ended;
use bifrost_wire::Ref;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

use crate::core::Core;

/// A structure that has ended, and may go on with another block.
#[pyclass(frozen, module = "bifrost_native")]
pub(crate) struct Ending(pub(crate) Ended);

#[pymethods]
impl Ending {
    /// The kind of the structure.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.name()
    }

    /// True if it will be sent.
    #[getter]
    fn is_kept(&self) -> bool {
        self.0.is_kept()
    }
}

/// An open structure.
#[pyclass(frozen, module = "bifrost_native")]
pub(crate) struct Open {
    #[pyo3(get)]
    pub(crate) kind: &'static str,
}

/// A batch under way.
#[pyclass(frozen, module = "bifrost_native")]
pub(crate) struct UnderWay {
    #[pyo3(get)]
    pub(crate) number: u64,
}

/// The handles of a session.
#[pyclass(frozen, module = "bifrost_native")]
pub(crate) struct Handles(pub(crate) Py<Core>);

/// A handle of a session.
#[pyclass(frozen, module = "bifrost_native")]
pub(crate) struct Held {
    /// The number of its holders: 1 for any.
    #[pyo3(get)]
    holders: u32,
    /// The server's number of its type.
    #[pyo3(get, name = "type")]
    ty: u32,
}

#[pymethods]
impl Handles {
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.0.get().enter()?.handle_count())
    }

    fn get(&self, number: i64) -> PyResult<Option<Held>> {
        let recorder = self.0.get().enter()?;
        let handle = Ref(number);
        let ty = recorder.type_of(handle).map_or(u32::MAX, |ty| ty.0);
        Ok(recorder.holds(handle).then_some(Held { holders: 1, ty }))
    }

    fn __getitem__(&self, number: i64) -> PyResult<Held> {
        self.get(number)?.ok_or_else(|| PyKeyError::new_err(number))
    }
}
