//! The vectors that every language reads: `vectors/*.json`.
//!
//! `BIFROST_UPDATE=1 cargo test -p bifrost-wire --test vectors` writes them.

use std::path::PathBuf;
use std::sync::Arc;

use bifrost_wire::encode::{self, Counters, Exceptions, Flushed};
use bifrost_wire::interface::{Interface, Numbering};
use bifrost_wire::profile::{Cost, Entry, Rest, Subject, Totals};
use bifrost_wire::text::Translator;
use bifrost_wire::value::tag;
use bifrost_wire::*;
use serde_json::{Value as Json, json};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors"))
}

fn numbering() -> Arc<Numbering> {
    let json = std::fs::read(folder().join("interface.json")).unwrap();
    Arc::new(Numbering::new(Interface::from_json(&json).unwrap()))
}

fn hex(bytes: &[u8]) -> String {
    // A space after each word, for people.
    let words: Vec<String> =
        bytes.chunks(8).map(|w| w.iter().map(|b| format!("{b:02x}")).collect()).collect();
    words.join(" ")
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| *c != ' ').collect();
    digits.chunks(2).map(|two| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap()).collect()
}

/// Compares with the file, or writes it.
fn check_file(name: &str, fresh: &[Json]) {
    let path = folder().join(name);
    let rows: Vec<String> = fresh.iter().map(|row| format!("  {row}")).collect();
    let text = format!("[\n{}\n]\n", rows.join(",\n"));
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    // As JSON, because the order of keys is not ours to say.
    let old: Json =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap_or_default()).unwrap_or_default();
    assert!(
        old == Json::from(fresh.to_vec()),
        "{name} is stale: BIFROST_UPDATE=1 cargo test -p bifrost-wire --test vectors"
    );
}

/// One conversation that says everything.
const LINES: &str = r#"
hello 2 token "secret" name "vectors"
$db := lookup database: DataBase
$any := lookup "odd name"
$e := $db.fetch("qyz")
$e.touch()
@5 := $e.visits()
$n := $e.visits().add(-7)
$p := new_point(1, 9223372036854775807)
swap($p)
$r := 1.5
$r.lt(-0.25)
$c := 'é'
$c.equal('\u{1f600}')
$b := true
$b.band(false)
nil.unparse()
send $e.touch()
$i := cell int
$i.put(0)
while $i.get().lt(10) do
  if $i.get().equal(5) then
    break
  else
    continue
  end
  $i.put($i.get().add(1))
end
while
  $v := $i.get()
do $v.lt(20)
end
foreach $x in $db.users() do
  $x.touch()
end
foreach $k, $x in $db.pairs(3) do
  $db.adopt($x)
end
foreach $k in 1.to(100) do
end
foreach $k in primes(50) do
end
except
  $db.fetch("nobody")
when not_found
  $db.new_user("nobody")
when exists($who: string, $k: int)
  $db.fetch($who)
others $name
  $db.fetch($name)
end
except
others
end
procedure twice($k: int, $p: point) returns int
  $p.set_x($k)
  return $k.mul(2)
end
procedure nothing
  return
end
twice(21, $p)
nothing()
twice(twice(1, $p), $p)
? $n, $e.name()
flush
$h := h4294967301
$raw := x"00fF10"
$t := rows point, int, string
$same := $p as point
get $p
$is := $same is point
foreach $i in 1.to(3) do
emit $t, $same, $i, "text"
end
? $t
free $db
flush
history
clear
transaction
$done := transaction 5
transaction batch "00112233445566778899aabbccddeeff" 7
$done := commit
commit
abort
$changed := wait 30000
wait 0
profile on
profile off
flush
bye
hello 2 name "traced" trace "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
"#;

