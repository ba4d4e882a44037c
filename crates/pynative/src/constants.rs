//! The constants of generated stubs, as the recorder has them: they stay for as long as the process
//! lives, once for each interface.

use bifrost_recorder::{BasicNumbers, BuiltinNumbers, CellNumbers, Stubs};
use bifrost_wire::{Digest, builtin, operator};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The constants of all interfaces that sessions were opened for.
static ALL: Mutex<Vec<&'static Stubs>> = Mutex::new(Vec::new());

/// The constants of one interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constants(pub(crate) &'static Stubs);

type Cell = (u32, u32, u32, u32);

fn cell((ty, put, full, get): Cell) -> CellNumbers {
    CellNumbers { ty, put, full, get }
}

impl Constants {
    /// Returns the constants of the stubs of the pure package.
    pub(crate) fn of(stubs: &Bound<'_, PyAny>, json: &str) -> PyResult<Constants> {
        let digest: Vec<u8> = stubs.getattr("digest")?.extract()?;
        let digest = Digest::try_from(digest)
            .map_err(|_| PyValueError::new_err("the digest of an interface has 32 bytes"))?;
        let basic: Vec<(u32, Cell)> = stubs.getattr("basic")?.extract()?;
        let builtins: Vec<(u32, Cell, u32)> = stubs.getattr("builtin")?.extract()?;
        let numbers: Vec<u32> = stubs.getattr("operators")?.extract()?;
        let mut made = Stubs {
            digest,
            json: "",
            basic: [(u32::MAX, CellNumbers::NONE); 6],
            builtin: [BuiltinNumbers::NONE; builtin::COUNT],
            operators: [u32::MAX; operator::COUNT],
        };
        for (place, (ty, numbers)) in made.basic.iter_mut().zip(basic) {
            *place = BasicNumbers::from((ty, cell(numbers)));
        }
        for (place, (ty, numbers, first)) in made.builtin.iter_mut().zip(builtins) {
            *place = BuiltinNumbers { ty, cell: cell(numbers), first };
        }
        for (place, number) in made.operators.iter_mut().zip(numbers) {
            *place = number;
        }
        let mut all = ALL.lock();
        let same = |known: &&&Stubs| {
            known.digest == made.digest
                && known.json == json
                && known.basic == made.basic
                && known.builtin == made.builtin
                && known.operators == made.operators
        };
        if let Some(known) = all.iter().find(same) {
            return Ok(Constants(known));
        }
        made.json = Box::leak(json.into());
        let made: &'static Stubs = Box::leak(Box::new(made));
        all.push(made);
        Ok(Constants(made))
    }
}

impl Constants {
    /// The constants of no session.
    pub(crate) const OTHER: Constants = Constants(&OTHER);
}

static OTHER: Stubs = Stubs {
    digest: [0; 32],
    json: "",
    basic: [(u32::MAX, CellNumbers::NONE); 6],
    builtin: [BuiltinNumbers::NONE; builtin::COUNT],
    operators: [u32::MAX; operator::COUNT],
};
