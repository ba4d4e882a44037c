//! The constants of a generated header, and their form for the recorder.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bifrost_recorder::{BasicNumbers, BuiltinNumbers, CellNumbers, Stubs};
use bifrost_wire::{builtin, operator};

use crate::abi::{self, Chars};

/// The number of basic types: null, bool, int, real, char and string.
pub const BASIC_TYPES: usize = 6;

/// The number of built-in types: any, directory and bytes.
pub const BUILTIN_TYPES: usize = 3;

/// The number of operators.
pub const OPERATORS: usize = 36;

const _: () = assert!(BUILTIN_TYPES == builtin::COUNT && OPERATORS == operator::COUNT);

/// The numbers of a basic type.
#[repr(C)]
#[derive(Debug)]
pub struct Basic {
    /// The type.
    pub ty: u32,
    /// Its cells.
    pub cell: abi::CellNumbers,
}

/// The numbers of a built-in type.
#[repr(C)]
#[derive(Debug)]
pub struct Builtin {
    /// The type; `UINT32_MAX` if the interface lacks it.
    pub ty: u32,
    /// Its cells.
    pub cell: abi::CellNumbers,
    /// Its first method; the others follow.
    pub first: u32,
}

/// The interface that a header was generated from.
#[repr(C)]
#[derive(Debug)]
pub struct Interface {
    /// Its digest.
    pub digest: [u8; 32],
    /// Its description, in lines.
    json: *const Chars,
    /// The number of lines.
    json_lines: usize,
    /// The basic types.
    pub basic: [Basic; BASIC_TYPES],
    /// The built-in types.
    pub builtin: [Builtin; BUILTIN_TYPES],
    /// The methods behind operators, in the order of `bf_operator`.
    pub operators: [u32; OPERATORS],
}

impl Interface {
    fn lines(&self) -> &[Chars] {
        if self.json.is_null() || self.json_lines == 0 {
            return &[];
        }
        // SAFETY: so many lines are there (the header).
        unsafe { std::slice::from_raw_parts(self.json, self.json_lines) }
    }

    /// Returns the constants for the recorder. They are made once for each digest, and live as long
    /// as the process: a program has few interfaces.
    pub(crate) fn stubs(&self) -> &'static Stubs {
        static KNOWN: Mutex<Option<HashMap<[u8; 32], &'static Stubs>>> = Mutex::new(None);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_default().entry(self.digest).or_insert_with(|| Box::leak(Box::new(self.read())))
    }

    fn read(&self) -> Stubs {
        let mut json = String::new();
        for line in self.lines() {
            json.push_str(line.get().unwrap_or_default());
            json.push('\n');
        }
        Stubs {
            digest: self.digest,
            json: Box::leak(json.into_boxed_str()),
            basic: std::array::from_fn(|i| self.basic.get(i).map_or((u32::MAX, CellNumbers::NONE), basic)),
            builtin: std::array::from_fn(|i| self.builtin.get(i).map_or(BuiltinNumbers::NONE, built_in)),
            operators: self.operators,
        }
    }
}

fn basic(row: &Basic) -> BasicNumbers {
    (row.ty, cell(row.cell))
}

fn built_in(row: &Builtin) -> BuiltinNumbers {
    BuiltinNumbers { ty: row.ty, cell: cell(row.cell), first: row.first }
}

/// Returns the numbers of cells for the recorder.
pub(crate) fn cell(numbers: abi::CellNumbers) -> CellNumbers {
    let abi::CellNumbers { ty, put, full, get } = numbers;
    CellNumbers { ty, put, full, get }
}
