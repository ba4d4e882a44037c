//! Whatever texts a query is made of, and whatever calls come to a board in whatever order: the
//! bodies are those of the fuzz targets `trader_query`, `trader_url` and `trader_board`.

mod support;

use support::bodies::{trader_board, trader_query, trader_url};
use support::random::{Random, each_of_corpus, repeat};

#[test]
fn queries() {
    let parts = [
        "a",
        "tier",
        "load",
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "^=",
        "&",
        "'",
        "%41",
        "%",
        "1",
        "-2",
        "0.5",
        "true",
        "eu",
        "prefer=",
        "min(a)",
        "first",
        "\n",
        "\u{e9}",
        "9223372036854775808",
        "1.0e400",
    ];
    let mut read = 0;
    repeat("queries", |seed| {
        let mut random = Random::new(seed);
        for _ in 0..200 {
            let text: String = (0..random.below(14)).map(|_| random.pick(&parts)).collect();
            read += usize::from(trader_query(text.as_bytes()));
        }
    });
    assert!(read > 0, "some are queries");
    each_of_corpus("trader_query", |data| {
        trader_query(data);
    });
}

#[test]
fn urls() {
    let parts = [
        "trader://",
        "trader+tcp://",
        "trader+quic://",
        "trader+unix://",
        "/",
        "//",
        "host",
        "[::1]",
        ":",
        ":1",
        "?",
        "&",
        "#",
        "service=",
        "Store",
        "%5B",
        "%00",
        "%",
        "%25",
        "a=1",
        "prefer=min(a)",
        "b^='x'",
        "sha256-",
        "\u{e9}",
        " ",
    ];
    let mut read = 0;
    repeat("urls", |seed| {
        let mut random = Random::new(seed);
        for _ in 0..200 {
            let text: String = (0..random.below(10)).map(|_| random.pick(&parts)).collect();
            read += usize::from(trader_url(text.as_bytes()));
        }
    });
    assert!(read > 0, "some are URLs");
    each_of_corpus("trader_url", |data| {
        trader_url(data);
    });
}

#[test]
fn boards() {
    let mut calls = 0;
    repeat("boards", |seed| {
        let mut random = Random::new(seed);
        let length = 1 + random.below(2_000);
        let data: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        calls += trader_board(&data);
    });
    assert!(calls > 1_000);
    each_of_corpus("trader_board", |data| {
        trader_board(data);
    });
}
