//! What the tutorial shows in Rust: it compiles, and does what it should.

mod document;
mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "tutorial/bifrost_stubs.rs"]
mod stubs;

#[path = "../../capsule/tests/support/output.rs"]
mod output;

use std::path::Path;

use bifrost_engine::Mode;
use bifrost_native::{
    Cx, ObjectType, Proc, Raised, Ref, Registry, Signals, Text, theta_class, theta_routine,
};
use bifrost_runtime::Collect;
use bifrost_server::program;
use bifrost_theta::{Options, Sources};
use document::{Document, blocks};
use output::output;
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

/// `listener = type … end listener`
struct Listener;

impl ObjectType for Listener {
    const NAME: &'static str = "listener";
}

/// The class native "news::Office".
#[derive(Default)]
struct Office {
    listeners: Vec<Ref<Listener>>,
}

#[theta_class("news::Office")]
impl Office {
    fn add(&mut self, _cx: &mut Cx, listener: Ref<Listener>) {
        self.listeners.push(listener);
    }

    fn tell(&self, cx: &mut Cx, news: Text, wanted: Proc<fn(Text) -> bool>) -> Result<i64, Raised> {
        if !wanted.call(cx, (news.clone(),))? {
            return Ok(0);
        }
        for listener in &self.listeners {
            listener.call::<_, ()>(cx, "hear", (news.clone(),))?;
        }
        Ok(self.listeners.len() as i64)
    }
}

#[theta_routine("news::new_office")]
fn new_office(_cx: &mut Cx) -> Office {
    Office::default()
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
    let program = include_str!("../../../examples/natives/rust/src/main.rs");
    assert!(program.contains(&block(&reference, "mod index;")), "the page shows another program");
    let main = "main ()
  g: gauge := new_gauge(90)
  g.fill(5)
  g.fill(6) except when full (room: int): print(g.level().unparse() || \", room for \" || room.unparse()) end
end main
";
    let text = block(&page, "gauge = type") + main;
    assert_eq!(printed(&registry, &text), "95, room for 5\n");
}

#[test]
fn objects_and_routines_of_the_reference_work() {
    let page = Document::read("docs/book/language/natives.md");
    let here = include_str!("tutorial.rs");
    assert!(here.contains(&block(&page, "/// `listener = type")), "the page shows another native");
    let registry = Registry::standard().with_class::<Office>().with_routine(new_office::native());
    let main = "module ears exports new_ear
  Ear = class implements listener
    left: int
    hear (news: string) signals (tired)
      if left = 0 then signal tired end
      left := left - 1
      print(\"heard \" || news)
    end hear
  end Ear
  new_ear (left: int) returns (listener) return (Ear{left := left}) end new_ear
end ears
short (news: string) returns (bool) return (news.length() < 10) end short
main ()
  b: office := new_office()
  b.add(new_ear(2))
  b.add(new_ear(1))
  for news: string in \"sun,rain and thunder,snow\".split(\",\") do
    print(b.tell(news, short).unparse()) except when tired: print(\"too tired for \" || news) end
  end
end main
";
    let text = block(&page, "listener = type") + main;
    let expected = "heard sun\nheard sun\n2\n0\nheard snow\ntoo tired for snow\n";
    assert_eq!(printed(&registry, &text), expected);
}

/// What a program prints, the same both ways.
fn printed(registry: &Registry, text: &str) -> String {
    let [compiled, interpreted] = [Mode::Compiled, Mode::Interpreted].map(|mode| {
        let mut sources = Sources::new();
        sources.add("main.theta", text);
        let engine = program::load_sources_with(sources, &Options::default(), mode, registry)
            .unwrap_or_else(|e| panic!("{e}"));
        output(&engine, Collect::Ordinary)
    });
    assert_eq!(compiled, interpreted);
    compiled
}
