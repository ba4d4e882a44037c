//! A server of `scores.theta` within the test's process.
#![allow(dead_code, reason = "each test file uses a part")]

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bifrost_engine::{Mode, Run};
use bifrost_server::{Config, Server, TlsConfig, program};
use bifrost_veneer::Session;
use scores_tasks::bifrost_stubs::{Scores, connect_async};
use tempfile::TempDir;

/// A server, and the folder of its sockets.
pub struct Site {
    pub server: Server,
    pub folder: TempDir,
}

impl Site {
    pub fn start() -> Site {
        Site::start_with(|_| {})
    }

    /// Serves over all transports, with other settings.
    pub fn start_with(set: impl FnOnce(&mut Config)) -> Site {
        let theta = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scores.theta");
        let engine = program::load(&[theta], None, Run::kept(Mode::Compiled));
        let folder = tempfile::tempdir().unwrap();
        let folder_path = folder.path().display();
        let listen = vec![
            format!("unix://{folder_path}/socket"),
            "tcp://127.0.0.1:0".to_owned(),
            "tls://127.0.0.1:0".to_owned(),
            format!("shm://{folder_path}/ring"),
        ];
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = folder.path().join("tls.pem");
        let pem = params.self_signed(&key).unwrap().pem() + &key.serialize_pem();
        std::fs::write(&certificate, pem).unwrap();
        let tls = TlsConfig { certificate, ..TlsConfig::default() };
        let store = "memory:".to_owned();
        let mut config = Config { listen, tls, store, anonymous_loopback: true, ..Config::default() };
        set(&mut config);
        let server = Server::start(engine.unwrap_or_else(|e| panic!("{e}")), &config).unwrap();
        Site { server, folder }
    }

    /// The address of a transport.
    pub fn url(&self, scheme: &str) -> String {
        let urls = self.server.addresses().iter().map(ToString::to_string);
        let url = urls.into_iter().find(|url| url.starts_with(scheme)).expect("it is listened to");
        match (scheme, self.server.pin()) {
            ("tls", Some(pin)) => format!("{url}#{pin}"),
            _ => url,
        }
    }

    pub async fn session(&self) -> (Session, Scores) {
        session(&self.url("unix")).await
    }
}

pub async fn session(url: &str) -> (Session, Scores) {
    let session = connect_async(url).await.unwrap();
    let scores = session.lookup("scores");
    (session, scores)
}

/// Polls a future once, and drops it.
pub fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = pin!(future);
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}
