//! A native class whose objects are not stored.

use bifrost_native::{Cx, Registry, theta_class, theta_routine};

/// Not stored.
struct Lamp;

#[theta_class("test::Lamp")]
impl Lamp {
    fn light(&self, _cx: &mut Cx) -> bool {
        true
    }
}

#[theta_routine("test::new_lamp")]
fn new_lamp(_cx: &mut Cx) -> Lamp {
    Lamp
}

/// A registry that has it, too, as `test::Lamp` and `test::new_lamp`.
pub fn with_lamps(registry: Registry) -> Registry {
    registry.with_class::<Lamp>().with_routine(new_lamp::native())
}
