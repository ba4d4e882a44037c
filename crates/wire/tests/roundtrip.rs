//! Commands and replies survive the way through bytes, whole, cut short, and mangled.

use bifrost_wire::encode::{self, Counters, Exceptions, Flushed};
use bifrost_wire::profile::{Cost, Entry, Rest, Subject, Totals};
use bifrost_wire::value::tag;
use bifrost_wire::*;

use proptest::collection::vec;
use proptest::prelude::*;

/// A command that owns what it says, to be generated.
#[derive(Clone, Debug)]
enum Owned {
    Hello(u32, [u8; 32], String, String, Option<TraceContext>),
    Call(u32, i64, Vec<OwnedArg>),
    CallRoutine(u32, Vec<OwnedArg>),
    CallProcedure(u32, Vec<OwnedArg>),
    Lookup(String, Option<u32>),
    Constant(OwnedValue),
    Cell(u32),
    Rows(Vec<u32>),
    Emit(i64, Vec<OwnedArg>),
    As(u32, i64),
    Is(u32, i64),
    Get(i64),
    Module(u32, Vec<u8>),
    Run(u32, String, Option<u32>, Vec<OwnedArg>),
    Free(Vec<i64>, u8),
    Flush(Vec<u32>, bool),
    FlushKept(Vec<u32>, u8),
    Plain(u8),
    History(bool),
    Profile(bool),
    Do(i64),
    Then(i64),
    When(String, Vec<u32>),
    Others(bool),
    Procedure(String, Vec<u32>, Option<u32>),
    Return(Option<OwnedArg>),
}

#[derive(Clone, Debug)]
enum OwnedArg {
    Ref(i64),
    Value(OwnedValue),
}

impl OwnedArg {
    fn view(&self) -> Arg<'_> {
        match self {
            OwnedArg::Ref(r) => Arg::Ref(Ref(*r)),
            OwnedArg::Value(v) => Arg::Value(v.view()),
        }
    }
}

/// A value whose references are these.
fn value_with(references: fn() -> BoxedStrategy<i64>) -> impl Strategy<Value = OwnedValue> {
    let simple = prop_oneof![
        Just(OwnedValue::Nil),
        any::<bool>().prop_map(OwnedValue::Bool),
        any::<i64>().prop_map(OwnedValue::Int),
        any::<f64>().prop_map(OwnedValue::Real),
        any::<char>().prop_map(OwnedValue::Char),
        "\\PC{0,20}".prop_map(|s| OwnedValue::Str(s.into())),
        vec(any::<u8>(), 0..20).prop_map(|b| OwnedValue::Bytes(b.into())),
    ];
    simple.prop_recursive(4, 60, 20, move |inner| {
        let item = prop_oneof![references().prop_map(OwnedArg::Ref), inner.prop_map(OwnedArg::Value)];
        (any::<u32>(), vec(item, 0..20)).prop_map(|(ty, items)| {
            let items: Vec<_> = items.iter().map(OwnedArg::view).collect();
            OwnedValue::Compound(OwnedCompound::new(TypeNumber(ty), &items))
        })
    })
}

fn value() -> impl Strategy<Value = OwnedValue> {
    value_with(|| any::<i64>().boxed())
}

fn arg() -> impl Strategy<Value = OwnedArg> {
    prop_oneof![any::<i64>().prop_map(OwnedArg::Ref), value().prop_map(OwnedArg::Value)]
}

fn type_number() -> impl Strategy<Value = u32> {
    0..u32::MAX
}

