//! The classes of the pure package that this library makes objects of. They are looked up once,
//! when the first session is opened: the package imports this library, and not the other way round.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

macro_rules! classes {
    ($($field:ident = $module:literal . $name:literal,)*) => {
        /// The classes.
        pub(crate) struct Package {
            $(pub(crate) $field: Py<PyAny>,)*
        }

        impl Package {
            fn load(py: Python<'_>) -> PyResult<Package> {
                Ok(Package {
                    $($field: py.import(concat!("bifrost_veneer.", $module))?.getattr($name)?.unbind(),)*
                })
            }
        }
    };
}

classes! {
    signal = "recorder.errors"."Signal",
    unhandled = "recorder.errors"."Unhandled",
    refused = "recorder.errors"."Refused",
    not_reached = "recorder.errors"."NotReached",
    not_sent = "recorder.errors"."NotSent",
    unseen = "recorder.errors"."Unseen",
    misused = "recorder.errors"."Misused",
    missing = "recorder.errors"."Missing",
    ended = "recorder.errors"."Ended",
    by_server = "recorder.errors"."ByServer",
    by_client = "recorder.errors"."ByClient",
    by_connection = "recorder.errors"."ByConnection",
    by_bad_reply = "recorder.errors"."ByBadReply",
    by_wrong_reply = "recorder.errors"."ByWrongReply",
    given_back = "recorder.errors"."GivenBack",
    call_name = "recorder.errors"."CallName",
    history_entry = "recorder.errors"."HistoryEntry",
    told = "recorder.errors"."Told",
    bad = "recorder.decode"."Bad",
    handle = "recorder.decode"."Handle",
    table = "recorder.decode"."Table",
    failure_place = "recorder.decode"."Place",
    due = "recorder.calls"."Due",
    item_list = "recorder.calls"."ItemList",
    word_list = "recorder.calls"."WordList",
    else_block = "recorder.structures"."ElseBlock",
    when_block = "recorder.structures"."WhenBlock",
    counters = "recorder.state"."Counters",
    source_place = "errors"."SourcePlace",
    record_call = "stubs"."record_call",
    int_operand = "kinds"."int_operand",
    real_operand = "kinds"."real_operand",
    str_operand = "kinds"."str_operand",
    ended_connection = "io.connection"."Ended",
    timed_out = "io.connection"."TimedOut",
}

static PACKAGE: PyOnceLock<Package> = PyOnceLock::new();

impl Package {
    /// Returns the classes.
    #[inline]
    pub(crate) fn get(py: Python<'_>) -> PyResult<&'static Package> {
        PACKAGE.get_or_try_init(py, || Package::load(py))
    }
}
