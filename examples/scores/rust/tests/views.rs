//! Live batches over every store: the last view is the last state, and only changes of objects that were read wake.

#[path = "../../../../crates/repository/tests/support/cluster.rs"]
mod cluster;
mod site;

use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bifrost_veneer::wire::ErrorNumber;
use bifrost_veneer::{Claim, Closed, Error, Rows};
use scores_client::bifrost_stubs::Scores;
use site::{Site, score, session};

/// The players of a view.
type View = Vec<(String, i64)>;

const PATIENCE: Duration = Duration::from_secs(120);

/// The name of the last player.
const END: &str = "zz end";

fn everybody(s: &bifrost_veneer::Session, scores: &Scores) -> Rows<(String, i64)> {
    s.collect(scores.players().values(), |player| (player.name(), player.points()))
}

fn leaders(s: &bifrost_veneer::Session, scores: &Scores) -> Rows<(String, i64)> {
    s.collect(scores.leaders(1), |player| (player.name(), player.points()))
}

/// Watches until the last player is there; sends the last view, and how many there were.
fn watch(url: &str, all: bool, last: Sender<(bool, View, usize)>) {
    let (s, scores) = session(url);
    let mut count = 0;
    for view in s.live(|| if all { everybody(&s, &scores) } else { leaders(&s, &scores) }) {
        let view = view.unwrap();
        count += 1;
        if view.iter().any(|(name, _)| name == END) {
            last.send((all, view, count)).unwrap();
            return;
        }
    }
    panic!("the views end before the last player is there");
}

/// Twenty watch at one address, and four change objects at the other.
fn watchers_and_writers(watched: &str, changed: &str, changes: u64) {
    let (sender, last) = channel();
    for number in 0..20 {
        let (url, sender) = (watched.to_owned(), sender.clone());
        std::thread::spawn(move || watch(&url, number % 2 == 0, sender));
    }
    drop(sender);
    let writers = (0..4_u64).map(|number| {
        let url = changed.to_owned();
        std::thread::spawn(move || {
            let (s, scores) = session(&url);
            for n in 0..changes {
                let player = (n * 7 + number * 3) % 10;
                score(&s, &scores, &format!("player {player}"), 1);
            }
        })
    });
    writers.collect::<Vec<_>>().into_iter().for_each(|writer| writer.join().unwrap());
    let (s, scores) = session(changed);
    score(&s, &scores, END, 1);
    let states = [leaders(&s, &scores).claim().unwrap(), everybody(&s, &scores).claim().unwrap()];
    let sum: i64 = states[0].iter().map(|(_, points)| points).sum();
    assert_eq!(sum, 4 * changes as i64 + 3 + 1);
    for _ in 0..20 {
        let (all, view, count) = last.recv_timeout(PATIENCE).expect("every watcher sees the last state");
        assert_eq!(view, states[usize::from(all)]);
        assert!(count as u64 <= 4 * changes + 2, "{count} views");
    }
}

#[test]
fn the_last_view_is_the_last_state_in_memory() {
    let site = Site::start("memory:");
    watchers_and_writers(&site.url, &site.url, 50);
}

#[test]
fn the_last_view_is_the_last_state_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(&folder.path().join("store").display().to_string());
    watchers_and_writers(&site.url, &site.url, 25);
}

#[test]
fn the_last_view_is_the_last_state_in_a_database() {
    // Those who watch have another server than those who write.
    let place = cluster::cluster().fresh();
    let (one, other) = (Site::start(&place), Site::start(&place));
    watchers_and_writers(&one.url, &other.url, 25);
    watchers_and_writers_again(&one);
}

/// The same over one server: its own commits are news as well.
fn watchers_and_writers_again(site: &Site) {
    let (s, scores) = site.session();
    let (other, theirs) = site.session();
    let mut views = s.live(|| scores.player("ada").points());
    let before = views.next().unwrap().unwrap();
    score(&other, &theirs, "ada", 1);
    assert_eq!(views.next().unwrap().unwrap(), before + 1);
}

#[test]
fn commits_of_another_process_come_with_the_next_poll() {
    let place = cluster::cluster().fresh();
    let (one, other) = (Site::start(&place), Site::start(&place));
    let (s, scores) = one.session();
    let (writing, theirs) = other.session();
    let ada = scores.player("ada");
    s.resolve(&ada).unwrap();
    let mut views = s.live(|| ada.points());
    assert_eq!(views.next().unwrap().unwrap(), 3);
    let mut slowest = Duration::ZERO;
    for points in 4..14 {
        score(&writing, &theirs, "ada", 1);
        let start = Instant::now();
        assert_eq!(views.next().unwrap().unwrap(), points);
        slowest = slowest.max(start.elapsed());
    }
    // The database is asked every 100 ms; the rest is for a machine that is busy.
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}

