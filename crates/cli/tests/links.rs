//! Links between traders, in real processes: an import goes on to other traders, and ends in
//! circles, at its hops, and at links that are gone or do not answer.

mod support;
mod traders;

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bifrost_veneer::trader::stubs::Offer;
use serde_json::Value;
use support::{Server, bifrost, stderr, stdout};
use tempfile::TempDir;
use traders::{Client, DATABASE, PATIENT, trader, trader_at};

/// The arguments of a link.
fn link(name: &str, socket: &Path) -> Vec<String> {
    vec!["--link".to_owned(), format!("{name}=unix://{}", socket.display())]
}

/// Starts a trader that lists offers without a proof.
fn trader_with(socket: &Path, links: &[Vec<String>], arguments: &[&str]) -> Server {
    let mut all = vec!["--trust-addresses"];
    all.extend(links.iter().flatten().map(String::as_str));
    all.extend(arguments);
    trader_at(socket, &all)
}

/// Sockets of traders, whose names are known before the traders are there.
fn sockets<const N: usize>() -> (TempDir, [PathBuf; N]) {
    let folder = tempfile::tempdir().unwrap();
    let sockets = std::array::from_fn(|n| folder.path().join(format!("trader{n}")));
    (folder, sockets)
}

/// The link of an offer; empty for an offer of the trader that was asked.
fn way(offer: &Offer) -> String {
    let at = offer.names.iter().position(|name| name == "link");
    at.map_or_else(String::new, |at| offer.values[at].trim_matches('\'').to_owned())
}

/// The names of offers and their links, in order.
fn ways(offers: &[Offer]) -> Vec<(String, String)> {
    let mut all: Vec<_> = offers.iter().map(|offer| (offer.name.clone(), way(offer))).collect();
    all.sort();
    all
}

fn told(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, way)| ((*name).to_owned(), (*way).to_owned())).collect()
}

/// An import over so many links.
fn through(client: &Client, number: u128, hops: i64) -> Vec<Offer> {
    let number = format!("{number:032x}");
    let found = client.trader.find_through("DataBase", "", "", 0, "", number, hops, 10_000);
    found.get().claim().unwrap().offers
}

#[test]
fn a_link_is_asked_if_there_is_no_offer_or_always() {
    let (_folder, [near, always, far]) = sockets();
    let _far = trader_with(&far, &[], &[]);
    let near = trader_with(&near, &[link("us", &far)], &[]);
    let always = trader_with(&always, &[link("us", &far)], &["--set", "links.us.follow=always"]);
    let [near, always] = [&near, &always].map(Client::new);
    let far = Client::new(&_far);
    far.advertised("far", "tcp://192.0.2.7:1", "region=us&tier=2");

    let found = near.find("region=us&tier>=2");
    assert_eq!(ways(&found), told(&[("far", "us")]));
    assert_eq!(
        (found[0].service.as_str(), &found[0].addresses[..]),
        ("DataBase", &["tcp://192.0.2.7:1".to_owned()][..])
    );
    let names = (&found[0].names[..], &found[0].values[..]);
    assert_eq!(
        names,
        (&["link", "region", "tier"].map(str::to_owned)[..], &["us", "us", "2"].map(str::to_owned)[..])
    );
    assert!(near.find("region=eu").is_empty(), "the link compares as this trader does");
    // The list of a trader is of its own offers.
    assert!(near.trader.offers("DataBase", 0, 0, "").get().claim().unwrap().is_empty());

    near.advertised("near", "tcp://192.0.2.1:1", "region=us");
    always.advertised("near", "tcp://192.0.2.1:1", "region=us");
    assert_eq!(ways(&near.find("region=us")), told(&[("near", "")]));
    assert_eq!(ways(&always.find("region=us")), told(&[("far", "us"), ("near", "")]));
    // What is wanted holds for all answers together.
    let first = always.trader.find("DataBase", "", "prefer=max(tier)", 1, "").get().claim().unwrap();
    assert_eq!((ways(&first.offers), first.more), (told(&[("far", "us")]), true));
}

#[test]
fn a_linked_trader_is_taught_the_interface() {
    let (_folder, [near, far]) = sockets();
    let far_server = trader_with(&far, &[], &[]);
    let near = trader_with(&near, &[link("us", &far)], &[]);
    let near = Client::new(&near);
    Client::new(&far_server).advertised("far", "tcp://192.0.2.7:1", "");
    // An older client, whose type has one method less: no trader has seen its interface before.
    let mut interface: Value = serde_json::from_str(DATABASE).unwrap();
    let types = interface["types"].as_array_mut().unwrap();
    let database = types.iter_mut().find(|ty| ty["name"] == "DataBase").unwrap();
    database["methods"].as_array_mut().unwrap().pop().unwrap();
    let digest = near.teach(&interface.to_string());
    assert_ne!(digest, near.teach(DATABASE));
    let found = near.trader.find("DataBase", digest, "", 0, "").get().claim().unwrap();
    assert_eq!(ways(&found.offers), told(&[("far", "us")]));
}

