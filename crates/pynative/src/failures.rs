//! Failures: those of the recorder as objects of the pure package, and back.
//!
//! An object that is made here has the recorder's failure with it, by which the account of told
//! failures knows it.

use std::fmt;
use std::sync::Arc;

use bifrost_recorder::{CallName, Closed, ErrorValue, FailurePlaces, Misuse};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::core::Shown;
use crate::known::{handle, plain};
use crate::package::Package;
use crate::places::Place;

pub(crate) type Error = bifrost_recorder::Error<Place>;

/// The failure of the recorder that an object of Python stands for.
#[pyclass(frozen, module = "bifrost_native")]
pub(crate) struct Failure(Arc<Error>);

/// The reason why the client has ended the session: an object of the pure package.
struct Reason {
    object: Py<PyAny>,
    text: String,
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Reason {}

/// Returns the reason of Python as one of the recorder.
pub(crate) fn closed_by(why: &Bound<'_, PyAny>) -> PyResult<Closed> {
    let text = why.str()?.to_string();
    Ok(Closed::Connection(Box::new(Reason { object: why.clone().unbind(), text })))
}

/// Returns the reason of a closed session.
pub(crate) fn closed<'py>(py: Python<'py>, why: &Closed) -> PyResult<Bound<'py, PyAny>> {
    let package = Package::get(py)?;
    match why {
        Closed::ByClient => package.by_client.bind(py).call0(),
        Closed::Connection(error) => match error.downcast_ref::<Reason>() {
            Some(reason) => Ok(reason.object.clone_ref(py).into_bound(py)),
            None => package
                .by_connection
                .bind(py)
                .call1((pyo3::exceptions::PyConnectionError::new_err(error.to_string()).into_value(py),)),
        },
        Closed::ByServer { number, position, text } => {
            package.by_server.bind(py).call1((*number, *position, text))
        }
        Closed::BadReply(error) => {
            let bad = package.bad.bind(py).call1((error.number as u32, error.offset, error.what))?;
            package.by_bad_reply.bind(py).call1((bad,))
        }
        Closed::WrongReply(what) => package.by_wrong_reply.bind(py).call1((*what,)),
    }
}

fn call_name<'py>(py: Python<'py>, shown: &Shown, call: &CallName<Place>) -> PyResult<Bound<'py, PyAny>> {
    let place = match call.location {
        Some(place) => shown.place(py, place)?,
        None => None,
    };
    let rounds = PyTuple::new(py, call.rounds.iter().copied())?;
    Package::get(py)?.call_name.bind(py).call1((&*call.name, call.number, place, rounds))
}

fn value<'py>(py: Python<'py>, value: &ErrorValue) -> PyResult<Bound<'py, PyAny>> {
    use bifrost_wire::Value;
    match value {
        ErrorValue::Nil => plain(py, Value::Nil),
        ErrorValue::Bool(b) => plain(py, Value::Bool(*b)),
        ErrorValue::Int(i) => plain(py, Value::Int(*i)),
        ErrorValue::Real(r) => plain(py, Value::Real(*r)),
        ErrorValue::Char(c) => plain(py, Value::Char(*c)),
        ErrorValue::Str(s) => plain(py, Value::Str(s)),
        ErrorValue::Bytes(b) => plain(py, Value::Bytes(b)),
        ErrorValue::Object(number) => handle(py, *number),
    }
}

fn places<'py>(
    py: Python<'py>,
    places: Option<&FailurePlaces>,
) -> PyResult<(Option<Bound<'py, PyTuple>>, u64)> {
    let Some(places) = places else { return Ok((None, 0)) };
    let class = Package::get(py)?.failure_place.bind(py);
    let list: PyResult<Vec<_>> =
        places.list.iter().map(|place| class.call1((&*place.routine, &*place.file, place.line))).collect();
    Ok((Some(PyTuple::new(py, list?)?), places.more))
}