fn command() -> impl Strategy<Value = Owned> {
    let name = || "\\PC{0,12}";
    prop_oneof![
        (any::<u32>(), any::<[u8; 32]>(), name(), name(), proptest::option::of(trace()))
            .prop_map(|(v, d, t, c, trace)| Owned::Hello(v, d, t, c, trace)),
        (any::<u32>(), any::<i64>(), vec(arg(), 0..40)).prop_map(|(m, r, a)| Owned::Call(m, r, a)),
        (any::<u32>(), vec(arg(), 0..7)).prop_map(|(m, a)| Owned::CallRoutine(m, a)),
        (any::<u32>(), vec(arg(), 0..7)).prop_map(|(m, a)| Owned::CallProcedure(m, a)),
        (name(), proptest::option::of(type_number())).prop_map(|(n, t)| Owned::Lookup(n, t)),
        value().prop_map(Owned::Constant),
        type_number().prop_map(Owned::Cell),
        vec(type_number(), 1..6).prop_map(Owned::Rows),
        (any::<i64>(), vec(arg(), 0..20)).prop_map(|(t, a)| Owned::Emit(t, a)),
        (any::<u32>(), any::<i64>()).prop_map(|(t, o)| Owned::As(t, o)),
        (any::<u32>(), any::<i64>()).prop_map(|(t, o)| Owned::Is(t, o)),
        any::<i64>().prop_map(Owned::Get),
        (any::<u32>(), vec(any::<u8>(), 0..40)).prop_map(|(n, b)| Owned::Module(n, b)),
        (any::<u32>(), name(), proptest::option::of(type_number()), vec(arg(), 0..7))
            .prop_map(|(n, e, t, a)| Owned::Run(n, e, t, a)),
        (vec(any::<i64>(), 0..9), any::<u8>()).prop_map(|(h, n)| Owned::Free(h, n)),
        (proptest::collection::btree_set(1u32..40, 0..20), any::<bool>())
            .prop_map(|(w, q)| Owned::Flush(w.into_iter().collect(), q)),
        (proptest::collection::btree_set(1u32..40, 0..20), any::<u8>())
            .prop_map(|(w, n)| Owned::FlushKept(w.into_iter().collect(), n)),
        proptest::sample::select(vec![
            op::DESCRIBE,
            op::BYE,
            op::WHILE,
            op::END_WHILE,
            op::IF,
            op::ELSE,
            op::END_IF,
            op::FOREACH,
            op::END_FOREACH,
            op::BREAK,
            op::CONTINUE,
            op::EXCEPT,
            op::END_EXCEPT,
            op::END_PROCEDURE,
        ])
        .prop_map(Owned::Plain),
        any::<bool>().prop_map(Owned::History),
        any::<bool>().prop_map(Owned::Profile),
        any::<i64>().prop_map(Owned::Do),
        any::<i64>().prop_map(Owned::Then),
        (name(), vec(type_number(), 0..5)).prop_map(|(n, t)| Owned::When(n, t)),
        any::<bool>().prop_map(Owned::Others),
        (name(), vec(type_number(), 0..5), proptest::option::of(type_number()))
            .prop_map(|(n, p, r)| Owned::Procedure(n, p, r)),
        proptest::option::of(arg()).prop_map(Owned::Return),
    ]
}

fn trace() -> impl Strategy<Value = TraceContext> {
    (1u128.., 1u64.., any::<u8>()).prop_map(|(trace, parent, flags)| TraceContext { trace, parent, flags })
}

fn encode_owned(out: &mut Vec<u8>, command: &Owned) {
    let types = |t: &[u32]| t.iter().map(|t| TypeNumber(*t)).collect::<Vec<_>>();

    match command {
        Owned::Hello(version, digest, token, client, trace) => {
            let hello = Hello { version: *version, digest: *digest, token, client, trace: *trace };
            encode::hello(out, &hello);
        }
        Owned::Call(m, r, a) => {
            let args: Vec<_> = a.iter().map(OwnedArg::view).collect();

            encode::call(out, MethodNumber(*m), Ref(*r), &args);
        }
        Owned::CallRoutine(m, a) => {
            encode::call_routine(out, RoutineNumber(*m), &a.iter().map(OwnedArg::view).collect::<Vec<_>>());
        }
        Owned::CallProcedure(m, a) => {
            encode::call_procedure(
                out,
                ProcedureNumber(*m),
                &a.iter().map(OwnedArg::view).collect::<Vec<_>>(),
            );
        }
        Owned::Lookup(n, t) => encode::lookup(out, n, t.map(TypeNumber)),
        Owned::Constant(v) => encode::constant(out, &v.view()),
        Owned::Cell(t) => encode::cell(out, TypeNumber(*t)),
        Owned::Rows(t) => encode::rows(out, types(t).into_iter()),
        Owned::Emit(t, a) => {
            encode::emit(out, Ref(*t), &a.iter().map(OwnedArg::view).collect::<Vec<_>>());
        }
        Owned::As(t, o) => encode::cast(out, TypeNumber(*t), Ref(*o)),
        Owned::Is(t, o) => encode::test_type(out, TypeNumber(*t), Ref(*o)),
        Owned::Module(n, b) => encode::module(out, ModuleNumber(*n), b),
        Owned::Run(n, e, t, a) => {
            let args: Vec<_> = a.iter().map(OwnedArg::view).collect();
            encode::run(out, ModuleNumber(*n), e, t.map(TypeNumber), &args);
        }
        Owned::Get(o) => encode::get(out, Ref(*o)),
        Owned::Free(h, n) => encode::free(out, &h.iter().map(|h| Ref(*h)).collect::<Vec<_>>(), *n),
        Owned::Flush(w, q) => encode::flush(out, w.iter().copied(), *q),
        Owned::FlushKept(w, n) => encode::flush_kept(out, w.iter().copied(), *n),
        Owned::Plain(code) => encode::plain(out, *code),
        Owned::Profile(on) => encode::profile(out, *on),
        Owned::History(clear) => encode::history(out, *clear),
        Owned::Do(r) => encode::loop_body(out, Ref(*r)),
        Owned::Then(r) => encode::then(out, Ref(*r)),
        Owned::When(n, t) => encode::when(out, n, types(t).into_iter()),
        Owned::Others(named) => encode::others(out, *named),
        Owned::Procedure(n, p, r) => encode::procedure(out, n, types(p).into_iter(), r.map(TypeNumber)),
        Owned::Return(v) => encode::return_(out, v.as_ref().map(OwnedArg::view).as_ref()),
    }
}

