//! The packages, as they come out: unpacked, installed, started, talked to, upgraded and purged. The program in
//! them is a quick build (profile `static-test`); all else is as in a release.
//!
//! Tests that change roots need the rights of the superuser. Other users run the rest.

use std::collections::BTreeMap;
use std::fs::{Permissions, read, read_to_string};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bifrost_packaging::{Source, USER, build, debian, image, tarball};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The time of the packages of tests.
const TIME: u64 = 1_700_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The contents of the packages; the first test that asks builds the program.
fn source() -> &'static Source {
    static SOURCE: OnceLock<Source> = OnceLock::new();
    SOURCE.get_or_init(|| {
        let binary = build(&root(), "static-test").unwrap();
        Source::load(&root(), &binary, TIME).unwrap()
    })
}

fn is_superuser() -> bool {
    let is = rustix::process::geteuid().is_root();
    if !is {
        eprintln!("not the superuser: no root is changed");
    }
    is
}

/// Runs a program that must succeed; returns what it prints.
#[track_caller]
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {said}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A process that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts a server, and waits until it is ready.
    fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let running = Running(child);
        assert!(line.starts_with("ready "), "{line}");
        running
    }

    /// Ends it in order.
    fn end(mut self) {
        run("kill", &[&self.0.id().to_string()]);
        assert!(self.0.wait().unwrap().success());
    }
}

/// Asks the database of the example for a count, over a bare socket and in the text form.
#[track_caller]
fn talk(socket: &Path) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
        .write_all(b"hello 2\n$db := lookup database: DataBase\n? $db.fetch(\"bob\").visits()\nbye\n")
        .unwrap();
    let lines: Vec<String> = BufReader::new(stream).lines().map_while(Result::ok).collect();
    assert!(lines.iter().any(|line| line.contains(" = 0")), "{lines:?}");
}

/// True if a program of this machine needs neither a loader nor a library.
fn is_static(program: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    assert_eq!(&program[..5], b"\x7fELF\x02", "a program of 64 bits");
    let word = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&program[at..at + bytes]);
        u64::from_le_bytes(word)
    };
    let (table, size, count) = (word(32, 8), word(54, 2), word(56, 2));
    assert!(count > 0);
    (0..count).all(|n| word((table + n * size) as usize, 4) != u64::from(INTERPRETER))
}

#[test]
fn the_program_is_static() {
    assert!(is_static(&source().program));
    assert!(!is_static(&read(std::env::current_exe().unwrap()).unwrap()), "other programs are not");
}

#[test]
fn the_same_contents_give_the_same_bytes() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for folder in [&one, &two] {
        tarball(source(), folder.path()).unwrap();
        debian(source(), folder.path(), 0).unwrap();
        image(source(), folder.path()).unwrap();
        std::thread::sleep(Duration::from_millis(1100));
    }
    let digests = |folder: &Path| -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (path.file_name().unwrap().to_string_lossy().into(), digest(&path))).collect()
    };
    assert_eq!(digests(one.path()).len(), 4);
    assert_eq!(digests(one.path()), digests(two.path()));
}

