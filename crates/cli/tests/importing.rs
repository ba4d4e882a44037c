//! Imports through traders, with real traders and servers: the client finds and prefers, tries addresses and traders,
//! and says what is wrong. `service.rs` has the services that stay.

mod document;
mod support;
mod traders;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "../../../examples/database/rust/src/bifrost_stubs.rs"]
mod stubs;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use bifrost_veneer::import::{Search, TRADERS_MAX};
use bifrost_veneer::{ConnectError, Service, ServiceError, Session, import};
use document::{Document, blocks};
use stubs::{DataBase, INTERFACE};
use support::{Server, bifrost, feed, stderr, stdout};
use traders::{Client, database, trader, url};

const LOOKUP: &str = "$d := lookup database: DataBase\n";

/// An address at which connections are taken, and nothing is ever answered.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    (listener, address)
}

/// An address at which nobody listens.
fn nobody() -> String {
    silent().1
}

/// The output of a shell at a URL, with these variables.
fn shell(url: &str, variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = bifrost();
    command.arg("shell").arg(url).envs(variables.iter().copied());
    let output = feed(command, LOOKUP);
    (output.status.code(), stdout(&output).to_owned(), stderr(&output).to_owned())
}

/// The failure of an import that may take a second.
fn failure(url: &str) -> String {
    let builder = Session::builder(&INTERFACE).timeout(Duration::from_secs(1));
    builder.import::<DataBase>(url).expect_err(url).to_string()
}

// The examples of the book.

fn visits(url: &str, user: &str) -> Result<i64, Box<dyn std::error::Error>> {
    let (session, db) = import::<DataBase>(url)?;
    let visits = db.fetch(user).visits().claim()?;
    session.close()?;
    Ok(visits)
}

fn count(service: &mut Service<DataBase>, user: &str) -> Result<i64, ServiceError> {
    let visits = service.run_named(|_, db| {
        let elem = db.fetch(user);
        elem.touch();
        elem.visits()
    })?;
    Ok(visits.claim().expect("its batch was answered"))
}

#[test]
fn the_examples_of_the_book_work() {
    let page = Document::read("docs/book/services.md");
    let here = include_str!("importing.rs");
    for block in blocks(&page.text).into_iter().filter(|block| block.info == "rust") {
        assert!(here.contains(&block.text), "the page shows another program:\n{}", block.text);
    }
    let trader = trader(&["--trust-addresses"]);
    let folder = tempfile::tempdir().unwrap();
    let server = database(&["--store", folder.path().join("store").to_str().unwrap()]);
    Client::new(&trader).database("database", &[&server.urls[1]], "store=one");
    let url = url(&trader, "");
    let mut service = Service::<DataBase>::new(&url);
    service.run_named(|_, db| db.new_user("zoe").visits()).unwrap();
    assert_eq!(count(&mut service, "zoe").unwrap(), 1);
    assert_eq!(count(&mut service, "zoe").unwrap(), 2);
    assert_eq!(visits(&url, "zoe").unwrap(), 2);
}

#[test]
fn an_import_finds_the_preferred_server() {
    let trader = trader(&[]);
    let servers = [database(&[]), database(&[])];
    let exports = Client::new(&trader);
    for (server, tier) in servers.iter().zip(["1", "2"]) {
        exports.database("database", &[&server.urls[1]], &format!("region=eu&tier={tier}"));
    }
    exports.listed("tier>0", 2);
    for (prefer, server) in [("min(tier)", &servers[0]), ("max(tier)", &servers[1])] {
        let url = url(&trader, &format!("region=eu&prefer={prefer}"));
        let (session, db) = import::<DataBase>(&url).unwrap();
        let imported = session.service().unwrap();
        assert_eq!((imported.name(), imported.address()), ("database", server.urls[1].as_str()));
        assert_eq!(imported.offer().properties.text("region"), Some("eu"));
        db.new_user("zoe").touch();
        assert_eq!(db.fetch("zoe").visits().claim().unwrap(), 1);
        // A session without the object, whose name it tells.
        let session = Session::builder(&INTERFACE).connect(&url).unwrap();
        let db: DataBase = session.lookup(session.service().unwrap().name());
        session.resolve(&db).unwrap();
        assert_eq!(session.service().unwrap().address(), server.urls[1]);
        let (status, said, told) = shell(&url, &[]);
        assert_eq!((status, said.as_str()), (Some(0), "$d = h1: DataBase\nok 0 calls\n"), "{told}");
        assert_eq!(told, format!("`database`: DataBase at {}\n", server.urls[1]));
    }
    assert!(failure(&url(&trader, "region=us")).contains("no trader knows an offer that matches"));
    let direct = Session::builder(&INTERFACE).connect(&servers[0].urls[0]).unwrap();
    assert!(direct.service().is_none());
}

