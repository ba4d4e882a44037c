//! Arguments: operands of the pure package as operands of the recorder.
//!
//! An argument is taken apart before the recorder is entered, since that may run code of Python.

use bifrost_recorder::{Compose, Operand, Owner, Slot as Number};
use bifrost_wire::value::tag;
use bifrost_wire::{COMPOUND_DEPTH_MAX, Compound, Value};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyFloat, PyInt, PyList, PyString, PyTuple};
use smallvec::SmallVec;

use crate::core::Core;
use crate::package::Package;
use crate::slot::Slot;

/// An argument.
#[derive(Debug)]
pub(crate) enum Argument {
    Stub(Number),
    /// A stub of another session.
    Foreign,
    Nil,
    Bool(bool),
    Int(i64),
    Real(f64),
    Char(char),
    Text(PyBackedStr),
    Bytes(PyBackedBytes),
    /// A compound that is written already: its bytes behind the length.
    Written(PyBackedBytes),
    Items(Vec<Argument>),
    Ints(Vec<i64>),
    Reals(Vec<f64>),
}

/// The arguments of a call; most have few.
pub(crate) type Arguments = SmallVec<[Argument; 4]>;

impl Argument {
    /// Takes an operand of the pure package apart, for a session.
    pub(crate) fn of(operand: &Bound<'_, PyAny>, session: &Core) -> PyResult<Argument> {
        Argument::at_depth(operand, session, 1)
    }

    #[inline]
    fn at_depth(operand: &Bound<'_, PyAny>, session: &Core, depth: usize) -> PyResult<Argument> {
        if let Ok(int) = operand.cast_exact::<PyInt>() {
            return int.extract().map(Argument::Int).map_err(|_| too_large(int));
        }
        if let Ok(text) = operand.cast_exact::<PyString>() {
            return Ok(Argument::Text(text.extract()?));
        }
        if let Ok(value) = operand.cast_exact::<PyTuple>() {
            return Argument::of_value(value);
        }
        if let Ok(stub) = operand.cast::<Slot>() {
            return stub.get().argument(session);
        }
        Argument::of_items(operand, session, depth)
    }

    #[cold]
    fn of_items(operand: &Bound<'_, PyAny>, session: &Core, depth: usize) -> PyResult<Argument> {
        let py = operand.py();
        let package = Package::get(py)?;
        if operand.is_instance(package.item_list.bind(py))? {
            // One level more than is allowed is enough to be refused.
            let mut items = Vec::new();
            if depth <= COMPOUND_DEPTH_MAX {
                for item in operand.getattr(intern!(py, "items"))?.try_iter()? {
                    items.push(Argument::at_depth(&item?, session, depth + 1)?);
                }
            }
            return Ok(Argument::Items(items));
        }
        if operand.is_instance(package.word_list.bind(py))? {
            return Argument::of_words(operand);
        }
        Err(PyTypeError::new_err(format!("{} is no operand", operand.repr()?)))
    }

    /// Takes a pair of a tag and a payload apart.
    #[inline]
    fn of_value(value: &Bound<'_, PyTuple>) -> PyResult<Argument> {
        let payload = value.get_borrowed_item(1)?;
        Ok(match value.get_borrowed_item(0)?.extract::<u8>()? {
            tag::INT => Argument::Int(payload.extract()?),
            tag::STRING => Argument::Text(payload.extract()?),
            tag::NIL => Argument::Nil,
            tag::BOOL => Argument::Bool(payload.extract()?),
            tag::REAL => Argument::Real(payload.extract()?),
            tag::CHAR => Argument::Char(payload.extract()?),
            tag::BYTES => Argument::Bytes(payload.extract()?),
            tag::COMPOUND => Argument::Written(payload.extract()?),
            other => return Err(PyTypeError::new_err(format!("{other} is the tag of no value"))),
        })
    }

