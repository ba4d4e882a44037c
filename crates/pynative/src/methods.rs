//! The functions of a session's recorder that Python calls: those of the pure package's recorder,
//! by its names and with its arguments.

use std::sync::Arc;

use bifrost_recorder::{
    Admission, Advice, Block, Ended, Heading, Iteration, Jump, Known, LastWords, Misuse, Operand, Recorded,
    Slot as Number, Structure,
};
use bifrost_wire::profile::{Cost, Subject, Totals};
use bifrost_wire::{BatchName, Ref};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::constants::Constants;
use crate::core::{Core, Recorder, admission, due, maker};
use crate::failures::{Error, closed, closed_by, error, failure, tuple};
use crate::operands::{Argument, arguments, operands};
use crate::package::Package;
use crate::places::Place;
use crate::slot::Slot;
use crate::views::{Ending, Handles, Open, UnderWay};

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

impl Core {
    /// Returns the number of a stub of this session.
    fn number(&self, stub: &Bound<'_, Slot>) -> PyResult<Number> {
        stub.get().number_in(self).ok_or_else(|| PyValueError::new_err("the stub belongs to another session"))
    }

    /// Records a command at a place, if it is admitted.
    fn record_at<'py>(
        &self,
        py: Python<'py>,
        admitted: Maybe<'_, 'py>,
        place: &Object<'py>,
        record: impl FnOnce(&mut Recorder, Admission<Place>, Place) -> Recorded<Place>,
    ) -> PyResult<Object<'py>> {
        let (admitted, place) = (admission(admitted)?, Place::of(place)?);
        let recorded = record(&mut *self.enter()?, admitted, place);
        self.recorded(py, recorded)
    }

    /// Records a command with a stub as its receiver; one of another session refuses it.
    fn with_receiver<'py>(
        slf: &Bound<'py, Self>,
        receiver: &Bound<'py, Slot>,
        admitted: Maybe<'_, 'py>,
        place: &Object<'py>,
        record: impl FnOnce(&mut Recorder, Number, Admission<Place>, Place) -> Recorded<Place>,
    ) -> PyResult<Object<'py>> {
        let core = slf.get();
        let (mut admitted, place) = (admission(admitted)?, Place::of(place)?);
        let number = match receiver.get().argument(core)? {
            Argument::Stub(number) => number,
            _ => {
                admitted = admitted.and(Err(Arc::new(Error::Misuse(Misuse::OtherSession))));
                Number(u32::MAX)
            }
        };
        let recorded = record(&mut *core.enter()?, number, admitted, place);
        core.recorded(slf.py(), recorded)
    }

    /// Makes a slot one of this session.
    fn bound<'py>(
        slf: &Bound<'py, Self>,
        slot: Bound<'py, Slot>,
        number: Number,
    ) -> PyResult<Bound<'py, Slot>> {
        slot.get().bind(slf.clone().unbind(), number)?;
        Ok(slot)
    }
}