#[test]
fn commands_take_the_url_of_a_service() {
    let trader = trader(&["--trust-addresses"]);
    let server = database(&[]);
    let exports = Client::new(&trader);
    exports.database("database", &[&server.urls[1]], "");
    let url = url(&trader, "");
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = bifrost().args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output).to_owned()
    };
    assert_eq!(run(&["ping", &url]), "the server gives sessions\n");
    run(&["veneer", "--from", &url, "-o", "stubs"]);
    let made = std::fs::read_to_string(folder.path().join("stubs/bifrost_stubs.interface.json")).unwrap();
    assert_eq!(made, INTERFACE.json);
    // The first trader of a list that answers.
    let list = format!("{}, {}", nobody(), trader.urls[0]);
    assert!(run(&["trader", "list", "--trader", &list]).contains("DataBase"));
}

#[test]
fn addresses_are_tried_until_one_answers() {
    let trader = trader(&["--trust-addresses"]);
    let server = database(&[]);
    let exports = Client::new(&trader);
    let (_listener, silent) = silent();
    let host = bifrost_transport::host().unwrap();
    // One that nobody listens at, one that is silent, and one that answers; the local one comes first.
    exports.database("database", &[&nobody(), &silent, &server.urls[1]], "of=several");
    exports.database("database", &[&nobody(), &server.urls[0]], &format!("of=local&host={host}"));
    exports.database("database", &[&silent], "of=silent");
    exports.database("database", &[&server.urls[0]], "of=elsewhere&host=another");
    let start = Instant::now();
    let (session, _) = import::<DataBase>(&url(&trader, "of=several")).unwrap();
    assert_eq!(session.service().unwrap().address(), server.urls[1]);
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(250), "the silent one is waited for: {took:?}");
    assert!(took < Duration::from_millis(4_500), "{took:?} is the patience with one address");
    let (session, _) = import::<DataBase>(&url(&trader, "of=local")).unwrap();
    assert_eq!(session.service().unwrap().address(), server.urls[0]);
    let start = Instant::now();
    let why = failure(&url(&trader, "of=silent"));
    assert!(
        why.contains("no server of 1 offers was reached") && start.elapsed() < Duration::from_secs(4),
        "{why}"
    );
    let why = failure(&url(&trader, "of=elsewhere"));
    assert!(why.contains("no trader knows an offer"), "a socket of another machine is not told: {why}");
}

#[test]
fn traders_are_asked_until_one_answers() {
    let trader = trader(&["--trust-addresses"]);
    let server = database(&[]);
    Client::new(&trader).database("database", &[&server.urls[1]], "");
    let (_listener, silent) = silent();
    let traders = [nobody(), silent.clone(), trader.urls[0].clone()];
    let start = Instant::now();
    for list in [traders.join(","), traders.join(" ")] {
        let (status, said, told) = shell("trader:///DataBase", &[("BIFROST_TRADER", &list)]);
        assert_eq!(status, Some(0), "{told}");
        assert!(said.starts_with("$d = h1: DataBase"), "{said}");
    }
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    let none = nobody();
    let (status, _, told) = shell("trader:///DataBase", &[("BIFROST_TRADER", &none)]);
    assert_eq!(status, Some(3));
    assert!(told.contains("cannot import `DataBase`: no trader has answered; tcp://127.0.0.1"), "{told}");
    assert!(told.contains("no server listens on"), "{told}");
    let (status, _, told) = shell("trader:///DataBase", &[]);
    assert_eq!(status, Some(2));
    assert!(told.contains("BIFROST_TRADER is not set"), "{told}");
    let (status, _, told) = shell("trader:///DataBase", &[("BIFROST_TRADER", "trader.example")]);
    assert_eq!(status, Some(2));
    assert!(told.contains("`trader.example` is not an address"), "{told}");
    let many = vec![none; TRADERS_MAX + 1].join(",");
    let (status, _, told) = shell("trader:///DataBase", &[("BIFROST_TRADER", &many)]);
    assert_eq!(status, Some(2));
    assert!(told.contains("names 17 traders; at most 16 are asked"), "{told}");
}

