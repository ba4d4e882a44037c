//! What the tutorial shows in Rust: it compiles, and does what it should.

mod document;
mod support;

#[rustfmt::skip]
#[allow(dead_code, clippy::all, missing_docs, reason = "generated")]
#[path = "tutorial/bifrost_stubs.rs"]
mod stubs;

use std::path::Path;

use bifrost_engine::Mode;
use bifrost_native::{Cx, Registry, Signals, theta_class, theta_routine};
use bifrost_server::{Space, program, space};
use bifrost_theta::{Options, Sources};
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
    let page = Document::read("docs/book/tutorial/8-a-service.md");
    let shown = |info: &str| blocks(&page.text).into_iter().find(|b| b.info == info).expect(info).text;
    assert_eq!(shown("theta file=board.theta"), std::fs::read_to_string(&program).unwrap());
    let here = include_str!("tutorial.rs");
    assert!(here.contains(&shown("rust")), "the page shows another client");
    let server = Server::serve(&program, &[]);
    assert_eq!(minutes_left(&server.urls[0]).unwrap(), 135);
}

/// The class native "gauges::Gauge".
struct Gauge {
    level: i64,
}

#[derive(Signals)]
enum FillSignal {
    Full(i64),
}

#[theta_class("gauges::Gauge")]
impl Gauge {
    fn level(&self, _cx: &mut Cx) -> i64 {
        self.level
    }

    fn fill(&mut self, _cx: &mut Cx, by: i64) -> Result<i64, FillSignal> {
        if by > 100 - self.level {
            return Err(FillSignal::Full(100 - self.level));
        }
        self.level += by;
        Ok(self.level)
    }
}

#[theta_routine("gauges::new_gauge")]
fn new_gauge(_cx: &mut Cx, level: i64) -> Gauge {
    Gauge { level }
}

/// The text of a page's block that starts so.
fn block(page: &Document, start: &str) -> String {
    blocks(&page.text).into_iter().find(|b| b.text.starts_with(start)).expect(start).text
}

#[test]
fn the_native_of_the_tutorial_works() {
    let page = Document::read("docs/book/tutorial/7-natives.md");
    let reference = Document::read("docs/book/language/natives.md");
    let here = include_str!("tutorial.rs");
    for page in [&page, &reference] {
        assert!(here.contains(&block(page, "/// The class native")), "the page shows another native");
    }
    let registry = Registry::standard().with_class::<Gauge>().with_routine(new_gauge::native());
    let shown = block(&reference, "let registry = ");
    assert!(here.contains(shown.trim()), "the page shows another registry");
    let main = "main ()
  g: gauge := new_gauge(90)
  g.fill(5)
  g.fill(6) except when full (room: int): print(g.level().unparse() || \", room for \" || room.unparse()) end
end main
";
    let text = block(&page, "gauge = type") + main;
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let mut sources = Sources::new();
        sources.add("main.theta", text.clone());
        let engine = program::load_sources_with(sources, &Options::default(), mode, &registry)
            .unwrap_or_else(|e| panic!("{e}"));
        let main = engine.find_entry("main", 0).expect("there is a main");
        let limits = bifrost_runtime::Limits::default();
        let space = Space::new(engine.clone(), limits).unwrap();
        space.capture_output();
        let said = space::on_stack(limits.stack_bytes, || {
            let mut cx = space.lock();
            // SAFETY: the context runs this engine's image, and `main` takes nothing.
            unsafe { engine.call(&mut cx, main, &[]) }.unwrap();
            cx.take_output()
        });
        assert_eq!(said.unwrap(), "95, room for 5\n", "{mode:?}");
    }
}
