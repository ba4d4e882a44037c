//! Values, tables and handles as objects of Python, in the form that the pure package has.

use bifrost_recorder::{Known, Recorder};
use bifrost_wire::reply::Rows;
use bifrost_wire::value::tag;
use bifrost_wire::{Arg, Ref, TypeNumber, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::core::Shown;
use crate::failures::failure;
use crate::package::Package;
use crate::places::Place;

/// The first item of the knowledge about a failed stub.
const FAILED: i32 = -1;
/// The first item of the knowledge about a result of a batch under way.
const UNDER_WAY: i32 = -2;

/// Returns a payload.
pub(crate) fn payload<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Nil => py.None().into_bound(py),
        Value::Bool(b) => b.into_pyobject(py)?.to_owned().into_any(),
        Value::Int(i) => i.into_pyobject(py)?.into_any(),
        Value::Real(r) => r.into_pyobject(py)?.into_any(),
        Value::Char(c) => c.into_pyobject(py)?.into_any(),
        Value::Str(s) => s.into_pyobject(py)?.into_any(),
        Value::Bytes(b) => PyBytes::new(py, b).into_any(),
        Value::Compound(c) => PyBytes::new(py, c.bytes()).into_any(),
    })
}

/// Returns a value as a pair of its tag and its payload.
pub(crate) fn plain<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok((value.tag(), payload(py, value)?).into_pyobject(py)?.into_any())
}

/// Returns a reference to an object.
pub(crate) fn handle(py: Python<'_>, number: Ref) -> PyResult<Bound<'_, PyAny>> {
    Package::get(py)?.handle.bind(py).call1((number.0,))
}

fn item<'py>(py: Python<'py>, item: Arg<'_>) -> PyResult<Bound<'py, PyAny>> {
    match item {
        Arg::Ref(number) => handle(py, number),
        Arg::Value(value) => plain(py, value),
    }
}

fn table<'py>(py: Python<'py>, rows: Rows<'_>) -> PyResult<Bound<'py, PyAny>> {
    let columns: Vec<(u8, u32)> = rows.columns().map(|(tag, TypeNumber(ty))| (tag, ty)).collect();
    let cells = PyList::empty(py);
    for cell in rows.args() {
        cells.append(item(py, cell)?)?;
    }
    Package::get(py)?.table.bind(py).call1((rows.len(), columns, cells))
}

/// Returns the number by which the pure package knows a stub: the negative position of a future, a
/// handle, 0 for others.
pub(crate) fn reference(known: &Known<'_, Place>) -> i64 {
    match known {
        Known::Future(position) => -i64::from(*position),
        Known::Handle(handle) => handle.0,
        _ => 0,
    }
}

/// The knowledge about a stub, taken out of the recorder: objects of Python are made without it.
pub(crate) enum Taken {
    Nothing,
    UnderWay(u64),
    Word(bifrost_wire::OwnedValue),
    Rows(bifrost_wire::reply::OwnedRows),
    Failed(std::sync::Arc<crate::failures::Error>),
}

impl Taken {
    pub(crate) fn of(recorder: &Recorder<Place>, slot: bifrost_recorder::Slot) -> Taken {
        match recorder.known(slot) {
            Known::Future(_) | Known::Handle(_) | Known::Free => Taken::Nothing,
            Known::UnderWay(batch) => Taken::UnderWay(batch),
            Known::Value(value) => Taken::Word(value.into()),
            Known::Rows(rows) => Taken::Rows(rows.into()),
            Known::Failed(error) => Taken::Failed(error.clone()),
        }
    }

    /// True if it stays for as long as the stub does.
    pub(crate) fn stays(&self) -> bool {
        !matches!(self, Taken::Nothing | Taken::UnderWay(_))
    }

    /// Returns it as the pure package has it.
    pub(crate) fn object<'py>(&self, py: Python<'py>, shown: &Shown) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Taken::Nothing => py.None().into_bound(py),
            Taken::UnderWay(batch) => (UNDER_WAY, *batch).into_pyobject(py)?.into_any(),
            Taken::Word(value) => plain(py, value.view())?,
            Taken::Rows(rows) => (tag::ROWS, table(py, rows.view())?).into_pyobject(py)?.into_any(),
            Taken::Failed(error) => (FAILED, failure(py, shown, error)?).into_pyobject(py)?.into_any(),
        })
    }
}