#[test]
fn a_program_can_choose_among_the_offers() {
    let trader = trader(&["--trust-addresses"]);
    let exports = Client::new(&trader);
    for tier in 0..3 {
        exports.database(&format!("n{tier}"), &["tcp://192.0.2.1:1"], &format!("tier={tier}"));
    }
    let search = Search::new(&url(&trader, "tier>0&prefer=max(tier)")).unwrap();
    let names = |most| -> Vec<String> {
        let offers = search.offers(most).unwrap();
        offers.iter().map(|offer| offer.name.to_string()).collect()
    };
    assert_eq!(search.service(), "DataBase");
    assert_eq!((names(0), names(1)), (vec!["n2".to_owned(), "n1".to_owned()], vec!["n2".to_owned()]));
    assert_eq!(search.clone().stubs(&INTERFACE).offers(0).unwrap().len(), 2);
    let none = Search::new(&url(&trader, "tier>7")).unwrap();
    assert!(none.offers(0).unwrap().is_empty());
    let nobody = Search::new(&format!("trader+{}/DataBase", nobody())).unwrap();
    assert!(nobody.offers(0).unwrap_err().to_string().contains("no trader has answered"));
    // A way of its own to connect.
    let (place, imported) =
        search.connect(|_, address, _| Ok::<_, ConnectError>(address.to_string())).unwrap();
    assert_eq!((place.as_str(), imported.name()), ("tcp://192.0.2.1:1", "n2"));
}

