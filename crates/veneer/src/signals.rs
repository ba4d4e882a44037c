//! Exceptions as types: one for each that a program declares, and those that any call may signal.

use crate::call::Stub;
use crate::plain::Items;
use crate::procedure::Params;

/// An exception of the server's program. Generated stubs have a type for each, in their module
/// `signals`.
pub trait Signal: Sized + 'static {
    /// Its name in Theta.
    const NAME: &'static str;

    /// The types of its values, for handlers.
    type Values: Params;

    /// Takes the values that came, if they have these types.
    #[doc(hidden)]
    fn take(items: &mut Items<'_, '_>) -> Option<Self>;
}

/// Makes a generated struct an exception: `signal! { NotFound, "not_found", String, i64 }`.
#[macro_export]
macro_rules! signal {
    ($name:ident, $theta:literal $(, $ty:ty)*) => {
        impl $crate::Signal for $name {
            const NAME: &'static str = $theta;

            type Values = ($($ty,)*);

            #[allow(unused_variables, reason = "there may be no values")]
            fn take(items: &mut $crate::Items<'_, '_>) -> ::core::option::Option<Self> {
                ::core::option::Option::Some($name($(<$ty as $crate::Plain>::take(items)?),*))
            }
        }
    };
}

/// The exception that any call may signal: a text for people.
///
/// Theta: `failure (string)`
#[derive(Clone, Debug, PartialEq)]
pub struct Failure(pub String);

crate::signal! { Failure, "failure", String }

/// The exception of `as_`: the object has another type.
///
/// Theta: `wrong_type`
#[derive(Clone, Debug, PartialEq)]
pub struct WrongType();

crate::signal! { WrongType, "wrong_type" }

impl Stub {
    /// Returns the exception that the call of the stub has signalled, if it is this one. Its
    /// objects are stubs.
    #[doc(hidden)]
    pub fn caught<S: Signal>(&self) -> Option<S> {
        let live = &mut *self.core.live.borrow_mut();
        let core = &self.core;
        let caught = live.recorder.read_signal(self.slot, |name, values, slots| {
            let mut stubs = |handle| Stub { core: core.clone(), slot: slots(handle) };
            let caught = if name == S::NAME { Items::read(values, &mut stubs, S::take) } else { None };
            caught.filter(|_| values.next().is_none())
        });
        let caught = caught.flatten()?;
        // The program is told with it.
        let _ = live.recorder.claim(self.slot);
        Some(caught)
    }
}

/// The stubs for the values of an exception.
pub(crate) type Futures<S> = <<S as Signal>::Values as Params>::Futures;
