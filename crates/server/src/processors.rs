//! On which processors nodes begin.

/// Has the calling thread go on on the processor of this number, counted among those that it may use and round, and lets it go anywhere from
/// there. A new thread begins on the processor of whoever has made it, and it may take the system a tenth of a second to see that another one has
/// nothing to do.
#[cfg(target_os = "linux")]
pub(crate) fn begin_on(number: u32) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(may) = sched_getaffinity(None) else { return };
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| may.is_set(*processor)).collect();
    if usable.is_empty() {
        return;
    }
    let mut one = CpuSet::new();
    one.set(usable[number as usize % usable.len()]);
    if sched_setaffinity(None, &one).is_ok() {
        // What it was allowed before it still is.
        let _ = sched_setaffinity(None, &may);
    }
}

/// Elsewhere the system places threads.
#[cfg(not(target_os = "linux"))]
pub(crate) fn begin_on(_number: u32) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::{sched_getaffinity, sched_getcpu};

    #[test]
    fn a_thread_begins_elsewhere_and_may_go_anywhere() {
        let before = sched_getaffinity(None).expect("Linux tells");
        let mut begun = std::collections::BTreeSet::new();
        for number in 0..before.count() {
            super::begin_on(number);
            begun.insert(sched_getcpu());
            assert_eq!(sched_getaffinity(None).expect("Linux tells"), before);
        }
        // The system may move it at once, but hardly each time to where it was.
        assert!(before.count() == 1 || begun.len() > 1, "{begun:?}");
    }
}