#[test]
fn mistakes_are_told_at_once() {
    let trader = trader(&["--trust-addresses"]);
    let server = database(&[]);
    let exports = Client::new(&trader);
    exports.database("nothing", &[&server.urls[1]], "of=nothing");
    let start = Instant::now();
    let table = [
        ("trader://t".to_owned(), 2, "names no service"),
        ("trader+tcp://t:port/DataBase".to_owned(), 2, "`port` is not a port"),
        ("trader://t/DataBase#sha256-x".to_owned(), 2, "cannot follow `#`"),
        ("trader+rex://t/DataBase".to_owned(), 2, "is no URL of a trader"),
        (url(&trader, "region!eu"), 2, "at byte 0 of the query"),
        // A server is none.
        (format!("trader+{}?service=DataBase", server.urls[0]), 3, "the trader: "),
    ];
    for (url, status, why) in table {
        let (found, _, told) = shell(&url, &[]);
        assert!(told.contains(why), "{url}: {told}");
        assert_eq!(found, Some(status), "{url}: {told}");
    }
    // An object that the server does not have.
    let why = import::<DataBase>(&url(&trader, "of=nothing")).unwrap_err().to_string();
    assert!(why.contains("the server does not have the object") && why.contains("NoSuchName"), "{why}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_server_with_another_interface_is_left_out() {
    const OTHER: &str = "
DataBase = type   size () returns (int)   end DataBase
module sizes exports new_other
  Other = class implements DataBase   size () returns (int) return (0) end size   end Other
  new_other () returns (DataBase) return (Other{}) end new_other
end sizes
setup () root().insert(\"database\", new_other()) end setup
";
    let trader = trader(&["--trust-addresses"]);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("other.theta");
    std::fs::write(&program, OTHER).unwrap();
    let output = bifrost().arg("veneer").arg(&program).arg("-o").arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let interface = std::fs::read_to_string(folder.path().join("bifrost_stubs.interface.json")).unwrap();
    let other = Server::serve(&program, &["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"]);
    let exports = Client::new(&trader);
    exports.object(&interface, "database", &[&other.urls[1]], "tier=1");
    let why = failure(&url(&trader, ""));
    assert!(why.contains("no trader knows an offer that matches"), "{why}");
    // A client without stubs takes any.
    assert_eq!(shell(&url(&trader, ""), &[]).0, Some(0));
    let server = database(&[]);
    exports.database("database", &[&server.urls[1]], "tier=2");
    let (session, _) = import::<DataBase>(&url(&trader, "prefer=min(tier)")).unwrap();
    assert_eq!(session.service().unwrap().address(), server.urls[1]);
}

#[test]
fn each_token_is_for_its_own_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("{name}-token\n")).unwrap();
        path.display().to_string()
    };
    let (ours, theirs) = (file("server"), file("trader"));
    let listen = ["--listen", "tcp://127.0.0.1:0", "--token-file", &theirs, "--trust-addresses"];
    let trader = trader(&listen);
    let server = Server::start("database", &["--listen", "tls://127.0.0.1:0", "--token-file", &ours]);
    Client::new(&trader).database("database", &[&server.urls[1]], "");
    let at = trader.urls[1].strip_prefix("tcp").unwrap();
    let url = format!("trader+tcp{at}/DataBase");
    let tokens = |ours: &'static str, theirs: &'static str| {
        shell(&url, &[("BIFROST_TOKEN", ours), ("BIFROST_TRADER_TOKEN", theirs)])
    };
    let (status, said, told) = tokens("server-token", "trader-token");
    assert_eq!(status, Some(0), "{told}");
    assert!(said.starts_with("$d = h1: DataBase"), "{said}");
    // Neither stands for the other, and both faults name their place at once.
    let start = Instant::now();
    for (ours, theirs, place) in
        [("trader-token", "trader-token", &server.urls[1]), ("server-token", "server-token", &trader.urls[1])]
    {
        let (status, _, told) = tokens(ours, theirs);
        assert_eq!(status, Some(3), "{told}");
        assert!(told.contains(&format!("; {place}: ")) && told.contains("token"), "{told}");
    }
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    let builder = Session::builder(&INTERFACE).token("server-token").trader_token("trader-token");
    builder.import::<DataBase>(&url).unwrap();
}

#[test]
fn a_token_is_not_shown_where_others_could_read_it() {
    let trader = trader(&["--trust-addresses"]);
    let secret = ["--listen", "tcp://127.0.0.1:0", "--token", "secret"];
    let server = Server::start("database", &secret);
    // The same server under an address that is not known to be of this machine.
    let elsewhere = server.urls[1].replace("127.0.0.1", "0.0.0.0");
    let exports = Client::new(&trader);
    exports.database("database", &[&elsewhere], "region=far");
    exports.database("database", &[&server.urls[1]], "region=near");
    let import = |region: &str| {
        let builder = Session::builder(&INTERFACE).token("secret");
        builder.import::<DataBase>(&url(&trader, &format!("region={region}"))).map(drop)
    };
    let why = import("far").unwrap_err().to_string();
    assert!(why.contains("asks for the token, which is not shown without encryption"), "{why}");
    import("near").unwrap();
}

#[test]
fn a_trader_over_tls_is_known_by_its_pin() {
    let trader = trader(&["--listen", "tls://127.0.0.1:0", "--anonymous-loopback", "--trust-addresses"]);
    let server = Server::start("database", &["--listen", "tls://127.0.0.1:0", "--anonymous-loopback"]);
    Client::new(&trader).database("database", &[&server.urls[1]], "region=eu");
    let (place, pin) = trader.urls[1].strip_prefix("tls://").unwrap().split_once('#').unwrap();
    let (session, _) = import::<DataBase>(&format!("trader://{place}/DataBase?region=eu#{pin}")).unwrap();
    assert_eq!(session.service().unwrap().address(), server.urls[1]);
    let wrong = "sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    let why = import::<DataBase>(&format!("trader://{place}/DataBase#{wrong}")).unwrap_err().to_string();
    assert!(why.contains("no trader has answered") && why.contains(pin), "{why}");
}