fn digest(path: &Path) -> String {
    Sha256::digest(read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_archive_is_unpacked_and_serves() {
    let folder = tempfile::tempdir().unwrap();
    let path = tarball(source(), folder.path()).unwrap();
    run("tar", &["xzf", text(&path), "-C", text(folder.path())]);
    let name = path.file_name().unwrap().to_string_lossy().replace(".tar.gz", "");
    let top = folder.path().join(name);
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md", "bifrost.service"] {
        assert!(top.join(file).is_file(), "{file}");
    }
    let (program, settings) = (top.join("bin/bifrost"), top.join("bifrost.toml"));
    // The settings in the archive are the defaults, and are read back as they are.
    let printed = run(text(&program), &["serve", "--print-config", "--config", text(&settings)]);
    assert_eq!(printed, read_to_string(&settings).unwrap());
    assert!(!printed.lines().any(|line| line.starts_with(|c: char| c.is_ascii_lowercase())), "{printed}");
    // A page for each command, and each as `man` wants it.
    for page in ["bifrost.1", "bifrost-serve.1", "bifrost-store-backup.1", "bifrost-completions.1"] {
        let page = top.join("share/man/man1").join(page);
        let told = run("man", &["--warnings", "-E", "UTF-8", "-l", "-Tutf8", text(&page)]);
        // Letters in bold are printed twice.
        let mut plain = String::new();
        for letter in told.chars() {
            match letter {
                '\u{8}' => _ = plain.pop(),
                letter => plain.push(letter),
            }
        }
        assert!(plain.contains("SYNOPSIS"), "{plain}");
    }
    let bash = top.join("share/bash-completion/completions/bifrost");
    let completed = run(
        "bash",
        &[
            "-c",
            &format!(
                "
        . '{}'
        COMP_WORDS=(bifrost st) COMP_CWORD=1
        _bifrost bifrost st bifrost
        echo \"${{COMPREPLY[*]}}\"",
                text(&bash)
            ),
        ],
    );
    assert_eq!(completed, "store\n");
    let socket = folder.path().join("socket");
    let mut command = Command::new(&program);
    command
        .arg("serve")
        .arg("--config")
        .arg(&settings)
        .arg("--listen")
        .arg(format!("unix://{}", text(&socket)));
    let server = Running::start({
        command.arg(top.join("examples/database/database.theta"));
        command
    });
    talk(&socket);
    assert_eq!(
        run(text(&program), &["ping", &format!("unix://{}", text(&socket))]),
        "the server gives sessions\n"
    );
    server.end();
}

#[test]
fn the_debian_package_is_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let package = debian(source(), folder.path(), 0).unwrap();
    let told = run(
        "lintian",
        &["--allow-root", "--no-cfg", "--fail-on", "error", "--tag-display-limit", "0", text(&package)],
    );
    assert!(!told.contains("E: "), "{told}");
    let top = folder.path().join("top");
    run("dpkg-deb", &["-x", text(&package), text(&top)]);
    // The unit, with the program where it is here.
    let unit = read_to_string(top.join("usr/lib/systemd/system/bifrost.service")).unwrap();
    let here = folder.path().join("bifrost.service");
    std::fs::write(&here, unit.replace("/usr/bin/bifrost", text(&top.join("usr/bin/bifrost")))).unwrap();
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&here).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("bifrost.service:"), "{told}");
    let wrong =
        unit.replace("WatchdogSec=60", "WatchdogSec=soon").replace("/usr/bin/bifrost", "/usr/bin/true");
    std::fs::write(&here, wrong).unwrap();
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&here).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("soon"), "mistakes are found");
}

/// A script that runs in a root of its own: that of this machine, with changes that nobody keeps. It gets
/// the package, a newer one, and the folder of the examples.
const INSTALLED: &str = r#"
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/inner"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/inner"
for folder in proc dev; do mount --rbind "/$folder" "$1/inner/$folder"; done
mount -t tmpfs tmpfs "$1/inner/run"
cp "$2" "$1/inner/run/one.deb"
cp "$3" "$1/inner/run/two.deb"
cp "$4" "$1/inner/run/main.theta"
exec chroot "$1/inner" bash -euc '
  export DEBIAN_FRONTEND=noninteractive
  dpkg -i /run/one.deb >&2
  dpkg --verify bifrost
  test "$(stat -c "%U:%G %a" /etc/bifrost/bifrost.toml)" = "root:bifrost 640"
  # As the unit starts it.
  mkdir -p /run/bifrost /var/lib/bifrost
  chown bifrost:bifrost /run/bifrost /var/lib/bifrost
  chmod 700 /var/lib/bifrost
  cp /run/main.theta /etc/bifrost/main.theta
  serve() {
    coproc SERVER { exec setpriv --reuid=bifrost --regid=bifrost --clear-groups \
      /usr/bin/bifrost serve --config /etc/bifrost/bifrost.toml /etc/bifrost/main.theta; }
    server=$SERVER_PID
    read -r -u "${SERVER[0]}" ready
    test "${ready%% *}" = ready
  }
  serve
  bifrost ping unix:///run/bifrost/socket >&2
  bifrost shell unix:///run/bifrost/socket -c "? lookup database" >&2
  bifrost store backup /var/lib/bifrost/store /run/copy
  bifrost store check /run/copy >&2
  # An upgrade keeps changed settings, and the store.
  echo "sessions_max = 77" >> /etc/bifrost/head.toml
  cat /etc/bifrost/bifrost.toml >> /etc/bifrost/head.toml
  cat /etc/bifrost/head.toml > /etc/bifrost/bifrost.toml
  rm /etc/bifrost/head.toml
  kill "$server"; wait "$server"
  dpkg -i /run/two.deb >&2
  test "$(dpkg-query -W -f "\${Version}" bifrost)" = 999-1
  bifrost serve --print-config --config /etc/bifrost/bifrost.toml | grep -qx "sessions_max = 77"
  serve
  bifrost ping unix:///run/bifrost/socket >&2
  kill "$server"; wait "$server"
  dpkg -r bifrost >&2
  test ! -e /usr/bin/bifrost
  test -e /etc/bifrost/bifrost.toml
  dpkg --purge bifrost >&2
  test ! -e /etc/bifrost/bifrost.toml
  test -e /var/lib/bifrost/store/base
  echo installed, upgraded, purged
