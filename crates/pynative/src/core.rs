//! The recorder of a session, with the names that the pure package's recorder has.
//!
//! [`Core`] is the type to read first. It is entered for the time of one function of
//! `bifrost_recorder`, in which no code of Python is run but that which writes a place: arguments
//! are taken apart before, and objects are made behind. A stub that Python drops while the
//! recorder is entered is released by the next function.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bifrost_recorder::{Admission, Due, Maker, Recorded, Slot as Number};
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::constants::Constants;
use crate::failures::{Error, error, failure, told};
use crate::operands::{Arguments, operands};
use crate::package::Package;
use crate::places::Place;

pub(crate) type Recorder = bifrost_recorder::Recorder<Place>;

/// The function that turns a place into the object that messages have.
#[derive(Default)]
pub(crate) struct Shown(Mutex<Option<Py<PyAny>>>);

impl Shown {
    /// Returns the object that messages have for a place; nothing if the place is not known.
    pub(crate) fn place<'py>(&self, py: Python<'py>, place: Place) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(object) = place.object(py)? else { return Ok(None) };
        let show = self.0.lock().as_ref().map(|show| show.clone_ref(py));
        match show {
            Some(show) => show.bind(py).call1((object,)).map(Some),
            None => Ok(Some(object)),
        }
    }
}

/// The recorder of one session.
#[pyclass(frozen, weakref, module = "bifrost_native")]
pub(crate) struct Core {
    recorder: Mutex<Recorder>,
    /// Slots of stubs that were dropped while the recorder was entered.
    dropped: Mutex<Vec<Number>>,
    has_dropped: AtomicBool,
    /// The times at which the batches under way were sent.
    begun: Mutex<VecDeque<Instant>>,
    /// The session.
    owner: Mutex<Option<Py<PyAny>>>,
    shown: Shown,
    /// The `Numbers` of the pure package, and the stubs among them.
    numbers: Py<PyAny>,
    stubs: Py<PyAny>,
    pub(crate) constants: Constants,
}

/// Makers of futures as the pure package has them: a method is its number, others have a kind
/// above.
const KIND_BITS: u32 = 32;

fn number_of(made: Maker) -> u64 {
    let kind = |kind: u64, number: u32| kind << KIND_BITS | u64::from(number);
    match made {
        Maker::Method(number) => u64::from(number),
        Maker::Routine(number) => kind(1, number),
        Maker::Procedure(number) => kind(2, number),
        Maker::Commit(number) => kind(3, number),
        Maker::Abort(number) => kind(4, number),
        Maker::Lookup => kind(5, 0),
        Maker::Constant => kind(6, 0),
        Maker::Cell => kind(7, 0),
        Maker::Rows => kind(8, 0),
        Maker::Emit => kind(9, 0),
        Maker::As => kind(10, 0),
        Maker::Is => kind(11, 0),
        Maker::Get => kind(12, 0),
        Maker::Variable => kind(13, 0),
        Maker::Transaction => kind(14, 0),
        Maker::Wait => kind(15, 0),
        Maker::Refused => kind(16, 0),
        Maker::Module(number) => kind(17, number),
    }
}

/// Returns the maker of a number.
pub(crate) fn maker(number: u64) -> Maker {
    let low = number as u32;
    match number >> KIND_BITS {
        0 => Maker::Method(low),
        1 => Maker::Routine(low),
        2 => Maker::Procedure(low),
        3 => Maker::Commit(low),
        4 => Maker::Abort(low),
        5 => Maker::Lookup,
        6 => Maker::Constant,
        7 => Maker::Cell,
        8 => Maker::Rows,
        9 => Maker::Emit,
        10 => Maker::As,
        11 => Maker::Is,
        12 => Maker::Get,
        13 => Maker::Variable,
        14 => Maker::Transaction,
        15 => Maker::Wait,
        17 => Maker::Module(low),
        _ => Maker::Refused,
    }
}

