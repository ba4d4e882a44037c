//! The client of the tutorial: it compiles, and says what it should.

mod document;
mod support;

#[rustfmt::skip]
#[allow(dead_code, clippy::all, missing_docs, reason = "generated")]
#[path = "tutorial/bifrost_stubs.rs"]
mod stubs;

use std::path::Path;

use document::{Document, blocks};
use stubs::{Board, connect};
use support::Server;

fn minutes_left(url: &str) -> Result<i64, Box<dyn std::error::Error>> {
    let s = connect(url)?;
    let board: Board = s.lookup("board");
    let left = s.cell_with(0);
    s.foreach(board.tasks(), |t| {
        s.if_(!t.done(), || {
            left.put(left.get() + t.minutes());
        });
    });
    Ok(left.get().claim()?)
}

#[test]
fn the_client_of_the_tutorial_works() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tutorial/board.theta");
    let page = Document::read("docs/book/tutorial/7-a-service.md");
    let shown = |info: &str| blocks(&page.text).into_iter().find(|b| b.info == info).expect(info).text;
    assert_eq!(shown("theta file=board.theta"), std::fs::read_to_string(&program).unwrap());
    let here = include_str!("tutorial.rs");
    assert!(here.contains(&shown("rust")), "the page shows another client");
    let server = Server::serve(&program, &[]);
    assert_eq!(minutes_left(&server.urls[0]).unwrap(), 135);
}
