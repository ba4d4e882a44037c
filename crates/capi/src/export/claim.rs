//! Claims: the values of promises.

use std::mem::MaybeUninit;

use bifrost_recorder::{Known, Slot};
use bifrost_wire::Value as Plain;

use crate::abi::{Bytes, Place, Ref};
use crate::error::{Failure, Status};
use crate::session::{Session, enter, enter_own};

impl Session {
    /// Waits until a stub is known, and tells of its failure.
    ///
    /// # Errors
    /// The status with which the program was told.
    pub(crate) fn claim(&mut self, stub: Ref, place: Place) -> Result<Slot, Status> {
        let slot = match self.slot(stub) {
            Ok(slot) => slot,
            Err(wrong) => return Err(self.misused(wrong, place)),
        };
        match self.know(slot, place).and_then(|()| self.recorder.claim(slot)) {
            Ok(()) => Ok(slot),
            Err(error) => Err(self.told(&error)),
        }
    }

    #[cold]
    fn wrong_kind(&mut self, wanted: &str, place: Place) -> Status {
        let text = format!("the result is no {wanted}");
        self.failed(Failure::new(Status::WrongKind, text, place))
    }

    /// Keeps the bytes of a stub for the program, with a zero byte behind them.
    fn keep(&mut self, slot: Slot, bytes: Vec<u8>) -> Bytes {
        let length = bytes.len();
        let kept = self.texts.entry(slot.0).or_insert_with(|| {
            let mut bytes = bytes;
            bytes.push(0);
            bytes.into_boxed_slice()
        });
        Bytes::new(kept.get(..length).unwrap_or_default())
    }
}

/// Waits until a stub has its result, and checks it: flushes the session if it is not known yet.
///
/// Fails with the failure of its call, or with failures that no other claim can tell.
#[unsafe(no_mangle)]
pub extern "C" fn bf_claim(stub: Ref, place: Place) -> Status {
    enter_own(stub.session(), place, |session| match session.claim(stub, place) {
        Ok(_) => Status::Ok,
        Err(status) => status,
    })
}

/// The outcome of a stub if it is known without waiting, as that of `bf_claim`; else `BF_PENDING`.
#[unsafe(no_mangle)]
pub extern "C" fn bf_peek(stub: Ref, place: Place) -> Status {
    enter_own(stub.session(), place, |session| {
        let slot = match session.slot(stub) {
            Ok(slot) => slot,
            Err(wrong) => return session.misused(wrong, place),
        };
        match session.recorder.known(slot) {
            Known::Future(_) | Known::UnderWay(_) => Status::Pending,
            _ => {
                let claimed = session.recorder.claim(slot);
                session.status(claimed)
            }
        }
    })
}

/// Claims a truth value. `value` may be null, as for the others.
#[unsafe(no_mangle)]
pub extern "C" fn bf_claim_bool(stub: Ref, value: Option<&mut MaybeUninit<bool>>, place: Place) -> Status {
    enter_own(stub.session(), place, |session| {
        let slot = match session.claim(stub, place) {
            Ok(slot) => slot,
            Err(status) => return status,
        };
        let Known::Value(Plain::Bool(known)) = session.recorder.known(slot) else {
            return session.wrong_kind("bool", place);
        };
        if let Some(value) = value {
            value.write(known);
        }
        Status::Ok
    })
}

/// Claims an integer.
#[unsafe(no_mangle)]
pub extern "C" fn bf_claim_int(stub: Ref, value: Option<&mut MaybeUninit<i64>>, place: Place) -> Status {
    enter_own(stub.session(), place, |session| {
        let slot = match session.claim(stub, place) {
            Ok(slot) => slot,
            Err(status) => return status,
        };
        let Known::Value(Plain::Int(known)) = session.recorder.known(slot) else {
            return session.wrong_kind("int", place);
        };
        if let Some(value) = value {
            value.write(known);
        }
        Status::Ok
    })
}

/// Claims a real.
#[unsafe(no_mangle)]
pub extern "C" fn bf_claim_real(stub: Ref, value: Option<&mut MaybeUninit<f64>>, place: Place) -> Status {
    enter_own(stub.session(), place, |session| {
        let slot = match session.claim(stub, place) {
            Ok(slot) => slot,
            Err(status) => return status,
        };
        let Known::Value(Plain::Real(known)) = session.recorder.known(slot) else {
            return session.wrong_kind("real", place);
        };
        if let Some(value) = value {
            value.write(known);
        }
        Status::Ok
    })
}

/// Claims a character: a Unicode scalar value.
#[unsafe(no_mangle)]
pub extern "C" fn bf_claim_char(stub: Ref, value: Option<&mut MaybeUninit<u32>>, place: Place) -> Status {
    enter_own(stub.session(), place, |session| {
        let slot = match session.claim(stub, place) {
            Ok(slot) => slot,
            Err(status) => return status,
        };
        let Known::Value(Plain::Char(known)) = session.recorder.known(slot) else {
            return session.wrong_kind("char", place);
        };
        if let Some(value) = value {
            value.write(known as u32);
        }
        Status::Ok
    })
}

/// Claims a text in UTF-8, which a zero byte ends. It lives as long as its stub.
#[unsafe(no_mangle)]
pub extern "C" fn bf_claim_text(stub: Ref, value: Option<&mut MaybeUninit<Bytes>>, place: Place) -> Status {
    enter_own(stub.session(), place, |session| {
        let slot = match session.claim(stub, place) {
            Ok(slot) => slot,
            Err(status) => return status,
        };
        let Known::Value(Plain::Str(known)) = session.recorder.known(slot) else {
            return session.wrong_kind("string", place);
        };
        if let Some(value) = value {
            let known = known.as_bytes().to_vec();
            value.write(session.keep(slot, known));
        }
        Status::Ok
    })
}

/// Claims bytes. They live as long as their stub.
#[unsafe(no_mangle)]
pub extern "C" fn bf_claim_bytes(stub: Ref, value: Option<&mut MaybeUninit<Bytes>>, place: Place) -> Status {
    enter_own(stub.session(), place, |session| {
        let slot = match session.claim(stub, place) {
            Ok(slot) => slot,
            Err(status) => return status,
        };
        let Known::Value(Plain::Bytes(known)) = session.recorder.known(slot) else {
            return session.wrong_kind("bytes", place);
        };
        if let Some(value) = value {
            let known = known.to_vec();
            value.write(session.keep(slot, known));
        }
        Status::Ok
    })
}

/// True if the stub is known to be an object, and not a value.
#[unsafe(no_mangle)]
pub extern "C" fn bf_is_object(stub: Ref) -> bool {
    enter(stub.session(), false, |session| match session.slot(stub) {
        Ok(slot) => matches!(session.recorder.known(slot), Known::Handle(_)),
        Err(_) => false,
    })
}