#[pymethods]
impl Core {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.traverse(&visit)
    }

    fn __clear__(&self) {
        self.set_owner_object(None);
    }

    #[getter]
    fn owner<'py>(&self, py: Python<'py>) -> Option<Object<'py>> {
        self.owner_object(py)
    }

    #[setter]
    fn set_owner(&self, owner: Option<Py<PyAny>>) {
        self.set_owner_object(owner);
    }

    #[setter(show_place)]
    fn set_show(&self, show: Py<PyAny>) {
        self.set_show_place(show);
    }

    #[getter]
    fn numbers<'py>(&self, py: Python<'py>) -> Object<'py> {
        self.numbers_object(py)
    }

    /// True: counts of references tell if a stub is held.
    #[getter]
    fn counts(&self) -> bool {
        true
    }

    // Admission.

    #[getter]
    fn is_ready(&self) -> PyResult<bool> {
        Ok(self.enter()?.is_ready())
    }

    fn due<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        let work = self.enter()?.due();
        due(py, work.map_err(|error| self.told_shared(py, error))?)
    }

    fn refusal<'py>(&self, py: Python<'py>) -> PyResult<Option<Object<'py>>> {
        let refusal = self.enter()?.refusal();
        self.maybe(py, refusal)
    }

    // Slots.

    fn new_result<'py>(
        slf: &Bound<'py, Self>,
        slot: Bound<'py, Slot>,
        made: u64,
        place: &Object<'py>,
    ) -> PyResult<Bound<'py, Slot>> {
        let place = Place::of(place)?;
        let number = slf.get().enter()?.new_result(maker(made), place);
        Core::bound(slf, slot, number)
    }

    fn skip_result(&self, made: u64, place: &Object<'_>) -> PyResult<()> {
        let place = Place::of(place)?;
        let mut recorder = self.enter()?;
        let number = recorder.new_result(maker(made), place);
        recorder.release(number);
        Ok(())
    }

    fn new_failed<'py>(
        slf: &Bound<'py, Self>,
        slot: Bound<'py, Slot>,
        failure: &Object<'py>,
    ) -> PyResult<Bound<'py, Slot>> {
        let failed = error(failure)?;
        let number = slf.get().enter()?.new_failed(failed);
        Core::bound(slf, slot, number)
    }

    fn new_value<'py>(
        slf: &Bound<'py, Self>,
        slot: Bound<'py, Slot>,
        value: &Object<'py>,
    ) -> PyResult<Bound<'py, Slot>> {
        let value = Argument::of(value, slf.get())?;
        let number = slf.get().enter()?.new_value(value.value());
        Core::bound(slf, slot, number)
    }

    fn new_object<'py>(
        slf: &Bound<'py, Self>,
        slot: Bound<'py, Slot>,
        handle: i64,
    ) -> PyResult<Bound<'py, Slot>> {
        let number = {
            let mut recorder = slf.get().enter()?;
            if !recorder.holds(Ref(handle)) {
                return Err(PyKeyError::new_err(handle));
            }
            recorder.new_object(Ref(handle))
        };
        Core::bound(slf, slot, number)
    }

    fn failure_of<'py>(&self, py: Python<'py>, slot: &Bound<'py, Slot>) -> PyResult<Option<Object<'py>>> {
        let number = self.number(slot)?;
        let failed = match self.enter()?.known(number) {
            Known::Failed(error) => Some(error.clone()),
            _ => None,
        };
        self.maybe(py, failed)
    }

    fn is_same(&self, one: &Bound<'_, Slot>, other: &Bound<'_, Slot>) -> PyResult<bool> {
        match (one.get().number_in(self), other.get().number_in(self)) {
            (Some(one), Some(other)) => Ok(self.enter()?.is_same(one, other)),
            _ => Ok(false),
        }
    }

    /// Gives a stub up before Python does.
    fn release(&self, slot: &Bound<'_, Slot>) -> PyResult<()> {
        self.number(slot)?;
        let mut recorder = self.enter()?;
        let failed = recorder.new_failed(Arc::new(Error::Misuse(Misuse::OutOfScope)));
        let old = slot.get().replace(failed);
        recorder.release(old);
        Ok(())
    }

    /// The handles of the session.
    #[getter]
    fn handles(slf: &Bound<'_, Self>) -> Handles {
        Handles(slf.clone().unbind())
    }

    // Calls.

    fn call<'py>(
        slf: &Bound<'py, Self>,
        admitted: Maybe<'_, 'py>,
        receiver: &Bound<'py, Slot>,
        method: u32,
        operands_: &Object<'py>,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        let taken = arguments(operands_, slf.get())?;
        Core::with_receiver(slf, receiver, admitted, place, |recorder, receiver, admitted, place| {
            recorder.call(admitted, receiver, method, operands(&taken), place)
        })
    }

    fn send<'py>(
        slf: &Bound<'py, Self>,
        admitted: Maybe<'_, 'py>,
        receiver: &Bound<'py, Slot>,
        method: u32,
        operands_: &Object<'py>,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        let taken = arguments(operands_, slf.get())?;
        Core::with_receiver(slf, receiver, admitted, place, |recorder, receiver, admitted, place| {
            recorder.send(admitted, receiver, method, operands(&taken), place)
        })
    }

    fn call_routine<'py>(
        &self,
        py: Python<'py>,
        admitted: Maybe<'_, 'py>,
        stubs: &Object<'py>,
        routine: u32,
        operands_: &Object<'py>,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        let (taken, stubs) = (arguments(operands_, self)?, self.constants_of(stubs).0);
        self.record_at(py, admitted, place, |recorder, admitted, place| {
            recorder.call_routine(admitted, stubs, routine, operands(&taken), place)
        })
    }

    fn call_procedure<'py>(
        &self,
        py: Python<'py>,
        admitted: Maybe<'_, 'py>,
        procedure: u32,
        refused: Maybe<'_, 'py>,
        operands_: &Object<'py>,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        let (taken, refused) = (arguments(operands_, self)?, refused.map(error).transpose()?);
        self.record_at(py, admitted, place, |recorder, admitted, place| {
            recorder.call_procedure(admitted, procedure, refused.as_ref(), operands(&taken), place)
        })
    }

    #[allow(clippy::too_many_arguments, reason = "those of the pure package")]
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        admitted: Maybe<'_, 'py>,
        stubs: Maybe<'_, 'py>,
        name: &str,
        type_number: Option<u32>,
        type_name: &str,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        let stubs = stubs.map(|stubs| self.constants_of(stubs).0);
        self.record_at(py, admitted, place, |recorder, admitted, place| match type_number {
            Some(ty) => recorder.lookup(admitted, stubs, name, ty, type_name, place),
            None => recorder.lookup_any(admitted, name, place),
        })
    }

    fn cell<'py>(
        &self,
        py: Python<'py>,
        admitted: Maybe<'_, 'py>,
        type_number: u32,
        type_name: &str,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        self.record_at(py, admitted, place, |recorder, admitted, place| {
            recorder.cell(admitted, type_number, type_name, place)
        })
    }

    fn rows<'py>(
        &self,
        py: Python<'py>,
        admitted: Maybe<'_, 'py>,
        types: Vec<(u32, String)>,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        let types: Vec<(u32, &str)> = types.iter().map(|(ty, name)| (*ty, name.as_str())).collect();
        self.record_at(py, admitted, place, |recorder, admitted, place| {
            recorder.rows(admitted, &types, place)
        })
    }

    fn open_table<'py>(
        &self,
        py: Python<'py>,
        admitted: Maybe<'_, 'py>,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        self.record_at(py, admitted, place, |recorder, admitted, place| recorder.open_table(admitted, place))
    }

    fn set_columns(&self, types: Vec<(u32, String)>, place: &Object<'_>) -> PyResult<()> {
        let place = Place::of(place)?;
        let types: Vec<(u32, &str)> = types.iter().map(|(ty, name)| (*ty, name.as_str())).collect();
        self.enter()?.set_columns(&types, place);
        Ok(())
    }

    fn emit<'py>(
        slf: &Bound<'py, Self>,
        admitted: Maybe<'_, 'py>,
        rows: &Bound<'py, Slot>,
        cells: &Object<'py>,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        let taken = arguments(cells, slf.get())?;
        Core::with_receiver(slf, rows, admitted, place, |recorder, rows, admitted, place| {
            recorder.emit(admitted, rows, operands(&taken), place)
        })
    }

    fn cast<'py>(
        slf: &Bound<'py, Self>,
        admitted: Maybe<'_, 'py>,
        target: &Bound<'py, Slot>,
        type_number: u32,
        type_name: &str,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        Core::with_receiver(slf, target, admitted, place, |recorder, target, admitted, place| {
            recorder.cast(admitted, target, (type_number, type_name), place)
        })
    }

    fn test_type<'py>(
        slf: &Bound<'py, Self>,
        admitted: Maybe<'_, 'py>,
        target: &Bound<'py, Slot>,
        type_number: u32,
        type_name: &str,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        Core::with_receiver(slf, target, admitted, place, |recorder, target, admitted, place| {
            recorder.test_type(admitted, target, (type_number, type_name), place)
        })
    }

    fn get<'py>(
        slf: &Bound<'py, Self>,
        admitted: Maybe<'_, 'py>,
        target: &Bound<'py, Slot>,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        Core::with_receiver(slf, target, admitted, place, |recorder, target, admitted, place| {
            recorder.get(admitted, target, place)
        })
    }

    // Structures.

    #[getter]
    fn depth(&self) -> PyResult<usize> {
        Ok(self.enter()?.depth())
    }

    /// The open structures, outermost first.
    #[getter]
    fn scopes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let open: Vec<Open> = self.enter()?.open_structures().map(|kind| Open { kind }).collect();
        PyTuple::new(py, open)
    }

    fn open(&self, admitted: Maybe<'_, '_>, kind: &str, place: &Object<'_>) -> PyResult<()> {
        let (place, admitted) = (Place::of(place)?, admission(admitted)?);
        let structure = match kind {
            "while" => Structure::While,
            "if" => Structure::If,
            "except" => Structure::Except,
            other => return Err(PyValueError::new_err(format!("`{other}` is no structure"))),
        };
        self.enter()?.open(admitted, structure, place);
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "those of the pure package")]
    fn foreach<'py>(
        &self,
        py: Python<'py>,
        admitted: Maybe<'_, 'py>,
        receiver: Maybe<'_, 'py>,
        iterator: u32,
        stubs: Maybe<'_, 'py>,
        operands_: &Object<'py>,
        place: &Object<'py>,
        call_place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        let (taken, admitted) = (arguments(operands_, self)?, admission(admitted)?);
        let (place, call_place) = (Place::of(place)?, Place::of(call_place)?);
        let receiver = receiver.map(|receiver| Argument::of(receiver, self)).transpose()?;
        let stubs = stubs.map(|stubs| self.constants_of(stubs));
        let mut recorder = self.enter()?;
        // The recorder keeps no operand beyond the call: a value is made a stub for it.
        let mut made = None;
        let iteration = match (&receiver, stubs) {
            (Some(Argument::Stub(number)), _) => {
                Iteration::Method { receiver: Operand::Stub(*number), method: iterator }
            }
            (Some(Argument::Foreign), _) => {
                Iteration::Method { receiver: Operand::Foreign, method: iterator }
            }
            (Some(value), _) => {
                let number = recorder.new_value(value.value());
                made = Some(number);
                Iteration::Method { receiver: Operand::Stub(number), method: iterator }
            }
            (None, Some(stubs)) => Iteration::Routine { stubs: stubs.0, routine: iterator },
            (None, None) => Iteration::Foreign { routine: iterator },
        };
        let recorded = recorder.foreach(admitted, iteration, operands(&taken), place, call_place);
        if let Some(number) = made {
            recorder.release(number);
        }
        drop(recorder);
        self.recorded(py, recorded)
    }

    fn condition(&self, test: &Object<'_>, place: &Object<'_>) -> PyResult<()> {
        let (test, place) = (Argument::of(test, self)?, Place::of(place)?);
        self.enter()?.condition(test.operand(), place);
        Ok(())
    }

    fn jump(&self, name: &str, place: &Object<'_>) -> PyResult<()> {
        let place = Place::of(place)?;
        let jump = if name == "break" { Jump::Break } else { Jump::Continue };
        self.enter()?.jump(jump, place);
        Ok(())
    }

    fn variable<'py>(
        slf: &Bound<'py, Self>,
        slot: Bound<'py, Slot>,
        place: &Object<'py>,
    ) -> PyResult<Bound<'py, Slot>> {
        let place = Place::of(place)?;
        let number = slf.get().enter()?.variable(place);
        Core::bound(slf, slot, number)
    }

    fn end(&self) -> PyResult<Ending> {
        Ok(Ending(self.enter()?.end()))
    }

    fn reopen(&self, ended: &Object<'_>, block: &Object<'_>, place: &Object<'_>) -> PyResult<()> {
        let py = block.py();
        let (package, place) = (Package::get(py)?, Place::of(place)?);
        // Another object stands for no structure.
        let ended = ended.cast::<Ending>().map_or(Ended::NONE, |ended| ended.get().0);
        if block.is_instance(package.else_block.bind(py))? {
            self.enter()?.reopen(ended, Block::Else, place);
        } else if block.is_instance(package.when_block.bind(py))? {
            let name: String = block.getattr(intern!(py, "name"))?.extract()?;
            let values: Vec<u32> = block.getattr(intern!(py, "values"))?.extract()?;
            self.enter()?.reopen(ended, Block::When { name: &name, values: &values }, place);
        } else {
            let named: bool = block.getattr(intern!(py, "named"))?.extract()?;
            self.enter()?.reopen(ended, Block::Others { named }, place);
        }
        Ok(())
    }

    fn abandon(&self) -> PyResult<()> {
        self.enter()?.abandon();
        Ok(())
    }

    // Procedures.

    fn open_procedure(
        &self,
        admitted: Maybe<'_, '_>,
        name: &str,
        heading: &Object<'_>,
        place: &Object<'_>,
    ) -> PyResult<u32> {
        let (admitted, heading, place) = (admission(admitted)?, heading_of(heading)?, Place::of(place)?);
        Ok(self.enter()?.open_procedure(admitted, name, heading, place))
    }

    fn close_procedure<'py>(&self, py: Python<'py>) -> PyResult<Option<Object<'py>>> {
        let refused = self.enter()?.close_procedure();
        self.maybe(py, refused)
    }

    fn find_procedure(&self, name: &str, heading: &Object<'_>) -> PyResult<Option<u32>> {
        let heading = heading_of(heading)?;
        Ok(self.enter()?.find_procedure(name, &heading))
    }

    fn return_(&self, value: Maybe<'_, '_>, place: &Object<'_>) -> PyResult<()> {
        let value = value.map(|value| Argument::of(value, self)).transpose()?;
        let place = Place::of(place)?;
        self.enter()?.return_(value.as_ref().map(Argument::operand), place);
        Ok(())
    }

    // Bytes.

    #[getter]
    fn has_flushed_bytes(&self) -> PyResult<bool> {
        Ok(!self.enter()?.flushed_bytes().is_empty())
    }

    #[getter]
    fn has_bytes(&self) -> PyResult<bool> {
        Ok(!self.enter()?.bytes_to_send().is_empty())
    }

    #[pyo3(signature = (flushed=false))]
    fn take_bytes<'py>(&self, py: Python<'py>, flushed: bool) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = {
            let mut recorder = self.enter()?;
            let bytes = match flushed {
                true => recorder.flushed_bytes().to_vec(),
                false => recorder.bytes_to_send().to_vec(),
            };
            recorder.sent(bytes.len());
            bytes
        };
        Ok(PyBytes::new(py, &bytes))
    }

    fn handle_bytes(&self, py: Python<'_>, data: &[u8]) -> PyResult<bool> {
        self.handle(py, data)
    }

    fn handle_last_bytes<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Object<'py>> {
        let words = self.enter()?.handle_last_bytes(data);
        match words {
            LastWords::Reason(why) => closed(py, &why),
            LastWords::Unfinished => Ok(true.into_pyobject(py)?.to_owned().into_any()),
            LastWords::None => Ok(false.into_pyobject(py)?.to_owned().into_any()),
        }
    }

    // The end of a session.

    fn close<'py>(&self, py: Python<'py>, why: &Object<'py>) -> PyResult<Object<'py>> {
        let why = closed_by(why)?;
        let error = self.enter()?.close(why);
        self.failure(py, &Arc::new(error))
    }

    /// Gives all stubs up.
    fn end_work(&self, py: Python<'_>) -> PyResult<()> {
        let why = closed_by(&Package::get(py)?.given_back.bind(py).call0()?)?;
        self.enter()?.end_work(why);
        Ok(())
    }

    /// Ends the recorder, and returns the one that goes on with the session.
    fn succeed(&self, py: Python<'_>) -> PyResult<Core> {
        let why = closed_by(&Package::get(py)?.given_back.bind(py).call0()?)?;
        let recorder = self.enter()?.succeed(why);
        Ok(self.followed_by(py, recorder))
    }

    #[getter]
    fn is_closed(&self) -> PyResult<bool> {
        Ok(self.enter()?.is_closed())
    }

    #[getter]
    fn broken<'py>(&self, py: Python<'py>) -> PyResult<Option<Object<'py>>> {
        let error = self.enter()?.closed().cloned();
        self.maybe(py, error)
    }

    fn leave(&self) -> PyResult<bool> {
        Ok(self.enter()?.leave())
    }

    // Flushing.

    #[getter]
    fn is_under_way(&self) -> PyResult<bool> {
        Ok(self.enter()?.is_under_way())
    }

    /// The batches under way, oldest first.
    #[getter]
    fn under_way<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (number, count) = {
            let recorder = self.enter()?;
            (recorder.batch_number(), recorder.batches_under_way() as u64)
        };
        PyTuple::new(py, (number - count..number).map(|number| UnderWay { number }).collect::<Vec<_>>())
    }

    #[getter]
    fn batch_number(&self) -> PyResult<u64> {
        Ok(self.enter()?.batch_number())
    }

    fn is_unanswered(&self, batch: u64) -> PyResult<bool> {
        Ok(self.enter()?.is_unanswered(batch))
    }

    #[getter]
    fn is_crowded(&self) -> PyResult<bool> {
        Ok(self.enter()?.is_crowded())
    }

    #[getter]
    fn wait_ms(&self) -> PyResult<u64> {
        Ok(self.enter()?.wait_ms())
    }

    #[getter]
    fn is_idle(&self) -> PyResult<bool> {
        Ok(self.enter()?.is_idle())
    }

    fn begin_flush(&self, py: Python<'_>, kept: bool) -> PyResult<bool> {
        self.begin(py, |recorder| recorder.begin_flush(kept))
    }

    fn begin_flush_for(&self, py: Python<'_>, name: &str, kept: bool, place: &Object<'_>) -> PyResult<bool> {
        let place = Place::of(place)?;
        self.begin(py, |recorder| recorder.begin_flush_for(name, kept, place))
    }

    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        let counters = self.enter()?.counters();
        let counts = (counters.crossings, counters.calls, counters.executed);
        Package::get(py)?.counters.bind(py).call1(counts)
    }

    // Failures.

    #[getter]
    fn is_all_told(&self) -> PyResult<bool> {
        Ok(self.enter()?.is_all_told())
    }

    fn surface(&self, py: Python<'_>, refused: bool) -> PyResult<()> {
        let surfaced = self.enter()?.surface(refused);
        surfaced.map_err(|error| self.told(py, error))
    }

    fn tell(&self, failure: &Object<'_>) -> PyResult<()> {
        let told = error(failure)?;
        self.enter()?.tell(&told);
        Ok(())
    }

    /// The order of the next failure.
    #[getter]
    fn order(&self) -> PyResult<u64> {
        Ok(self.enter()?.mark_seen())
    }

    fn tell_since(&self, mark: u64) -> PyResult<()> {
        self.enter()?.tell_since(mark);
        Ok(())
    }

    fn exceptions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let history = self.enter()?.exceptions().to_vec();
        let entry = Package::get(py)?.history_entry.bind(py);
        let list = PyList::empty(py);
        for exception in history {
            list.append(entry.call1((exception.batch, self.failure(py, &exception.error)?))?)?;
        }
        Ok(list)
    }

    #[getter]
    fn history_omitted(&self) -> PyResult<u64> {
        Ok(self.enter()?.exceptions_omitted())
    }

    fn clear_exceptions(&self, place: &Object<'_>) -> PyResult<bool> {
        let place = Place::of(place)?;
        Ok(self.enter()?.clear_exceptions(place))
    }

    fn clear_server(&self, admitted: Maybe<'_, '_>) -> PyResult<()> {
        let admitted = admission(admitted)?;
        self.enter()?.clear_server(admitted);
        Ok(())
    }

    // Explanations and profiles.

    fn note_claim(&self, slot: &Bound<'_, Slot>) -> PyResult<()> {
        let number = self.number(slot)?;
        self.enter()?.note_claim(number);
        Ok(())
    }

    fn explain(&self) -> PyResult<String> {
        Ok(self.enter()?.explain())
    }

    fn explain_last(&self) -> PyResult<Option<String>> {
        Ok(self.enter()?.explain_last())
    }

    fn explain_batches(&self) -> PyResult<Vec<String>> {
        let mut recorder = self.enter()?;
        let accounts: Vec<_> = recorder.accounts().copied().collect();
        Ok(accounts.iter().map(|account| recorder.account_line(account)).collect())
    }

    fn advice<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let found = self.enter()?.advice();
        let class = py.import("bifrost_veneer.recorder.explained")?.getattr("Advice")?;
        let list = PyList::empty(py);
        for advice in found {
            let text = advice.to_string();
            let (kind, call, place, times, first) = match advice {
                Advice::ClaimAgain { place, call, batches, .. } => {
                    ("claim_again", call, place, batches, None)
                }
                Advice::ClaimsApart { first, second, call } => ("claims_apart", call, second, 1, Some(first)),
                Advice::Repeated { place, call, times } => ("repeated", call, place, times as usize, None),
            };
            let place = self.shown().place(py, place)?;
            let first = first.map(|first| self.shown().place(py, first)).transpose()?.flatten();
            list.append(class.call1((kind, &*call, place, times, first, text))?)?;
        }
        Ok(list)
    }

    fn profile_due(&self, py: Python<'_>, on: bool) -> PyResult<bool> {
        let due = self.enter()?.profile_due(on);
        due.map_err(|error| self.told(py, error))
    }

    fn profile(&self, py: Python<'_>, admitted: Maybe<'_, '_>, on: bool) -> PyResult<()> {
        let admitted = admission(admitted)?;
        let done = self.enter()?.profile(admitted, on);
        done.map_err(|error| self.told(py, error))
    }

    #[getter]
    fn profile_of_last<'py>(&self, py: Python<'py>) -> PyResult<Option<Object<'py>>> {
        let Some(profile) = self.enter()?.profile_of_last().cloned() else { return Ok(None) };
        let decode = py.import("bifrost_veneer.recorder.decode")?;
        let (cost_of, entry_of) = (decode.getattr("Cost")?, decode.getattr("ProfileEntry")?);
        let cost = |cost: &Cost| {
            cost_of.call1((cost.nanoseconds, cost.calls, cost.fuel, cost.fetches, cost.objects))
        };
        let entries = PyList::empty(py);
        for entry in &profile.entries {
            let is_structure = entry.subject == Subject::Structure;
            entries.append(entry_of.call1((entry.call, is_structure, cost(&entry.cost)?))?)?;
        }
        let Totals { nanoseconds, fetches, objects, runs } = profile.totals;
        let omitted = profile.rest.map_or(0, |rest| rest.omitted);
        let rest = profile.rest.map(|rest| cost(&rest.cost)).transpose()?;
        let parts = (nanoseconds, fetches, objects, runs, entries, omitted, rest);
        decode.getattr("Profile")?.call1(parts).map(Some)
    }

    // Transactions.

    fn commit_due<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        let work = self.enter()?.commit_due();
        due(py, work.map_err(|error| self.told_shared(py, error))?)
    }

    fn commit<'py>(
        &self,
        py: Python<'py>,
        admitted: Maybe<'_, 'py>,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        self.record_at(py, admitted, place, |recorder, admitted, place| recorder.commit(admitted, place))
    }

    fn abort<'py>(
        &self,
        py: Python<'py>,
        admitted: Maybe<'_, 'py>,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        self.record_at(py, admitted, place, |recorder, admitted, place| recorder.abort(admitted, place))
    }

    fn wait<'py>(
        &self,
        py: Python<'py>,
        admitted: Maybe<'_, 'py>,
        ms: u32,
        place: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        self.record_at(py, admitted, place, |recorder, admitted, place| recorder.wait(admitted, ms, place))
    }

    #[getter]
    fn transaction_ends(&self) -> PyResult<u64> {
        Ok(self.enter()?.transaction_ends())
    }

    fn take_batch_end<'py>(&self, py: Python<'py>) -> PyResult<Option<Object<'py>>> {
        let end = self.enter()?.take_batch_end();
        self.maybe(py, end)
    }

    /// True while a batch that is a transaction is recorded.
    #[getter]
    fn shipping(&self) -> PyResult<bool> {
        Ok(self.enter()?.is_shipping())
    }

    fn begin_transaction<'py>(
        slf: &Bound<'py, Self>,
        slot: Bound<'py, Slot>,
        tries: u16,
        batch: Option<(u128, u64)>,
        place: &Object<'py>,
    ) -> PyResult<Bound<'py, Slot>> {
        let place = Place::of(place)?;
        let batch = batch.map(|(client, number)| BatchName { client, number });
        let begun = slf.get().enter()?.begin_transaction(tries, batch, place);
        let number = begun.map_err(|error| slf.get().told(slf.py(), error))?;
        Core::bound(slf, slot, number)
    }

    fn end_transaction_batch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let refusals = self.enter()?.end_transaction_batch();
        tuple(py, self.shown(), &refusals)
    }

    fn abandon_transaction(&self) -> PyResult<()> {
        self.enter()?.abandon_transaction();
        Ok(())
    }

    fn tell_transaction(&self) -> PyResult<()> {
        self.enter()?.tell_transaction();
        Ok(())
    }

    fn finish_transaction<'py>(
        &self,
        py: Python<'py>,
        done: Maybe<'_, 'py>,
        refusals: &Bound<'py, PyTuple>,
        place: &Object<'py>,
    ) -> PyResult<Option<Object<'py>>> {
        let done = done.map(error).transpose()?;
        let refusals: PyResult<Vec<Arc<Error>>> = refusals.iter().map(|refusal| error(&refusal)).collect();
        let (refusals, place) = (refusals?, Place::of(place)?);
        // Its own failure is told as the object that it is.
        let alone = refusals.is_empty();
        let outcome = match &done {
            None => Ok(()),
            Some(error) => Err((**error).clone()),
        };
        let finished = self.enter()?.finish_transaction(outcome, refusals, place);
        match (finished, done) {
            (Ok(()), _) => Ok(None),
            (Err(_), Some(error)) if alone => failure(py, self.shown(), &error).map(Some),
            (Err(error), _) => failure(py, self.shown(), &Arc::new(error)).map(Some),
        }
    }
}

impl Core {
    /// Returns the constants of stubs: those of the session, or others for which a call is refused.
    fn constants_of(&self, stubs: &Bound<'_, PyAny>) -> Constants {
        if self.has_stubs(stubs) { self.constants } else { Constants::OTHER }
    }
}

fn heading_of(heading: &Bound<'_, PyAny>) -> PyResult<Heading> {
    let py = heading.py();
    Ok(Heading {
        params: heading.getattr(intern!(py, "params"))?.extract()?,
        result: heading.getattr(intern!(py, "result"))?.extract()?,
    })
}