/// Makes players in many nodes of the map.
fn fill(s: &bifrost_veneer::Session, scores: &Scores) {
    for n in 0..500 {
        scores.score(format!("p{n:03}"), 0);
    }
    s.commit().claim().unwrap();
}

/// Sends the number of runs with each view.
fn watch_part(url: &str, views: Sender<(View, usize)>) {
    let (s, scores) = session(url);
    let players = scores.players();
    let runs = Cell::new(0);
    let part = || {
        runs.set(runs.get() + 1);
        s.collect(players.values_between("p010", "p012"), |player| (player.name(), player.points()))
    };
    for view in s.live(part) {
        if views.send((view.unwrap(), runs.get())).is_err() {
            return;
        }
    }
}

fn next(views: &Receiver<(View, usize)>) -> (Vec<i64>, usize) {
    let (view, runs) = views.recv_timeout(PATIENCE).unwrap();
    (view.into_iter().map(|(_, points)| points).collect(), runs)
}

#[test]
fn a_view_of_a_part_of_a_map_is_woken_by_what_it_read() {
    let folder = tempfile::tempdir().unwrap();
    for store in ["memory:", &folder.path().join("store").display().to_string(), &cluster::cluster().fresh()]
    {
        let site = Site::start(store);
        let (s, scores) = site.session();
        fill(&s, &scores);
        let (sender, views) = channel();
        let url = site.url.clone();
        let watching = std::thread::spawn(move || watch_part(&url, sender));
        assert_eq!(next(&views), (vec![0, 0, 0], 1));
        // Other players, and a new one in another node: it is not even run again.
        for n in 0..20 {
            score(&s, &scores, &format!("p{:03}", 400 + n), 1);
        }
        score(&s, &scores, "p400 junior", 1);
        score(&s, &scores, "p011", 5);
        assert_eq!(next(&views), (vec![0, 5, 0], 2), "{store}");
        // A new player between them.
        score(&s, &scores, "p011 junior", 7);
        assert_eq!(next(&views), (vec![0, 5, 7, 0], 3), "{store}");
        drop(views);
        score(&s, &scores, "p010", 1);
        watching.join().unwrap();
    }
}

#[test]
fn a_run_with_the_same_answer_is_passed_over() {
    let site = Site::start("memory:");
    let (s, scores) = site.session();
    let (other, theirs) = site.session();
    let runs = Cell::new(0);
    let mut views = s.live(|| {
        runs.set(runs.get() + 1);
        (scores.player("ada").points().gt(10), scores.player("ada"))
    });
    let (many, ada) = views.next().unwrap().unwrap();
    assert!(!many);
    // The points change, and the answer does not.
    score(&other, &theirs, "ada", 1);
    let (waits, done) = channel();
    let url = site.url.clone();
    let changing = std::thread::spawn(move || {
        let (other, theirs) = session(&url);
        done.recv_timeout(PATIENCE).unwrap();
        score(&other, &theirs, "ada", 1);
        score(&other, &theirs, "ada", 20);
    });
    waits.send(()).unwrap();
    let (many, same) = views.next().unwrap().unwrap();
    assert!(many && bifrost_veneer::Reference::stub(&same).is_same(bifrost_veneer::Reference::stub(&ada)));
    assert!((3..=4).contains(&runs.get()), "{} runs", runs.get());
    changing.join().unwrap();
}

#[test]
fn changes_between_two_views_are_one() {
    let site = Site::start("memory:");
    let (s, scores) = site.session();
    let (other, theirs) = site.session();
    let crossings = || s.counters().crossings;
    let mut views = s.live(|| everybody(&s, &scores));
    assert_eq!(views.next().unwrap().unwrap(), [("ada".to_owned(), 3), ("bob".to_owned(), 0)]);
    (0..10).for_each(|_| score(&other, &theirs, "bob", 1));
    let before = crossings();
    assert_eq!(views.next().unwrap().unwrap()[1].1, 10);
    assert_eq!(crossings() - before, 1, "the wait and the run cross together");
}