    /// Takes a compound of numbers apart, whose words an array has.
    fn of_words(operand: &Bound<'_, PyAny>) -> PyResult<Argument> {
        let py = operand.py();
        let words = operand.getattr(intern!(py, "words"))?.call_method0(intern!(py, "tobytes"))?;
        let words: PyBackedBytes = words.extract()?;
        let words = words.as_chunks::<8>().0.iter();
        Ok(match operand.getattr(intern!(py, "tag"))?.extract::<u8>()? {
            tag::INT => Argument::Ints(words.map(|word| i64::from_ne_bytes(*word)).collect()),
            tag::REAL => Argument::Reals(words.map(|word| f64::from_ne_bytes(*word)).collect()),
            other => return Err(PyTypeError::new_err(format!("{other} is the tag of no numbers"))),
        })
    }

    /// Returns it as the recorder takes it.
    #[inline]
    pub(crate) fn operand(&self) -> Operand<'_> {
        match self {
            Argument::Stub(number) => Operand::Stub(*number),
            Argument::Foreign => Operand::Foreign,
            Argument::Items(_) => Operand::Compound(self, Owner(0)),
            Argument::Ints(ints) => Operand::Ints(ints),
            Argument::Reals(reals) => Operand::Reals(reals),
            value => Operand::Value(value.value()),
        }
    }

    /// Returns the value that it is; nil for one that is none.
    #[inline]
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Argument::Bool(b) => Value::Bool(*b),
            Argument::Int(i) => Value::Int(*i),
            Argument::Real(r) => Value::Real(*r),
            Argument::Char(c) => Value::Char(*c),
            Argument::Text(text) => Value::Str(text),
            Argument::Bytes(bytes) => Value::Bytes(bytes),
            Argument::Written(bytes) => Value::Compound(Compound::written(bytes)),
            _ => Value::Nil,
        }
    }
}

impl Compose for Argument {
    fn count(&self) -> usize {
        match self {
            Argument::Items(items) => items.len(),
            _ => 0,
        }
    }

    fn each(&self, _: Owner, put: &mut dyn FnMut(Operand<'_>)) {
        if let Argument::Items(items) = self {
            items.iter().for_each(|item| put(item.operand()));
        }
    }
}

#[cold]
fn too_large(int: &Bound<'_, PyInt>) -> PyErr {
    PyOverflowError::new_err(format!("{int} does not fit into an int of 64 bits"))
}

/// Returns an int as an operand. All but plain ints of 64 bits are left to the pure package.
#[pyfunction]
pub(crate) fn int_operand<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    match value.cast_exact::<PyInt>() {
        Ok(int) if int.extract::<i64>().is_ok() => Ok((tag::INT, int).into_pyobject(py)?.into_any()),
        _ => Package::get(py)?.int_operand.bind(py).call1((value,)),
    }
}

/// Returns a real as an operand, as [`int_operand`] does.
#[pyfunction]
pub(crate) fn real_operand<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    match value.cast_exact::<PyFloat>() {
        Ok(real) => Ok((tag::REAL, real).into_pyobject(py)?.into_any()),
        Err(_) => Package::get(py)?.real_operand.bind(py).call1((value,)),
    }
}

/// Returns a text as an operand, as [`int_operand`] does.
#[pyfunction]
pub(crate) fn str_operand<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    match value.cast_exact::<PyString>() {
        Ok(text) => Ok((tag::STRING, text).into_pyobject(py)?.into_any()),
        Err(_) => Package::get(py)?.str_operand.bind(py).call1((value,)),
    }
}

/// Takes the arguments of a call apart: a tuple or a list of operands.
pub(crate) fn arguments(operands: &Bound<'_, PyAny>, session: &Core) -> PyResult<Arguments> {
    let mut taken = Arguments::new();
    if let Ok(operands) = operands.cast_exact::<PyTuple>() {
        for operand in operands.iter_borrowed() {
            taken.push(Argument::of(&operand, session)?);
        }
    } else if let Ok(operands) = operands.cast_exact::<PyList>() {
        for operand in operands.iter() {
            taken.push(Argument::of(&operand, session)?);
        }
    } else {
        for operand in operands.try_iter()? {
            taken.push(Argument::of(&operand?, session)?);
        }
    }
    Ok(taken)
}

/// Returns arguments as the recorder takes them.
#[inline]
pub(crate) fn operands(arguments: &Arguments) -> impl ExactSizeIterator<Item = Operand<'_>> {
    arguments.iter().map(Argument::operand)
}