/// Decodes all commands, each from the fewest bytes that the decoder asks for.
fn decode_slowly(mut bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut again = Vec::new();
    let mut have = 0;
    while !bytes.is_empty() {
        match decode(&bytes[..have], FRAME_BYTES_MAX)? {
            Decoded::Command(command, length) => {
                assert_eq!(length, have, "no more was asked for than needed");
                encode::command(&mut again, &command);
                bytes = &bytes[length..];
                have = 0;
            }
            Decoded::NeedMore(length) => {
                assert!(length > have);
                assert!(length <= bytes.len(), "asked for bytes beyond the command");
                have = length;
            }
        }
    }
    Ok(again)
}

#[derive(Clone, Debug)]
struct OwnedException {
    call: u32,
    iterations: Vec<u32>,
    kind: OwnedKind,
}

#[derive(Clone, Debug)]
enum OwnedKind {
    Signal(String, Vec<OwnedOutcome>, OwnedPlaces),
    Unhandled(u32, u8, u32),
    Refused(u32, String),
}

#[derive(Clone, Debug)]
enum OwnedOutcome {
    Handle(i64, u32),
    Value(OwnedValue),
    Exception(u32),
    Absent,
}

impl OwnedOutcome {
    fn view(&self) -> Outcome<'_> {
        match self {
            OwnedOutcome::Handle(h, t) => Outcome::Handle { handle: Ref(*h), ty: TypeNumber(*t) },
            OwnedOutcome::Value(v) => Outcome::Value(v.view()),
            OwnedOutcome::Exception(n) => Outcome::Exception(*n),
            OwnedOutcome::Absent => Outcome::Absent,
        }
    }
}

fn exception_value() -> impl Strategy<Value = OwnedOutcome> {
    prop_oneof![
        (1..i64::MAX, any::<u32>()).prop_map(|(h, t)| OwnedOutcome::Handle(h, t)),
        value_with(|| (1..i64::MAX).boxed()).prop_map(OwnedOutcome::Value),
    ]
}

fn outcome() -> impl Strategy<Value = OwnedOutcome> {
    prop_oneof![
        3 => exception_value(),
        1 => (0u32..3).prop_map(OwnedOutcome::Exception),
        1 => Just(OwnedOutcome::Absent),
    ]
}

/// Routines, files and lines, and the number of those further out.
type OwnedPlaces = (Vec<(String, String, u32)>, u64);

fn places() -> impl Strategy<Value = OwnedPlaces> {
    (vec(("\\PC{0,12}", "\\PC{0,12}", any::<u32>()), 0..4), any::<u64>())
}