#[test]
fn a_circle_of_three_traders_ends() {
    let (_folder, sockets) = sockets::<3>();
    let servers: Vec<Server> = (0..3)
        .map(|n| {
            let next = link("next", &sockets[(n + 1) % 3]);
            trader_with(&sockets[n], &[next], &["--set", "links.next.follow=always"])
        })
        .collect();
    let clients: Vec<Client> = servers.iter().map(Client::new).collect();
    for (n, client) in clients.iter().enumerate() {
        client.advertised(&format!("n{n}"), "tcp://192.0.2.1:1", "");
    }
    let all = told(&[("n0", ""), ("n1", "next"), ("n2", "next/next")]);
    assert_eq!(ways(&through(&clients[0], 1, 3)), all);
    // More hops than there may be are as many as there may be.
    assert_eq!(ways(&through(&clients[0], 2, 1_000_000)), all);
    // The question is known at each of the three: whoever asks it again hears nothing.
    for client in &clients {
        assert!(through(client, 1, 3).is_empty());
    }
    assert_eq!(ways(&clients[1].find("")), told(&[("n1", ""), ("n2", "next")]));
}

#[test]
fn an_import_goes_as_many_hops_as_it_has() {
    let (_folder, sockets) = sockets::<5>();
    let servers: Vec<Server> = (0..5)
        .map(|n| {
            let next = sockets.get(n + 1).map(|next| link("next", next));
            trader_with(&sockets[n], &next.into_iter().collect::<Vec<_>>(), &[])
        })
        .collect();
    let clients: Vec<Client> = servers.iter().map(Client::new).collect();
    clients[4].advertised("n4", "tcp://192.0.2.1:1", "");
    assert!(through(&clients[0], 1, 3).is_empty(), "it is four links away");
    assert_eq!(ways(&through(&clients[1], 2, 9)), told(&[("n4", "next/next/next")]));
    assert_eq!(ways(&through(&clients[2], 3, 2)), told(&[("n4", "next/next")]));
    assert!(through(&clients[2], 4, 1).is_empty());
    assert!(clients[2].find("").is_empty(), "one hop if the import names no number");
    assert!(through(&clients[3], 5, 0).is_empty());
    assert_eq!(ways(&clients[3].find("")), told(&[("n4", "next")]));
    // A trader may be set otherwise.
    let (_folder, [other]) = self::sockets();
    let two = trader_with(&other, &[link("next", &sockets[3])], &["--set", "trader.hops_default=2"]);
    assert_eq!(ways(&Client::new(&two).find("")), told(&[("n4", "next/next")]));

    let bad = clients[0].trader.find_through("DataBase", "", "", 0, "", "12", 1, 1_000).get().claim();
    assert!(bad.unwrap_err().to_string().contains("32 hexadecimal digits"));
}

#[test]
fn a_link_that_hangs_costs_its_time_and_holds_up_no_other_import() {
    let (_folder, [near, far, hanging]) = sockets();
    let far_server = trader_with(&far, &[], &[]);
    let silent = UnixListener::bind(&hanging).unwrap();
    // One task: no import may hold it.
    let settings =
        ["--tasks", "1", "--set", "trader.link_ms_max=3000", "--set", "trader.link_rest_ms=3600000"];
    let links = [link("hanging", &hanging), link("us", &far)];
    let near = trader_with(&near, &links, &settings);
    let client = Client::new(&near);
    client.advertised("near", "tcp://192.0.2.1:1", "region=eu");
    Client::new(&far_server).advertised("far", "tcp://192.0.2.7:1", "region=us");
    std::thread::scope(|scope| {
        let (sender, answered) = mpsc::channel();
        let near = &near;
        scope.spawn(move || {
            let waiting = Client::new(near);
            let start = Instant::now();
            let found = waiting.find("region=us");
            sender.send((ways(&found), start.elapsed())).unwrap();
        });
        // The link is asked, and so the import waits.
        let (mut asked, _) = silent.accept().unwrap();
        assert_eq!(ways(&client.find("region=eu")), told(&[("near", "")]));
        assert!(answered.try_recv().is_err(), "the other import was answered first");
        let (found, within) = answered.recv_timeout(PATIENT).unwrap();
        // The other link has answered.
        assert_eq!(found, told(&[("far", "us")]));
        assert!(within >= Duration::from_millis(2_900), "{within:?}");
        // The trader hangs up, and lets the link rest.
        asked.set_read_timeout(Some(PATIENT)).unwrap();
        asked.read_to_end(&mut Vec::new()).unwrap();
    });
    silent.set_nonblocking(true).unwrap();
    let start = Instant::now();
    while start.elapsed() < PATIENT {
        let before = Instant::now();
        assert_eq!(ways(&client.find("region=us")), told(&[("far", "us")]));
        if before.elapsed() < Duration::from_millis(2_900) {
            break;
        }
    }
    assert!(start.elapsed() < PATIENT, "each import waits for the link");
}

