//! The hall of the tasks, in every order that the memory model allows: everything that was put is
//! taken once, and no task sleeps for ever. A model with a thread that nobody wakes is an error of
//! the checker.

use loom::sync::Arc;
use loom::thread;

mod sync {
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);
    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);
    pub(crate) type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

    impl<T> Mutex<T> {
        pub(crate) fn new(inside: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(inside))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no thread panics")
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar(loom::sync::Condvar::new())
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condition.0.wait(guard).expect("no thread panics")
    }
}

#[path = "../src/hall.rs"]
#[allow(dead_code, reason = "a part of the crate is checked")]
mod hall;

use hall::Hall;

/// The queue in small: numbers that wait.
fn take(waiting: &mut Vec<u32>) -> Option<(u32, bool)> {
    let number = waiting.pop()?;
    Some((number, !waiting.is_empty()))
}

/// Runs a model with so many preemptions at most, which finds all known faults of this kind and
/// keeps the number of orders small.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

fn tasks(hall: &Arc<Hall<Vec<u32>>>) -> [thread::JoinHandle<Option<u32>>; 2] {
    [0, 1].map(|_| {
        let hall = hall.clone();
        thread::spawn(move || hall.next(take))
    })
}

#[test]
fn each_of_two_tasks_gets_what_is_put_one_after_the_other() {
    model(|| {
        let hall = Arc::new(Hall::new(Vec::new()));
        let tasks = tasks(&hall);
        for number in [1, 2] {
            hall.change(|waiting| {
                waiting.push(number);
                // As the queue: only the first makes an export ready.
                ((), waiting.len() == 1)
            });
        }
        let sum: u32 =
            tasks.map(|task| task.join().expect("no thread panics").expect("not over")).iter().sum();
        assert_eq!(sum, 3);
    });
}

#[test]
fn a_task_that_leaves_something_wakes_the_next() {
    model(|| {
        let hall = Arc::new(Hall::new(Vec::new()));
        let tasks = tasks(&hall);
        hall.change(|waiting| {
            waiting.extend([1, 2]);
            ((), true)
        });
        let sum: u32 =
            tasks.map(|task| task.join().expect("no thread panics").expect("not over")).iter().sum();
        assert_eq!(sum, 3);
    });
}

#[test]
fn the_end_wakes_all() {
    model(|| {
        let hall = Arc::new(Hall::new(Vec::new()));
        let tasks = tasks(&hall);
        hall.end();
        assert_eq!(tasks.map(|task| task.join().expect("no thread panics")), [None, None]);
        assert!(hall.is_over());
    });
}