fn exception() -> impl Strategy<Value = OwnedException> {
    let kind = prop_oneof![
        ("\\PC{0,12}", vec(exception_value(), 0..4), places())
            .prop_map(|(name, values, places)| OwnedKind::Signal(name, values, places)),
        (0..1u32 << 24, any::<u8>(), any::<u32>()).prop_map(|(a, b, c)| OwnedKind::Unhandled(a, b, c)),
        (any::<u32>(), "\\PC{0,12}").prop_map(|(n, t)| OwnedKind::Refused(n, t)),
    ];
    (any::<u32>(), vec(any::<u32>(), 0..4), kind).prop_map(|(call, iterations, kind)| OwnedException {
        call,
        iterations,
        kind,
    })
}

fn put(e: &OwnedException, writer: &mut Flushed<'_>) {
    match &e.kind {
        OwnedKind::Signal(name, values, (places, more)) => {
            let values: Vec<_> = values.iter().map(OwnedOutcome::view).collect();
            let places: Vec<Place<'_>> =
                places.iter().map(|(routine, file, line)| Place { routine, file, line: *line }).collect();
            let places = PlaceList { places: &places, more: *more };
            writer.failure(e.call, &e.iterations, name, &values, places);
        }
        OwnedKind::Unhandled(argument, back, cause) => {
            let kind = ExceptionKind::Unhandled { argument: *argument, back: *back, cause: *cause };
            writer.exception(e.call, &e.iterations, &kind);
        }
        OwnedKind::Refused(number, text) => {
            writer.exception(e.call, &e.iterations, &ExceptionKind::Refused { number: *number, text });
        }
    }
}

/// Cuts a reply at every byte and checks what the decoder says to each start of it.
/// Appends a table of an int, an object and a string.
fn put_rows(rows: &[(i64, i64, String)], writer: &mut Flushed<'_>) {
    let columns = [(tag::INT, TypeNumber(2)), (tag::REF, TypeNumber(9)), (tag::STRING, TypeNumber(5))];
    writer.rows(columns.into_iter(), |out| {
        for (int, handle, text) in rows {
            encode::word(out, *int as u64);
            encode::word(out, *handle as u64);
            encode::bytes(out, text.as_bytes());
        }
        Some(rows.len() as u32)
    });
}

fn check_reply(bytes: &[u8]) -> Result<(), TestCaseError> {
    for cut in 0..bytes.len() {
        match decode_reply(&bytes[..cut], REPLY_BYTES_MAX) {
            Ok(DecodedReply::NeedMore(length)) => prop_assert!(length > cut && length <= bytes.len()),
            other => prop_assert!(false, "{:?}", other),
        }
    }
    match decode_reply(bytes, REPLY_BYTES_MAX) {
        Ok(DecodedReply::Reply(reply, length)) => {
            prop_assert_eq!(length, bytes.len());
            let mut again = Vec::new();
            encode::reply(&mut again, &reply);
            prop_assert_eq!(&again, bytes);
        }
        other => prop_assert!(false, "{:?}", other),
    }
    Ok(())
}

impl Owned {
    /// The operands that it was made with.
    fn operands(&self) -> Vec<Arg<'_>> {
        match self {
            Owned::As(_, object) | Owned::Is(_, object) | Owned::Get(object) => {
                vec![Arg::Ref(Ref(*object))]
            }
            Owned::Call(_, receiver, args) | Owned::Emit(receiver, args) => {
                let args: Vec<_> = args.iter().map(OwnedArg::view).collect();
                [vec![Arg::Ref(Ref(*receiver))], args].concat()
            }
            Owned::CallRoutine(_, args) | Owned::CallProcedure(_, args) | Owned::Run(.., args) => {
                args.iter().map(OwnedArg::view).collect()
            }
            Owned::Constant(value) => vec![Arg::Value(value.view())],
            Owned::Do(test) | Owned::Then(test) => vec![Arg::Ref(Ref(*test))],
            Owned::Return(value) => value.iter().map(OwnedArg::view).collect(),
            Owned::Hello(..)
            | Owned::Lookup(..)
            | Owned::Cell(_)
            | Owned::Rows(_)
            | Owned::Free(..)
            | Owned::Flush(..)
            | Owned::FlushKept(..)
            | Owned::Plain(_)
            | Owned::History(_)
            | Owned::Profile(_)
            | Owned::When(..)
            | Owned::Others(_)
            | Owned::Module(..)
            | Owned::Procedure(..) => Vec::new(),
        }
    }
}

