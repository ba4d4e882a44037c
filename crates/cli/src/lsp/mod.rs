//! `bifrost lsp`: the language server of `tools` at the standard streams.
//!
//! A thread reads, so that a request can be taken back while others are answered; all else happens
//! in order.

mod frame;
mod queue;

use std::io::{self, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use bifrost_native::Registry;
use bifrost_theta::NativeHeadings;
use bifrost_tools::lsp::{Files, INVALID_REQUEST, PARSE_ERROR, REQUEST_CANCELLED, Server};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, Outcome};
use queue::{Queue, Work};

/// Talk to an editor about Theta sources
///
/// A server of the Language Server Protocol at the standard streams: mistakes while you type, the
/// meaning of a name, where it is defined and used, new names, completion, formatting, outlines. An
/// editor starts it; editors/vscode has an extension. Exit status 1 if the client ends without
/// `shutdown`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Accepted from editors that pass it; the server always uses the standard streams
    #[arg(long, hide = true)]
    stdio: bool,
}

/// Theta files that a listing gives at most.
const FILES_MAX: usize = 2_000;
/// The depth to which folders are searched.
const DEPTH_MAX: u32 = 12;
/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
const INTERNAL_ERROR: i32 = -32603;

/// Runs the command.
pub fn run(_: &Args, registry: &Registry) -> Outcome {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut input = BufReader::new(io::stdin().lock());
        while let Ok(Some(frame)) = frame::read(&mut input) {
            if sender.send(frame).is_err() {
                return;
            }
        }
    });
    let mut output = io::stdout().lock();
    let mut server =
        Server::new(Box::new(Disk { registry: registry.clone(), natives: Arc::new(registry.headings()) }));
    let mut queue = Queue::default();
    loop {
        receiver.try_iter().for_each(|frame| queue.push(frame));
        let Some(work) = queue.pop() else {
            match receiver.recv() {
                Ok(frame) => queue.push(frame),
                Err(_) => return ended(&server, "the client has ended"),
            }
            continue;
        };
        if matches!(&work, Work::Notification { method, .. } if method == "exit") {
            return ended(&server, "the client has ended without `shutdown`");
        }
        for answer in answers(&mut server, work) {
            frame::write(&mut output, answer)?;
        }
        output.flush()?;
    }
}

fn ended(server: &Server, why: &str) -> Outcome {
    if server.is_ended() { Ok(()) } else { Err(Failure::new(Exit::Failed, why)) }
}

/// Does the work, and returns the messages to the client.
fn answers(server: &mut Server, work: Work) -> Vec<Value> {
    let error = |id: Value, code: i32, message: &str| {
        vec![json!({ "id": id, "error": { "code": code, "message": message } })]
    };
    match work {
        Work::Malformed { json, id, message } => {
            error(id, if json { INVALID_REQUEST } else { PARSE_ERROR }, &message)
        }
        Work::Cancelled { id } => error(id, REQUEST_CANCELLED, "taken back"),
        // A fault of ours in one message is no reason to leave somebody in the middle of work.
        Work::Request { id, method, params } => {
            match catch_unwind(AssertUnwindSafe(|| server.request(&method, params))) {
                Ok(Ok(result)) => vec![json!({ "id": id, "result": result })],
                Ok(Err(e)) => error(id, e.code, &e.message),
                Err(_) => error(id, INTERNAL_ERROR, "a fault of the server"),
            }
        }
        Work::Notification { method, params } => {
            let told = catch_unwind(AssertUnwindSafe(|| server.notification(&method, params)));
            told.unwrap_or_default()
                .into_iter()
                .map(|(method, params)| json!({ "method": method, "params": params }))
                .collect()
        }
    }
}

/// The disk, and the sources that are built in.
struct Disk {
    registry: Registry,
    natives: Arc<NativeHeadings>,
}

impl Files for Disk {
    fn read(&self, path: &str) -> Option<String> {
        let length = std::fs::metadata(path).ok().filter(|data| data.is_file())?.len();
        if length > FILE_BYTES_MAX { None } else { std::fs::read_to_string(path).ok() }
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let mut found = vec![];
        collect(Path::new(folder), DEPTH_MAX, &mut found);
        found.sort();
        found
    }

    fn built_in(&self, name: &str) -> Option<String> {
        self.registry.text(name).map(str::to_owned)
    }

    fn built_in_names(&self) -> Vec<String> {
        self.registry.texts()
    }

    fn natives(&self) -> Option<Arc<NativeHeadings>> {
        Some(self.natives.clone())
    }
}

fn collect(folder: &Path, depth: u32, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // A link may lead back to where it stands.
        let kind = entry.file_type();
        if found.len() >= FILES_MAX || name.starts_with('.') {
            continue;
        }
        if kind.as_ref().is_ok_and(|kind| kind.is_dir()) {
            if depth > 0 && name != "target" && name != "node_modules" {
                collect(&path, depth - 1, found);
            }
        } else if name.ends_with(".theta")
            && let Some(path) = path.to_str()
        {
            found.push(path.to_owned());
        }
    }
}
