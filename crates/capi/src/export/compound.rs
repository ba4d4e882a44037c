//! Values with items, and tables of rows.

use bifrost_recorder::Slot;

use crate::abi::{Place, Ref, Types, Values};
use crate::error::{Failure, Status};
use crate::items::Items;
use crate::session::{Session, enter, enter_own, misuse, operands};

/// Makes an empty table with columns of these types. Not inside a structure. It ends with the batch
/// that it was made in: then it can be claimed, and takes no more rows.
#[unsafe(no_mangle)]
pub extern "C" fn bf_rows(session: Option<&mut Session>, types: Types, place: Place) -> Ref {
    enter(session, Ref::NONE, |session| {
        let types = types.get().unwrap_or_default();
        let columns: Vec<(u32, &str)> = types
            .iter()
            .map(|ty| {
                let (number, _, name) = session.numbers(ty);
                (number, name)
            })
            .collect();
        let admitted = session.admit();
        let recorded = session.recorder.rows(admitted, &columns, place);
        session.result(recorded, place)
    })
}

/// Appends a row to a table: a value or stub for each column. In structures and procedures it is
/// appended whenever they come to it.
#[unsafe(no_mangle)]
pub extern "C" fn bf_emit(rows: Ref, cells: Values, place: Place) {
    enter(rows.session(), (), |session| {
        let cells = cells.get();
        let admitted = session.admit_with(cells).and_then(|()| session.slot(rows).map(drop).map_err(misuse));
        let operands = operands(cells, session.own());
        let recorded = session.recorder.emit(admitted, Slot(rows.slot), operands, place);
        session.no_result(recorded, place);
    });
}

/// Claims a table, the items of a value, or any other value as the only item. `items` is to be
/// given to `bf_items_free`.
#[unsafe(no_mangle)]
pub extern "C" fn bf_claim_items(stub: Ref, items: &mut *const Items, place: Place) -> Status {
    *items = std::ptr::null();
    enter_own(stub.session(), place, |session| {
        let slot = match session.claim(stub, place) {
            Ok(slot) => slot,
            Err(status) => return status,
        };
        match session.read(slot) {
            Some(read) => {
                *items = Box::into_raw(Box::new(read));
                Status::Ok
            }
            None => session.failed(Failure::new(Status::WrongKind, "the result is an object", place)),
        }
    })
}

/// Returns the values of the exception that the call of a stub has signalled itself, objects as
/// stubs, if its batch was answered; else null. The program is told with it. The values are to be
/// given to `bf_items_free`.
#[unsafe(no_mangle)]
pub extern "C" fn bf_signal_items(stub: Ref) -> *const Items {
    enter(stub.session(), std::ptr::null(), |session| {
        let Ok(slot) = session.slot(stub) else { return std::ptr::null() };
        session.read_signal(slot).map_or(std::ptr::null(), |items| Box::into_raw(Box::new(items)))
    })
}

/// Returns the items, row by row for a table. They live until `bf_items_free`.
#[unsafe(no_mangle)]
pub extern "C" fn bf_items_values(items: Option<&Items>) -> Values {
    items.map_or(Values::NONE, Items::values)
}

/// Returns the number of columns of a table; 0 for other values.
#[unsafe(no_mangle)]
pub extern "C" fn bf_items_columns(items: Option<&Items>) -> usize {
    items.map_or(0, Items::columns)
}

/// Returns the number of rows of a table; 0 for other values.
#[unsafe(no_mangle)]
pub extern "C" fn bf_items_rows(items: Option<&Items>) -> usize {
    items.map_or(0, Items::rows)
}

/// Frees items and their texts, and releases the stubs of their objects: retain those that are to
/// outlive them. Null is passed over. The session is still there.
#[unsafe(no_mangle)]
pub extern "C" fn bf_items_free(session: Option<&mut Session>, items: Option<&mut Items>) {
    let Some(items) = items else { return };
    // SAFETY: `bf_claim_items` or `bf_signal_items` has made it as a box, and the program does not
    // use it again (the header).
    let items = unsafe { Box::from_raw(items) };
    let is_over = enter(session, None, |session| {
        session.free(*items);
        session.is_over().then_some(session.this)
    });
    if let Some(Some(mut this)) = is_over {
        // SAFETY: it lives until it is ended here.
        super::connect::end(Some(unsafe { this.as_mut() }));
    }
}
