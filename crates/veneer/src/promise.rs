//! Futures for values: promises, the types that they can be claimed as, and their operators.
//!
//! [`Promise`] is the type to read first, and [`Promise::claim`] its main function: it flushes the
//! session if the value is not known, and returns the value or the failure of the call. The value
//! itself is in the slot of the stub, which the recorder owns. The operators record calls like any
//! others.

use std::marker::PhantomData;
use std::ops::{Add, Div, Mul, Neg, Not, Rem, Sub};

use bifrost_recorder::{Closed, Known};
use bifrost_wire::Operator;

use crate::call::{Element, IntoArg, Reference, Stub};
use crate::cell::Cell;
use crate::error::{Error, Place};
use crate::plain::{Plain, take_value};
use crate::session::Session;
use crate::signals::Signal;

/// The value that a call will have returned. It can be an argument or a receiver of further calls
/// before it is known; [`claim`](Promise::claim) it when the program itself needs it.
pub struct Promise<V> {
    stub: Stub,
    value: PhantomData<fn() -> V>,
}

impl<V> Clone for Promise<V> {
    fn clone(&self) -> Self {
        Promise { stub: self.stub.clone(), value: PhantomData }
    }
}

impl<V> std::fmt::Debug for Promise<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Promise({:?})", self.stub)
    }
}

impl<V: 'static> Reference for Promise<V> {
    #[inline]
    fn from_stub(stub: Stub) -> Self {
        Promise { stub, value: PhantomData }
    }

    #[inline]
    fn stub(&self) -> &Stub {
        &self.stub
    }
}

/// A value that is no compound: `()`, `bool`, `i64`, `f64`, `char`, `String` or `Vec<u8>`.
pub trait Value: Element<Plain = Self> + Plain {}

impl<V: Plain> Promise<V> {
    /// Returns the value. Flushes the session if it is not known yet.
    ///
    /// # Errors
    /// The failure of the call, or failures that no other claim [can
    /// tell](Session#failures-that-were-told). Claiming inside an open structure is
    /// [`Misuse::OpenStructure`](crate::Misuse::OpenStructure), and nothing is lost by it.
    #[track_caller]
    pub fn claim(&self) -> Result<V, Error> {
        if let Some(known) = self.peek() {
            return known;
        }
        self.stub.core.live.borrow_mut().know(self.stub.slot, Place::caller())?;
        self.peek().unwrap_or_else(|| self.nonsense())
    }

    /// Returns the value, if it is known without flushing.
    pub fn peek(&self) -> Option<Result<V, Error>> {
        let mut live = self.stub.core.live.borrow_mut();
        if let Known::Future(_) | Known::UnderWay(_) = live.recorder.known(self.stub.slot) {
            return None;
        }
        let value = take_value(&mut live, &self.stub);
        if (value.is_none() || !live.recorder.is_all_told())
            && let Err(error) = live.recorder.claim(self.stub.slot)
        {
            return Some(Err(error));
        }
        drop(live);
        Some(value.map_or_else(|| self.nonsense(), Ok))
    }

    /// Returns the exception that the call has signalled, if it is this one and its batch was
    /// answered. Its objects are stubs. The program is told with it.
    pub fn caught<S: Signal>(&self) -> Option<S> {
        self.stub.caught()
    }

    fn nonsense(&self) -> Result<V, Error> {
        let why = Closed::WrongReply("a result does not have the type of its heading");
        Err(self.stub.core.live.borrow_mut().recorder.close(why))
    }
}

impl<V> Promise<V> {
    #[track_caller]
    #[inline]
    fn operate<R: Reference>(&self, operator: Operator) -> R {
        self.stub.call(self.number(operator), &[])
    }

    #[track_caller]
    #[inline]
    fn operate_with<T, R: Reference>(&self, operator: Operator, other: &impl IntoArg<T>) -> R {
        self.stub.call(self.number(operator), &[other.argument()])
    }

    #[inline]
    fn number(&self, operator: Operator) -> u32 {
        self.stub.core.live.borrow().recorder.numbers().operator(operator)
    }

    pub(crate) fn session(&self) -> Session {
        Session { core: self.stub.core.clone() }
    }
}

macro_rules! binary {
    ($($ty:ty, $trait:ident, $method:ident, $operator:ident;)*) => {$(
        impl<R: IntoArg<$ty>> $trait<R> for Promise<$ty> {
            type Output = Promise<$ty>;

            #[track_caller]
            fn $method(self, other: R) -> Promise<$ty> {
                self.operate_with::<$ty, _>(Operator::$operator, &other)
            }
        }

        impl<R: IntoArg<$ty>> $trait<R> for &Promise<$ty> {
            type Output = Promise<$ty>;

            #[track_caller]
            fn $method(self, other: R) -> Promise<$ty> {
                self.operate_with::<$ty, _>(Operator::$operator, &other)
            }
        }
    )*};
}