static FRAME: PyOnceLock<(Py<PyAny>, Py<PyTuple>)> = PyOnceLock::new();

impl Core {
    pub(crate) fn new(
        recorder: Recorder,
        numbers: Py<PyAny>,
        stubs: Py<PyAny>,
        constants: Constants,
    ) -> Core {
        Core {
            recorder: Mutex::new(recorder),
            dropped: Mutex::new(Vec::new()),
            has_dropped: AtomicBool::new(false),
            begun: Mutex::default(),
            owner: Mutex::new(None),
            shown: Shown::default(),
            numbers,
            stubs,
            constants,
        }
    }

    /// Returns the recorder that goes on with the session.
    pub(crate) fn followed_by(&self, py: Python<'_>, recorder: Recorder) -> Core {
        let (numbers, stubs) = (self.numbers.clone_ref(py), self.stubs.clone_ref(py));
        Core::new(recorder, numbers, stubs, self.constants)
    }

    /// Enters the recorder.
    ///
    /// # Errors
    /// Another thread is in it.
    #[inline]
    pub(crate) fn enter(&self) -> PyResult<MutexGuard<'_, Recorder>> {
        let Some(mut recorder) = self.recorder.try_lock() else {
            return Err(PyRuntimeError::new_err("a session belongs to the thread that has opened it"));
        };
        if self.has_dropped.load(Ordering::Relaxed) {
            self.has_dropped.store(false, Ordering::Relaxed);
            let dropped = std::mem::take(&mut *self.dropped.lock());
            dropped.into_iter().for_each(|number| recorder.release(number));
        }
        Ok(recorder)
    }

    /// Releases the slot of a stub that Python has dropped.
    #[inline]
    pub(crate) fn release_number(&self, number: Number) {
        match self.recorder.try_lock() {
            Some(mut recorder) => recorder.release(number),
            None => {
                self.dropped.lock().push(number);
                self.has_dropped.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Takes the bytes of flushed batches, and the time that these may wait for changes of others.
    pub(crate) fn take_flushed(&self) -> PyResult<(Vec<u8>, Duration)> {
        let mut recorder = self.enter()?;
        let bytes = recorder.flushed_bytes().to_vec();
        recorder.sent(bytes.len());
        Ok((bytes, Duration::from_millis(recorder.wait_ms())))
    }

    /// Takes bytes of the server. True if a batch was answered with them.
    pub(crate) fn handle(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<bool> {
        let mut recorder = self.enter()?;
        let answered = recorder.handle_bytes(bytes);
        if let Ok(true) = answered
            && let Some(begun) = self.begun.lock().pop_front()
        {
            recorder.took(begun.elapsed());
        }
        drop(recorder);
        answered.map_err(|error| self.told(py, error))
    }

    /// Ends the batch as the function does. True if it is under way then.
    pub(crate) fn begin(
        &self,
        py: Python<'_>,
        begin: impl FnOnce(&mut Recorder) -> Result<bool, Error>,
    ) -> PyResult<bool> {
        let begun = begin(&mut *self.enter()?);
        if let Ok(true) = begun {
            self.begun.lock().push_back(Instant::now());
        }
        begun.map_err(|error| self.told(py, error))
    }

    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Returns the place of the program's call: that of the frame above the one of Python that has
    /// called.
    #[inline]
    pub(crate) fn place_above(&self, py: Python<'_>) -> PyResult<Place> {
        let (get_frame, depth) = FRAME.get_or_try_init(py, || -> PyResult<_> {
            let get_frame = py.import("sys")?.getattr("_getframe")?.unbind();
            Ok((get_frame, PyTuple::new(py, [1])?.unbind()))
        })?;
        let frame = get_frame.bind(py).call1(depth.bind(py))?;
        let code = frame.getattr(intern!(py, "f_code"))?;
        let offset = frame.getattr(intern!(py, "f_lasti"))?.extract::<i64>()?;
        Ok(Place::at(&code, offset as u32))
    }

    /// Returns the failure of the recorder as an exception.
    pub(crate) fn told(&self, py: Python<'_>, error: Error) -> PyErr {
        told(py, &self.shown, Arc::new(error))
    }

    pub(crate) fn told_shared(&self, py: Python<'_>, error: Arc<Error>) -> PyErr {
        told(py, &self.shown, error)
    }

    pub(crate) fn failure<'py>(&self, py: Python<'py>, error: &Arc<Error>) -> PyResult<Bound<'py, PyAny>> {
        failure(py, &self.shown, error)
    }

    /// Returns a failure, or None.
    pub(crate) fn maybe<'py>(
        &self,
        py: Python<'py>,
        error: Option<Arc<Error>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        error.map(|error| self.failure(py, &error)).transpose()
    }

    /// Returns the outcome of recording a call: the number of its maker, or the failure.
    pub(crate) fn recorded<'py>(
        &self,
        py: Python<'py>,
        recorded: Recorded<Place>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match recorded {
            Ok(made) => Ok(number_of(made).into_pyobject(py)?.into_any()),
            Err(error) => self.failure(py, &error),
        }
    }

    /// True if these are the stubs of the session.
    pub(crate) fn has_stubs(&self, stubs: &Bound<'_, PyAny>) -> bool {
        stubs.is(&self.stubs)
    }

    pub(crate) fn numbers_object<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.numbers.clone_ref(py).into_bound(py)
    }

    pub(crate) fn owner_object<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.owner.lock().as_ref().map(|owner| owner.clone_ref(py).into_bound(py))
    }

    pub(crate) fn set_owner_object(&self, owner: Option<Py<PyAny>>) {
        let old = std::mem::replace(&mut *self.owner.lock(), owner);
        drop(old);
    }

    pub(crate) fn set_show_place(&self, show: Py<PyAny>) {
        let old = self.shown.0.lock().replace(show);
        drop(old);
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.numbers)?;
        visit.call(&self.stubs)?;
        if let Some(owner) = self.owner.try_lock() {
            visit.call(&*owner)?;
        }
        if let Some(show) = self.shown.0.try_lock() {
            visit.call(&*show)?;
        }
        Ok(())
    }

    /// Records a call of a method, and returns the slot of its result.
    #[inline]
    pub(crate) fn record(
        &self,
        py: Python<'_>,
        receiver: Number,
        method: u32,
        arguments: &Arguments,
        place: Place,
    ) -> PyResult<Number> {
        let mut recorder = self.enter()?;
        let mut admitted = Ok(());
        if !recorder.is_ready() {
            drop(recorder);
            admitted = self.admit(py)?;
            recorder = self.enter()?;
        }
        Ok(match recorder.call(admitted, receiver, method, operands(arguments), place) {
            Ok(made) => recorder.new_result(made, place),
            Err(error) => recorder.new_failed(error),
        })
    }

    /// Has the session do the work that is due before the next command.
    #[cold]
    fn admit(&self, py: Python<'_>) -> PyResult<Admission<Place>> {
        match self.owner_object(py) {
            Some(owner) => {
                let admitted = owner.call_method0(intern!(py, "_admit"))?;
                admission((!admitted.is_none()).then_some(&admitted))
            }
            None => Ok(Ok(())),
        }
    }
}

/// Returns the permission that a session has got.
pub(crate) fn admission(admitted: Option<&Bound<'_, PyAny>>) -> PyResult<Admission<Place>> {
    Ok(match admitted {
        None => Ok(()),
        Some(refusal) => Err(error(refusal)?),
    })
}

/// Returns the work that is due, as the pure package has it.
pub(crate) fn due(py: Python<'_>, due: Due) -> PyResult<Bound<'_, PyAny>> {
    let name = match due {
        Due::Nothing => intern!(py, "NOTHING"),
        Due::Send => intern!(py, "SEND"),
        Due::Flush => intern!(py, "FLUSH"),
    };
    Package::get(py)?.due.bind(py).getattr(name)
}
