//! Tables whose columns are told later are those whose columns are known.

use std::sync::Arc;

use bifrost_recorder::{
    BuiltinNumbers, CellNumbers, Error, Greeting, Iteration, Known, Misuse, Operand, Recorder, Settings,
    Stubs,
};
use bifrost_wire::{Value, encode, operator};

static STUBS: Stubs = Stubs {
    digest: [7; 32],
    json: r#"{"types":[{"name":"null","kind":"null"},{"name":"int","kind":"int"}],"routines":[]}"#,
    basic: [(0, CellNumbers::NONE); 6],
    builtin: [BuiltinNumbers::NONE; 3],
    operators: [0; operator::COUNT],
};

fn recorder() -> Recorder<u32> {
    let mut greeting = Greeting::new(&STUBS, "", "", Settings::default());
    greeting.sent(usize::MAX);
    let mut out = Vec::new();
    encode::welcome(&mut out, &[7; 32], &[], 1, "test");
    greeting.handle_bytes(&out).unwrap().expect("a session")
}

/// Records a table of this many columns around a loop; returns the bytes.
fn table(count: usize, later: bool) -> Vec<u8> {
    let mut r = recorder();
    let number = r.new_value(Value::Int(7));
    let types = vec![(1, "int"); count];
    let rows = match later {
        true => r.open_table(Ok(()), 1),
        false => r.rows(Ok(()), &types, 1),
    };
    let rows = r.new_result(rows.unwrap(), 1);
    let iteration = Iteration::Method { receiver: Operand::Stub(number), method: 3 };
    let made = r.foreach(Ok(()), iteration, [].into_iter(), 2, 2).unwrap();
    let each = r.new_result(made, 2);
    if later {
        r.set_columns(&types, 3);
    }
    let cells = vec![Operand::Stub(each); count];
    let emitted = r.emit(Ok(()), rows, cells.into_iter(), 4).unwrap();
    r.new_result(emitted, 4);
    assert!(r.end().is_kept());
    assert!(r.begin_flush(false).unwrap());
    r.bytes_to_send().to_vec()
}

#[test]
fn columns_may_be_told_in_the_loop() {
    for count in [1, 2, 5, 17, 255] {
        let (later, before) = (table(count, true), table(count, false));
        // The constant that is iterated over stands before the table or behind it.
        assert_eq!(later, before, "{count} columns");
    }
}

#[test]
fn a_refused_loop_leaves_the_table_alone() {
    let mut r = recorder();
    let rows = r.open_table(Ok(()), 1).unwrap();
    let rows = r.new_result(rows, 1);
    let before = r.recorded_bytes().to_vec();
    let number = r.new_value(Value::Int(7));
    let iteration = Iteration::Method { receiver: Operand::Stub(number), method: 3 };
    let made = r.foreach(Ok(()), iteration, [].into_iter(), 2, 2).unwrap();
    r.new_result(made, 2);
    // No column is too few, and ends the loop.
    r.set_columns(&[], 3);
    r.set_columns(&[(1, "int")], 4);
    assert!(!r.end().is_kept());
    // The constant before the loop stays.
    assert!(r.recorded_bytes().starts_with(&before));
    assert!(matches!(r.known(rows), Known::Future(1)));
    assert!(r.surface(true).unwrap_err().to_string().contains(Misuse::TooLong.text()));
}

#[test]
fn columns_of_a_refused_table_change_no_other_command() {
    let mut r = recorder();
    let made = r.lookup_any(Ok(()), "database", 1).unwrap();
    r.new_result(made, 1);
    let before = r.recorded_bytes().to_vec();
    let refused = Arc::new(Error::Misuse(Misuse::TooLong));
    assert!(r.open_table(Err(refused), 2).is_err());
    r.set_columns(&[(1, "int"), (1, "int")], 3);
    assert_eq!(r.recorded_bytes(), before);
    // Nor do those of a table of another batch.
    let made = r.open_table(Ok(()), 4).unwrap();
    r.new_result(made, 4);
    assert!(r.begin_flush(false).unwrap());
    r.sent(usize::MAX);
    for place in 5..8 {
        let made = r.lookup_any(Ok(()), "database", place).unwrap();
        r.new_result(made, place);
    }
    let before = r.recorded_bytes().to_vec();
    r.set_columns(&[(1, "int"), (1, "int")], 8);
    assert_eq!(r.recorded_bytes(), before);
}

#[test]
fn a_table_is_not_opened_inside() {
    let mut r = recorder();
    r.open(Ok(()), bifrost_recorder::Structure::Except, 1);
    let error = r.open_table(Ok(()), 2).unwrap_err();
    assert!(error.to_string().contains(Misuse::TableInside.text()));
}