#[test]
fn commands() {
    let mut translator = Translator::new(numbering());
    translator.set_limits(Limit::ALL.iter().map(|limit| (*limit as u32, limit.default_value())));
    let mut fresh = Vec::new();
    for line in LINES.lines().filter(|l| !l.is_empty()) {
        let (mut bytes, mut answer) = (Vec::new(), String::new());
        let due = translator.line(line, &mut bytes, &mut answer).unwrap_or_else(|e| panic!("{line}: {e}"));
        if due == bifrost_wire::text::Due::Reply {
            settle(&mut translator, &bytes);
        }
        fresh.push(json!({"text": line.trim(), "hex": hex(&bytes), "commands": decode_all(&bytes)}));
    }
    // Wide calls have further words of tags, which no method of the sample interface needs.
    for count in [4, 5, 20, 21, 40] {
        let args: Vec<Arg<'_>> = (0..count)
            .map(|i| match i % 3 {
                0 => Arg::Ref(Ref(i)),
                1 => Arg::Value(Value::Int(i)),
                _ => Arg::Value(Value::Str("é")),
            })
            .collect();
        let mut bytes = Vec::new();
        encode::call(&mut bytes, MethodNumber(7), Ref(1), &args);
        fresh.push(json!({"hex": hex(&bytes), "commands": decode_all(&bytes)}));
    }
    // The sample interface has no compounds either.
    let inner = OwnedCompound::new(TypeNumber(12), &[Arg::Ref(Ref(-1)), Arg::Value(Value::Int(-2))]);
    let inner = Arg::Value(Value::Compound(inner.view()));
    let many: Vec<Arg<'_>> = (0..17).map(|i| Arg::Value(Value::Int(i))).collect();
    for items in [&[][..], &[Arg::Value(Value::Str("é"))], &[inner, Arg::Value(Value::Nil), inner], &many] {
        let compound = OwnedCompound::new(TypeNumber::NONE, items);
        let mut bytes = Vec::new();
        encode::call(&mut bytes, MethodNumber(7), Ref(1), &[Arg::Value(Value::Compound(compound.view()))]);
        fresh.push(json!({"hex": hex(&bytes), "commands": decode_all(&bytes)}));
    }
    // Nor does the text form name results of earlier batches.
    let mut bytes = Vec::new();
    let earlier = |back, position| Ref::earlier(Earlier { back, position });
    encode::call(&mut bytes, MethodNumber(7), earlier(1, 2), &[Arg::Ref(earlier(255, u32::MAX))]);
    encode::free(&mut bytes, &[Ref(1), Ref((1 << 32) | 2)], 3);
    encode::flush_kept(&mut bytes, [1, 2, 5], 0);
    encode::flush_kept(&mut bytes, [], 255);
    encode::flush(&mut bytes, [3], true);
    fresh.push(json!({"hex": hex(&bytes), "commands": decode_all(&bytes)}));
    let mut describe = Vec::new();
    encode::plain(&mut describe, op::DESCRIBE);
    fresh.push(json!({"hex": hex(&describe), "commands": decode_all(&describe)}));
    check_file("commands.json", &fresh);
    // Modules are in a file of their own: not every client library offers them.
    let mut bytes = Vec::new();
    encode::module(&mut bytes, ModuleNumber(3), b"\0asm\x01\0\0\0");
    encode::run(&mut bytes, ModuleNumber(3), "sum", Some(TypeNumber(2)), &[Arg::Value(Value::Int(-7))]);
    encode::run(&mut bytes, ModuleNumber(0), "é", None, &[Arg::Ref(Ref(-1)), Arg::Value(Value::Str("é"))]);
    let modules = vec![json!({"hex": hex(&bytes), "commands": decode_all(&bytes)})];
    check_file("modules.json", &modules);
    fresh.extend(modules);
    // Every command occurs.
    let text = fresh.iter().map(Json::to_string).collect::<String>();
    for row in op::TABLE.iter().filter(|r| r.from == op::From::Client) {
        assert!(text.contains(&format!("\"{}\"", row.name)), "no vector for {}", row.name);
    }
}

