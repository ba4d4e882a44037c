//! Generators of random numbers that begin with a seed.

use crate::{Cx, Parts, Persist, Registry, Signals, Stored, theta_class, theta_routine};

/// A generator (SplitMix64): the same numbers for the same seed, on every machine.
#[derive(Debug)]
pub struct Generator {
    state: u64,
}

/// Adds generators.
pub(super) fn add_to(registry: Registry) -> Registry {
    registry
        .with_persistent_class::<Generator>()
        .with_routine(new_generator::native())
        .with_text("std/random.theta", include_str!("../../theta/std/random.theta"))
}

#[derive(Signals)]
enum NextSignal {
    Bounds,
}

impl Generator {
    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[theta_class("std::Generator")]
impl Generator {
    fn next(&mut self, _cx: &mut Cx, n: i64) -> Result<i64, NextSignal> {
        if n < 1 {
            return Err(NextSignal::Bounds);
        }
        Ok(((u128::from(self.bits()) * n as u128) >> 64) as i64)
    }

    fn fraction(&mut self, _cx: &mut Cx) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Persist for Generator {
    fn encode(&self) -> Parts {
        self.state.to_le_bytes().to_vec().into()
    }

    fn decode(from: &mut Stored<'_>) -> Result<Generator, String> {
        let state = from.bytes().try_into().map_err(|_| "the state of a generator has 8 bytes")?;
        Ok(Generator { state: u64::from_le_bytes(state) })
    }
}

#[theta_routine("std::new_generator")]
fn new_generator(_cx: &mut Cx, seed: i64) -> Generator {
    Generator { state: seed as u64 }
}
