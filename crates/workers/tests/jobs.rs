//! Jobs rest, are rung, wait and make way, on few workers.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bifrost_workers::{
    Condvar, Events, Handle, Next, Options, Reason, Work, Workers, blocking, is_pressed, make_way, parked_ns,
    worker_number,
};
use parking_lot::Mutex;

const LONG: Duration = Duration::from_secs(20);

fn workers(threads: usize) -> Workers {
    limited(threads, bifrost_workers::STACKS_MAX, |error| panic!("{error}"))
}

fn limited(threads: usize, stacks_max: usize, no_stack: fn(&std::io::Error)) -> Workers {
    Workers::start(Options { threads, stack_bytes: 256 << 10, stacks_max, no_stack }).unwrap()
}

/// Work that is a function.
struct Run<F>(F);

impl<F: FnMut(Events) -> Next + Send> Work for Run<F> {
    fn run(&mut self, events: Events) -> Next {
        (self.0)(events)
    }
}

fn enter(workers: &Workers, run: impl FnMut(Events) -> Next + Send + 'static) -> Handle {
    workers.enter(|_| Ok::<_, ()>(Box::new(Run(run)) as Box<dyn Work>)).unwrap()
}

/// Waits until something is so.
#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "it takes too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_job_runs_at_once_and_whenever_it_is_rung() {
    let workers = workers(2);
    let (tell, told) = mpsc::channel();
    let handle = enter(&workers, move |events| {
        tell.send(events).unwrap();
        Next::Rest(None)
    });
    assert!(told.recv_timeout(LONG).unwrap().has(Events::BEGIN));
    for _ in 0..100 {
        handle.ring();
        assert_eq!(told.recv_timeout(LONG).unwrap(), Events::BELL);
    }
    assert!(told.recv_timeout(Duration::from_millis(20)).is_err(), "it rests");
    assert_eq!(workers.counts().jobs, 1);
}

#[test]
fn a_job_that_is_done_is_forgotten() {
    let workers = workers(2);
    let held = Arc::new(());
    let handles: Vec<Handle> = (0..100)
        .map(|number| {
            let held = held.clone();
            enter(&workers, move |_| {
                let _ = &held;
                assert!(number % 10 != 3, "a panic ends a job, too");
                Next::Done
            })
        })
        .collect();
    until(|| workers.counts().jobs == 0 && Arc::strong_count(&held) == 1);
    // Nobody hears it.
    handles.iter().for_each(Handle::ring);
    assert_eq!(workers.counts().jobs, 0);
}

#[test]
fn work_that_cannot_be_made_leaves_no_job() {
    let workers = workers(1);
    assert_eq!(workers.enter(|_| Err("no")).err(), Some("no"));
    assert_eq!(workers.counts().jobs, 0);
}

#[test]
fn times_ring_jobs() {
    let workers = workers(1);
    let (tell, told) = mpsc::channel();
    let start = Instant::now();
    let mut runs = 0;
    enter(&workers, move |events| {
        runs += 1;
        tell.send((events, start.elapsed())).unwrap();
        match runs {
            // The later time first: the sooner one counts.
            1 => Next::Rest(Some(start + Duration::from_millis(20))),
            2 => Next::Rest(Some(start + Duration::from_millis(40))),
            _ => Next::Rest(None),
        }
    });
    let began = told.recv_timeout(LONG).unwrap();
    assert!(began.0.has(Events::BEGIN));
    for ms in [20, 40] {
        let (events, time) = told.recv_timeout(LONG).unwrap();
        assert!(events.has(Events::TIME), "{events:?}");
        assert!(time >= Duration::from_millis(ms), "{time:?}");
    }
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err());
}

/// A job that is active all the time sets its time anew whenever it rests, and has one timer.
#[test]
fn a_time_that_is_put_off_does_not_ring() {
    let workers = workers(1);
    let timed = Arc::new(AtomicU64::new(0));
    let (seen, far) = (timed.clone(), Arc::new(AtomicBool::new(true)));
    let later = far.clone();
    let handle = enter(&workers, move |events| {
        if events.has(Events::TIME) && later.load(Ordering::Relaxed) {
            // One that was set before may come.
            seen.fetch_add(1, Ordering::Relaxed);
        }
        Next::Rest(Some(Instant::now() + Duration::from_millis(30)))
    });
    for _ in 0..40 {
        handle.ring();
        std::thread::sleep(Duration::from_millis(3));
    }
    assert!(timed.load(Ordering::Relaxed) <= 4, "{timed:?}");
}