binary! {
    i64, Add, add, IntAdd;
    i64, Sub, sub, IntSub;
    i64, Mul, mul, IntMul;
    i64, Div, div, IntDiv;
    i64, Rem, rem, IntMod;
    f64, Add, add, RealAdd;
    f64, Sub, sub, RealSub;
    f64, Mul, mul, RealMul;
    f64, Div, div, RealDiv;
    String, Add, add, StringConcat;
}

macro_rules! unary {
    ($($ty:ty, $trait:ident, $method:ident, $operator:ident;)*) => {$(
        impl $trait for Promise<$ty> {
            type Output = Promise<$ty>;

            #[track_caller]
            fn $method(self) -> Promise<$ty> {
                self.operate(Operator::$operator)
            }
        }

        impl $trait for &Promise<$ty> {
            type Output = Promise<$ty>;

            #[track_caller]
            fn $method(self) -> Promise<$ty> {
                self.operate(Operator::$operator)
            }
        }
    )*};
}

unary! {
    i64, Neg, neg, IntNegate;
    f64, Neg, neg, RealNegate;
    bool, Not, not, BoolNot;
}

macro_rules! comparisons {
    ($($ty:ty: $lt:ident, $le:ident, $gt:ident, $ge:ident;)*) => {$(
        impl Promise<$ty> {
            /// True if it is less than the other.
            #[track_caller]
            pub fn lt(&self, other: impl IntoArg<$ty>) -> Promise<bool> {
                self.operate_with::<$ty, _>(Operator::$lt, &other)
            }

            /// True if it is less than or equal to the other.
            #[track_caller]
            pub fn le(&self, other: impl IntoArg<$ty>) -> Promise<bool> {
                self.operate_with::<$ty, _>(Operator::$le, &other)
            }

            /// True if it is greater than the other.
            #[track_caller]
            pub fn gt(&self, other: impl IntoArg<$ty>) -> Promise<bool> {
                self.operate_with::<$ty, _>(Operator::$gt, &other)
            }

            /// True if it is greater than or equal to the other.
            #[track_caller]
            pub fn ge(&self, other: impl IntoArg<$ty>) -> Promise<bool> {
                self.operate_with::<$ty, _>(Operator::$ge, &other)
            }
        }
    )*};
}

comparisons! {
    i64: IntLt, IntLe, IntGt, IntGe;
    f64: RealLt, RealLe, RealGt, RealGe;
    String: StringLt, StringLe, StringGt, StringGe;
}

macro_rules! equality {
    ($($ty:ty, $operator:ident;)*) => {$(
        impl Promise<$ty> {
            /// True if both are equal.
            #[track_caller]
            pub fn eq_(&self, other: impl IntoArg<$ty>) -> Promise<bool> {
                self.operate_with::<$ty, _>(Operator::$operator, &other)
            }

            /// True if they differ.
            #[track_caller]
            pub fn ne_(&self, other: impl IntoArg<$ty>) -> Promise<bool> {
                !self.eq_(other)
            }
        }
    )*};
}

equality! {
    bool, BoolEqual;
    i64, IntEqual;
    f64, RealEqual;
    char, CharEqual;
    String, StringEqual;
}

impl Promise<i64> {
    /// Returns the number as a real.
    #[track_caller]
    pub fn to_real(&self) -> Promise<f64> {
        self.operate(Operator::IntToReal)
    }

    /// Returns the number as a text.
    #[track_caller]
    pub fn unparse(&self) -> Promise<String> {
        self.operate(Operator::IntUnparse)
    }

    /// Returns the numbers from this one up to a limit, for [`Session::foreach`].
    #[track_caller]
    pub fn to(&self, limit: impl IntoArg<i64>) -> crate::Iter<(i64,)> {
        crate::Iter::of_method(self.stub(), self.number(Operator::IntTo)).arg(limit)
    }
}

impl Promise<f64> {
    /// Returns the number as a text.
    #[track_caller]
    pub fn unparse(&self) -> Promise<String> {
        self.operate(Operator::RealUnparse)
    }
}

impl Promise<String> {
    /// Returns the number of characters that it has.
    #[track_caller]
    pub fn length(&self) -> Promise<i64> {
        self.operate(Operator::StringLength)
    }
}

impl Promise<bool> {
    /// True if both hold. The other is computed at the server, and only if this one holds.
    #[track_caller]
    pub fn and_(&self, other: impl FnOnce() -> Promise<bool>) -> Promise<bool> {
        self.decide(self.clone(), other, Place::caller())
    }

    /// True if either holds. The other is computed at the server, and only if this one does not
    /// hold.
    #[track_caller]
    pub fn or_(&self, other: impl FnOnce() -> Promise<bool>) -> Promise<bool> {
        self.decide(!self, other, Place::caller())
    }

    /// Returns this value, or the other one if `test` holds.
    #[track_caller]
    fn decide(
        &self,
        test: Promise<bool>,
        other: impl FnOnce() -> Promise<bool>,
        place: Place,
    ) -> Promise<bool> {
        let session = self.session();
        let result: Cell<bool> = session.cell_with(self);
        session.if_(test, || {
            result.put_at(other(), place);
        });
        result.get()
    }
}
