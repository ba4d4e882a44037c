//! The wire form and REX on machines of both byte orders: a program in C, which is written from the
//! specifications alone (`vectors/decode.c`), reads the vectors here and on an emulated s390x, and
//! its JSON is compared with that of the vectors.

// These tests themselves run on an emulated machine, too, which has no compiler.
#![cfg(target_endian = "little")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors"))
}

fn vectors(name: &str) -> Vec<Json> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    serde_json::from_str::<Vec<Json>>(&text).unwrap()
}

/// A machine: its compiler, the program that runs what was compiled, and its order of bytes.
struct Machine {
    compiler: &'static str,
    runner: Option<&'static str>,
    order: &'static str,
}

const HERE: Machine = Machine { compiler: "cc", runner: None, order: "little" };
const S390X: Machine = Machine { compiler: "s390x-linux-gnu-gcc", runner: Some("qemu-s390x"), order: "big" };

impl Machine {
    fn compile(&self, folder: &Path) -> PathBuf {
        let program = folder.join("decode");
        let flags = ["-std=c11", "-O1", "-static", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"];
        let compiled = Command::new(self.compiler)
            .args(flags)
            .args([&program, &self::folder().join("decode.c")])
            .status()
            .unwrap_or_else(|error| {
                let packages = "gcc, gcc-s390x-linux-gnu, libc6-dev-s390x-cross and qemu-user";
                panic!("{}: {error}; install the packages {packages}", self.compiler)
            });
        assert!(compiled.success(), "{}", self.compiler);
        program
    }

    /// Decodes lines; returns the JSON of each.
    fn decode(&self, lines: &[String]) -> Vec<Json> {
        let folder = tempfile::tempdir().unwrap();
        let program = self.compile(folder.path());
        let mut command = match self.runner {
            Some(runner) => {
                let mut command = Command::new(runner);
                command.arg(&program);
                command
            }
            None => Command::new(&program),
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}; install the package qemu-user", self.runner));
        let (mut stdin, text) = (child.stdin.take().unwrap(), lines.join("\n") + "\n");
        let writing = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap();
        assert!(output.status.success(), "{:?}", output.status);
        let text = String::from_utf8(output.stdout).unwrap();
        let mut told = text.lines().map(|line| serde_json::from_str::<Json>(line).expect(line));
        assert_eq!(told.next(), Some(json!(self.order)));
        let told: Vec<Json> = told.collect();
        assert_eq!(told.len(), lines.len());
        told
    }
}

/// The same JSON with the bits of reals in place of their texts, which may differ.
fn with_bits(json: Json) -> Json {
    match json {
        Json::Object(fields) => fields
            .into_iter()
            .map(|(name, field)| match field.as_str().filter(|_| name == "real") {
                Some(text) => (name, json!(text.parse::<f64>().unwrap().to_bits())),
                None => (name, with_bits(field)),
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Json::Array(items) => items.into_iter().map(with_bits).collect(),
        other => other,
    }
}

/// The lines for the program, and the JSON that it must print; `None`: that they are malformed.
fn expected() -> Vec<(String, Option<Json>)> {
    let line = |kind: &str, row: &Json| format!("{kind} {}", row["hex"].as_str().unwrap().replace(' ', ""));
    let mut all = Vec::new();
    for row in vectors("commands.json") {
        all.push((line("commands", &row), Some(row["commands"].clone())));
    }
    for row in vectors("replies.json") {
        all.push((line("reply", &row), Some(row["reply"].clone())));
    }
    for row in vectors("rex.json") {
        all.push((line("rex", &row), Some(row["message"].clone()).filter(|message| !message.is_null())));
    }
    for row in vectors("malformed.json") {
        all.push((line("commands", &row), None));
    }
    // A reply that is cut off is none.
    let replies: Vec<String> = all.iter().map(|(line, _)| line.clone()).collect();
    for reply in replies.iter().filter(|line| line.starts_with("reply ")) {
        let start = "reply ".len();
        all.extend((start..reply.len()).step_by(2).map(|end| (reply[..end].to_owned(), None)));
    }
    all
}

fn check(machine: &Machine) {
    let expected = expected();
    let lines: Vec<String> = expected.iter().map(|(line, _)| line.clone()).collect();
    let mut decoded = 0;
    for (told, (line, wanted)) in machine.decode(&lines).into_iter().zip(expected) {
        match wanted {
            Some(wanted) => {
                assert_eq!(with_bits(told), with_bits(wanted), "{line}");
                decoded += 1;
            }
            None => assert!(told["malformed"].is_u64(), "{line}: {told}"),
        }
    }
    assert!(decoded > 100, "{decoded} messages");
}

#[test]
fn a_program_in_c_reads_the_vectors_here() {
    check(&HERE);
}

#[test]
fn a_program_in_c_reads_the_vectors_on_a_big_endian_machine() {
    check(&S390X);
}