/// Collects the references of an operand.
fn references(operand: &Arg<'_>, into: &mut Vec<Ref>) {
    match operand {
        Arg::Ref(reference) => into.push(*reference),
        Arg::Value(Value::Compound(compound)) => compound.iter().for_each(|item| references(&item, into)),
        Arg::Value(_) => {}
    }
}

/// `decode_call` finds just the calls that `decode` finds.
fn calls_are_those_of_decode(bytes: &[u8]) -> Result<(), TestCaseError> {
    let call = match decode(bytes, FRAME_BYTES_MAX) {
        Ok(Decoded::Command(Command::Call { method, receiver, args }, used)) => {
            Some((method, receiver, args, used))
        }
        _ => None,
    };
    // As text: NaN is not equal to itself.
    prop_assert_eq!(format!("{:?}", decode_call(bytes, FRAME_BYTES_MAX)), format!("{call:?}"));
    Ok(())
}

fn cost() -> impl Strategy<Value = Cost> {
    (any::<u64>(), any::<[u32; 4]>()).prop_map(|(nanoseconds, [calls, fuel, fetches, objects])| Cost {
        nanoseconds,
        calls,
        fuel,
        fetches,
        objects,
    })
}

fn profile() -> impl Strategy<Value = OwnedProfile> {
    let entry = (any::<bool>(), 1u32.., cost()).prop_map(|(is_structure, call, cost)| {
        let subject = if is_structure { Subject::Structure } else { Subject::Command };
        Entry { subject, call, cost }
    });
    let rest = (1u32.., cost()).prop_map(|(omitted, cost)| Rest { omitted, cost });
    let totals = (any::<u64>(), any::<[u32; 3]>())
        .prop_map(|(nanoseconds, [fetches, objects, runs])| Totals { nanoseconds, fetches, objects, runs });
    (totals, vec(entry, 0..6), proptest::option::of(rest)).prop_map(|(totals, entries, rest)| OwnedProfile {
        totals,
        entries: entries.into(),
        rest,
    })
}

fn put_profile(profile: &OwnedProfile, writer: &mut Flushed<'_>) {
    writer.profile(&profile.totals, profile.entries.iter().copied(), profile.rest.as_ref());
}