/// Answers a flush: a handle for every future.
fn settle(translator: &mut Translator, bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Decoded::Command(command, length)) = decode(rest, FRAME_BYTES_MAX) {
        rest = &rest[length..];
        if let Command::Flush { wanted, .. } = command {
            let mut reply = Vec::new();
            let mut writer = Flushed::begin(&mut reply);
            for position in wanted.positions() {
                writer.outcome(&Outcome::Handle { handle: Ref::handle(position, 1), ty: TypeNumber(9) });
            }
            writer.finish(Counters::default(), 0);
            let Ok(DecodedReply::Reply(reply, _)) = decode_reply(&reply, REPLY_BYTES_MAX) else { panic!() };
            translator.reply(&reply, &mut Vec::new(), &mut String::new());
        }
    }
}

/// The commands as JSON; checks that they encode to the same bytes.
fn decode_all(bytes: &[u8]) -> Vec<Json> {
    let mut rest = bytes;
    let (mut all, mut again) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        match decode(rest, FRAME_BYTES_MAX) {
            Ok(Decoded::Command(command, length)) => {
                all.push(bifrost_wire::json::command(&command));
                encode::command(&mut again, &command);
                rest = &rest[length..];
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(again, bytes);
    all
}

#[test]
fn replies() {
    let mut fresh = Vec::new();
    let mut add = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        write(&mut bytes);
        let Ok(DecodedReply::Reply(reply, length)) = decode_reply(&bytes, REPLY_BYTES_MAX) else {
            panic!("{}", hex(&bytes))
        };
        assert_eq!(length, bytes.len());
        let mut again = Vec::new();
        encode::reply(&mut again, &reply);
        assert_eq!(again, bytes);
        let mut text = String::new();
        Translator::new(numbering()).reply(&reply, &mut Vec::new(), &mut text);
        let mut json = String::new();
        let mut translator = Translator::new(numbering());
        translator.set_json();
        translator.reply(&reply, &mut Vec::new(), &mut json);
        // Of an object that would be looked into there is no answer yet.
        let json: Json = serde_json::from_str(&json).unwrap_or_default();
        let reply = bifrost_wire::json::reply(&reply);
        fresh.push(json!({"hex": hex(&bytes), "reply": reply, "text": text, "json": json}));
    };
    let limits: Vec<(Limit, u64)> = Limit::ALL.iter().map(|l| (*l, l.default_value())).collect();
    add(&|out| encode::welcome(out, &[0xab; 32], &limits, 42, "bifrost 0.1.0"));
    add(&|out| Flushed::begin(out).finish(Counters::default(), 0));
    add(&|out| {
        let mut w = Flushed::begin(out);
        w.outcome(&Outcome::Handle { handle: Ref::handle(5, 1), ty: TypeNumber(7) });
        w.outcome(&Outcome::Value(Value::Nil));
        w.outcome(&Outcome::Value(Value::Bool(true)));
        w.outcome(&Outcome::Value(Value::Int(i64::MIN)));
        w.outcome(&Outcome::Value(Value::Real(-0.0)));
        w.outcome(&Outcome::Value(Value::Real(f64::INFINITY)));
        w.outcome(&Outcome::Value(Value::Char('\u{10ffff}')));
        w.outcome(&Outcome::Value(Value::Str("")));
        w.outcome(&Outcome::Value(Value::Str("häh")));
        w.outcome(&Outcome::Exception(2));
        w.outcome(&Outcome::Absent);
        w.signal(4, &[], "not_found", &[]);
        let object = Outcome::Handle { handle: Ref(6), ty: TypeNumber(7) };
        w.signal(5, &[3, 1], "exists", &[Outcome::Value(Value::Str("qyz\n")), object]);
        w.exception(6, &[], &ExceptionKind::Unhandled { argument: 2, back: 0, cause: 4 });
        w.exception(7, &[], &ExceptionKind::Unhandled { argument: 0, back: 0, cause: 0 });
        w.exception(8, &[], &ExceptionKind::Unhandled { argument: 1, back: 2, cause: 9 });
        let number = ErrorNumber::WrongType as u32;
        w.exception(8, &[], &ExceptionKind::Refused { number, text: "argument 1 is no int" });
        w.finish(Counters { calls: 12, fuel: 99 }, 1);
    });
    add(&|out| {
        let mut w = Flushed::begin(out);
        let columns = [(tag::REF, TypeNumber(7)), (tag::INT, TypeNumber(2)), (tag::STRING, TypeNumber(5))];
        w.rows(columns.into_iter(), |cells| {
            for (handle, int, text) in [(5, 1, "one"), (6, -20, "minus twenty")] {
                encode::word(cells, handle);
                encode::word(cells, int as u64);
                encode::bytes(cells, text.as_bytes());
            }
            Some(2)
        });
        w.rows([(tag::BOOL, TypeNumber(1))].into_iter(), |_| Some(0));
        w.finish(Counters { calls: 6, fuel: 9 }, 0);
    });
    add(&|out| {
        let mut w = Flushed::begin(out);
        let inner = OwnedCompound::new(TypeNumber(12), &[Arg::Ref(Ref(5)), Arg::Value(Value::Str("é"))]);
        let inner = Value::Compound(inner.view());
        let outer = OwnedCompound::new(TypeNumber(13), &[Arg::Value(inner), Arg::Value(Value::Nil)]);
        w.outcome(&Outcome::Value(Value::Compound(outer.view())));
        w.outcome(&Outcome::Value(Value::Compound(OwnedCompound::new(TypeNumber(13), &[]).view())));
        w.rows([(tag::COMPOUND, TypeNumber(12))].into_iter(), |cells| {
            encode::value(cells, &inner);
            Some(1)
        });
        w.finish(Counters { calls: 2, fuel: 2 }, 0);
    });
    add(&|out| {
        let mut w = Flushed::begin(out);
        w.outcome(&Outcome::Exception(0));
        let places = [
            Place { routine: "Stack.push", file: "lib/stack.theta", line: 17 },
            Place { routine: "Desk.take", file: "desk.theta", line: 4_000_000_000 },
            Place { routine: "main", file: "", line: 0 },
        ];
        let text = [Outcome::Value(Value::Str("unhandled exception: full"))];
        w.failure(2, &[7], "failure", &text, PlaceList { places: &places, more: 9 });
        w.failure(3, &[], "failure", &text, PlaceList { places: &places[2..], more: 0 });
        w.finish(Counters { calls: 3, fuel: 3 }, 0);
    });
    add(&|out| {
        let mut w = Flushed::begin(out);
        w.profile(&Totals { nanoseconds: 49, fetches: 0, objects: 0, runs: 1 }, [].into_iter(), None);
        w.finish(Counters { calls: 0, fuel: 0 }, 0);
    });
    add(&|out| {
        let mut w = Flushed::begin(out);
        w.outcome(&Outcome::Value(Value::Int(7)));
        w.outcome(&Outcome::Exception(0));
        w.signal(3, &[], "not_found", &[]);
        let cost = |nanoseconds, [calls, fuel, fetches, objects]: [u32; 4]| Cost {
            nanoseconds,
            calls,
            fuel,
            fetches,
            objects,
        };
        let entries = [
            Entry { subject: Subject::Command, call: 1, cost: cost(61_000, [1, 1, 2, 9]) },
            Entry { subject: Subject::Structure, call: 2, cost: cost(12_900, [40, 60, 0, 0]) },
            Entry { subject: Subject::Structure, call: 2, cost: cost(0, [0, 0, 0, 0]) },
            Entry { subject: Subject::Command, call: u32::MAX, cost: cost(1 << 40, [u32::MAX; 4]) },
        ];
        let totals = Totals { nanoseconds: 1 << 41, fetches: u32::MAX, objects: 9, runs: 3 };
        let rest = Rest { omitted: 17, cost: cost(4_099, [17, 17, 1, 1]) };
        w.profile(&totals, entries.into_iter(), Some(&rest));
        w.finish(Counters { calls: 58, fuel: 78 }, 0);
    });
    add(&|out| encode::interface(out, b"{\"types\":[],\"routines\":[]}"));
    add(&|out| {
        let mut w = Exceptions::begin(out);
        w.signal(1, 4, &[], "not_found", &[]);
        w.finish(2);
    });
    add(&|out| encode::farewell(out));
    add(&|out| encode::error(out, ErrorNumber::BadWord, 17, "the code of a command was expected"));
    check_file("replies.json", &fresh);
}

#[test]
fn malformed() {
    let cases: &[(&str, &str)] = &[
        ("no command has the code 0", "0000000000000000"),
        ("no command has the code 0x7f", "7f00000000000000"),
        ("a reserved code", "3400000000000000"),
        ("a wait with flags", "3301000064000000"),
        ("the code of a reply", "c100000000000000"),
        ("hello with another magic", "8942465254535400"),
        ("hello with an unknown flag", "894246524f53540a 0200000002000000"),
        (
            "hello with a trace context that is none",
            "894246524f53540a 0200000001000000 0000000000000000 0000000000000000 0000000000000000 \
             0000000000000000 0000000000000000 0000000000000000 3400000000000000 30302d3061663736 \
             3531393136636434 3364643834343865 6232313163383033 3139632d62376164 3662373136393230 \
             3333333100000000",
        ),
        ("tags without arguments", "0100010000000000 0100000000000000"),
        ("a tag beyond the arguments", "0101003000000000 0100000000000000 0000000000000000"),
        ("a tag that is none", "01010c0000000000 0100000000000000 0000000000000000"),
        ("a table as an argument", "01010b0000000000 0100000000000000 0000000000000000"),
        (
            "bytes with something behind them",
            "0101090000000000 0100000000000000 0100000000000000 6161000000000000",
        ),
        ("bytes longer than a frame", "0101090000000000 0100000000000000 0100100000000000"),
        ("a compound without a type", "01010a0000000000 0100000000000000 0000000000000000"),
        ("a compound of half a word", "01010a0000000000 0100000000000000 0c00000000000000"),
        ("a compound longer than a frame", "01010a0000000000 0100000000000000 0800100000000000"),
        (
            "more items than a compound has bytes",
            "01010a0000000000 0100000000000000 0800000000000000 ffffffffffffffff",
        ),
        (
            "a compound with words behind its items",
            "01010a0000000000 0100000000000000 1000000000000000 0200000000000000 0000000000000000",
        ),
        (
            "a compound with a tag beyond its items",
            "01010a0000000000 0100000000000000 1800000000000000 0200000001000000 3300000000000000 0000000000000000",
        ),
        (
            "a compound with a tag that is none",
            "01010a0000000000 0100000000000000 1800000000000000 0200000001000000 0c00000000000000 0000000000000000",
        ),
        ("get with a number", "2400000001000000 0100000000000000"),
        ("a table without columns", "0d00000000000000"),
        ("a row with a number", "0e00000001000000 0100000000000000"),
        ("a cast with flags", "2201000000000000 0100000000000000"),
        ("a bool that is 2", "0101020000000000 0100000000000000 0200000000000000"),
        ("a surrogate as character", "0101050000000000 0100000000000000 00d8000000000000"),
        ("nil with a value", "0101010000000000 0100000000000000 0100000000000000"),
        ("a string that is no UTF-8", "0400000000000000 0100000000000000 ff00000000000000"),
        ("a string with bytes behind it", "0400000000000000 0100000000000000 6161000000000000"),
        ("a string longer than a frame", "0400000000000000 0100100000000000"),
        ("a string as long as there are numbers", "0400000000000000 ffffffffffffffff"),
        ("more handles than fit a frame", "07000000ffffffff"),
        ("a constant that is a reference", "0500000000000000 0100000000000000"),
        ("a marker with a number", "1000000001000000"),
        ("a flag that is none", "0804000000000000"),
        ("unanswered batches of a batch that is not kept", "0800010000000000"),
        ("more unanswered batches than a byte", "0802000100000000"),
        ("a free with more than a number of batches", "0700010000000000"),
        ("ranges out of order", "0800000002000000 0500000001000000 0100000001000000"),
        ("ranges that touch", "0800000002000000 0100000001000000 0200000001000000"),
        ("an empty range", "0800000001000000 0100000000000000"),
        ("a range from 0", "0800000001000000 0000000001000000"),
        ("a range that ends beyond the last number", "0800000001000000 ffffffff02000000"),
        ("a type beyond the last number", "1c01000000000000 0000000000000000 ffffffff00000000"),
        ("return with a tag but no value", "2000030000000000"),
        ("profile with a flag that is none", "0f02000000000000"),
        ("profile with a number", "0f01000001000000"),
    ];
    // Each level has the words of its length, its type and the tag of its one item.
    let levels = (0..=COMPOUND_DEPTH_MAX as u64).rev();
    let deep = levels.map(|level| hex(&[16 + 24 * level, 1 << 32, 10].map(u64::to_le_bytes).concat()));
    let deep = format!("01010a0000000000 0100000000000000 {}", deep.collect::<Vec<_>>().join(" "));
    let cases = cases.iter().copied().chain([("compounds that nest too deeply", deep.as_str())]);
    let mut fresh = Vec::new();
    for (what, bytes) in cases {
        match decode(&unhex(bytes), FRAME_BYTES_MAX) {
            Err(e) => {
                fresh.push(json!({"what": what, "hex": bytes, "error": e.number.name(), "offset": e.offset}))
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    check_file("malformed.json", &fresh);
}

/// The lines of the commands in `commands.json`, and of those that each case has sent: what is
/// explained has the same words in all languages.
#[test]
fn explanations() {
    let read = |path: PathBuf| -> Json {
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap_or_else(|why| panic!("{path:?}: {why}"))
    };
    let explain = |numbering: &Numbering, bytes: &[u8]| text::Explainer::new(numbering, &[]).lines(bytes);
    let commands = read(folder().join("commands.json"));
    let mut rows: Vec<Json> = Vec::new();
    for command in commands.as_array().unwrap() {
        let bytes = command["hex"].as_str().unwrap();
        rows.push(json!({"commands": bytes, "lines": explain(&numbering(), &unhex(bytes))}));
    }
    let cases = folder().join("../cases/generated");
    let mut names: Vec<String> =
        std::fs::read_dir(&cases).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".interface.json"));
    names.sort();
    for name in names {
        let case = read(cases.join(&name));
        // Cases with several sessions or with loops have the same commands.
        let crossings = case["crossings"].as_array().into_iter().flatten();
        let sent = crossings.flat_map(|one| one["sent"].as_array().into_iter().flatten());
        let Some(sent) = sent.map(Json::as_str).collect::<Option<Vec<&str>>>() else { continue };
        if sent.is_empty() {
            continue;
        }
        // The numbers are those of the server.
        let interface = case.get("server_interface").unwrap_or(&case["interface"]).as_str().unwrap();
        let json = std::fs::read(cases.join(format!("{interface}.interface.json"))).unwrap();
        let numbering = Numbering::new(Interface::from_json(&json).unwrap());
        let bytes: Vec<u8> = sent.into_iter().flat_map(unhex).collect();
        rows.push(json!({"case": name, "lines": explain(&numbering, &bytes)}));
    }
    check_file("explained.json", &rows);
}
