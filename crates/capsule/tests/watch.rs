//! The watch over spaces that sleep and wake: none is watched twice, and none is forgotten.

#[path = "support/orders.rs"]
mod orders;

use std::time::{Duration, Instant};

use bifrost_capsule::{Space, Watch};
use bifrost_engine::Mode;
use bifrost_runtime::Limits;
use orders::load;

const SPIN: &str = "spin (n: int) returns (int)
  x: int := 0
  for i: int in 1.to(n) do x := x + i / 3 end
  return (x)
end spin
main () print(spin(1).unparse()) end main";

#[test]
fn a_space_that_sleeps_and_wakes_is_watched_once() {
    let engine = load(SPIN, Mode::Compiled);
    let watch = Watch::start(Duration::from_millis(200)).unwrap();
    let space = Space::new(engine.clone(), Limits::default()).unwrap();
    watch.add(&space);
    let spin = engine.find_entry("spin", 1).unwrap();
    // SAFETY: the context runs this engine's image, and `spin` takes an integer.
    let run = |rounds: u64| space.on_stack(|| unsafe { engine.call(&mut space.lock(), spin, &[rounds]) });
    for round in 0..60 {
        assert!(run(10).unwrap().is_ok());
        space.sleep();
        // Some pauses are long enough for the watch to forget it.
        if round % 20 == 0 {
            let start = Instant::now();
            while watch.count() > 0 {
                assert!(start.elapsed() < Duration::from_secs(20), "a space that sleeps is forgotten");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        drop(space.lock());
        watch.add(&space);
        assert_eq!(watch.count(), 1);
    }
    assert!(space.heap_stats().usage.allocated_bytes > 0, "those of earlier contexts count");
    let start = Instant::now();
    assert!(run(u64::MAX >> 2).unwrap().is_err());
    assert!(start.elapsed() < Duration::from_secs(10));
}
