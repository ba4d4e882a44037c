//! Capsules that are offered and do not take part are replaced; one whose run does not begin waits for the next.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bifrost_capsule::capsules::{JoinError, Joined, Terms, Waiting, find_capsule, join, join_some};
use bifrost_ir::Program;
use bifrost_theta::{Options, Sources, compile};
use bifrost_transport::Address;
use tempfile::TempDir;

/// Nothing here takes longer.
const SOON: Duration = Duration::from_secs(60);

fn program(text: &str) -> Program {
    let mut sources = Sources::new();
    sources.add("program.theta", text);
    compile(&sources, &Options::default()).program.unwrap()
}

fn terms(token: &str) -> Terms {
    Terms::new(&program("main () end main"), token)
}

/// A capsule that waits for a run.
struct Capsule {
    address: Address,
    thread: JoinHandle<Result<Joined, JoinError>>,
}

impl Capsule {
    fn start(address: &str, terms: Terms) -> Capsule {
        let waiting = Waiting::listen(&address.parse().unwrap(), None).unwrap();
        let address = waiting.address().clone();
        Capsule { address, thread: std::thread::spawn(move || waiting.take_part(&terms, Some(SOON))) }
    }

    fn joined(self) -> Joined {
        self.thread.join().unwrap().unwrap()
    }
}

/// Capsules of a test, over unix sockets, shared memory and TCP in turn.
fn capsules(folder: &TempDir, count: usize) -> Vec<Capsule> {
    let address = |at: usize| match at % 3 {
        0 => format!("unix://{}/{at}", folder.path().display()),
        1 => format!("shm://{}/{at}", folder.path().display()),
        _ => "tcp://127.0.0.1:0".to_owned(),
    };
    (0..count).map(|at| Capsule::start(&address(at), terms("secret"))).collect()
}

/// A listener that takes connections and says nothing.
fn silent() -> (Address, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (told, came) = channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            kept.push(stream);
            let _ = told.send(());
        }
    });
    (address, came)
}

#[test]
fn capsules_that_do_not_take_part_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let good = capsules(&folder, 4);
    let other_token = Capsule::start("tcp://127.0.0.1:0", terms("other"));
    let other_program = Terms::new(&program("main () print(\"x\") end main"), "secret");
    let other_program = Capsule::start("tcp://127.0.0.1:0", other_program);
    let (silent, came) = silent();
    let dead: Address = format!("unix://{}/dead", folder.path().display()).parse().unwrap();
    let of = |at: usize| good[at].address.clone();
    let bad = [silent, dead, other_token.address, other_program.address];
    let offered = [
        vec![bad[0].clone(), bad[1].clone(), of(0)],
        vec![bad[2].clone(), of(1), bad[3].clone(), of(2), of(3)],
    ];
    let mut left_out = Vec::new();
    let start = Instant::now();
    let joined = join_some(&offered.concat(), 3, 2, false, &terms("secret"), |address, why| {
        left_out.push((address.clone(), why.to_string()));
    });
    joined.unwrap();
    assert!(start.elapsed() < SOON / 2, "a silent one was waited for");
    came.recv_timeout(SOON).unwrap();
    let says = |address: &Address, what: &str| {
        let of_it = |(left, why): &&(Address, String)| left == address && why.contains(what);
        assert_eq!(left_out.iter().filter(of_it).count(), 1, "{what}: {left_out:?}");
    };
    says(&bad[0], "is no capsule");
    says(&bad[1], "no server listens");
    says(&bad[2], "another token");
    says(&bad[3], "another program");
    assert_eq!(left_out.len(), 4);
    let mut good = good.into_iter();
    good.by_ref().take(3).for_each(|capsule| drop(capsule.joined()));
    // The fourth has been told nothing, and takes part in the next run.
    let last = good.next().unwrap();
    join_some(std::slice::from_ref(&last.address), 1, 1, false, &terms("secret"), |_, _| {}).unwrap();
    last.joined();
}

#[test]
fn too_few_capsules_are_told_and_wait_for_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let good = capsules(&folder, 3);
    let addresses: Vec<Address> = good.iter().map(|capsule| capsule.address.clone()).collect();
    let dead: Address = format!("unix://{}/dead", folder.path().display()).parse().unwrap();
    let offered = [addresses.clone(), vec![dead.clone()]].concat();
    let few = join_some(&offered, 4, 1, false, &terms("secret"), |_, _| {});
    assert!(matches!(few, Err(JoinError::TooFew { wanted: 4, found: 3 })), "{few:?}");
    // These are told of the run, and that it does not begin by the end of their connections.
    let dead_last = join(&offered, 1, false, &terms("secret"), |_| false);
    assert!(matches!(dead_last, Err(JoinError::Connect(_))), "{dead_last:?}");
    let start = Instant::now();
    join_some(&addresses, 3, 1, false, &terms("secret"), |address, why| panic!("{address}: {why}")).unwrap();
    assert!(start.elapsed() < SOON / 2, "they have waited for one that never comes");
    good.into_iter().for_each(|capsule| drop(capsule.joined()));
}

#[test]
fn more_than_there_can_be_is_an_error() {
    for count in [64, usize::MAX] {
        let joined = join_some(&[], count, 1, false, &terms(""), |_, _| {});
        assert!(matches!(joined, Err(JoinError::Count { .. })), "{joined:?}");
    }
}

#[test]
fn capsules_are_found_without_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let capsule = capsules(&folder, 1).remove(0);
    find_capsule(&capsule.address, SOON).unwrap();
    let (silent, _came) = silent();
    let found = find_capsule(&silent, Duration::from_millis(200));
    assert!(matches!(found, Err(JoinError::NoCapsule { .. })), "{found:?}");
    // Who asks takes nothing away.
    join(std::slice::from_ref(&capsule.address), 1, false, &terms("secret"), |_| false).unwrap();
    capsule.joined();
}
