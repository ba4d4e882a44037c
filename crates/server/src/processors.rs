//! On which processors nodes begin.

/// Has the calling thread go on on the processor of this number, counted among those that it may use and round, and lets it go anywhere from
/// there. A new thread begins on the processor of whoever has made it, and it may take the system a tenth of a second to see that another one has
/// nothing to do.
#[cfg(target_os = "linux")]
pub(crate) fn begin_on(number: u32) {
    go_to(|usable| number as usize % usable.len());
}

/// Has the calling thread go on on another processor than the one it is on, if it may use one.
#[cfg(target_os = "linux")]
pub(crate) fn leave() {
    let here = current() as usize;
    go_to(|usable| {
        usable.iter().position(|processor| *processor == here).map_or(0, |at| (at + 1) % usable.len())
    });
}

#[cfg(target_os = "linux")]
fn go_to(choose: impl FnOnce(&[usize]) -> usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(may) = sched_getaffinity(None) else { return };
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| may.is_set(*processor)).collect();
    if usable.len() < 2 {
        return;
    }
    let mut one = CpuSet::new();
    one.set(usable[choose(&usable)]);
    if sched_setaffinity(None, &one).is_ok() {
        // What it was allowed before it still is.
        let _ = sched_setaffinity(None, &may);
    }
}

/// Elsewhere the system places threads.
#[cfg(not(target_os = "linux"))]
pub(crate) fn begin_on(_number: u32) {}

/// Elsewhere the system moves threads.
#[cfg(not(target_os = "linux"))]
pub(crate) fn leave() {}

/// The number of the processor that the calling thread is on, among those that there are.
#[cfg(target_os = "linux")]
pub(crate) fn current() -> u32 {
    rustix::thread::sched_getcpu() as u32
}

/// All have the same number: that of none.
#[cfg(not(target_os = "linux"))]
pub(crate) fn current() -> u32 {
    u32::MAX - 1
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::sched_getaffinity;

    #[test]
    fn a_thread_begins_elsewhere_and_may_go_anywhere() {
        let before = sched_getaffinity(None).expect("Linux tells");
        let mut begun = std::collections::BTreeSet::new();
        for number in 0..before.count() {
            super::begin_on(number);
            begun.insert(super::current());
            assert_eq!(sched_getaffinity(None).expect("Linux tells"), before);
        }
        // The system may move it at once, but hardly each time to where it was.
        assert!(before.count() == 1 || begun.len() > 1, "{begun:?}");
        let left = (0..100).filter(|_| {
            let here = super::current();
            super::leave();
            here != super::current()
        });
        assert!(before.count() == 1 || left.count() > 50);
        assert_eq!(sched_getaffinity(None).expect("Linux tells"), before);
    }
}