#[test]
fn bytes_ring_jobs() {
    let workers = workers(2);
    let mut clients = Vec::new();
    for _ in 0..50 {
        let (mut server, client) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let entered = workers.enter(|handle| {
            handle.watch(&server)?;
            let run = move |_: Events| {
                let mut bytes = [0; 64];
                loop {
                    match server.read(&mut bytes) {
                        Ok(0) => return Next::Done,
                        Ok(count) => server.write_all(&bytes[..count]).unwrap(),
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                            return Next::Rest(None);
                        }
                        Err(_) => return Next::Done,
                    }
                }
            };
            Ok::<_, std::io::Error>(Box::new(Run(run)) as Box<dyn Work>)
        });
        entered.unwrap();
        clients.push(client);
    }
    for round in 0..200u8 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.write_all(&[round, number as u8]).unwrap();
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let mut bytes = [0; 2];
            client.set_read_timeout(Some(LONG)).unwrap();
            client.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, [round, number as u8]);
        }
    }
    assert_eq!(workers.counts().jobs, 50);
    drop(clients);
    until(|| workers.counts().jobs == 0);
}

#[test]
fn a_job_is_rung_when_there_is_room() {
    let workers = workers(1);
    let (mut server, mut client) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    const BYTES: usize = 4 << 20;
    let entered = workers.enter(|handle| {
        handle.watch(&server)?;
        let (handle, mut left) = (handle.clone(), BYTES);
        let run = move |_: Events| {
            while left > 0 {
                match server.write(&[7; 10_000][..left.min(10_000)]) {
                    Ok(count) => left -= count,
                    Err(_) => {
                        handle.watch_room(&server, true).unwrap();
                        return Next::Rest(None);
                    }
                }
            }
            Next::Done
        };
        Ok::<_, std::io::Error>(Box::new(Run(run)) as Box<dyn Work>)
    });
    entered.unwrap();
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), BYTES);
}

/// Hundreds of jobs that wait hold no worker: another one still runs on the only one.
#[test]
fn waiting_holds_no_worker() {
    let workers = workers(1);
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let woken = Arc::new(AtomicUsize::new(0));
    const JOBS: usize = 300;
    for _ in 0..JOBS {
        let (shared, woken) = (shared.clone(), woken.clone());
        enter(&workers, move |_| {
            let (state, changed) = &*shared;
            let mut state = state.lock();
            *state += 1;
            while *state < 1000 {
                changed.wait(&mut state);
            }
            woken.fetch_add(1, Ordering::Relaxed);
            Next::Done
        });
    }
    until(|| *shared.0.lock() == JOBS);
    assert_eq!(workers.counts().fibers, JOBS);
    let (tell, told) = mpsc::channel();
    enter(&workers, move |_| {
        tell.send(()).unwrap();
        Next::Done
    });
    told.recv_timeout(LONG).unwrap();
    *shared.0.lock() = 1000;
    shared.1.notify_all();
    until(|| woken.load(Ordering::Relaxed) == JOBS && workers.counts().jobs == 0);
    assert_eq!(workers.counts().fibers, 0);
}

/// A job for which there is no stack runs when another one has given its own back.
#[test]
fn stacks_have_a_limit() {
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    let workers = limited(2, 3, |error| {
        assert!(error.to_string().contains("3 stacks are in use"), "{error}");
        TOLD.fetch_add(1, Ordering::Relaxed);
    });
    let shared = Arc::new((Mutex::new(0u32), Condvar::new()));
    let wait = || {
        let shared = shared.clone();
        enter(&workers, move |_| {
            let (state, changed) = &*shared;
            let mut state = state.lock();
            *state += 1;
            while *state < 1000 {
                changed.wait(&mut state);
            }
            Next::Done
        })
    };
    (0..3).for_each(|_| drop(wait()));
    until(|| *shared.0.lock() == 3);
    let (tell, told) = mpsc::channel();
    enter(&workers, move |_| {
        tell.send(()).unwrap();
        Next::Done
    });
    until(|| workers.counts().stack_waits > 3);
    assert_eq!((workers.counts().fibers, told.try_recv().is_err()), (3, true));
    *shared.0.lock() = 1000;
    shared.1.notify_all();
    told.recv_timeout(LONG).unwrap();
    until(|| workers.counts().jobs == 0);
    // However often it was tried.
    assert_eq!(TOLD.load(Ordering::Relaxed), 1);
}

