//! Places in the source of the program, as numbers: the recorder copies them, and Python counts its
//! objects.
//!
//! A place is the code object of the caller with an offset, or any object. The process keeps each
//! code object, text and number once, [`PLACES_MAX`] at most; later ones have no place in messages.

use std::fmt;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};
use rustc_hash::FxHashMap;

use crate::package::Package;

/// The most code objects, texts and numbers whose places are known.
pub(crate) const PLACES_MAX: usize = 1 << 16;

/// A place in the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The number of its object; [`NOWHERE`] for none.
    object: u32,
    /// The offset in a code object; [`WHOLE`] for other objects.
    offset: u32,
}

const NOWHERE: u32 = u32::MAX;
const WHOLE: u32 = u32::MAX;

/// The objects of all places.
#[derive(Default)]
struct Places {
    objects: Vec<Py<PyAny>>,
    /// The numbers of code objects and others, by their addresses: the objects stay.
    by_address: FxHashMap<usize, u32>,
}

static PLACES: Mutex<Option<Places>> = Mutex::new(None);

/// The numbers of texts and integers, whose types have no code of the program to compare them.
static BY_VALUE: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

impl Places {
    fn keep(&mut self, object: &Bound<'_, PyAny>) -> Option<u32> {
        if self.objects.len() >= PLACES_MAX {
            return None;
        }
        self.objects.push(object.clone().unbind());
        Some(self.objects.len() as u32 - 1)
    }

    fn number(&mut self, object: &Bound<'_, PyAny>) -> u32 {
        let address = object.as_ptr() as usize;
        if let Some(number) = self.by_address.get(&address) {
            return *number;
        }
        let Some(number) = self.keep(object) else { return NOWHERE };
        self.by_address.insert(address, number);
        number
    }
}

impl Place {
    /// No place.
    pub(crate) const NONE: Place = Place { object: NOWHERE, offset: WHOLE };

    /// The place at an offset of a code object.
    #[inline]
    pub(crate) fn at(code: &Bound<'_, PyAny>, offset: u32) -> Place {
        let mut places = PLACES.lock();
        let object = places.get_or_insert_default().number(code);
        Place { object, offset: if object == NOWHERE { WHOLE } else { offset } }
    }

    /// The place that an object of Python is: a pair of a code object and an offset, or another
    /// object.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Place> {
        if object.is_none() {
            return Ok(Place::NONE);
        }
        if let Ok(pair) = object.cast::<PyTuple>()
            && pair.len() == 2
        {
            return Ok(Place::at(&pair.get_item(0)?, pair.get_item(1)?.extract()?));
        }
        if object.is_exact_instance_of::<PyString>() || object.is_exact_instance_of::<PyInt>() {
            return Place::equal_to(object);
        }
        Ok(Place::whole(object))
    }

    /// The place of an equal object; it is kept if there is none.
    fn equal_to(object: &Bound<'_, PyAny>) -> PyResult<Place> {
        let py = object.py();
        let by_value = BY_VALUE.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
        if let Some(number) = by_value.get_item(object)? {
            return Ok(Place { object: number.extract()?, offset: WHOLE });
        }
        let Some(number) = PLACES.lock().get_or_insert_default().keep(object) else {
            return Ok(Place::NONE);
        };
        by_value.set_item(object, number)?;
        Ok(Place { object: number, offset: WHOLE })
    }

    fn whole(object: &Bound<'_, PyAny>) -> Place {
        let mut places = PLACES.lock();
        Place { object: places.get_or_insert_default().number(object), offset: WHOLE }
    }

    /// Returns the object of Python that this place was made of; nothing if it is none.
    pub(crate) fn object<'py>(self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let object = match PLACES.lock().as_ref().and_then(|places| places.objects.get(self.object as usize))
        {
            Some(object) => object.clone_ref(py).into_bound(py),
            None => return Ok(None),
        };
        match self.offset {
            WHOLE => Ok(Some(object)),
            offset => Ok(Some((object, offset).into_pyobject(py)?.into_any())),
        }
    }
}

impl fmt::Display for Place {
    /// Writes `file:line`, as the pure package does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Python::attach(|py| -> PyResult<String> {
            let Some(object) = self.object(py)? else { return Ok("?".to_owned()) };
            match object.cast::<PyTuple>() {
                Ok(pair) => {
                    Ok(Package::get(py)?.source_place.bind(py).call1(pair.clone())?.str()?.to_string())
                }
                Err(_) => Ok(object.str()?.to_string()),
            }
        });
        f.write_str(text.as_deref().unwrap_or("?"))
    }
}
