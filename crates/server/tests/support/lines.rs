//! A conversation in the text form, however its lines are cut: the body of the fuzz target
//! `text_form`.

use std::sync::OnceLock;

use bifrost_engine::Mode;
use bifrost_runtime::cx::Limits as CxLimits;
use bifrost_runtime::{Collect, Cx};
use bifrost_server::text::TextForm;
use bifrost_session::{Limits, Session, Tables};
use bifrost_wire::Limit;

use crate::session::{STACK_BYTES, World, load};

/// Nothing in it lasts: loops of clients take fuel.
const PROGRAM: &str = "
Item = type
  name () returns (string)
  touch () returns (int) signals (worn (int))
  before (other: Item) returns (bool)
end Item
Shelf = type
  put (name: string) returns (Item)
  get (at: int) returns (Item) signals (not_found, odd (string, int))
  items () yields (Item)
  numbered () yields (int, Item)
end Shelf
module shelves exports new_shelf
  I = class implements Item
    named: string   touched: int
    name () returns (string) return (named) end name
    touch () returns (int) signals (worn (int))
      touched := touched + 1
      if touched > 3 then signal worn(touched) end
      return (touched)
    end touch
    before (other: Item) returns (bool) return (named.length() < other.name().length()) end before
  end I
  S = class implements Shelf
    all: array[Item]
    put (name: string) returns (Item)
      i: Item := I{named := name, touched := 0}
      all.append(i)
      return (i)
    end put
    get (at: int) returns (Item) signals (not_found, odd (string, int))
      if at < 0 then signal odd(\"below zero\", at) end
      for i: Item in all.elements() do
        at := at - 1
        if at = 0 then return (i) end
      end
      signal not_found
    end get
    items () yields (Item) for i: Item in all.elements() do yield (i) end end items
    numbered () yields (int, Item)
      n: int := 0
      for i: Item in all.elements() do
        n := n + 1
        yield (n, i)
      end
    end numbered
  end S
  remote new_shelf () returns (Shelf) return (S{all := array_new[Item]()}) end new_shelf
end shelves
remote join (a: string, b: string) returns (string) return (a || b) end join
remote half (x: real) returns (real) return (x / 2.0) end half
setup ()
  s: Shelf := new_shelf()
  s.put(\"one\")
  s.put(\"three\")
  root().insert(\"shelf\", s)
end setup
";

/// Most bytes of a conversation.
const BYTES_MAX: usize = 4096;

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.set(Limit::Fuel, 500);
    limits.set(Limit::BatchCommands, 400);
    limits.set(Limit::Futures, 300);
    limits.set(Limit::Handles, 30);
    limits.set(Limit::ReplyBytes, 4000);
    limits.set(Limit::Exceptions, 20);
    limits.set(Limit::Depth, 8);
    limits
}

fn world() -> World {
    static TABLES: OnceLock<&'static Tables> = OnceLock::new();
    let tables = TABLES.get_or_init(|| load(PROGRAM, Mode::Interpreted).expect("it is always there"));
    let limits = CxLimits {
        heap_bytes: 16 << 20,
        batch_heap_bytes: 4 << 20,
        stack_bytes: STACK_BYTES,
        collect: Collect::Ordinary,
        ..CxLimits::default()
    };
    World::of(tables, limits)
}

/// One side of a connection.
struct Conversation {
    form: TextForm,
    input: Vec<u8>,
    done: usize,
    said: String,
}

impl Conversation {
    /// Takes bytes as a connection does, and what is answered.
    fn hear(&mut self, session: &mut Session, cx: &mut Cx, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            self.done += self.form.handle(session, cx, &self.input[self.done..]);
            self.said += std::str::from_utf8(self.form.output(session)).expect("answers are UTF-8");
            self.form.clear_output();
            if session.ended() || session.pause().is_none() && !self.form.has_more() {
                return;
            }
        }
    }
}

/// All answers to a conversation whose bytes come in these pieces.
fn converse<'d>(pieces: impl Iterator<Item = &'d [u8]>) -> String {
    let mut world = world();
    let said = converse_in(&mut world, pieces);
    // Whatever one client has said, the next is served.
    let next = converse_in(&mut world, std::iter::once(&b"? join(\"a\", \"b\")\n"[..]));
    assert!(next.ends_with("@1 = \"ab\"\nok 1 calls\n"), "{next}");
    said
}

fn converse_in<'d>(world: &mut World, pieces: impl Iterator<Item = &'d [u8]>) -> String {
    let mut client = world.stranger(limits());
    let form = TextForm::new(world.tables.numbering().clone(), limits(), 0);
    let mut conversation = Conversation { form, input: Vec::new(), done: 0, said: String::new() };
    for piece in std::iter::once(&b"hello 2\n"[..]).chain(pieces) {
        conversation.hear(&mut client.session, &mut client.cx, piece);
        if client.session.ended() {
            break;
        }
    }
    conversation.said
}

/// Whatever the lines are, however they are cut: the answers are the same lines, and none tells of
/// a failure of the server.
pub fn text_form(data: &[u8]) -> String {
    let data = &data[..data.len().min(BYTES_MAX)];
    let whole = converse(std::iter::once(data));
    assert!(whole.is_empty() || whole.ends_with('\n'), "{whole}");
    assert!(!whole.lines().any(|line| line.starts_with("error 43 ")), "{whole}");
    let lines = converse(data.split_inclusive(|byte| *byte == b'\n'));
    assert_eq!(lines, whole, "line by line");
    let bytes = converse(data.chunks(1));
    assert_eq!(bytes, whole, "byte by byte");
    whole
}
