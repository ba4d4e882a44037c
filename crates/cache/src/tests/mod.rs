//! Sessions over a repository in memory: objects of every kind, residents, conflicts, migrations.
//!
//! Nothing here runs code of Theta: objects are made field by field, and the migration is a native
//! ([`migrate`]).

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bifrost_ir::native::{NativeHeading, NativeType};
use bifrost_ir::{TypeId, Types};
use bifrost_repository::memory::Memory;
use bifrost_repository::record::ClassDescriptor;
use bifrost_repository::{
    BatchId, Changes, ClassNumber, Collected, Commit, CommitError, Error, Fetched, Gauges, Holder, Identity,
    Info, ObjectSet, Oref, Progress, Registration, Report, Repository, Stored, Tid, Watcher, Watching,
};
use bifrost_runtime::abi::{Code, Word};
use bifrost_runtime::map_entries::{MapEntries, prepare_map};
use bifrost_runtime::native::{NativeFunction, Natives};
use bifrost_runtime::object::{self, map, sequence};
use bifrost_runtime::reference::{ArrayRef, Blank, CellRef, ListRef, SequenceRef};
use bifrost_runtime::{Cx, Doom, Image, Kill, Limits, Mode, Object, Ret, invoke, link_with};
use bifrost_theta::{Colour, Sources, compile, render_all};
use bytes::Bytes;
use parking_lot::Mutex;

use crate::decode::{Decoder, Filled};
use crate::error::Unreadable;
use crate::residents::Residents;
use crate::{Cache, NotCommitted, Options, Prefetch, Schema, SchemaError};

const KINDS: &str = r#"
item = type   name () returns (string) end item
colour = immutable type   red () returns (bool) end colour
shelf = type   count () returns (int) end shelf
module shelves exports unused
  I = class implements item
    name: string
  end I
  Only = class implements colour
    red () returns (bool) return (true) end red
  end Only
  S = class implements shelf
    count: int   nothing: null   yes: bool   ratio: real   sign: char   text: string   octets: bytes
    one: item   any_string: any   only: colour
    numbers: array[int]   void_numbers: array[int]   items: array[item]
    names: vector[string]   ratios: sequence[real]
    list: list[int]   void_list: list[string]
    full: cell[int]   void: cell[string]
    prices: map[string, int]
  end S
  unused () end unused
end shelves
"#;

/// An account that had cents, and has a text of them.
const ACCOUNT: &str = r#"
account = type   show () returns (string) end account
module accounts exports unused
  Plain = class implements account
    cents: int
    show () returns (string) return (cents.unparse()) end show
  end Plain
  unused () end unused
end accounts
"#;

const CHANGED: &str = r#"
account = type   show () returns (string) end account
module accounts exports unused
  Plain = class implements account
    text: string
    show () returns (string) return (text) end show
  end Plain
  MIGRATION
  unused () end unused
end accounts
"#;

const MIGRATION: &str = r#"native "test::migrate" migrate_Plain (cents: int) returns (Plain)"#;

/// Runs the migration of [`CHANGED`].
extern "C" fn migrate(cx: *mut Cx, _: Word, cents: Word) -> Ret {
    // SAFETY: it is the current context.
    let cx = unsafe { &mut *cx };
    if cents == 0 {
        return cx.failure("nothing was paid in");
    }
    let text = cx.new_string(&format!("{cents} cents")).unwrap();
    Ret::of(new(cx, "Plain", &[text]))
}

fn natives() -> Natives {
    let heading = NativeHeading {
        params: vec![("cents", NativeType::Plain(Types::INT))],
        results: vec![NativeType::Named("Plain")],
        yields: None,
        signals: Vec::new(),
    };
    let code: extern "C" fn(*mut Cx, Word, Word) -> Ret = migrate;
    let mut natives = Natives::default();
    let function = NativeFunction { code: Code(code as *const u8), heading, changes: false };
    // SAFETY: it takes and gives the words of the heading, and does not unwind.
    unsafe { natives.add("test::migrate", function) };
    natives
}

fn image(text: &str) -> Arc<Image> {
    let mut sources = Sources::new();
    sources.add("test.theta", text);
    let compiled = compile(&sources, &bifrost_theta::Options::default());
    let mistakes = render_all(&sources, &compiled.diagnostics, Colour::Plain);
    let program = compiled.program.unwrap_or_else(|| panic!("{mistakes}"));
    link_with(program, None, natives(), true).expect("linking")
}

fn schema(image: &Arc<Image>, repository: &Arc<Memory>) -> Arc<Schema> {
    Schema::new(image.clone(), repository.clone()).unwrap_or_else(|e| panic!("{e}"))
}

fn session_with(schema: &Arc<Schema>, options: &Options) -> (Box<Cx>, Cache) {
    let mut cx = Cx::new(schema.image().clone(), Limits::default(), 1, || 0);
    let cache = Cache::open_with(&mut cx, schema.clone(), options);
    cx.begin();
    (cx, cache)
}

fn session(schema: &Arc<Schema>) -> (Box<Cx>, Cache) {
    session_with(schema, &Options::default())
}