proptest! {
    #[test]
    fn commands_survive(commands in vec(command(), 0..20)) {
        let mut bytes = Vec::new();
        commands.iter().for_each(|c| encode_owned(&mut bytes, c));
        prop_assert!(bytes.len().is_multiple_of(8));
        let again = decode_slowly(&bytes);
        prop_assert_eq!(again.as_ref(), Ok(&bytes));
    }

    #[test]
    fn operands_are_those_of_the_command(command in command()) {
        let mut bytes = Vec::new();
        encode_owned(&mut bytes, &command);
        let Ok(Decoded::Command(decoded, _)) = decode(&bytes, FRAME_BYTES_MAX) else {
            panic!("{command:?} is a command")
        };
        let operands: Vec<Arg<'_>> = decoded.operands().collect();
        prop_assert_eq!(&operands, &command.operands());
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        decoded.each_reference(|reference| found.push(reference));
        for operand in &operands {
            references(operand, &mut expected);
        }
        prop_assert_eq!(found, expected);
        // A message has those of a call.
        if let Command::Call { method, receiver, args } = decoded {
            let sent = Command::Send { method, receiver, args };
            prop_assert_eq!(sent.operands().collect::<Vec<_>>(), operands);
        }
    }

    #[test]
    fn a_cut_command_asks_for_more(command in command()) {
        let mut bytes = Vec::new();
        encode_owned(&mut bytes, &command);
        for cut in 0..bytes.len() {
            match decode(&bytes[..cut], FRAME_BYTES_MAX) {
                Ok(Decoded::NeedMore(length)) => prop_assert!(length > cut && length <= bytes.len()),
                other => prop_assert!(false, "{:?}", other),
            }
        }
        // What follows does not matter.
        bytes.extend_from_slice(&[0xff; 24]);
        let decoded = decode(&bytes, FRAME_BYTES_MAX);
        prop_assert!(matches!(decoded, Ok(Decoded::Command(_, n)) if n == bytes.len() - 24));
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200), code in 0u8..0x40) {
        let mut bytes = bytes;
        let _ = decode(&bytes, FRAME_BYTES_MAX).map(|d| format!("{d:?}"));
        let _ = decode_reply(&bytes, REPLY_BYTES_MAX).map(|d| format!("{d:?}"));
        if let Some(first) = bytes.first_mut() {
            *first = code;
        }
        let _ = decode(&bytes, FRAME_BYTES_MAX);
    }

    #[test]
    fn mangled_commands_do_no_harm(command in command(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = Vec::new();
        encode_owned(&mut bytes, &command);
        let at = at.index(bytes.len());
        calls_are_those_of_decode(&bytes)?;
        bytes[at] = to;
        calls_are_those_of_decode(&bytes)?;
        if let Ok(Decoded::Command(command, length)) = decode(&bytes, FRAME_BYTES_MAX) {
            // What is accepted has one encoding.
            let mut again = Vec::new();
            encode::command(&mut again, &command);
            prop_assert_eq!(&again, &bytes[..length]);
        }
    }

    #[test]
    fn flushed_survives(
        outcomes in vec(outcome(), 0..6),
        rows in vec((any::<i64>(), 1..i64::MAX, ".{0,12}"), 0..6),
        exceptions in vec(exception(), 3..6),
        calls in any::<u32>(),
        fuel in any::<u32>(),
        omitted in any::<u32>(),
        profile in proptest::option::of(profile()),
    ) {
        let mut bytes = Vec::new();
        let mut writer = Flushed::begin(&mut bytes);
        outcomes.iter().for_each(|o| writer.outcome(&o.view()));
        put_rows(&rows, &mut writer);
        exceptions.iter().for_each(|e| put(e, &mut writer));
        if let Some(profile) = &profile {
            put_profile(profile, &mut writer);
        }
        writer.finish(Counters { calls, fuel }, omitted);
        check_reply(&bytes)?;
        let Ok(DecodedReply::Reply(Reply::Flushed(flushed), _)) = decode_reply(&bytes, REPLY_BYTES_MAX) else {
            panic!("a flushed")
        };
        prop_assert_eq!(flushed.profile.map(OwnedProfile::from), profile);
    }

    #[test]
    fn mangled_replies_do_no_harm(
        exceptions in vec(exception(), 3..6),
        outcomes in vec(outcome(), 0..6),
        rows in vec((any::<i64>(), 1..i64::MAX, ".{0,12}"), 0..6),
        profile in proptest::option::of(profile()),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let mut bytes = Vec::new();
        let mut writer = Flushed::begin(&mut bytes);
        outcomes.iter().for_each(|o| writer.outcome(&o.view()));
        put_rows(&rows, &mut writer);
        exceptions.iter().for_each(|e| put(e, &mut writer));
        if let Some(profile) = &profile {
            put_profile(profile, &mut writer);
        }
        writer.finish(Counters::default(), 0);
        let at = at.index(bytes.len());
        bytes[at] = to;
        let _ = decode_reply(&bytes, REPLY_BYTES_MAX).map(|d| format!("{d:?}"));
    }

    #[test]
    fn mangled_profiles_do_no_harm(
        profile in profile(),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let mut bytes = Vec::new();
        let mut writer = Flushed::begin(&mut bytes);
        put_profile(&profile, &mut writer);
        writer.finish(Counters::default(), 0);
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(DecodedReply::Reply(reply, length)) = decode_reply(&bytes, REPLY_BYTES_MAX) {
            // What is accepted has one encoding.
            let mut again = Vec::new();
            encode::reply(&mut again, &reply);
            prop_assert_eq!(&again, &bytes[..length]);
        }
    }
}

#[test]
fn the_other_replies_survive() {
    let mut replies = Vec::new();
    let mut next = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        write(&mut bytes);
        replies.push(bytes);
    };
    let limits = [(Limit::FrameBytes, 7), (Limit::Handles, u64::MAX)];
    next(&|out| encode::welcome(out, &[7; 32], &limits, 42, "bifrost 0.1"));
    next(&|out| encode::interface(out, b"{}"));
    next(&|out| encode::farewell(out));
    next(&|out| encode::error(out, ErrorNumber::BadWord, 12, "what is this?"));
    next(&|out| {
        let mut writer = Exceptions::begin(out);
        writer.signal(1, 4, &[2, 3], "not_found", &[Outcome::Value(Value::Str("who"))]);
        writer.exception(2, 5, &[], &ExceptionKind::Unhandled { argument: 0, back: 0, cause: 4 });
        writer.finish(3);
    });
    for bytes in replies {
        check_reply(&bytes).unwrap();
    }
}