#[test]
fn a_wait_has_a_time() {
    let workers = workers(1);
    let (tell, told) = mpsc::channel();
    enter(&workers, move |_| {
        let (lock, changed) = (Mutex::new(()), Condvar::new());
        let start = Instant::now();
        let timed_out = changed.wait_for(&mut lock.lock(), Duration::from_millis(20)).timed_out();
        tell.send((timed_out, start.elapsed())).unwrap();
        Next::Done
    });
    let (timed_out, time) = told.recv_timeout(LONG).unwrap();
    assert!(timed_out && time >= Duration::from_millis(20), "{time:?}");
    // On a thread it is the same.
    let (lock, changed) = (Mutex::new(()), Condvar::new());
    assert!(changed.wait_for(&mut lock.lock(), Duration::from_millis(5)).timed_out());
}

/// One notification wakes one that waits, be it a fiber or a thread, and none is lost on one whose
/// time is over.
#[test]
fn notifications_are_not_lost() {
    let workers = workers(2);
    let shared = Arc::new((Mutex::new(0u64), Condvar::new()));
    let (taken, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let take = {
        let (shared, taken, stop) = (shared.clone(), taken.clone(), stop.clone());
        move |patience: Duration| {
            let (left, changed) = &*shared;
            while !stop.load(Ordering::Relaxed) {
                let mut left = left.lock();
                while *left == 0 && !stop.load(Ordering::Relaxed) {
                    changed.wait_for(&mut left, patience);
                }
                if *left > 0 {
                    *left -= 1;
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    for number in 0..20 {
        let take = take.clone();
        enter(&workers, move |_| {
            take(if number % 2 == 0 { LONG } else { Duration::from_micros(300) });
            Next::Done
        });
    }
    let threads: Vec<_> = (0..3)
        .map(|_| {
            std::thread::spawn({
                let take = take.clone();
                move || take(LONG)
            })
        })
        .collect();
    const COUNT: u64 = 20_000;
    for _ in 0..COUNT {
        *shared.0.lock() += 1;
        shared.1.notify_one();
    }
    until(|| taken.load(Ordering::Relaxed) == COUNT);
    stop.store(true, Ordering::Relaxed);
    until(|| {
        shared.1.notify_all();
        workers.counts().jobs == 0
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A long run on the only worker is asked to make way, and others run in between.
#[test]
fn long_runs_make_way() {
    let workers = workers(1);
    let (asked, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (is_asked, must_stop) = (asked.clone(), stop.clone());
    let long = enter(&workers, move |_| {
        while !must_stop.load(Ordering::Relaxed) {
            if is_asked.swap(false, Ordering::Relaxed) {
                make_way();
            }
            std::hint::spin_loop();
        }
        Next::Done
    });
    let ask = asked.clone();
    long.on_ask(move || ask.store(true, Ordering::Relaxed));
    for _ in 0..20 {
        let (tell, told) = mpsc::channel();
        let start = Instant::now();
        enter(&workers, move |_| {
            tell.send(start.elapsed()).unwrap();
            Next::Done
        });
        told.recv_timeout(LONG).unwrap();
    }
    // The last of the others may be about to end; the long one goes on.
    until(|| workers.counts().jobs == 1);
    assert!(workers.counts().preempted >= 1);
    stop.store(true, Ordering::Relaxed);
    until(|| workers.counts().jobs == 0);
}

/// While the only worker is in a call that blocks, another takes its place; later it goes again.
/// Enters a job that runs whenever a byte comes from the returned end of a socket.
fn listening(workers: &Workers, mut run: impl FnMut() + Send + 'static) -> UnixStream {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let watched = theirs.try_clone().unwrap();
    let handle = enter(workers, move |_| {
        if theirs.read(&mut [0; 8]).is_ok_and(|count| count > 0) {
            run();
        }
        Next::Rest(None)
    });
    handle.watch(watched).unwrap();
    ours
}

/// Nobody waits for the end of a job that is long and makes no way, whether the others were short
/// before or not. A job that looks for its own next event stops when others wait.
#[test]
fn others_are_heard_while_a_job_is_long() {
    for (threads, spins) in [(2, false), (2, true), (1, true), (4, false)] {
        let workers = workers(threads);
        let (began, quick) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begins, sees) = (began.clone(), quick.clone());
        let mut long = listening(&workers, move || {
            let round = begins.fetch_add(1, Ordering::SeqCst) + 1;
            let start = Instant::now();
            while sees.load(Ordering::SeqCst) < round && (!spins || !is_pressed()) {
                assert!(start.elapsed() < LONG, "the other is not heard");
                std::hint::spin_loop();
            }
        });
        let runs = quick.clone();
        let mut short = listening(&workers, move || {
            runs.fetch_add(1, Ordering::SeqCst);
        });
        for round in 1..=20 {
            long.write_all(b"x").unwrap();
            until(|| began.load(Ordering::SeqCst) == round);
            short.write_all(b"x").unwrap();
            until(|| quick.load(Ordering::SeqCst) == round);
            // After a pause all is forgotten.
            std::thread::sleep(Duration::from_millis(if round % 4 == 0 { 60 } else { 1 }));
        }
    }
}

#[test]
fn blocked_workers_are_replaced() {
    let workers = workers(1);
    let releases: Vec<mpsc::Sender<()>> = (0..5)
        .map(|_| {
            let (release, released) = mpsc::channel();
            enter(&workers, move |_| {
                blocking(|| released.recv_timeout(LONG)).unwrap();
                Next::Done
            });
            release
        })
        .collect();
    let (tell, told) = mpsc::channel();
    enter(&workers, move |_| {
        tell.send(()).unwrap();
        Next::Done
    });
    told.recv_timeout(LONG).unwrap();
    releases.iter().for_each(|release| release.send(()).unwrap());
    until(|| workers.counts().jobs == 0);
    until(|| workers.counts().threads == 1);
}

/// Whoever rings, whenever: after the last ring the job runs once more.
#[test]
fn no_ring_is_lost() {
    let workers = workers(3);
    let rung: Vec<Arc<AtomicU64>> = (0..8).map(|_| Arc::default()).collect();
    let seen: Vec<Arc<AtomicU64>> = (0..8).map(|_| Arc::default()).collect();
    let handles: Vec<Handle> = rung
        .iter()
        .zip(&seen)
        .map(|(rung, seen)| {
            let (rung, seen) = (rung.clone(), seen.clone());
            enter(&workers, move |_| {
                seen.store(rung.load(Ordering::Acquire), Ordering::Release);
                make_way();
                Next::Rest(None)
            })
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for turn in 0..20_000 {
                    let which = turn % handles.len();
                    rung[which].fetch_add(1, Ordering::AcqRel);
                    handles[which].ring();
                }
            });
        }
    });
    until(|| {
        rung.iter()
            .zip(&seen)
            .all(|(rung, seen)| rung.load(Ordering::Acquire) == seen.load(Ordering::Acquire))
    });
}

/// Fibers that wait when their workers go are left alone.
#[test]
fn workers_may_go_before_those_that_wait() {
    let workers = workers(1);
    let shared = Arc::new((Mutex::new(()), Condvar::new()));
    let (there, waits) = (shared.clone(), Arc::new(AtomicBool::new(false)));
    let has_begun = waits.clone();
    enter(&workers, move |_| {
        has_begun.store(true, Ordering::Relaxed);
        there.1.wait(&mut there.0.lock());
        Next::Done
    });
    until(|| waits.load(Ordering::Relaxed));
    drop(workers);
    shared.1.notify_all();
    std::thread::sleep(Duration::from_millis(20));
}

/// Parked fibers are counted by the reason of their condition variable, and their time by job.
#[test]
fn parked_fibers_have_reasons() {
    let workers = workers(2);
    let shared = Arc::new((Mutex::new(false), Condvar::parking_for(Reason::Actors)));
    let (tell, told) = mpsc::channel();
    let there = shared.clone();
    enter(&workers, move |_| {
        let before = (parked_ns(), worker_number().unwrap());
        let mut goes_on = there.0.lock();
        while !*goes_on {
            there.1.wait(&mut goes_on);
        }
        drop(goes_on);
        blocking(|| std::thread::sleep(Duration::from_millis(20)));
        tell.send((before, parked_ns(), worker_number().unwrap())).unwrap();
        Next::Done
    });
    let parked = || workers.counts().parked;
    until(|| parked()[Reason::Actors as usize] == 1);
    assert_eq!(parked().iter().sum::<usize>(), 1);
    std::thread::sleep(Duration::from_millis(20));
    *shared.0.lock() = true;
    shared.1.notify_all();
    let ((none, first), some, second) = told.recv_timeout(LONG).unwrap();
    assert_eq!((none, parked()), (0, [0; Reason::ALL.len()]));
    assert!(some >= 40_000_000, "{some}");
    assert!(first.max(second) < workers.numbers_max());
    assert_eq!((worker_number(), parked_ns()), (None, 0));
}
