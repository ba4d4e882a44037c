//! Natives without an engine: values both ways, references, headings, panics, stored values.
//!
//! Nothing here runs code of Theta. Programs declare natives, which are called as machine code
//! would call them; values are made of Rust values and taken again.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::sync::Arc;

use bifrost_ir::{SignalId, TypeId};
use bifrost_runtime::abi::{Closure, Code, Word};
use bifrost_runtime::cx::Cx as Raw;
use bifrost_runtime::reference::Blank;
use bifrost_runtime::{Collect, Image, Kill, Limits, LinkError, Object, Ret, invoke, link_with, object};
use bifrost_theta::{Colour, Sources, compile, render_all};

use crate::glue::Named;
use crate::value::{Argument, Given, Owned, Value};
use crate::{
    Any, Bytes, Cx, Flow, Obj, ObjectType, OneOf, Parts, Persist, Ref, Registry, Seq, Signals, Stored,
    Struct, Text, theta_class, theta_routine,
};

const PROGRAM: &str = r#"
point = struct[x: int, name: string, near: maybe[string]]
shape = oneof[nothing: null, dot: point, many: sequence[point], size: int]
gauge = type   level () returns (int)   fill (by: int) returns (int) signals (full (int, string))
  name_both () signals (both (string, string))
  boom ()   add (more: array[int])   kept () returns (int)
end gauge
module gauges exports new_gauge
  Gauge = class native "test::Gauge" implements gauge
    outweighs (other: Gauge) returns (bool)
    swallows (other: Gauge) returns (bool)
  end Gauge
  native "test::new_gauge" new_gauge (level: int) returns (Gauge)
end gauges
native "test::describe" describe (ratio: real, sign: char, loud: bool, n: null) returns (string, real, bool)
native "test::count_to" count_to (n: int) yields (int, string)
native "test::flows" flows () yields (int)
native "test::panics" panics (text: string)
native "test::forever" forever ()
native "test::echo" echo (point: point, shape: shape, rest: sequence[maybe[sequence[bytes]]]) returns (shape)
"#;

const POINT: &str = "struct[x: int, name: string, near: maybe[string]]";

/// The name of the type `shape`, which types know by its structure.
fn shape_name() -> String {
    format!("oneof[nothing: null, dot: {POINT}, many: sequence[{POINT}], size: int]")
}

/// `array[int]`
struct Numbers;

impl ObjectType for Numbers {
    const NAME: &'static str = "array[int]";
}

#[derive(Clone, PartialEq, Debug, Struct)]
struct Point {
    x: i64,
    name: Text,
    near: Option<Text>,
}

#[derive(Clone, PartialEq, Debug, OneOf)]
enum Shape {
    Nothing,
    Dot(Point),
    Many(Seq<Point>),
    Size(i64),
}

#[derive(Default)]
struct Gauge {
    level: i64,
    more: Option<Ref<Numbers>>,
}

#[derive(Signals)]
enum FillSignal {
    Full(i64, Text),
    Failure(String),
}

#[derive(Signals)]
enum NameSignal {
    Both(Text, String),
}

