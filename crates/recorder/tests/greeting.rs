//! The begin of a session, and the last words of a server.

use bifrost_recorder::{
    BuiltinNumbers, CellNumbers, Closed, GreetError, Greeting, LastWords, Recorder, Settings, Stubs,
};
use bifrost_wire::{
    Command, Decoded, ErrorNumber, Interface, TraceContext, VERSION, decode, encode, operator,
};

static STUBS: Stubs = Stubs {
    digest: [7; 32],
    json: r#"{"types":[{"name":"int","kind":"int"}],"routines":[]}"#,
    basic: [(0, CellNumbers::NONE); 6],
    builtin: [BuiltinNumbers::NONE; 3],
    operators: [0; operator::COUNT],
};

fn greeting() -> Greeting {
    let mut greeting = Greeting::new(&STUBS, "token", "client", Settings::default());
    let length = greeting.bytes_to_send().len();
    assert!(length > 0, "hello");
    greeting.sent(8);
    assert_eq!(greeting.bytes_to_send().len(), length - 8, "bytes may go out in parts");
    greeting.sent(usize::MAX);
    greeting
}

fn welcome(digest: u8) -> Vec<u8> {
    let mut out = Vec::new();
    encode::welcome(&mut out, &[digest; 32], &[], 1, "test");
    out
}

/// Hands in bytes in two pieces.
fn take(greeting: &mut Greeting, bytes: &[u8], cut: usize) -> Result<Option<Recorder<u32>>, GreetError> {
    let (first, rest) = bytes.split_at(cut);
    match greeting.handle_bytes(first)? {
        Some(recorder) => Ok(Some(recorder)),
        None => greeting.handle_bytes(rest),
    }
}

#[test]
fn a_welcome_opens_the_session_however_it_is_cut() {
    let bytes = welcome(7);
    for cut in 0..bytes.len() {
        let recorder = take(&mut greeting(), &bytes, cut).unwrap().expect("a session");
        assert!(recorder.is_ready() && !recorder.is_under_way() && !recorder.is_closed());
    }
}

#[test]
fn a_trace_context_is_sent_if_there_is_one() {
    let sent = |trace| {
        let settings = Settings { trace, ..Settings::default() };
        let greeting = Greeting::new(&STUBS, "", "client", settings);
        match decode(greeting.bytes_to_send(), usize::MAX) {
            Ok(Decoded::Command(Command::Hello(hello), _)) => hello.trace,
            other => panic!("{other:?}"),
        }
    };
    let trace = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert!(trace.is_some());
    assert_eq!((sent(trace), sent(None)), (trace, None));
}

#[test]
fn another_interface_is_asked_for() {
    let mut greeting = greeting();
    assert!(take(&mut greeting, &welcome(8), 5).unwrap().is_none());
    assert_eq!(greeting.bytes_to_send().len(), 8, "describe");
    greeting.sent(usize::MAX);
    let server = r#"{"types":[{"name":"bool","kind":"bool"},{"name":"int","kind":"int"}],"routines":[]}"#;
    let server = Interface::from_json(server.as_bytes()).unwrap();
    let mut reply = Vec::new();
    encode::interface(&mut reply, &server.to_json());
    let recorder = take(&mut greeting, &reply, 40).unwrap().expect("a session");
    assert_eq!(recorder.numbers().ty(0).map(|ty| ty.0), Some(1), "`int` has another number there");
}

#[test]
fn other_answers_open_none() {
    let mut version = welcome(7);
    version[4] = VERSION as u8 + 1;
    let opened = take(&mut greeting(), &version, 0);
    assert!(matches!(opened, Err(GreetError::Version { server, client: VERSION }) if server == VERSION + 1));

    let mut error = Vec::new();
    encode::error(&mut error, ErrorNumber::TooManySessions, 0, "full");
    let opened = take(&mut greeting(), &error, 9);
    assert!(matches!(opened, Err(GreetError::Closed(Closed::ByServer { number: 40, .. }))));

    let mut farewell = Vec::new();
    encode::farewell(&mut farewell);
    let opened = take(&mut greeting(), &farewell, 0);
    assert!(matches!(opened, Err(GreetError::Closed(Closed::WrongReply(_)))));

    let twice = [welcome(7), welcome(7)].concat();
    let opened = take(&mut greeting(), &twice, 0);
    assert!(matches!(opened, Err(GreetError::Closed(Closed::WrongReply(_)))));

    let opened = take(&mut greeting(), &[0xff; 16], 3);
    assert!(matches!(opened, Err(GreetError::Closed(Closed::BadReply(_)))));

    let mut described = greeting();
    assert!(take(&mut described, &welcome(8), 0).unwrap().is_none());
    let mut reply = Vec::new();
    encode::interface(&mut reply, b"{\"types\":[");
    assert!(matches!(take(&mut described, &reply, 0), Err(GreetError::Interface(_))));
}

#[test]
fn a_server_says_why_it_closes() {
    let mut bytes = Vec::new();
    encode::error(&mut bytes, ErrorNumber::Expired, 0, "too long");
    let mut recorder = take(&mut greeting(), &welcome(7), 0).unwrap().expect("a session");
    assert!(matches!(recorder.handle_last_bytes(&bytes[..10]), LastWords::Unfinished));
    let said = recorder.handle_last_bytes(&bytes[10..]);
    assert!(matches!(said, LastWords::Reason(Closed::ByServer { number: 41, .. })));
    assert!(matches!(greeting().handle_last_bytes(&welcome(7)), LastWords::None));
    assert!(matches!(greeting().handle_last_bytes(&[0xff; 16]), LastWords::None));
}

#[test]
fn bytes_that_nobody_asked_for_close_the_session() {
    let mut recorder = take(&mut greeting(), &welcome(7), 0).unwrap().expect("a session");
    assert!(!recorder.handle_bytes(&[]).unwrap());
    let mut farewell = Vec::new();
    encode::farewell(&mut farewell);
    assert!(recorder.handle_bytes(&farewell).is_err());
    assert!(recorder.is_closed());
    assert!(recorder.begin_flush(false).is_err());
}
