//! `bifrost serve --export` with real traders: objects are found while their server lives, at every
//! trader, and gone when it ends; mistakes are told at the start, and roles bound what is exported.

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bifrost_server::roles::token_entry;
use bifrost_veneer::Session;
use bifrost_veneer::trader::stubs::{INTERFACE, Trader};
use serde_json::Value;
use support::{Server, bifrost, example, kill, stderr, stdout};

/// Nothing here takes longer, on a busy machine either.
const PATIENT: Duration = Duration::from_secs(60);
/// The lease of the exports, in milliseconds.
const LEASE_MS: u64 = 6_000;
/// The setting with this lease.
const LEASE: &str = "exports.database.lease_ms=6000";

/// Starts a trader at a socket of a folder that outlives it.
fn trader_in(folder: &Path, arguments: &[&str]) -> Server {
    let mut command = bifrost();
    command.args(["trader", "--listen"]).arg(format!("unix://{}/trader", folder.display()));
    command.args(["--set", &format!("trader.lease_ms_min={LEASE_MS}")]);
    command.env("XDG_STATE_HOME", folder);
    command.args(arguments).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    Server::ready(command.spawn().unwrap(), tempfile::tempdir().unwrap())
}

/// A trader, with its folder.
struct Place {
    folder: tempfile::TempDir,
    trader: Server,
}

fn place(arguments: &[&str]) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let trader = trader_in(folder.path(), arguments);
    Place { folder, trader }
}

impl Place {
    fn url(&self) -> &str {
        &self.trader.urls[0]
    }

    fn list(&self) -> Vec<Value> {
        list(self.url(), "")
    }