thread_local! {
    static DROPPED: Cell<u32> = const { Cell::new(0) };
    static FLOWS: RefCell<Vec<Flow>> = const { RefCell::new(Vec::new()) };
    static STEPS: RefCell<Vec<(i64, String)>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Gauge {
    fn drop(&mut self) {
        DROPPED.set(DROPPED.get() + 1);
    }
}

#[theta_class("test::Gauge")]
impl Gauge {
    fn level(&self, _cx: &mut Cx) -> i64 {
        self.level
    }

    fn fill(&mut self, _cx: &mut Cx, by: i64) -> Result<i64, FillSignal> {
        match by {
            ..0 => Err(FillSignal::Failure("nothing flows back".to_owned())),
            100.. => Err(FillSignal::Full(100 - self.level, "litres".into())),
            _ => {
                self.level += by;
                Ok(self.level)
            }
        }
    }

    fn name_both(&self, _cx: &mut Cx) -> Result<(), NameSignal> {
        Err(NameSignal::Both("the first".into(), "the second".to_owned()))
    }

    fn boom(&mut self, _cx: &mut Cx) {
        self.level = -1;
        panic!("the gauge bursts");
    }

    fn add(&mut self, _cx: &mut Cx, more: Ref<Numbers>) {
        self.more = Some(more);
    }

    fn kept(&self, cx: &mut Cx) -> i64 {
        self.more.as_ref().map_or(-1, |more| more.call(cx, "length", ()).unwrap_or(-2))
    }

    fn outweighs(&self, cx: &mut Cx, other: Obj<'_, Gauge>) -> bool {
        other.with(cx, |other| self.level > other.level).unwrap_or(false)
    }

    fn swallows(&mut self, cx: &mut Cx, other: Obj<'_, Gauge>) -> bool {
        other.with(cx, |other| self.level += other.level).is_some()
    }
}

impl Persist for Gauge {
    const VERSION: u32 = 3;

    fn encode(&self) -> Parts {
        assert!(self.level != 13, "thirteen is bad luck");
        let objects = self.more.iter().map(|more| more.clone().into()).collect();
        Parts { bytes: self.level.to_le_bytes().to_vec(), objects }
    }

    fn decode(from: &mut Stored<'_>) -> Result<Self, String> {
        if from.version() != 3 {
            return Err(format!("no version {}", from.version()));
        }
        let level = from.bytes().try_into().map_err(|_| "a level has 8 bytes")?;
        let more = if from.objects() > 0 { Some(from.object()?) } else { None };
        if from.objects() > 0 {
            return Err("an object is left".to_owned());
        }
        Ok(Gauge { level: i64::from_le_bytes(level), more })
    }
}

#[theta_routine("test::new_gauge")]
fn new_gauge(_cx: &mut Cx, level: i64) -> Gauge {
    Gauge { level, more: None }
}

#[theta_routine("test::describe")]
fn describe(_cx: &mut Cx, ratio: f64, sign: char, loud: bool, _nothing: ()) -> (String, f64, bool) {
    (format!("{sign}{ratio}"), ratio * 2.0, !loud)
}

#[theta_routine("test::count_to")]
fn count_to(cx: &mut Cx, n: i64, each: &mut dyn FnMut(&mut Cx, i64, String) -> Flow) {
    for at in 1..=n {
        if each(cx, at, at.to_string()) == Flow::Leave {
            return;
        }
    }
}

/// Goes on when the loop is over.
#[theta_routine("test::flows")]
fn flows(cx: &mut Cx, each: &mut dyn FnMut(&mut Cx, i64) -> Flow) {
    for at in 1..=4 {
        let flow = each(cx, at);
        FLOWS.with_borrow_mut(|flows| flows.push(flow));
    }
}

#[theta_routine("test::panics")]
fn panics(_cx: &mut Cx, text: &str) {
    panic!("{text}");
}

#[theta_routine("test::forever")]
fn forever(cx: &mut Cx) {
    while !cx.must_end() {}
}

#[theta_routine("test::echo")]
fn echo(_cx: &mut Cx, point: Point, shape: Shape, _rest: Seq<Option<Seq<Bytes>>>) -> Shape {
    match shape {
        Shape::Nothing => Shape::Dot(point),
        other => other,
    }
}

fn registry() -> Registry {
    let routines = [
        new_gauge::native(),
        describe::native(),
        count_to::native(),
        flows::native(),
        panics::native(),
        forever::native(),
        echo::native(),
    ];
    routines.into_iter().fold(Registry::new().with_persistent_class::<Gauge>(), Registry::with_routine)
}

fn try_link(text: &str, registry: &Registry) -> Result<Arc<Image>, LinkError> {
    let mut sources = Sources::new();
    sources.add("test.theta", text);
    let compiled = compile(&sources, &bifrost_theta::Options::default());
    let mistakes = render_all(&sources, &compiled.diagnostics, Colour::Plain);
    let program = compiled.program.unwrap_or_else(|| panic!("{mistakes}"));
    link_with(program, None, registry.natives().clone(), false)
}

fn context_with(limits: Limits) -> Box<Raw> {
    let image = try_link(PROGRAM, &registry()).unwrap_or_else(|e| panic!("{e}"));
    let mut raw = Raw::new(image, limits, 1, || 0);
    raw.begin();
    raw
}

/// Collects at every allocation: words that nothing keeps are gone at the next one.
fn context() -> Box<Raw> {
    context_with(Limits { collect: Collect::Zeal(1), ..Limits::default() })
}

fn named(raw: &Raw, name: &str) -> TypeId {
    raw.image().program().types.find(name).unwrap_or_else(|| panic!("a type `{name}`"))
}

/// The text of the failure that ended a call.
fn failure(raw: &Raw, ended: Ret) -> String {
    assert_eq!((ended, raw.signalled()), (Ret::SIGNALLED, SignalId::FAILURE));
    // SAFETY: the value of a failure is a string.
    unsafe { object::text(raw.signal_values[0]) }.to_owned()
}

fn call(raw: &mut Raw, routine: &str, args: &[Word]) -> Ret {
    let image = raw.image().clone();
    let mut routines = image.program().routines.iter();
    let found = routines.find(|(_, def)| def.name.rsplit('.').next() == Some(routine));
    let (routine, _) = found.unwrap_or_else(|| panic!("a routine `{routine}`"));
    let mut words = vec![0];
    words.extend_from_slice(args);
    // SAFETY: the tests pass words of the routine's types.
    unsafe { invoke::routine(raw, image.routine(routine), &mut words) }
}

fn method(raw: &mut Raw, receiver: Word, name: &str, args: &[Word]) -> Ret {
    let image = raw.image().clone();
    // SAFETY: the receiver is an object.
    let ty = unsafe { Object::new(receiver) }.info().ty;
    let method = image.program().types.find_method(ty, name).unwrap_or_else(|| panic!("`{name}`"));
    let mut words = vec![receiver];
    words.extend_from_slice(args);
    // SAFETY: the tests pass words of the method's types.
    unsafe { invoke::method(raw, image.dispatch().slot(method), &words) }
}

fn gauge(raw: &mut Raw, level: i64) -> Word {
    let made = call(raw, "new_gauge", &[level as Word]);
    assert!(made.returned());
    made.value
}

fn numbers(raw: &mut Raw, elements: &[Word]) -> Word {
    let table = raw.image().table_of(named(raw, "array[int]"));
    raw.new_array(table, 1, elements).unwrap()
}

/// Gives a value and takes it again.
fn there_and_back<T: Value + Owned + Clone + PartialEq + Debug>(raw: &mut Raw, ty: &str, value: &T) {
    let ty = named(raw, ty);
    let program = raw.image().program();
    assert!(bifrost_ir::native::fits(program, &<T as Value>::native_type(), ty, true), "{value:?}");
    assert!(bifrost_ir::native::fits(program, &<T as Argument<'_>>::native_type(), ty, false), "{value:?}");
    let mut cx = Cx::new(raw);
    let word = value.clone().give(&mut cx, ty).unwrap();
    let _kept = crate::value::keep(&mut cx, ty, word);
    // Garbage, so that what nothing keeps is gone.
    cx.raw.collect();
    cx.raw.new_string("another string in the place of one that was not kept").unwrap();
    // SAFETY: the word was just given for the type.
    let taken = T::take(&mut cx, unsafe { Given::new(word, ty) }).unwrap();
    assert_eq!(taken, *value);
}

#[test]
fn basic_values_go_both_ways() {
    let raw = &mut context();
    for value in [0, -1, i64::MIN, i64::MAX] {
        there_and_back(raw, "int", &value);
    }
    for value in [0.0, -0.5, f64::INFINITY] {
        there_and_back(raw, "real", &value);
    }
    for value in [false, true] {
        there_and_back(raw, "bool", &value);
    }
    for value in ['a', 'ß', '\u{10ffff}'] {
        there_and_back(raw, "char", &value);
    }
    let mut cx = Cx::new(raw);
    // SAFETY: the word has the type; it is no character.
    let wrong = char::take(&mut cx, unsafe { Given::new(0xd800, bifrost_ir::Types::CHAR) });
    assert_eq!(wrong, Ok(char::REPLACEMENT_CHARACTER));
}

#[test]
fn texts_bytes_and_sequences_go_both_ways() {
    let raw = &mut context();
    for text in ["", "grün", &"long".repeat(100)] {
        there_and_back(raw, "string", &Text::from(text));
        there_and_back(raw, "bytes", &Bytes::from(text.as_bytes()));
    }
    let mut cx = Cx::new(raw);
    for word in
        ["text".give(&mut cx, TypeId::from_u32(0)), "text".to_owned().give(&mut cx, TypeId::from_u32(0))]
    {
        // SAFETY: it is a string, and nothing is made meanwhile.
        let text = unsafe { Given::new(word.unwrap(), TypeId::from_u32(0)) };
        assert_eq!(<&str>::take(&mut cx, text), Ok("text"));
    }
    let word = vec![1u8, 2].give(&mut cx, TypeId::from_u32(0)).unwrap();
    // SAFETY: they are bytes, and nothing is made meanwhile.
    assert_eq!(<&[u8]>::take(&mut cx, unsafe { Given::new(word, TypeId::from_u32(0)) }), Ok(&[1u8, 2][..]));
    let seq = |texts: &[&str]| texts.iter().map(|text| Bytes::from(text.as_bytes())).collect::<Seq<Bytes>>();
    there_and_back(raw, "sequence[bytes]", &seq(&[]));
    there_and_back(
        raw,
        "sequence[bytes]",
        &seq(&["a", "b", "a long one that has no room beside the others"]),
    );
    let nested: Seq<Option<Seq<Bytes>>> = [None, Some(seq(&["c"])), Some(seq(&[]))].into_iter().collect();
    there_and_back(raw, "sequence[maybe[sequence[bytes]]]", &nested);
}

fn points() -> [Point; 2] {
    let point = |x, near: Option<&str>| Point { x, name: format!("p{x}").into(), near: near.map(Text::from) };
    [point(1, None), point(-2, Some("there"))]
}

#[test]
fn tagged_values_go_both_ways() {
    let raw = &mut context();
    there_and_back(raw, "maybe[string]", &None::<Text>);
    there_and_back(raw, "maybe[string]", &Some(Text::from("some")));
    for point in points() {
        there_and_back(raw, POINT, &point);
        there_and_back(raw, &shape_name(), &Shape::Dot(point));
    }
    there_and_back(raw, &shape_name(), &Shape::Nothing);
    there_and_back(raw, &shape_name(), &Shape::Many(points().into_iter().collect()));
    there_and_back(raw, &shape_name(), &Shape::Size(i64::MIN));
}

#[test]
fn routines_take_arguments_and_give_results() {
    let raw = &mut context();
    let ret = call(raw, "describe", &[1.5f64.to_bits(), u64::from(u32::from('x')), 1, 0]);
    assert!(ret.returned());
    // SAFETY: the first result is a string, and nothing was made since.
    assert_eq!(unsafe { object::text(ret.value) }, "x1.5");
    assert_eq!(raw.results[1..3], [3.0f64.to_bits(), 0]);
    let [point, shape] = [POINT, &shape_name()].map(|name| named(raw, name));
    let others = named(raw, "sequence[maybe[sequence[bytes]]]");
    let mut cx = Cx::new(raw);
    let point = points()[0].clone().give(&mut cx, point).unwrap();
    let _point = cx.raw.keep(point);
    let nothing = Shape::Nothing.give(&mut cx, shape).unwrap();
    let _nothing = cx.raw.keep(nothing);
    let others = Seq::<Option<Seq<Bytes>>>::from_iter([]).give(&mut cx, others).unwrap();
    let _others = cx.raw.keep(others);
    let ret = call(raw, "echo", &[point, nothing, others]);
    assert!(ret.returned());
    // SAFETY: the result has the type of its heading.
    let taken = Shape::take(&mut Cx::new(raw), unsafe { Given::new(ret.value, shape) }).unwrap();
    assert_eq!(taken, Shape::Dot(points()[0].clone()));
}

#[test]
fn a_reference_keeps_its_object() {
    let raw = &mut context();
    let word = numbers(raw, &[1, 2, 3]);
    let ty = named(raw, "array[int]");
    let mut cx = Cx::new(raw);
    // SAFETY: it is such an array.
    let given = unsafe { Given::new(word, ty) };
    let kept = Ref::<Numbers>::take(&mut cx, given).unwrap();
    cx.raw.collect();
    let with = cx.raw.heap().usage().live_objects;
    assert_eq!(kept.call::<_, i64>(&mut cx, "length", ()).unwrap(), 3);
    let copy = kept.clone();
    drop(kept);
    cx.raw.collect();
    assert_eq!(cx.raw.heap().usage().live_objects, with);
    assert_eq!(copy.call::<_, i64>(&mut cx, "length", ()).unwrap(), 3);
    assert_eq!(copy.call::<_, i64>(&mut cx, "fetch", (3,)).unwrap(), 3);
    let raised = copy.call::<_, i64>(&mut cx, "fetch", (4,)).unwrap_err();
    assert_eq!((raised.name(), raised.is_failure()), ("bounds", false));
    let raised = copy.call::<_, i64>(&mut cx, "fetch", (true,)).unwrap_err();
    assert!(raised.is_failure() && raised.to_string().contains("with another heading"), "{raised}");
    let raised = copy.call::<_, bool>(&mut cx, "length", ()).unwrap_err();
    assert!(raised.to_string().contains("with another heading"), "{raised}");
    let raised = copy.call::<_, i64>(&mut cx, "nothing", ()).unwrap_err();
    assert!(raised.to_string().contains("`array[int].nothing`, which does not exist"), "{raised}");
    drop(copy);
    cx.raw.collect();
    // The array and its storage.
    assert_eq!(cx.raw.heap().usage().live_objects, with - 2);
}

#[test]
fn a_reference_goes_back_only_where_it_came_from() {
    let (raw, other) = (&mut context(), &mut context());
    let ty = named(raw, "array[int]");
    let word = numbers(raw, &[]);
    let mut cx = Cx::new(raw);
    // SAFETY: it is such an array.
    let any = Any::new(&mut cx, unsafe { Object::new(word) });
    let object: Ref<Numbers> = any.get(&mut cx).unwrap();
    assert_eq!(Any::from(object.clone()), any);
    assert_eq!(any.clone().give(&mut cx, ty), Ok(word));
    let shape = named(cx.raw, &shape_name());
    let wrong = any.clone().give(&mut cx, shape).unwrap_err();
    assert_eq!(failure(cx.raw, wrong), format!("this object is no `{}`", shape_name()));
    assert_eq!(any.get::<Text>(&mut cx), None);
    let word = cx.raw.new_string("text").unwrap();
    // SAFETY: it was just made.
    let text = Any::new(&mut cx, unsafe { Object::new(word) });
    assert_eq!(text.get::<Text>(&mut cx), Some("text".into()));
    assert_ne!(text, any);
    assert!(text.get::<Ref<Numbers>>(&mut cx).is_none());
    let mut there = Cx::new(other);
    let wrong = any.clone().give(&mut there, ty).unwrap_err();
    assert_eq!(failure(there.raw, wrong), "this object belongs to another running program");
    assert!(any.get::<Ref<Numbers>>(&mut there).is_none());
}

#[test]
fn entries_whose_headings_differ_are_refused() {
    let refused = |declared: &str| try_link(declared, &registry()).unwrap_err();
    let error = refused("native \"test::panics\" panics (text: int)");
    assert_eq!(
        error.to_string(),
        "`test::panics (text: int)` is declared native, but the heading of the native is `(text: string)`"
    );
    for declared in [
        "native \"test::panics\" panics (text: string) returns (int)",
        "native \"test::count_to\" count_to (n: int) yields (int)",
        "native \"test::describe\" describe (ratio: real) returns (string, real, bool)",
        "native \"test::forever\" forever () yields (int)",
    ] {
        assert!(matches!(refused(declared), LinkError::NativeMismatch { .. }), "{declared}");
    }
    let unknown = refused("native \"test::unknown\" unknown ()");
    assert!(matches!(&unknown, LinkError::NoNative { name } if name == "test::unknown"), "{unknown}");
    assert!(try_link("native \"test::panics\" panics (text: string)", &registry()).is_ok());
}

#[test]
fn a_registry_tells_its_natives_texts_and_settings() {
    let registry = registry().with_text("a.theta", "one").with_text("a.theta", "two").with(7_u8);
    assert_eq!(registry.heading("test::panics").unwrap(), "panics (text: string)");
    assert_eq!(
        registry.heading("test::Gauge.fill").unwrap(),
        "fill (by: int) returns (int) signals (full (int, string))"
    );
    assert_eq!(registry.heading("test::unknown"), None);
    assert_eq!(registry.headings().len(), 7 + Gauge::methods_count());
    assert_eq!((registry.texts(), registry.text("a.theta")), (vec!["a.theta".to_owned()], Some("two")));
    assert_eq!(registry.text("b.theta"), None);
    let image = try_link(PROGRAM, &registry).unwrap();
    let raw = &mut Raw::new(image, Limits::default(), 1, || 0);
    assert_eq!((Cx::new(raw).settings::<u8>(), Cx::new(raw).settings::<u16>()), (Some(7), None));
    assert_eq!(<panics as Named>::NAME, "test::panics");
}

impl Gauge {
    fn methods_count() -> usize {
        <Gauge as crate::NativeClass>::methods().len()
    }
}

#[test]
fn exceptions_have_their_values() {
    let raw = &mut context();
    let made = gauge(raw, 40);
    let _made = raw.keep(made);
    assert_eq!(method(raw, made, "fill", &[2]), Ret::int(42));
    assert_eq!(method(raw, made, "level", &[]), Ret::int(42));
    assert_eq!(method(raw, made, "fill", &[100]), Ret::SIGNALLED);
    assert_eq!(Some(raw.signalled()), raw.image().program().types.find_signal("full"));
    assert_eq!(raw.signal_values[0], 58);
    // SAFETY: the second value is a string, and nothing was made since.
    assert_eq!(unsafe { object::text(raw.signal_values[1]) }, "litres");
    let ended = method(raw, made, "fill", &[-1i64 as Word]);
    assert_eq!(failure(raw, ended), "nothing flows back");
    assert_eq!(method(raw, made, "name_both", &[]), Ret::SIGNALLED);
    // SAFETY: both values are strings, and nothing was made since.
    let texts = [0, 1].map(|at| unsafe { object::text(raw.signal_values[at]) });
    assert_eq!(texts, ["the first", "the second"]);
}

#[test]
fn a_panic_is_a_failure_and_poisons_its_object() {
    let raw = &mut context();
    let text = raw.new_string("out of luck").unwrap();
    let _text = raw.keep(text);
    let ended = call(raw, "panics", &[text]);
    assert_eq!(failure(raw, ended), "native `test::panics` panicked: out of luck");
    let made = gauge(raw, 1);
    let _made = raw.keep(made);
    let other = gauge(raw, 0);
    let _other = raw.keep(other);
    assert_eq!(method(raw, made, "outweighs", &[other]), Ret::bool(true));
    let ended = method(raw, made, "boom", &[]);
    assert_eq!(failure(raw, ended), "native `test::Gauge.boom` panicked: the gauge bursts");
    for name in ["level", "boom"] {
        let ended = method(raw, made, name, &[]);
        let told = format!("native `test::Gauge.{name}`: the object is poisoned by a panic");
        assert_eq!(failure(raw, ended), told);
    }
    // As an argument it is no object any more.
    assert_eq!(method(raw, other, "swallows", &[made]), Ret::bool(false));
    // SAFETY: it is kept.
    let refused = raw.native_parts(unsafe { Object::new(made) });
    assert_eq!(refused, Err("the object of `test::Gauge` is poisoned by a panic".to_owned()));
}

#[test]
fn an_object_that_is_being_changed_cannot_be_looked_at() {
    let raw = &mut context();
    let made = gauge(raw, 3);
    let _made = raw.keep(made);
    assert_eq!(method(raw, made, "swallows", &[made]), Ret::bool(false));
    assert_eq!(method(raw, made, "outweighs", &[made]), Ret::bool(false));
    let other = gauge(raw, 4);
    let _other = raw.keep(other);
    assert_eq!(method(raw, made, "swallows", &[other]), Ret::bool(true));
    assert_eq!(method(raw, made, "level", &[]), Ret::int(7));
}

/// The body of a loop, which leaves at a number.
extern "C" fn body(_: *mut Raw, environment: Word, number: Word, text: Word) -> Ret {
    // SAFETY: the iterator yields a string.
    let text = unsafe { object::text(text) }.to_owned();
    STEPS.with_borrow_mut(|steps| steps.push((number as i64, text)));
    if number == environment { Ret::LEFT } else { Ret::NOTHING }
}

#[test]
fn an_iterator_runs_the_body_until_it_leaves() {
    let raw = &mut context();
    let code: extern "C" fn(*mut Raw, Word, Word, Word) -> Ret = body;
    let mut run = |environment: Word| {
        let closure = Closure::new(Code(code as *const u8), environment);
        let ret = call(raw, "count_to", &[3, std::ptr::from_ref(&closure) as Word]);
        (ret, STEPS.take().into_iter().map(|(number, text)| format!("{number}{text}")).collect::<Vec<_>>())
    };
    assert_eq!(run(9), (Ret::NOTHING, vec!["11".to_owned(), "22".to_owned(), "33".to_owned()]));
    assert_eq!(run(2), (Ret::LEFT, vec!["11".to_owned(), "22".to_owned()]));
}

/// The body of a loop, which leaves at a number.
extern "C" fn number_body(_: *mut Raw, environment: Word, number: Word) -> Ret {
    if number == environment { Ret::LEFT } else { Ret::NOTHING }
}

#[test]
fn an_iterator_is_told_when_the_loop_is_over() {
    let raw = &mut context();
    let code: extern "C" fn(*mut Raw, Word, Word) -> Ret = number_body;
    let closure = Closure::new(Code(code as *const u8), 2);
    assert_eq!(call(raw, "flows", &[std::ptr::from_ref(&closure) as Word]), Ret::LEFT);
    assert_eq!(FLOWS.take(), [Flow::Next, Flow::Leave, Flow::Leave, Flow::Leave]);
}

#[test]
fn a_run_that_is_ended_ends_its_natives() {
    let raw = &mut context();
    let poll = raw.poll().clone();
    poll.kill(poll.epoch(), Kill::Stop);
    assert_eq!(call(raw, "forever", &[]), Ret::KILLED);
}

#[test]
fn values_are_stored_as_their_parts() {
    let raw = &mut context();
    let made = gauge(raw, 5);
    let _made = raw.keep(made);
    let more = numbers(raw, &[1, 2]);
    let kept = raw.keep(more);
    assert!(method(raw, made, "add", &[more]).returned());
    drop(kept);
    // SAFETY: they are kept.
    let object = unsafe { Object::new(made) };
    let parts = raw.native_parts(object).unwrap();
    assert_eq!(parts.bytes, 5i64.to_le_bytes());
    assert_eq!(parts.objects.iter().map(|one| one.word()).collect::<Vec<_>>(), [more]);
    let table = object.table().ordinary();
    let word = raw.alloc_finalizable(table, object.fields()).unwrap().as_ptr() as Word;
    let _word = raw.keep(word);
    // SAFETY: it was just made.
    let blank = unsafe { Blank::new(Object::new(word)) };
    assert_eq!(raw.set_native(blank, 2, parts.clone()), Err("no version 2".to_owned()));
    let short = bifrost_runtime::native::Parts { bytes: vec![0], objects: vec![] };
    assert_eq!(raw.set_native(blank, 3, short), Err("a level has 8 bytes".to_owned()));
    let wrong = bifrost_runtime::native::Parts { objects: vec![object], ..parts.clone() };
    assert_eq!(raw.set_native(blank, 3, wrong), Err("an object is no `array[int]`".to_owned()));
    let two = bifrost_runtime::native::Parts { objects: [parts.objects[0]; 2].to_vec(), ..parts.clone() };
    assert_eq!(raw.set_native(blank, 3, two), Err("an object is left".to_owned()));
    raw.set_native(blank, 3, parts.clone()).unwrap();
    let dropped = DROPPED.get();
    raw.set_native(blank, 3, parts).unwrap();
    assert_eq!(DROPPED.get(), dropped + 1, "the value before is dropped");
    assert_eq!(method(raw, word, "level", &[]), Ret::int(5));
    // The value keeps its object.
    raw.collect();
    raw.new_string("garbage in the place of what was not kept").unwrap();
    assert_eq!(method(raw, word, "kept", &[]), Ret::int(2));
    // SAFETY: it is an array, and kept.
    let array = unsafe { Object::new(more) };
    let persistence = object.info().persistence.unwrap();
    assert_eq!((persistence.encode)(raw, array), Err("this is no object of `test::Gauge`".to_owned()));
    assert!(raw.native_parts(array).unwrap_err().contains("`array[int]` are not stored"));
    assert!(method(raw, made, "fill", &[8]).returned());
    let told = raw.native_parts(object).unwrap_err();
    assert_eq!(told, "native `test::Gauge.encode` panicked: thirteen is bad luck");
}
