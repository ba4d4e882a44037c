//! A server of `scores.theta` within the test's process.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::time::{Duration, Instant};

use bifrost_engine::{Mode, Run};
use bifrost_server::{Config, Server, program};
use bifrost_veneer::{How, Session};
use scores_client::bifrost_stubs::{Scores, connect};
use tempfile::TempDir;

/// A server, and the folder of its sockets.
pub struct Site {
    pub server: Server,
    pub url: String,
    pub folder: TempDir,
}

impl Site {
    /// Serves with the objects of a store. Nobody waits so long that a lost change would be found by itself.
    pub fn start(store: &str) -> Site {
        Site::start_with(store, &["unix://FOLDER/socket"], |_| {})
    }

    /// As [`Site::start`], at some addresses and with other settings.
    pub fn start_with(store: &str, listen: &[&str], set: impl FnOnce(&mut Config)) -> Site {
        let theta = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scores.theta");
        let engine = program::load(&[theta], None, Run::kept(Mode::Compiled));
        let folder = tempfile::tempdir().unwrap();
        let listen: Vec<String> =
            listen.iter().map(|url| url.replace("FOLDER", &folder.path().display().to_string())).collect();
        let mut config = Config { listen, store: store.to_owned(), ..Config::default() };
        config.limits.insert("wait_ms_max".to_owned(), 600_000);
        set(&mut config);
        let server = Server::start(engine.unwrap_or_else(|e| panic!("{e}")), &config).unwrap();
        let url = server.addresses()[0].to_string();
        Site { server, url, folder }
    }

    /// A session, with the object.
    pub fn session(&self) -> (Session, Scores) {
        session(&self.url)
    }
}

pub fn session(url: &str) -> (Session, Scores) {
    let session = connect(url).unwrap();
    let scores = session.lookup("scores");
    (session, scores)
}

/// Commits points, however often others are in the way.
pub fn score(s: &Session, scores: &Scores, name: &str, points: i64) {
    loop {
        match s.transaction(How::default(), || scores.score(name, points)) {
            Ok(now) => {
                now.claim().unwrap();
                return;
            }
            Err(error) if error.is_conflict() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until something holds.
#[track_caller]
pub fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