    /// Waits until so many offers are listed.
    #[track_caller]
    fn lists(&self, count: usize) -> Vec<Value> {
        let start = Instant::now();
        loop {
            let found = self.list();
            if found.len() == count {
                return found;
            }
            assert!(start.elapsed() < PATIENT, "{found:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs `bifrost trader list --json` with a token.
fn list(url: &str, token: &str) -> Vec<Value> {
    let mut command = bifrost();
    // The variable is one of servers, too, and stands for no argument of theirs here.
    command.args(["trader", "list", "--json"]).env("BIFROST_TRADER", url);
    if !token.is_empty() {
        command.env("BIFROST_TOKEN", token);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Serves the database, exported to traders, to everybody on loopback.
fn database(traders: &[&str], arguments: &[&str]) -> Server {
    Server::serve_logged(&example("database"), &exporting(traders, arguments))
}

fn exporting<'a>(traders: &[&'a str], arguments: &[&'a str]) -> Vec<&'a str> {
    let mut all =
        vec!["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback", "--export", "database:DataBase"];
    all.extend(["--set", LEASE]);
    traders.iter().for_each(|trader| all.extend(["--trader", trader]));
    [&all, arguments].concat()
}

/// Takes the lines of a child's standard error as they come.
fn lines(child: &mut Child) -> mpsc::Receiver<String> {
    use std::io::{BufRead, BufReader};
    let said = BufReader::new(child.stderr.take().unwrap());
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || said.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    lines
}

#[track_caller]
fn wait_for(lines: &mpsc::Receiver<String>, expected: &str) -> String {
    let mut before = String::new();
    loop {
        match lines.recv_timeout(PATIENT) {
            Ok(line) if line.contains(expected) => return line,
            Ok(line) => before += &format!("{line}\n"),
            Err(_) => panic!("no `{expected}` in:\n{before}"),
        }
    }
}

/// The value of a metric of a server with `--metrics unix://FOLDER/metrics`.
fn metric(server: &Server, name: &str) -> f64 {
    let mut stream = UnixStream::connect(server.folder.path().join("metrics")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{name}: {text}")).trim().parse().unwrap()
}

#[test]
fn an_object_is_found_with_what_its_server_says() {
    let place = place(&[]);
    let own =
        ["--property", "region=eu", "--property", "tier=1", "--set", "exports.database.properties.tier=2"];
    let more = ["--store", "FOLDER/objects", "--metrics", "unix://FOLDER/metrics"];
    let server = database(&[place.url()], &[&own[..], &more].concat());
    let offer = place.lists(1).remove(0);
    assert_eq!((&offer["service"], &offer["name"]), (&"DataBase".into(), &"database".into()));
    assert_eq!(offer["addresses"], serde_json::json!(server.urls));
    let properties = &offer["properties"];
    assert_eq!((&properties["region"], &properties["tier"]), (&"eu".into(), &2.into()));
    assert_eq!(properties["version"], env!("CARGO_PKG_VERSION"));
    for given in ["host", "incarnation", "store"] {
        assert!(properties[given].as_str().is_some_and(|text| text.len() >= 32), "{given}: {offer}");
    }
    assert!(offer["load"].as_f64().is_some_and(|load| load >= 0.0), "{offer}");
    // A client finds the object at the address.
    let address = offer["addresses"][1].as_str().unwrap();
    let shell = server.shell(address, &[], "$d := lookup database: DataBase\n");
    assert!(shell.status.success(), "{}", stderr(&shell));
    let start = Instant::now();
    while metric(&server, "bifrost_exports_held ") < 1.0 {
        assert!(start.elapsed() < PATIENT);
    }
    assert_eq!(metric(&server, "bifrost_exports_wanted "), 1.0);
    assert_eq!(metric(&server, "bifrost_trader_sessions "), 1.0);
    // The identity is that of the store.
    let objects = server.folder.path().join("objects");
    kill(&server.child, "TERM");
    place.lists(0);
    let mut server = server;
    server.child.wait().unwrap();
    let output = bifrost().args(["store", "info", "--json"]).arg(&objects).output().unwrap();
    let info: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(info["identity"], properties["store"]);
}

#[test]
fn an_actor_is_exported_by_its_published_name() {
    let place = place(&[]);
    let listen = ["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"];
    let export = ["--export", "house:House", "--trader", place.url()];
    let _server = Server::start("auctions", &[&listen[..], &export].concat());
    assert_eq!(place.lists(1)[0]["name"], "house");
}

/// A program whose only call runs for long.
const BUSY: &str = "\
Busy = type
  spin (n: int)
end Busy

module busy exports new_busy
  Spinner = class implements Busy
    at: int
    spin (n: int)
      for i: int in 1.to(n) do at := i end
    end spin
  end Spinner

  new_busy () returns (Busy)
    return (Spinner{at := 0})
  end new_busy
end busy

setup ()
  root().insert(\"busy\", new_busy())
end setup
";

#[test]
fn a_load_is_pushed_with_renewals() {
    let place = place(&[]);
    let program = tempfile::tempdir().unwrap();
    let file = program.path().join("busy.theta");
    std::fs::write(&file, BUSY).unwrap();
    let limits = ["--set", "limits.fuel_max=1000000000000", "--set", "limits.batch_time_ms_max=120000"];
    let export = ["--export", "busy:Busy", "--trader", place.url(), "--set", "exports.busy.lease_ms=6000"];
    let listen = ["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"];
    let server = Server::serve(&file, &[&limits[..], &export, &listen].concat());
    assert_eq!(place.lists(1)[0]["load"], 0.0);
    let mut client = bifrost();
    client.arg("shell").arg(&server.urls[0]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut client = client.spawn().unwrap();
    let script = b"$b := lookup busy: Busy\n$b.spin(1000000000000)\nflush\n";
    client.stdin.as_mut().unwrap().write_all(script).unwrap();
    let start = Instant::now();
    while place.lists(1)[0]["load"] == 0.0 {
        assert!(start.elapsed() < PATIENT, "the load stays");
        std::thread::sleep(Duration::from_millis(100));
    }
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn both_traders_list_and_one_that_starts_again_lists_soon() {
    let [one, mut other] = [place(&[]), place(&[])];
    let mut command = bifrost();
    command.env("BIFROST_LOG", "bifrost=info");
    command.env("BIFROST_TRADER", format!("{},{}", one.url(), other.url()));
    let server = Server::spawn(command, &example("database"), &exporting(&[], &[]));
    one.lists(1);
    other.lists(1);
    other.trader.child.kill().unwrap();
    other.trader.child.wait().unwrap();
    std::fs::remove_file(other.folder.path().join("trader")).ok();
    other.trader = trader_in(other.folder.path(), &[]);
    let start = Instant::now();
    other.lists(1);
    // A third of a lease and a second; twice as long where the machine is busy.
    assert!(start.elapsed() < Duration::from_millis(2 * (LEASE_MS / 3 + 1_000)), "{:?}", start.elapsed());
    assert_eq!(one.list().len(), 1);
    let (status, said) = server.end("TERM");
    assert_eq!(status, Some(0));
    assert!(said.contains("trader.lost") && said.matches("trader.connected").count() >= 3, "{said}");
}

#[test]
fn a_server_that_dies_is_gone_after_its_lease() {
    let place = place(&[]);
    let mut server = database(&[place.url()], &[]);
    place.lists(1);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let start = Instant::now();
    place.lists(0);
    assert!(start.elapsed() >= Duration::from_millis(LEASE_MS / 3), "{:?}", start.elapsed());
}

#[test]
fn a_server_that_stops_withdraws_at_once() {
    let place = place(&[]);
    let lease = ["--set", "exports.database.lease_ms=60000"];
    let server = database(&[place.url()], &lease);
    place.lists(1);
    let (status, said) = server.end("TERM");
    assert_eq!(status, Some(0), "{said}");
    // The lease would last for a minute.
    assert!(place.list().is_empty());
    assert!(said.contains("export.withdrawn"), "{said}");
}

#[test]
fn a_trader_that_is_away_keeps_no_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("unix://{}/trader", folder.path().display());
    let mut server = database(&[&url], &["--metrics", "unix://FOLDER/metrics"]);
    let lines = lines(&mut server.child);
    wait_for(&lines, "trader.lost");
    assert_eq!(metric(&server, "bifrost_exports_held "), 0.0);
    let trader = trader_in(folder.path(), &[]);
    wait_for(&lines, "export.held");
    let start = Instant::now();
    while list(&trader.urls[0], "").is_empty() {
        assert!(start.elapsed() < PATIENT);
    }
}

#[test]
fn a_trader_that_hangs_holds_up_nothing() {
    let place = place(&[]);
    // It accepts, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = format!("tcp://{}", silent.local_addr().unwrap());
    let server = database(&[&hanging, place.url()], &[]);
    place.lists(1);
    // It is renewed all the time.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(LEASE_MS + LEASE_MS / 2) {
        assert_eq!(place.list().len(), 1, "{:?}", start.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    let start = Instant::now();
    let (status, said) = server.end("TERM");
    assert_eq!(status, Some(0));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(place.list().is_empty());
    assert!(said.contains("trader.lost"), "{said}");
}

/// Runs a server that does not start, and returns its exit status and its words.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bifrost();
    command.arg("serve").args(arguments).arg(example("database")).current_dir(folder.path());
    let output = command.env("XDG_STATE_HOME", folder.path()).output().unwrap();
    (output.status.code(), stderr(&output).to_owned())
}

#[test]
fn mistakes_are_told_at_the_start() {
    let export = ["--export", "database:DataBase", "--trader", "unix:///nowhere/trader"];
    let with = |arguments: &[&str]| refused(&[&export, arguments].concat());
    let (status, said) = with(&["--listen", "tls://0.0.0.0:0"]);
    assert!(status == Some(2) && said.contains("tls://0.0.0.0:0") && said.contains("--advertise"), "{said}");
    let (status, said) = with(&["--listen", "tls://127.0.0.1:0", "--advertise", "db1:7447"]);
    assert!(status == Some(2) && said.contains("cannot advertise `db1:7447`"), "{said}");
    let (status, said) = with(&["--property", "load=1"]);
    assert!(status == Some(2) && said.contains("`load`"), "{said}");
    let local = ["--listen", "tcp://127.0.0.1:0"];
    let (status, said) = refused(&[&local[..], &["--export", "database:DataBase"]].concat());
    assert!(status == Some(2) && said.contains("--trader URL"), "{said}");
    // The object is looked up when the server has made it.
    for (wrong, why) in [
        ("data:DataBase", "there is no well-known object `data`"),
        ("database:Database", "the program has no remote type `Database`"),
        ("database:directory", "`database` cannot be exported as `directory`"),
    ] {
        let (status, said) = refused(&[&local[..], &["--export", wrong], &export[2..]].concat());
        assert!(status == Some(1) && said.contains(why), "{wrong}: {said}");
    }
}

#[test]
fn an_advertised_address_has_the_pin_of_the_server() {
    let place = place(&["--trust-addresses"]);
    let advertise = ["--listen", "tls://0.0.0.0:0", "--advertise", "tls://db1.example:7447"];
    let _server = database(&[place.url()], &advertise);
    let offer = place.lists(1).remove(0);
    let address = offer["addresses"][0].as_str().unwrap();
    assert!(address.starts_with("tls://db1.example:7447#sha256-"), "{offer}");
    assert_eq!(offer["addresses"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_trader_is_known_by_its_pin_and_gets_the_token() {
    known_by_its_pin("tls");
    known_by_its_pin("quic");
}

fn known_by_its_pin(medium: &str) {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, EXPORTER).unwrap();
    let token = ["--token-file", token.to_str().unwrap()];
    let trader =
        trader_in(folder.path(), &[&token[..], &["--listen", &format!("{medium}://127.0.0.1:0")]].concat());
    let url = &trader.urls[1];
    let (address, pin) = url.split_once("#sha256-").expect("the pin of a certificate that it made itself");
    // A trader with another certificate gets neither the offer nor the token.
    let other =
        format!("{address}#sha256-{}", if pin.starts_with('A') { "B" } else { "A" }.to_owned() + &pin[1..]);
    let export = |url: &str| {
        let mut command = bifrost();
        command.env("BIFROST_TRADER_TOKEN", EXPORTER).env("BIFROST_LOG", "bifrost=info");
        Server::spawn(command, &example("database"), &exporting(&[url], &[]))
    };
    let mut wrong = export(&other);
    let told = wait_for(&lines(&mut wrong.child), "trader.lost");
    assert!(told.contains("the server has the pin"), "{told}");
    assert!(list(url, EXPORTER).is_empty());
    let mut right = export(url);
    wait_for(&lines(&mut right.child), "export.held");
    assert_eq!(list(url, EXPORTER).len(), 1);
}

const EXPORTER: &str = "exporter-of-the-test";
const READER: &str = "reader-of-the-test";

/// The roles of a trader.
fn roles(imports_of_exporter: &str) -> String {
    let [exporter, reader] = [EXPORTER, READER].map(token_entry);
    format!(
        "[roles.exporter]\ntokens = [\"{exporter}\"]\nroots = [\"trader\"]\nexports = [\"Data*\"]\n\
         imports = [{imports_of_exporter}]\n\
         [roles.reader]\ntokens = [\"{reader}\"]\nroots = [\"trader\"]\nimports = [\"*\"]\n"
    )
}

#[test]
fn roles_bound_what_is_exported_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("roles.toml");
    std::fs::write(&settings, roles("")).unwrap();
    let config = ["--config", settings.to_str().unwrap(), "--listen", "tcp://127.0.0.1:0"];
    let trader = trader_in(folder.path(), &config);
    let url = &trader.urls[1];
    let mut command = bifrost();
    command.env("BIFROST_TRADER_TOKEN", EXPORTER).env("BIFROST_LOG", "bifrost=info");
    let mut server = Server::spawn(command, &example("database"), &exporting(&[url], &[]));
    let held = lines(&mut server.child);
    wait_for(&held, "export.held");
    // A role exports only its services, and is told so.
    let mut command = bifrost();
    command.env("BIFROST_TRADER_TOKEN", EXPORTER);
    let export = ["--listen", "tcp://127.0.0.1:0", "--export", "scores:Scores", "--trader", url];
    let mut scores = Server::spawn(command, &example("scores"), &export);
    let told = wait_for(&lines(&mut scores.child), "export.refused");
    assert!(told.contains("the role `exporter` may not export `Scores`"), "{told}");
    // So is one that may export nothing, and one that nobody knows.
    let mut command = bifrost();
    command.env("BIFROST_TRADER_TOKEN", READER);
    let mut reader = Server::spawn(command, &example("database"), &exporting(&[url], &[]));
    let told = wait_for(&lines(&mut reader.child), "export.refused");
    assert!(told.contains("the role `reader` may not export `DataBase`"), "{told}");
    let mut stranger = database(&[url], &[]);
    let told = wait_for(&lines(&mut stranger.child), "trader.lost");
    assert!(told.contains("token"), "{told}");

    let start = Instant::now();
    while list(url, READER).is_empty() {
        assert!(start.elapsed() < PATIENT);
    }
    assert_eq!(list(url, READER).len(), 1);
    assert!(list(url, EXPORTER).is_empty(), "its role imports nothing");
    let client = |token: &str| -> (Session, Trader) {
        let session = Session::builder(&INTERFACE).token(token).timeout(PATIENT).connect(url).unwrap();
        let trader = session.lookup("trader");
        (session, trader)
    };
    let found = |trader: &Trader| trader.find("DataBase", "", "", 0, "").get().claim().unwrap().offers.len();
    let counter = |trader: &Trader| trader.changes("DataBase", 0, 0).claim().unwrap();
    let ((_reading, reading), (_exporting, exporting)) = (client(READER), client(EXPORTER));
    assert_eq!((found(&reading), found(&exporting)), (1, 0));
    assert_ne!(counter(&reading), counter(&exporting), "nothing is told of the changes either");
    // Rights are read again, for open sessions, too.
    std::fs::write(&settings, roles("\"Data*\"")).unwrap();
    kill(&trader.child, "HUP");
    let start = Instant::now();
    while found(&exporting) == 0 {
        assert!(start.elapsed() < PATIENT);
    }
    assert_eq!(counter(&reading), counter(&exporting));
}
