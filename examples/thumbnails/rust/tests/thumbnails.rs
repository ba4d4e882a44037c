//! The program does what README.md of the example says; a server that is killed costs no picture.
//! `UPDATE_EXPECT=1` writes the outputs, `BIFROST_UPDATE=1` the stubs.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use image::{GenericImageView, Rgb, RgbImage};

/// Nothing here takes longer, on a busy machine either.
const SOON: Duration = Duration::from_secs(60);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A program, in the folder of the example, without the settings of whoever runs the tests.
fn program(file: &str) -> Command {
    let mut command = Command::new(file);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BIFROST_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder()).stdin(Stdio::null());
    command
}

fn server() -> Command {
    program(env!("CARGO_BIN_EXE_thumbnail-server"))
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

fn check(output: &Output, file: &str) {
    let said = said(output);
    let file = folder().join(file);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &said).unwrap();
    }
    assert_eq!(said, std::fs::read_to_string(file).unwrap());
}

/// A server that ends with the test.
struct Served(Child);

impl Served {
    /// Starts it, and waits until it listens.
    fn start(command: &mut Command) -> Served {
        let mut served = Served(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(served.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "{line}");
        served
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn committed_stubs_are_fresh() {
    for (language, folder) in [("rust", "rust/src"), ("typescript", "typescript")] {
        let mut veneer = server();
        veneer.args(["veneer", "--lang", language, "thumbnails.theta", "-o", folder]);
        if std::env::var_os("BIFROST_UPDATE").is_none() {
            veneer.arg("--check");
        }
        said(&veneer.output().unwrap());
    }
}

#[test]
fn main_prints_what_it_should() {
    for arguments in [&["run"][..], &["run", "--interpret"]] {
        check(&server().args(arguments).arg("thumbnails.theta").output().unwrap(), "expected.txt");
    }
}

#[test]
fn clients_use_the_actor() {
    let sockets = tempfile::tempdir().unwrap();
    let url = format!("unix://{}/socket", sockets.path().display());
    let _served = Served::start(server().args(["serve", "--listen", &url, "thumbnails.theta"]));
    let mut shell = server();
    shell.args(["shell", "--echo", &url]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let script = std::fs::read(folder().join("client.bifrost")).unwrap();
    shell.stdin.take().unwrap().write_all(&script).unwrap();
    check(&shell.wait_with_output().unwrap(), "transcript.txt");
}

/// Writes pictures of several sizes.
fn pictures(folder: &Path, count: u32) -> Vec<PathBuf> {
    let picture = |at: u32| {
        let file = folder.join(format!("picture{at}.{}", ["png", "jpg", "ppm"][at as usize % 3]));
        let pixel = |x, y| Rgb([x as u8, y as u8, at as u8]);
        RgbImage::from_fn(300 + at, 600 - at, pixel).save(&file).unwrap();
        file
    };
    (0..count).map(picture).collect()
}

#[test]
fn a_server_that_is_killed_costs_no_picture() {
    const COUNT: u32 = 60;
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| format!("unix://{}/{name}", place.path().display());
    let trader = at("trader");
    let _trader = Served::start(server().args(["trader", "--listen", &trader]));
    let serve = |name: &str| {
        let mut command = server();
        command.args([
            "serve",
            "--listen",
            &at(name),
            "--trader",
            &trader,
            "--export",
            "thumbnails:Thumbnails",
        ]);
        Served::start(command.arg("thumbnails.theta"))
    };
    let (first, _second) = (serve("a"), serve("b"));
    let start = Instant::now();
    loop {
        let listed = server().args(["trader", "list", "--json", "--trader", &trader]).output().unwrap();
        if said(&listed).lines().count() == 2 {
            break;
        }
        assert!(start.elapsed() < SOON, "the servers are not listed: {}", said(&listed));
        std::thread::sleep(Duration::from_millis(50));
    }
    let copies = place.path().join("copies");
    let mut client = program(env!("CARGO_BIN_EXE_thumbnail"));
    let service = format!("trader+unix://{}/trader?service=Thumbnails", place.path().display());
    client
        .args(["--side", "64", "--service", &service, "-o"])
        .arg(&copies)
        .args(pictures(place.path(), COUNT));
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    // It is killed while pictures are under way.
    let mut said: Vec<String> = lines.by_ref().take(10).map(Result::unwrap).collect();
    drop(first);
    said.extend(lines.map(Result::unwrap));
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success(), "{said:#?} {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.len(), COUNT as usize, "{said:#?}");
    for at in 0..COUNT {
        let copy = image::open(copies.join(format!("picture{at}.png"))).unwrap();
        assert_eq!(copy.dimensions().1, 64, "picture {at}");
    }
}

#[test]
fn a_client_without_a_trader_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let picture = pictures(folder.path(), 1).remove(0);
    let mut client = program(env!("CARGO_BIN_EXE_thumbnail"));
    let output = client.arg("-o").arg(folder.path().join("copies")).arg(picture).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("BIFROST_TRADER"), "{said}");
}
