//! The class below all stubs.
//!
//! A stub of a session that records here is the number of a slot of its recorder, and is released
//! when Python drops it. A stub of a session that records in Python has the three fields of the
//! pure package's class instead.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use bifrost_recorder::Slot as Number;
use parking_lot::Mutex;
use pyo3::exceptions::{PyAttributeError, PyRuntimeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use crate::core::Core;
use crate::known::{Taken, reference};
use crate::operands::{Argument, Arguments};
use crate::package::Package;

/// The fields of a stub whose session records in Python. Of another one `known` is kept here once
/// somebody has asked for it: a table is read twice at least, and a failure is one object.
#[derive(Default)]
struct Fields {
    core: Option<Py<PyAny>>,
    reference: Option<Py<PyAny>>,
    known: Option<Py<PyAny>>,
}

/// The knowledge about a stub. Stubs of generated code are slots themselves.
#[pyclass(frozen, subclass, weakref, module = "bifrost_native")]
pub(crate) struct Slot {
    core: OnceLock<Py<Core>>,
    number: AtomicU32,
    fields: OnceLock<Box<Mutex<Fields>>>,
}

fn lacks(name: &str) -> PyErr {
    PyAttributeError::new_err(format!("a stub without a session has no `{name}`"))
}

impl Slot {
    /// Makes the stub one of a session.
    #[inline]
    pub(crate) fn bind(&self, core: Py<Core>, number: Number) -> PyResult<()> {
        self.number.store(number.0, Ordering::Relaxed);
        self.core.set(core).map_err(|_| PyRuntimeError::new_err("a stub has a result already"))
    }

    /// True if it is a stub of a session already, or of one that records in Python.
    pub(crate) fn is_bound(&self) -> bool {
        self.core.get().is_some() || self.fields.get().is_some()
    }

    /// Returns the number of its slot, if it is a stub of this session.
    #[inline]
    pub(crate) fn number_in(&self, core: &Core) -> Option<Number> {
        let own = self.core.get()?;
        std::ptr::eq(own.get(), core).then(|| Number(self.number.load(Ordering::Relaxed)))
    }

    /// Gives it another slot of its session; returns that which it had.
    pub(crate) fn replace(&self, number: Number) -> Number {
        let known = self.fields.get().and_then(|fields| fields.lock().known.take());
        drop(known);
        Number(self.number.swap(number.0, Ordering::Relaxed))
    }

    /// Returns it as an argument of a session's call.
    #[inline]
    pub(crate) fn argument(&self, core: &Core) -> PyResult<Argument> {
        match self.number_in(core) {
            Some(number) => Ok(Argument::Stub(number)),
            None if self.is_bound() => Ok(Argument::Foreign),
            None => Err(lacks("_core")),
        }
    }

    fn fields(&self) -> &Mutex<Fields> {
        self.fields.get_or_init(Box::default)
    }

    fn field<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        read: impl FnOnce(&Fields) -> &Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let fields = self.fields.get().ok_or_else(|| lacks(name))?.lock();
        read(&fields).as_ref().map(|field| field.clone_ref(py).into_bound(py)).ok_or_else(|| lacks(name))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(core) = self.core.get() {
            core.get().release_number(Number(*self.number.get_mut()));
        }
    }
}

#[pymethods]
impl Slot {
    #[new]
    #[inline]
    fn new() -> Slot {
        Slot { core: OnceLock::new(), number: AtomicU32::new(0), fields: OnceLock::new() }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(core) = self.core.get() {
            visit.call(core)?;
        }
        if let Some(fields) = self.fields.get().and_then(|fields| fields.try_lock()) {
            visit.call(&fields.core)?;
            visit.call(&fields.reference)?;
            visit.call(&fields.known)?;
        }
        Ok(())
    }

    // The fields of the pure package's class.

    #[getter(_core)]
    fn core_field<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.core.get() {
            Some(core) => Ok(core.clone_ref(py).into_bound(py).into_any()),
            None => self.field(py, "_core", |fields| &fields.core),
        }
    }

    #[setter(_core)]
    fn set_core(&self, value: Py<PyAny>) {
        let old = self.fields().lock().core.replace(value);
        drop(old);
    }

    #[getter(_ref)]
    fn reference_field<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(core) = self.core.get() else {
            return self.field(py, "_ref", |fields| &fields.reference);
        };
        let recorder = core.get().enter()?;
        let number = Number(self.number.load(Ordering::Relaxed));
        Ok(reference(&recorder.known(number)).into_pyobject(py)?.into_any())
    }

    #[setter(_ref)]
    fn set_reference(&self, value: Py<PyAny>) {
        let old = self.fields().lock().reference.replace(value);
        drop(old);
    }

    #[getter(_known)]
    fn known_field<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(core) = self.core.get() else {
            return self.field(py, "_known", |fields| &fields.known);
        };
        if let Some(fields) = self.fields.get()
            && let Some(known) = &fields.lock().known
        {
            return Ok(known.clone_ref(py).into_bound(py));
        }
        let core = core.get();
        let taken = Taken::of(&*core.enter()?, Number(self.number.load(Ordering::Relaxed)));
        let known = taken.object(py, core.shown())?;
        if taken.stays() {
            let old = self.fields().lock().known.replace(known.clone().unbind());
            drop(old);
        }
        Ok(known)
    }

    #[setter(_known)]
    fn set_known(&self, value: Py<PyAny>) {
        let old = self.fields().lock().known.replace(value);
        drop(old);
    }

    /// Records a call with one result.
    #[pyo3(signature = (method, result, a=None, b=None, c=None, *rest))]
    #[allow(clippy::too_many_arguments, reason = "arguments of Python come without a tuple")]
    fn _call<'py>(
        slf: &Bound<'py, Self>,
        method: u32,
        result: &Bound<'py, PyType>,
        a: Option<&Bound<'py, PyAny>>,
        b: Option<&Bound<'py, PyAny>>,
        c: Option<&Bound<'py, PyAny>>,
        rest: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let slot = slf.get();
        let Some(core) = slot.core.get() else {
            let mut all: Vec<Bound<'py, PyAny>> =
                vec![slf.clone().into_any(), method.into_pyobject(py)?.into_any(), result.clone().into_any()];
            all.extend([a, b, c].into_iter().flatten().cloned().chain(rest.iter()));
            return Package::get(py)?.record_call.bind(py).call1(PyTuple::new(py, all)?);
        };
        let session = core.get();
        let place = session.place_above(py)?;
        let mut arguments = Arguments::new();
        for operand in [a, b, c].into_iter().flatten() {
            arguments.push(Argument::of(operand, session)?);
        }
        for operand in rest.iter_borrowed() {
            arguments.push(Argument::of(&operand, session)?);
        }
        let stub = result.call0()?;
        let made = stub.cast::<Slot>()?.get();
        let receiver = Number(slot.number.load(Ordering::Relaxed));
        let number = session.record(py, receiver, method, &arguments, place)?;
        made.bind(core.clone_ref(py), number)?;
        Ok(stub)
    }
}
