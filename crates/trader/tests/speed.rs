//! The time of an import at a board with 10,000 offers. The bounds are far above the times, which
//! are printed: a scan of all offers would exceed them.

use std::time::{Duration, Instant};

use bifrost_trader::{
    Board, Everything, Export, Limits, Memory, Options, Party, Properties, Query, Question,
};

/// A board with 10,000 offers in so many services, and its digest.
fn board(services: usize) -> (Memory, bifrost_wire::Digest) {
    let types: Vec<String> = (0..services).map(|n| format!(r#"{{"name":"S{n}","kind":"object"}}"#)).collect();
    let limits = Limits { offers_session_max: 10_000, ..Limits::default() };
    let mut board = Memory::new(limits.clone(), Options { trusts_addresses: true, ..Options::default() });
    let interface = format!(r#"{{"types":[{}],"routines":[]}}"#, types.join(","));
    let digest = board.teach(interface.as_bytes()).expect("an interface");
    for n in 0..10_000 {
        let properties = format!("region=eu-{}&tier={}&host='h{n}'&incarnation={n}", n % 7, n % 3);
        let export = Export {
            service: format!("S{}", n % services),
            digest,
            name: format!("object{n}"),
            addresses: vec![format!("tls://server{n}:7447"), format!("unix:///run/server{n}")],
            properties: Properties::parse(&properties, &limits).expect("properties"),
            load: Some(n as f64 / 10_000.0),
            ..Export::default()
        };
        board.export(Party { right: &Everything, session: 1 }, export, 0).expect("an offer");
    }
    (board, digest)
}

/// The mean time of an import.
fn time(services: usize, imports: u32) -> Duration {
    let (mut board, digest) = board(services);
    let query = Query::parse("region^=eu&tier>=1").expect("a query");
    let start = Instant::now();
    for n in 0..imports {
        let service = format!("S{}", n as usize % services);
        let question =
            Question { service, digest: Some(digest), query: query.clone(), ..Question::default() };
        let party = Party { right: &Everything, session: 2 };
        let found = board.import(party, &question, u64::from(n), 0).expect("an answer");
        assert_eq!(found.offers.len(), 8);
    }
    start.elapsed() / imports
}

#[test]
fn imports_take_little_time() {
    let (few, all) = (time(200, 5_000), time(1, 100));
    println!("an import among 50 of 10,000 offers: {few:?}; among all of them: {all:?}");
    assert!(few < Duration::from_micros(500) && all < Duration::from_millis(50), "{few:?}, {all:?}");
}