#[test]
fn the_session_does_other_work_between_two_views() {
    let site = Site::start("memory:");
    let (s, scores) = site.session();
    let (other, theirs) = site.session();
    let mut views = s.live(|| scores.player("ada").points());
    assert_eq!(views.next().unwrap().unwrap(), 3);
    // Its own commit ends the transaction of the view, and shows in the next one; so does a change of others before it.
    score(&other, &theirs, "ada", 1);
    scores.player("ada").score(10);
    let lost = s.commit().claim().unwrap_err();
    assert!(lost.to_string().contains("Conflict"), "{lost}");
    assert_eq!(views.next().unwrap().unwrap(), 4);
    score(&s, &scores, "ada", 10);
    assert_eq!(views.next().unwrap().unwrap(), 14);
    // Changes that are not committed are refused, and end the view.
    scores.player("ada").score(100);
    let refused = views.next().unwrap().unwrap_err();
    assert!(refused.to_string().contains("commit or abort it before `wait`"), "{refused}");
    assert!(views.next().is_none());
    s.abort().claim().unwrap();
    assert_eq!(scores.player("ada").points().claim().unwrap(), 14);
    s.close().unwrap();
}

#[test]
fn a_failure_is_a_result_that_changes() {
    let site = Site::start("memory:");
    let (s, _) = site.session();
    let (other, theirs) = site.session();
    let scores: Scores = s.lookup("scores");
    let players = scores.players();
    let mut views = s.live(|| {
        let cyd = players.fetch("cyd").points();
        let dora = players.fetch("dora").points();
        (cyd, dora)
    });
    let nobody = views.next().unwrap().unwrap_err();
    assert_eq!(nobody.root().signal(), Some("not_found"));
    // The next failure is that of another call.
    score(&other, &theirs, "cyd", 2);
    let nobody = views.next().unwrap().unwrap_err();
    assert_eq!(nobody.root().signal(), Some("not_found"));
    score(&other, &theirs, "dora", 3);
    assert_eq!(views.next().unwrap().unwrap(), (2, 3));
    // The program was told of all that failed.
    s.commit().claim().unwrap();
    s.close().unwrap();
}

#[test]
fn the_end_of_the_server_ends_the_view() {
    for listen in ["unix://FOLDER/socket", "shm://FOLDER/ring", "tcp://127.0.0.1:0"] {
        let mut site = Site::start_with("memory:", &[listen], |config| config.anonymous_loopback = true);
        let (sender, first) = channel();
        let url = site.url.clone();
        let watching = std::thread::spawn(move || {
            let (s, scores) = session(&url);
            let mut views = s.live(|| everybody(&s, &scores));
            views.next().unwrap().unwrap();
            sender.send(()).unwrap();
            let end = views.next().unwrap().unwrap_err();
            assert!(views.next().is_none());
            end
        });
        first.recv_timeout(PATIENCE).unwrap();
        let start = Instant::now();
        assert_eq!(site.server.stop(), 0, "no session is left");
        assert!(start.elapsed() < Duration::from_secs(4), "{listen}: {:?}", start.elapsed());
        match watching.join().unwrap() {
            Error::Closed(why) => assert!(matches!(&*why, Closed::ByServer { .. }), "{listen}: {why}"),
            // The server stopped while it ran the batch.
            Error::Refused { number, .. } if number == ErrorNumber::Cancelled as u32 => {}
            other => panic!("{listen}: {other}"),
        }
    }
}

#[test]
fn a_wait_is_a_promise() {
    let site = Site::start_with("memory:", &["unix://FOLDER/socket"], |config| {
        config.limits.insert("wait_ms_max".to_owned(), 30);
    });
    let (s, scores) = site.session();
    let (other, theirs) = site.session();
    let points = scores.player("ada").points();
    let start = Instant::now();
    let waited = s.wait(Duration::MAX);
    assert_eq!((points.claim().unwrap(), waited.claim().unwrap()), (3, false));
    assert!(start.elapsed() >= Duration::from_millis(30) && start.elapsed() < Duration::from_secs(20));
    score(&other, &theirs, "ada", 1);
    // The calls behind it see the change.
    let (waited, points) = (s.wait(Duration::from_secs(20)), scores.player("ada").points());
    assert_eq!((waited.claim().unwrap(), points.claim().unwrap()), (true, 4));
}

#[test]
fn views_go_on_when_their_transaction_has_expired() {
    let site = Site::start_with("memory:", &["unix://FOLDER/socket"], |config| {
        config.limits.insert("transaction_idle_ms_max".to_owned(), 50);
    });
    let (s, scores) = site.session();
    let (other, theirs) = site.session();
    let mut views = s.live(|| everybody(&s, &scores));
    views.next().unwrap().unwrap();
    score(&other, &theirs, "bob", 1);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(views.next().unwrap().unwrap()[1].1, 1);
    // Vectors of results are results.
    let mut lists = s.live(|| vec![scores.player("ada").points(), scores.player("bob").points()]);
    assert_eq!(lists.next().unwrap().unwrap(), [3, 1]);
    assert_eq!(Claim::claim(&scores.player("ada").points()).unwrap(), 3);
}