'
"#;

#[test]
fn the_debian_package_is_installed_upgraded_and_purged() {
    if !is_superuser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [packages, newer, mounted] = ["packages", "newer", "mounted"].map(|name| folder.path().join(name));
    for folder in [&packages, &newer, &mounted] {
        std::fs::create_dir(folder).unwrap();
    }
    let package = debian(source(), &packages, 0).unwrap();
    let Source { root, binary, time, program, pages, completions, .. } = source();
    let (root, binary, time) = (root.clone(), binary.clone(), *time);
    let (program, pages, completions) = (program.clone(), pages.clone(), completions.clone());
    let later = Source { root, binary, time, version: "999".to_owned(), program, pages, completions };
    let newer = debian(&later, &newer, 0).unwrap();
    let example = crate::root().join("examples/database/database.theta");
    let arguments = ["--mount", "--pid", "--fork", "--kill-child", "bash", "-c", INSTALLED, "installed"];
    let paths = [text(&mounted), text(&package), text(&newer), text(&example)];
    let told = run("unshare", &[&arguments[..], &paths].concat());
    assert!(told.ends_with("installed, upgraded, purged\n"), "{told}");
    assert!(!Path::new("/etc/bifrost/main.theta").exists(), "nothing of it is left");
}

/// Returns the image's configuration and the bytes of its layer, after the digests of all blobs were compared.
fn opened(image: &Path, folder: &Path) -> (Value, PathBuf) {
    run("tar", &["xf", text(image), "-C", text(folder)]);
    let json = |path: &Path| -> Value { serde_json::from_slice(&read(path).unwrap()).unwrap() };
    let blob = |described: &Value| -> PathBuf {
        let expected = described["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        let path = folder.join("blobs/sha256").join(&expected);
        assert_eq!(digest(&path), expected);
        assert_eq!(path.metadata().unwrap().len(), described["size"].as_u64().unwrap());
        path
    };
    assert_eq!(json(&folder.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let manifest = json(&blob(&json(&folder.join("index.json"))["manifests"][0]));
    let config = json(&blob(&manifest["config"]));
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    let layer = blob(&layers[0]);
    // The digest of the layer unpacked is another one.
    let plain = folder.join("layer.tar");
    run("sh", &["-c", &format!("gzip -dc '{}' > '{}'", text(&layer), text(&plain))]);
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", digest(&plain)));
    (config, plain)
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_image_serves_in_a_root_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(source(), folder.path()).unwrap();
    let (config, layer) = opened(&path, folder.path());
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::fs::set_permissions(&inside, Permissions::from_mode(0o755)).unwrap();
    if !is_superuser() {
        return;
    }
    run("tar", &["xf", text(&layer), "-C", text(&inside), "--numeric-owner", "--same-owner"]);
    let state = inside.join("var/lib/bifrost").metadata().unwrap();
    assert_eq!((u64::from(state.uid()), state.mode() & 0o777), (USER, 0o700));
    std::fs::copy(root().join("examples/database/database.theta"), inside.join("srv/main.theta")).unwrap();
    let config = &config["config"];
    let user = config["User"].as_str().unwrap();
    let command_line = [strings(&config["Entrypoint"]), strings(&config["Cmd"])].concat();
    let mut command = Command::new("chroot");
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.arg(format!("--userspec={user}")).arg(&inside).args(&command_line);
    let server = Running::start(command);
    talk(&inside.join("run/bifrost/socket"));
    let healthy = strings(&config["Healthcheck"]["Test"]);
    let check = || {
        let mut command = Command::new("chroot");
        command.arg(format!("--userspec={user}")).arg(&inside).args(&healthy[1..]).output().unwrap().status
    };
    assert_eq!(healthy[0], "CMD");
    assert!(check().success());
    // The store is where the volume is, and outlives the server.
    assert!(inside.join("var/lib/bifrost/store/base").is_file());
    server.end();
    assert!(!check().success(), "a server that is not there is not healthy");
}

#[test]
fn the_recipe_and_the_image_agree() {
    let folder = tempfile::tempdir().unwrap();
    let (config, _) = opened(&image(source(), folder.path()).unwrap(), folder.path());
    let config = &config["config"];
    let recipe = read_to_string(root().join("packaging/Containerfile")).unwrap();
    let line = |word: &str| {
        let found = recipe.lines().find_map(|line| line.strip_prefix(&format!("{word} ")));
        found.unwrap_or_else(|| panic!("{word} is not in the recipe")).to_owned()
    };
    let list = |word: &str| -> Vec<String> { strings(&serde_json::from_str(&line(word)).unwrap()) };
    let keys = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(line("USER"), config["User"].as_str().unwrap());
    assert_eq!(line("WORKDIR"), config["WorkingDir"].as_str().unwrap());
    assert_eq!(line("STOPSIGNAL"), config["StopSignal"].as_str().unwrap());
    assert_eq!(line("EXPOSE") + "/tcp", keys(&config["ExposedPorts"]).concat());
    assert_eq!(list("VOLUME"), keys(&config["Volumes"]));
    assert_eq!(list("ENTRYPOINT"), strings(&config["Entrypoint"]));
    assert_eq!(list("CMD"), strings(&config["Cmd"]));
    let check = line("HEALTHCHECK");
    let (times, test) = check.split_once(" CMD ").unwrap();
    let test: Value = serde_json::from_str(test).unwrap();
    assert_eq!(strings(&test), strings(&config["Healthcheck"]["Test"])[1..]);
    for (name, setting) in
        [("--interval", "Interval"), ("--timeout", "Timeout"), ("--start-period", "StartPeriod")]
    {
        let seconds = config["Healthcheck"][setting].as_u64().unwrap() / 1_000_000_000;
        assert!(times.contains(&format!("{name}={seconds}s")), "{times}");
    }
    let added = line("ADD");
    assert_eq!(added, "bifrost-root.tar.gz /");
    assert!(folder.path().join("bifrost-root.tar.gz").is_file());
}

#[test]
fn the_calls_of_the_system_are_those_that_the_unit_allows() {
    let folder = tempfile::tempdir().unwrap();
    let unit = read_to_string(root().join("packaging/bifrost.service")).unwrap();
    let filter = unit.lines().find_map(|line| line.strip_prefix("SystemCallFilter=")).unwrap();
    let listed = run("systemd-analyze", &["syscall-filter"]);
    let mut sets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut set = "";
    for line in listed.lines() {
        match line.trim() {
            name if line.starts_with('@') => set = name,
            call if !call.is_empty() && !call.starts_with('#') => sets.entry(set).or_default().push(call),
            _ => {}
        }
    }
    let mut allowed = Vec::new();
    let mut waiting = vec![filter];
    while let Some(name) = waiting.pop() {
        match sets.get(name) {
            Some(calls) => waiting.extend(calls),
            None => allowed.push(name),
        }
    }
    assert!(allowed.len() > 100 && !allowed.contains(&"mount"), "{allowed:?}");
    let (socket, calls) = (folder.path().join("socket"), folder.path().join("calls"));
    let mut command = Command::new("strace");
    command.args(["--follow-forks", "--summary-only", "--output", text(&calls)]).arg(&source().binary);
    command.args(["serve", "--listen", &format!("unix://{}", text(&socket))]);
    command.args(["--store", text(&folder.path().join("store"))]);
    command.arg(root().join("examples/database/database.theta"));
    let mut server = Running::start(command);
    talk(&socket);
    run(
        text(&source().binary),
        &["store", "backup", text(&folder.path().join("store")), text(&folder.path().join("copy"))],
    );
    run("pkill", &["-TERM", "-P", &server.0.id().to_string()]);
    let until = Instant::now() + Duration::from_secs(30);
    while server.0.try_wait().unwrap().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let used = read_to_string(&calls).unwrap();
    let names = used.lines().skip(2).filter_map(|line| line.split_whitespace().last());
    let names: Vec<&str> = names
        .filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || "_0123456789".contains(c)))
        .collect();
    assert!(names.len() > 20 && names.contains(&"futex"), "{used}");
    let refused: Vec<_> = names.iter().filter(|name| **name != "total" && !allowed.contains(name)).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