#[test]
fn a_link_that_is_gone_costs_nothing_and_is_asked_again_when_it_is_back() {
    let (_folder, [near, far]) = sockets();
    let near = trader_with(&near, &[link("us", &far)], &["--set", "trader.link_rest_ms=0"]);
    let near = Client::new(&near);
    assert!(near.find("").is_empty());
    let server = trader_with(&far, &[], &[]);
    Client::new(&server).advertised("first", "tcp://192.0.2.7:1", "");
    assert_eq!(ways(&near.find("")), told(&[("first", "us")]));
    drop(server);
    assert!(near.find("").is_empty());
    // The first question to the trader that is back makes a new session.
    let server = trader_with(&far, &[], &[]);
    Client::new(&server).advertised("second", "tcp://192.0.2.7:1", "");
    assert_eq!(ways(&near.find("")), told(&[("second", "us")]));
    // A session that was lost since its last use is found out when it is used.
    drop(server);
    let server = trader_with(&far, &[], &[]);
    Client::new(&server).advertised("third", "tcp://192.0.2.7:1", "");
    assert_eq!(ways(&near.find("")), told(&[("third", "us")]));
}

#[test]
fn imports_that_wait_for_links_have_a_limit() {
    let (_folder, [near, far]) = sockets();
    let far_server = trader_with(&far, &[], &[]);
    let near = trader_with(&near, &[link("us", &far)], &["--set", "trader.gatherings_max=0"]);
    Client::new(&far_server).advertised("far", "tcp://192.0.2.7:1", "");
    let found = Client::new(&near).trader.find("DataBase", "", "", 0, "").get().claim().unwrap();
    assert_eq!((found.offers.len(), found.more), (0, true));
}

#[test]
fn mistakes_in_links_are_refused() {
    let refused = |arguments: &[&str]| {
        let output = bifrost().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output).to_owned()
    };
    let many: Vec<String> = (0..17).map(|n| format!("--link=n{n}=unix:///run/n{n}")).collect();
    let many: Vec<&str> = ["trader"].into_iter().chain(many.iter().map(String::as_str)).collect();
    assert!(refused(&many).contains("`trader.links_max` is 16"));
    assert!(refused(&["trader", "--link", "us"]).contains("NAME=URL"));
    assert!(refused(&["trader", "--link", "us=nowhere"]).contains("`nowhere`"));
    assert!(refused(&["trader", "--link", "a/b=unix:///run/a"]).contains("`a/b`"));
    assert!(refused(&["trader", "--set", "links.us.follow=always"]).contains("links.us.url"));
    assert!(refused(&["trader", "--set", "links.us.follow=never"]).contains("never"));
    let example = support::example("database");
    let serve = refused(&["serve", "--set", "links.us.url=unix:///run/a", example.to_str().unwrap()]);
    assert!(serve.contains("`bifrost trader`"), "{serve}");
    let shown = bifrost().args(["trader", "--link", "us=unix:///run/us", "--print-config"]).output().unwrap();
    let shown = stdout(&shown).to_owned();
    assert!(
        shown.contains("[links.us]\nfollow = \"if_none\"\ntoken_file = \"\"\nurl = \"unix:///run/us\"\n"),
        "{shown}"
    );
}

#[test]
fn a_link_over_tls_shows_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let token = token.to_str().unwrap();
    let far = trader(&["--trust-addresses", "--listen", "tls://127.0.0.1:0", "--token-file", token]);
    Client::new(&far).advertised("far", "tcp://192.0.2.7:1", "");
    let link = format!("us={}", far.urls[1]);
    let found = |arguments: &[&str]| {
        let near = trader(&[&["--link", link.as_str()], arguments].concat());
        ways(&Client::new(&near).find(""))
    };
    assert!(found(&[]).is_empty());
    assert_eq!(found(&["--set", &format!("links.us.token_file={token}")]), told(&[("far", "us")]));
}