fn named(image: &Image, name: &str) -> TypeId {
    let types = &image.program().types;
    let mut all = types.iter().map(|(ty, _)| ty);
    all.find(|ty| types.name(*ty) == name && image.find_table(*ty).is_some())
        .unwrap_or_else(|| panic!("a class `{name}`"))
}

/// Makes an object with these fields; nothing is collected in these tests.
fn new(cx: &mut Cx, class: &str, fields: &[Word]) -> Word {
    let image = cx.image().clone();
    cx.new_object(image.table_of(named(&image, class)), fields).unwrap()
}

fn item(cx: &mut Cx, name: &str) -> Word {
    let name = cx.new_string(name).unwrap();
    new(cx, "I", &[name])
}

/// Calls the native method of the root directory that enters a name.
fn enter(cx: &mut Cx, name: &str, object: Word) {
    let image = cx.image().clone();
    let method = image.program().types.find_method(Types::DIRECTORY, "insert").unwrap();
    let args = [cx.root_object(), cx.new_string(name).unwrap(), object];
    // SAFETY: the arguments are those of the method.
    let ret = unsafe { invoke::method(cx, image.dispatch().slot(method), &args) };
    assert!(ret.returned(), "{ret:?}");
}

fn find(cx: &mut Cx, name: &str) -> Object {
    let word = cx.lookup(name).unwrap_or_else(|ret| panic!("{ret:?}: {}", failure(cx)));
    // SAFETY: the directory has objects.
    unsafe { Object::new(word.unwrap_or_else(|| panic!("there is no `{name}`"))) }
}

/// The text of the failure under way.
fn failure(cx: &Cx) -> String {
    // SAFETY: the value of a failure is a string.
    unsafe { object::text(cx.signal_values[0]) }.to_owned()
}

/// A field of an object, which is opened.
fn field(cx: &mut Cx, object: Object, at: usize) -> Word {
    let opened = cx.opened(object);
    assert!(opened.returned(), "{}", failure(cx));
    // SAFETY: the tests' objects have the fields that they are asked for.
    unsafe { object::get(object.word(), at) }
}

fn reference(cx: &mut Cx, object: Object, at: usize) -> Object {
    // SAFETY: the tests ask for fields that are references.
    let to = unsafe { Object::new(field(cx, object, at)) };
    let opened = cx.opened(to);
    assert!(opened.returned(), "{}", failure(cx));
    to
}

fn text(word: Word) -> String {
    // SAFETY: the tests ask for fields that are strings.
    unsafe { object::text(word) }.to_owned()
}

fn change(cx: &mut Cx, object: Object, at: usize, word: Word) {
    let opened = cx.open_to_change(object);
    assert!(opened.returned(), "{}", failure(cx));
    // SAFETY: the object has the field, of the word's type.
    unsafe { object::set(object.word(), at, word) };
}

/// A list of integers.
fn list(cx: &mut Cx, numbers: &[Word]) -> Word {
    let mut rest = new(cx, "list[int]", &[0, 0, 0]);
    for (length, number) in (1..).zip(numbers.iter().rev()) {
        rest = new(cx, "list[int]", &[*number, rest, length]);
    }
    rest
}

/// An object of the class `S`, whose fields have every kind of contents.
fn shelf(cx: &mut Cx) -> Word {
    let image = cx.image().clone();
    let table = |name: &str| image.table_of(named(&image, name));
    let (string, octets) = (cx.new_string("grün").unwrap(), cx.new_bytes(&[&[0, 255]]).unwrap());
    let (one, two) = (item(cx, "one"), item(cx, "two"));
    let class = image.program().find_class("Only").unwrap();
    let only = image.lasting(class).unwrap();
    let numbers = cx.new_array(table("array[int]"), -3, &[5, 6, 7]).unwrap();
    let void_numbers = cx.new_array(table("array[int]"), 9, &[]).unwrap();
    let items = cx.new_array(table("array[item]"), 1, &[one, two, one]).unwrap();
    let names = cx.new_sequence(table("vector[string]"), &[&[string, string]]).unwrap();
    let ratios = cx.new_sequence(table("sequence[real]"), &[&[0.5f64.to_bits()]]).unwrap();
    let (list, void_list) = (list(cx, &[1, 2, 3]), new(cx, "list[string]", &[0, 0, 0]));
    let (full, void) = (new(cx, "cell[int]", &[1, 8]), new(cx, "cell[string]", &[0, 0]));
    let prices = new(cx, "map[string, int]", &[0; map::FIELDS]);
    prepare_map(cx, prices, 2).unwrap();
    let other = cx.new_string("blau").unwrap();
    for (at, word) in [string, 10, other, 20].into_iter().enumerate() {
        // SAFETY: there is room for two entries.
        unsafe { object::set(object::get(prices, map::ENTRIES), at, word) };
    }
    let sign = Word::from(u32::from('ß'));
    let basic = [-4i64 as Word, 0, 1, 1.5f64.to_bits(), sign, string, octets];
    let objects = [one, string, only, numbers, void_numbers, items, names, ratios, list, void_list];
    let last = [full, void, prices];
    new(cx, "S", &[&basic[..], &objects, &last].concat())
}

mod sessions;
