//! A thousand sessions that wait use no time of a processor, and one commit wakes them all.
//!
//! It is alone in its program, whose time is measured.

mod site;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use site::{Site, score, soon};

const WATCHERS: usize = 1000;

/// The time of processors that the whole process may take in a second: a twentieth of one. The threads that look after
/// the sessions take a part of it, whether anybody waits or not.
const BUSY_MAX: Duration = Duration::from_millis(50);

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The time of processors that the process takes within some time.
fn taken(time: Duration) -> Duration {
    let before = processor_time();
    std::thread::sleep(time);
    processor_time() - before
}

struct Watcher {
    socket: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Watcher {
    fn say(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    /// The answer to a flush.
    fn answer(&mut self) -> String {
        let mut said = String::new();
        while !said.lines().last().is_some_and(|line| line.starts_with("ok ")) {
            assert!(self.lines.read_line(&mut said).unwrap() > 0, "{said}");
        }
        said
    }
}

#[test]
fn a_thousand_watchers_use_no_time() {
    // Each has a socket at both ends, and one more that is watched while it waits.
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: most.maximum, maximum: most.maximum }).unwrap();
    let site = Site::start_with("memory:", &["unix://FOLDER/socket"], |config| {
        config.sessions_max = WATCHERS + 1;
        config.greetings_max = WATCHERS + 1;
    });
    let path = site.folder.path().join("socket");
    let mut watchers: Vec<Watcher> = (0..WATCHERS)
        .map(|_| {
            let socket = UnixStream::connect(&path).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let lines = BufReader::new(socket.try_clone().unwrap());
            let mut watcher = Watcher { socket, lines };
            watcher.say("hello 2\n$s := lookup scores: Scores\n? $s.player(\"bob\").points()\n");
            watcher.answer();
            watcher.say("? wait 600000\n");
            watcher
        })
        .collect();
    assert_eq!(site.server.sessions(), WATCHERS);
    // The last ones come to rest.
    soon("all rest", || taken(Duration::from_millis(200)) < BUSY_MAX / 5);
    let busy = taken(Duration::from_secs(1));
    assert!(busy < BUSY_MAX, "{busy:?} in a second");
    println!("{WATCHERS} watchers: {busy:?} of processor time in a second");

    let (s, scores) = site.session();
    // They have read another player.
    score(&s, &scores, "ada", 1);
    let start = Instant::now();
    let busy = taken(Duration::from_millis(200));
    assert!(busy < BUSY_MAX, "{busy:?} after a commit that they have not read");
    score(&s, &scores, "bob", 1);
    for watcher in &mut watchers {
        let said = watcher.answer();
        assert!(said.contains("= true"), "{said}");
    }
    println!("all were woken in {:?}", start.elapsed());
}