/// The bytes of a reply with one failure, which has these places.
fn reply_with(places: &[Place<'_>], more: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Flushed::begin(&mut bytes);
    writer.failure(1, &[], "failure", &[], PlaceList { places, more });
    writer.finish(Counters::default(), 0);
    bytes
}

/// The number of places that a reply has, and of those further out.
fn places_in(bytes: &[u8]) -> Result<(usize, u64), DecodeError> {
    match decode_reply(bytes, REPLY_BYTES_MAX)? {
        DecodedReply::Reply(Reply::Flushed(flushed), _) => match flushed.exceptions().next().unwrap().kind {
            ExceptionKind::Signal { places, .. } => Ok((places.iter().count(), places.more)),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failure_has_a_bounded_number_of_places() {
    let place = Place { routine: "r", file: "f", line: 1 };
    assert_eq!(places_in(&reply_with(&[], 7)).unwrap(), (0, 0), "nothing is written without places");
    assert_eq!(places_in(&reply_with(&[place; PLACES_MAX], 7)).unwrap(), (PLACES_MAX, 7));
    assert_eq!(places_in(&reply_with(&[place; PLACES_MAX + 3], 7)).unwrap(), (PLACES_MAX, 10));
    assert_eq!(places_in(&reply_with(&[place], u64::MAX)).unwrap(), (1, u64::MAX));
    // The byte behind the counts of values and rounds.
    let mut bytes = reply_with(&[place; PLACES_MAX], 0);
    assert_eq!(bytes[32 + 3], PLACES_MAX as u8);
    bytes[32 + 3] += 1;
    assert_eq!(places_in(&bytes).unwrap_err().what, "a count of places");
}

#[test]
fn names_of_places_are_cut_and_longer_ones_refused() {
    use bifrost_wire::places::PLACE_BYTES_MAX;
    let long = "é".repeat(PLACE_BYTES_MAX);
    let place = Place { routine: &long, file: &long, line: 1 };
    let bytes = reply_with(&[place], 0);
    assert_eq!(places_in(&bytes).unwrap(), (1, 0));
    assert_eq!(bytes.len() - reply_with(&[], 0).len(), PlaceList { places: &[place], more: 0 }.bytes());
    // The length of the routine's name, behind the name of the exception, `more` and the line.
    let at = 32 + 8 + 16 + 8 + 8;
    assert_eq!(bytes[at], PLACE_BYTES_MAX as u8 - 1, "two bytes of a character stay together");
    let mut longer = bytes.clone();
    longer[at..at + 8].copy_from_slice(&(PLACE_BYTES_MAX as u64 + 1).to_le_bytes());
    assert!(places_in(&longer).is_err());
    let mut endless = bytes.clone();
    endless[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(places_in(&endless).is_err());
    // A line beyond 32 bits.
    let mut line = bytes;
    line[at - 4] = 1;
    assert_eq!(places_in(&line).unwrap_err().what, "the number of a line");
}

#[test]
fn profiles_are_compared_with_their_counts() {
    let cost = Cost { nanoseconds: 5, calls: 1, fuel: 1, fetches: 1, objects: 2 };
    let entry = Entry { subject: Subject::Structure, call: 3, cost };
    let rest = Some(Rest { omitted: 2, cost });
    let profile = OwnedProfile { totals: Totals::default(), entries: [entry, entry].into(), rest };
    let mut good = Vec::new();
    let mut writer = Flushed::begin(&mut good);
    put_profile(&profile, &mut writer);
    writer.finish(Counters::default(), 0);
    check_reply(&good).unwrap();
    // The parts follow the four words of an empty reply: four words of the profile, two entries of
    // four words, and the rest.
    let (runs, counts, first, second, rest) = (32 + 16, 32 + 24, 32 + 32, 32 + 64, 32 + 96);
    assert_eq!(good.len(), rest + 32);
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        decode_reply(&bytes, REPLY_BYTES_MAX).map(|_| ()).map_err(|error| error.what)
    };
    assert_eq!(changed(1, 1), Ok(()), "the flag is set already");
    assert_eq!(changed(1, 0), Err("a reply no longer than its parts"));
    assert_eq!(changed(1, 2), Err("the code of a reply"));
    assert_eq!(changed(2, 1), Err("the code of a reply"));
    assert_eq!(changed(runs + 4, 1), Err("zeros behind the number of runs"));
    assert_eq!(changed(first, 2), Err("the kind of an entry"));
    assert_eq!(changed(second, 3), Err("the kind of an entry"));
    assert_eq!(changed(first + 1, 1), Err("the kind of an entry"));
    assert_eq!(changed(second + 4, 0), Err("the position of a call"));
    assert_eq!(changed(rest, 0), Err("the rest of a profile"));
    assert_eq!(changed(rest + 4, 1), Err("the rest of a profile"));
    assert_eq!(changed(counts, 1), Err("the rest of a profile"));
    assert_eq!(changed(counts, 3), Err("the position of a call"));
    assert_eq!(changed(counts, 200), Err("the position of a call"));
    assert_eq!(changed(counts + 4, 0), Err("a reply no longer than its parts"));
    assert_eq!(changed(8, good[8] - 8), Err("a reply of the length in its header"));
    // Only a flushed has one.
    let mut farewell = Vec::new();
    encode::farewell(&mut farewell);
    farewell[1] = 1;
    assert!(decode_reply(&farewell, REPLY_BYTES_MAX).is_err());
}

#[test]
fn only_a_signalled_exception_has_places() {
    let mut bytes = Vec::new();
    let mut writer = Flushed::begin(&mut bytes);
    writer.exception(1, &[], &ExceptionKind::Unhandled { argument: 0, back: 0, cause: 0 });
    writer.finish(Counters::default(), 0);
    bytes[32 + 3] = 1;
    assert!(decode_reply(&bytes, REPLY_BYTES_MAX).is_err());
}

#[test]
fn a_null_call_has_sixteen_bytes() {
    let mut bytes = Vec::new();
    encode::call(&mut bytes, MethodNumber(3), Ref(1), &[]);
    assert_eq!(bytes.len(), 16);
}

#[test]
fn lengths_are_refused_before_their_bytes_come() {
    let mut bytes = Vec::new();
    encode::word(&mut bytes, encode::head(op::LOOKUP, 0, 0));
    encode::word(&mut bytes, 1 << 40);
    let error = decode(&bytes, FRAME_BYTES_MAX).unwrap_err();
    assert_eq!(error.number, ErrorNumber::FrameTooLong);
    let mut bytes = Vec::new();
    encode::word(&mut bytes, encode::head(op::FREE, 0, u32::MAX));
    let error = decode(&bytes, FRAME_BYTES_MAX).unwrap_err();
    assert_eq!(error.number, ErrorNumber::FrameTooLong);
}

#[test]
fn tables_are_compared_with_their_heads() {
    let reply = |columns: &[(u8, u32)], count: u32, cells: &[u64]| {
        let mut bytes = Vec::new();
        let mut writer = Flushed::begin(&mut bytes);
        writer.rows(columns.iter().map(|(tag, ty)| (*tag, TypeNumber(*ty))), |out| {
            cells.iter().for_each(|cell| encode::word(out, *cell));
            Some(count)
        });
        writer.finish(Counters::default(), 0);
        decode_reply(&bytes, REPLY_BYTES_MAX).map(|_| ()).map_err(|e| e.what)
    };
    assert_eq!(reply(&[(tag::INT, 2), (tag::REF, 7)], 2, &[1, 5, 2, 6]), Ok(()));
    assert_eq!(reply(&[(tag::INT, 2)], 3, &[1, 2]), Err("a table of the length in its header"));
    assert_eq!(reply(&[(tag::INT, 2)], u32::MAX, &[1, 2]), Err("a table of the length in its header"));
    assert_eq!(reply(&[(tag::INT, 2)], 1, &[1, 2]), Err("a table no longer than its cells"));
    assert_eq!(reply(&[(tag::REF, 7)], 1, &[0]), Err("a handle"));
    assert_eq!(reply(&[(tag::BOOL, 1)], 1, &[2]), Err("a word that its tag allows"));
    assert_eq!(reply(&[], 0, &[]), Err("a count of columns"));
    for other in [tag::EXCEPTION, tag::ABSENT, tag::ROWS, 200] {
        assert_eq!(reply(&[(other, 0)], 0, &[]), Err("the tag of a column, and zeros after it"));
    }
}