/// Returns the object of the pure package for a failure.
pub(crate) fn failure<'py>(
    py: Python<'py>,
    shown: &Shown,
    error: &Arc<Error>,
) -> PyResult<Bound<'py, PyAny>> {
    let package = Package::get(py)?;
    let caused =
        |cause: &Option<Arc<Error>>| cause.as_ref().map(|cause| failure(py, shown, cause)).transpose();
    let made = match &**error {
        Error::Signal { name, values, places: come, call } => {
            let values: PyResult<Vec<_>> = values.iter().map(|one| value(py, one)).collect();
            let (come, more) = places(py, come.as_deref())?;
            let values = PyTuple::new(py, values?)?;
            package.signal.bind(py).call1((&**name, values, come, more, call_name(py, shown, call)?))?
        }
        Error::Unhandled { argument, cause, call } => {
            package.unhandled.bind(py).call1((*argument, caused(cause)?, call_name(py, shown, call)?))?
        }
        Error::Refused { number, text, call } => {
            package.refused.bind(py).call1((*number, &**text, call_name(py, shown, call)?))?
        }
        Error::NotReached { cause, call } => {
            package.not_reached.bind(py).call1((caused(cause)?, call_name(py, shown, call)?))?
        }
        Error::NotSent { call, cause } => {
            let cause = failure(py, shown, cause)?;
            package.not_sent.bind(py).call1((call_name(py, shown, call)?, cause))?
        }
        Error::Unseen { failures, omitted, call } => {
            let failures = tuple(py, shown, failures)?;
            let call = call.as_ref().map(|call| call_name(py, shown, call)).transpose()?;
            package.unseen.bind(py).call1((failures, *omitted, call))?
        }
        Error::Misuse(misuse) => package.misused.bind(py).call1((*misuse as u32,))?,
        Error::Missing { name } => package.missing.bind(py).call1((&**name,))?,
        Error::Closed(why) => package.ended.bind(py).call1((closed(py, why)?,))?,
    };
    // Failures of the pure package cannot be changed by programs.
    let set = py.get_type::<PyAny>().getattr(intern!(py, "__setattr__"))?;
    set.call1((&made, intern!(py, "_native"), Failure(error.clone())))?;
    Ok(made)
}

/// Returns failures as a tuple.
pub(crate) fn tuple<'py>(
    py: Python<'py>,
    shown: &Shown,
    errors: &[Arc<Error>],
) -> PyResult<Bound<'py, PyTuple>> {
    let failures: PyResult<Vec<_>> = errors.iter().map(|error| failure(py, shown, error)).collect();
    PyTuple::new(py, failures?)
}

/// Returns the failure of the recorder that an object of Python stands for.
pub(crate) fn error(failure: &Bound<'_, PyAny>) -> PyResult<Arc<Error>> {
    let py = failure.py();
    if let Ok(native) = failure.getattr(intern!(py, "_native"))
        && let Ok(native) = native.cast::<Failure>()
    {
        return Ok(native.get().0.clone());
    }
    let package = Package::get(py)?;
    if failure.is_instance(package.misused.bind(py))? {
        let number: u32 = failure.getattr(intern!(py, "misuse"))?.extract()?;
        if let Some(misuse) = Misuse::ALL.get((number as usize).wrapping_sub(1)) {
            return Ok(Arc::new(Error::Misuse(*misuse)));
        }
    } else if failure.is_instance(package.missing.bind(py))? {
        let name: String = failure.getattr(intern!(py, "name"))?.extract()?;
        return Ok(Arc::new(Error::Missing { name: name.into() }));
    }
    Err(PyTypeError::new_err(format!("{} is no failure of this session", failure.repr()?)))
}

/// Returns the exception that carries a failure out of the recorder.
#[cold]
pub(crate) fn told(py: Python<'_>, shown: &Shown, error: Arc<Error>) -> PyErr {
    let raised = || Package::get(py)?.told.bind(py).call1((failure(py, shown, &error)?,));
    match raised() {
        Ok(told) => PyErr::from_value(told),
        Err(error) => error,
    }
}
