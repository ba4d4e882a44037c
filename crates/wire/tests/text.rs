//! The text form: what lines become, what replies say, what is wrong with bad lines.

use std::sync::Arc;

use bifrost_wire::encode::{Counters, Flushed};
use bifrost_wire::interface::{Interface, Numbering};
use bifrost_wire::text::Translator;
use bifrost_wire::*;
use proptest::prelude::*;

fn translator() -> Translator {
    let json = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/interface.json")).unwrap();
    Translator::new(Arc::new(Numbering::new(Interface::from_json(&json).unwrap())))
}

/// Plays lines; a line that starts with `<` gives the outcomes of the flush before it.
fn play(script: &str) -> String {
    let mut t = translator();
    let mut answer = String::new();
    for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let mut bytes = Vec::new();
        answer += &format!("{line}\n");
        if let Err(e) = t.line(line, &mut bytes, &mut answer) {
            answer += &format!("  error: {e}\n");
        }
        let mut rest = &bytes[..];
        while let Ok(Decoded::Command(command, length)) = decode(rest, FRAME_BYTES_MAX) {
            rest = &rest[length..];
            if let Command::Flush { wanted, .. } = command {
                let mut reply = Vec::new();
                let mut writer = Flushed::begin(&mut reply);
                for position in wanted.positions() {
                    match position {
                        1 => writer.outcome(&Outcome::Handle { handle: Ref(5), ty: TypeNumber(9) }),
                        2 => writer.outcome(&Outcome::Exception(0)),
                        n => writer.outcome(&Outcome::Value(Value::Int(n.into()))),
                    }
                }
                writer.signal(2, &[], "not_found", &[]);
                writer.exception(3, &[2], &ExceptionKind::Unhandled { argument: 0, back: 0, cause: 2 });
                writer.finish(Counters { calls: 3, fuel: 9 }, 0);
                let Ok(DecodedReply::Reply(reply, _)) = decode_reply(&reply, REPLY_BYTES_MAX) else {
                    panic!()
                };
                t.reply(&reply, &mut Vec::new(), &mut answer);
            } else if let Command::Free { handles, .. } = command {
                answer += &format!("  frees {:?}\n", handles.iter().map(|h| h.0).collect::<Vec<_>>());
            }
        }
    }
    answer
}

#[test]
fn a_conversation() {
    let script = "
        $db := lookup database
        $e := $db.fetch(\"qyz\")
        ? $db
        $e := $db.fetch(\"qyz\")
        ? $db.counts().fetch(1), $db, 7
        $db := 3
        free $e
        ?
    ";
    let expected = "\
$db := lookup database
$e := $db.fetch(\"qyz\")
  error: column 11: the type of the receiver is unknown before a `flush`
? $db
$db = h5: DataBase
@2 ! not_found
@3 in round 2 ! unhandled_exc: its receiver is the failed @2
ok 3 calls
$e := $db.fetch(\"qyz\")
? $db.counts().fetch(1), $db, 7
@3 = 3
$db = h5: DataBase
value = 7
@2 counts ! not_found
@3 fetch in round 2 ! unhandled_exc: its receiver is the failed @2
ok 3 calls
$db := 3
free $e
?
  frees [5]
$db = h5: DataBase
@2 ! not_found
@3 in round 2 ! unhandled_exc: its receiver is the failed @2
ok 3 calls
";
    assert_eq!(play(script), expected);
}

#[test]
fn all_results_of_a_call_are_shown() {
    let told = play("$n := lookup n: NamedElem\n ? 1.unparse(), $n.match(\"a\", $n)");
    let shown: Vec<&str> =
        told.lines().filter(|line| line.starts_with('@') && line.contains(" = ")).collect();
    assert_eq!(shown, ["@3 = 3", "@4 = 4", "@5 = 5"], "{told}");
}

#[test]
fn bad_lines_say_what_was_expected() {
    let deep = "{".repeat(COMPOUND_DEPTH_MAX + 1);
    let cases = [
        ("$db = lookup x", "column 5: `=` is not allowed here"),
        ("$e := $db.fetch(\"a\")", "column 7: no result has the name `$db`"),
        ("lookup database: Nothing", "column 1: there is no type `Nothing`; try `describe`"),
        ("frobnicate", "column 1: `frobnicate` is not a command or value; try `help`"),
        ("frobnicate()", "column 1: there is no routine or procedure `frobnicate`"),
        ("new_point(1)", "column 1: the call takes 2 arguments: new_point (x: int, y: int) returns (point)"),
        ("1.to(3)", "column 3: `to` is an iterator: write `foreach $x in ... do`, or `list` before it"),
        ("list 1.add(3)", "column 8: `add` is not an iterator"),
        ("list 0 1.to(3)", "column 10: `list` prints 1 to 1000 values"),
        ("list 1001 1.to(3)", "column 13: `list` prints 1 to 1000 values"),
        ("break", "column 1: `break` is allowed only inside a loop"),
        ("continue", "column 1: `continue` is allowed only inside a loop"),
        ("return 1", "column 1: `return` is allowed only inside a `procedure`"),
        ("foreach $i in now_ms() do", "column 15: `now_ms` is not an iterator"),
        ("1.frob()", "column 3: int has no method `frob`; try `describe int`"),
        ("end", "column 1: no structure is open"),
        ("else", "column 1: `else` is allowed only after the first block of an `if`"),
        ("\"open", "column 1: a closing `\"` is missing"),
        ("12345678901234567890", "column 1: `12345678901234567890` is not a number of 64 bits"),
        ("nil nil", "column 5: the end of the line was expected"),
        ("@1", "column 1: this batch has no result @1"),
        ("describe Nothing", "column 1: no type or routine has this name; try `describe`"),
        ("$", "column 1: a name must follow `$`"),
        ("emit", "column 1: write `emit` with a table and its cells, as in `emit $t, 1`"),
        ("emit 1, 2", "column 6: a table of this batch was expected"),
        ("$t := rows Nothing", "column 1: there is no type `Nothing`; try `describe`"),
        ("$t := rows int,", "column 16: a type was expected"),
        ("1 as Nothing", "column 1: there is no type `Nothing`; try `describe`"),
        ("1 is", "column 5: a type was expected"),
        ("x\"0\"", "column 1: bytes are pairs of hexadecimal digits, as in `x\"00ff\"`"),
        ("x\"0g\"", "column 1: bytes are pairs of hexadecimal digits, as in `x\"00ff\"`"),
        ("x\"00", "column 1: bytes are pairs of hexadecimal digits, as in `x\"00ff\"`"),
        (deep.as_str(), "column 65: the line is nested too deeply"),
    ];
    for (line, expected) in cases {
        let (mut out, mut answer) = (Vec::new(), String::new());
        let error = translator().line(line, &mut out, &mut answer).expect_err(line);
        assert_eq!(error.to_string(), expected, "{line}");
        assert!(out.is_empty(), "{line}");
    }
}

#[test]
fn commands_in_the_wrong_place_are_refused_where_they_stand() {
    let cases: [(&[&str], &str, &str); 10] = [
        (&["if true then"], "break", "column 1: `break` is allowed only inside a loop"),
        (
            &["foreach $i in 1.to(3) do", "while"],
            "break",
            "column 1: `break` cannot leave the condition of a loop",
        ),
        (&["procedure p"], "continue", "column 1: `continue` is allowed only inside a loop"),
        (&["foreach $i in 1.to(3) do"], "return", "column 1: `return` is allowed only inside a `procedure`"),
        (
            &["foreach $i in 1.to(3) do"],
            "$c := commit",
            "column 7: `commit` is not allowed inside a structure: `end` it first",
        ),
        (&["except"], "abort", "column 1: `abort` is not allowed inside a structure: `end` it first"),
        (
            &["except"],
            "transaction",
            "column 1: `transaction` is not allowed inside a structure: `end` it first",
        ),
        (&["except"], "history", "column 1: `history` is not allowed inside a structure: `end` it first"),
        (&["except"], "$t := rows int", "column 7: `rows` is not allowed inside a structure: `end` it first"),
        (&["except"], "list 1.to(3)", "column 1: `list` is not allowed inside a structure: `end` it first"),
    ];
    for (before, line, expected) in cases {
        let (mut t, mut out, mut answer) = (translator(), Vec::new(), String::new());
        for line in before {
            t.line(line, &mut out, &mut answer).unwrap();
        }
        let bytes = out.len();
        let error = t.line(line, &mut out, &mut answer).expect_err(line);
        assert_eq!(error.to_string(), expected, "{line}");
        assert_eq!(out.len(), bytes, "{line}");
    }
    for lines in [
        &["foreach $i in 1.to(3) do", "if true then", "break"][..],
        &["procedure p", "if true then", "return 1"],
    ] {
        let (mut t, mut out, mut answer) = (translator(), Vec::new(), String::new());
        lines.iter().for_each(|line| assert!(t.line(line, &mut out, &mut answer).is_ok(), "{line}"));
    }
}

#[test]
fn names_may_have_the_path_of_a_file_before_them() {
    let json = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/interface.json")).unwrap();
    let mut interface = Interface::from_json(&json).unwrap();
    for ty in interface.types.iter_mut().filter(|ty| ty.name == "point") {
        ty.name = "lib.one.point".to_owned();
    }
    for routine in &mut interface.routines {
        match routine.name.as_str() {
            "new_point" => routine.name = "lib.one.new_point".to_owned(),
            "now_ms" => routine.name = "h5.now_ms".to_owned(),
            _ => {}
        }
    }
    let numbering = Arc::new(Numbering::new(interface));
    let qualified = || Translator::new(numbering.clone());
    let pairs = [
        ("new_point(1, 2)", "lib.one.new_point(1, 2)"),
        (
            "$n := new_point(1, new_point(3, 4).x()).x()",
            "$n := lib.one.new_point(1, lib.one.new_point(3, 4).x()).x()",
        ),
        ("lookup p: point", "lookup p: lib.one.point"),
        ("$x := lookup p: point.x()", "$x := lookup p: lib.one.point.x()"),
        ("cell point", "cell lib.one.point"),
        ("procedure p ($p: point) returns point", "procedure p ($p: lib.one.point) returns lib.one.point"),
        ("now_ms()", "h5.now_ms()"),
        ("true.band(false)", "true.band(false)"),
        ("? 1.add(2)", "? 1.add(2)"),
    ];
    for (one, other) in pairs {
        let run = |mut translator: Translator, line: &str| {
            let (mut out, mut answer) = (Vec::new(), String::new());
            translator.line(line, &mut out, &mut answer).unwrap_or_else(|e| panic!("{line}: {e}"));
            out
        };
        assert_eq!(run(translator(), one), run(qualified(), other), "{other}");
    }
    let say = |line: &str| {
        let (mut out, mut answer) = (Vec::new(), String::new());
        let said = qualified().line(line, &mut out, &mut answer);
        said.map_or_else(|e| e.to_string(), |_| answer)
    };
    assert!(say("describe lib.one.point").starts_with("lib.one.point = type"));
    assert!(say("describe lib.one.new_point").starts_with("lib.one.new_point (x: int"));
    assert_eq!(say("lib.one.nothing()"), "column 1: there is no routine or procedure `lib.one.nothing`");
    assert_eq!(say("h5.x()"), "column 4: the type of the receiver is unknown before a `flush`");
}

#[test]
fn names_end_with_their_structure() {
    let mut t = translator();
    let (mut out, mut answer) = (Vec::new(), String::new());
    for line in ["$p := new_point(1, 2)", "foreach $i in 1.to(3) do", "$p := $i", "end"] {
        t.line(line, &mut out, &mut answer).unwrap();
    }
    assert!(t.line("$i.add(1)", &mut out, &mut answer).is_err());
    t.line("$p.set_x(1)", &mut out, &mut answer).unwrap();
    assert!(t.methods_of("p").any(|m| m == "set_x"));
}

#[test]
fn describe_answers_at_once() {
    let (mut out, mut answer) = (Vec::new(), String::new());
    translator().line("describe NamedElem", &mut out, &mut answer).unwrap();
    assert!(answer.starts_with("NamedElem = type < DataElem\n  % A record with a title.\n"), "{answer}");
    assert!(out.is_empty());
}

#[test]
fn limits_are_those_that_were_announced() {
    let (mut out, mut answer) = (Vec::new(), String::new());
    let mut t = translator();
    let unknown = t.line("limits", &mut out, &mut answer).unwrap_err();
    assert_eq!(unknown.to_string(), "column 1: the limits are known after `hello`");
    // A number of a later version is left out.
    t.set_limits([(5, 64), (16, 7), (1000, 1)].into_iter());
    t.line("limits", &mut out, &mut answer).unwrap();
    let expected = "depth_max                           64  Nesting of structures.\n\
                    procedures_max                       7  Batched procedures that a session defines.\n";
    assert_eq!(answer, expected);
    answer.clear();
    t.set_json();
    t.line("limits", &mut out, &mut answer).unwrap();
    assert_eq!(answer, "{\"limits\":{\"depth_max\":64,\"procedures_max\":7}}\n");
    assert!(out.is_empty());
    // With arguments it is a call.
    let call = t.line("limits()", &mut out, &mut answer).unwrap_err();
    assert!(call.to_string().contains("no routine"), "{call}");
}

proptest! {
    #[test]
    fn no_line_does_harm(lines in proptest::collection::vec("\\PC{0,40}", 0..4)) {
        let mut t = translator();
        for line in lines {
            let (mut out, mut answer) = (Vec::new(), String::new());
            let _ = t.line(&line, &mut out, &mut answer);
        }
    }

    #[test]
    fn nearly_right_lines_do_no_harm(words in proptest::collection::vec(
        proptest::sample::select(vec![
            "$a", "$b", ":=", ".", "(", ")", ",", "1", "\"x\"", "foreach", "in", "do", "while", "if", "then", "end",
            "else", "to", "add", "@1", "?", "new_point", "lookup", "cell", "int", ":", "h5", "except", "when", "others",
            "procedure", "return", "returns", "free", "flush", "-", "'c'", "[", "]",
        ]), 0..12), split in 0usize..12)
    {
        let mut t = translator();
        let split = split.min(words.len());
        for part in [&words[..split], &words[split..], &words[..]] {
            let (mut out, mut answer) = (Vec::new(), String::new());
            let _ = t.line(&part.join(" "), &mut out, &mut answer);
            let mut rest = &out[..];
            while !rest.is_empty() {
                match decode(rest, FRAME_BYTES_MAX) {
                    Ok(Decoded::Command(_, length)) => rest = &rest[length..],
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}

/// Turns lines into commands, without those of a flush.
fn commands(lines: &str) -> Result<Vec<u8>, text::LineError> {
    let (mut translator, mut bytes) = (translator(), Vec::new());
    for line in lines.lines() {
        translator.line(line, &mut bytes, &mut String::new())?;
    }
    Ok(bytes)
}

fn numbering() -> Numbering {
    let json = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/interface.json")).unwrap();
    Numbering::new(Interface::from_json(&json).unwrap())
}

/// What is explained can be said again: it has the same bytes.
#[test]
fn what_is_explained_is_recorded_again() {
    let said = "$db := lookup database: DataBase
$e := $db.fetch(\"a\\\"b\\n\").name().length().add(3)
$c := cell int
$c.put(0)
while $c.get().lt(9) do
$c.put($c.get().add(1))
if $c.get().equal(5) then
break
else
continue
end
end
foreach $u in $db.users() do
$u.touch()
end
except
$db.fetch(\"zoe\")
when not_found
$db.new_user(\"zoe\")
others $name
$name.length()
end
procedure twice($n: int) returns int
return $n.mul(2)
end
$t := rows DataElem, string
emit $t, $db.fetch(\"x\"), \"y\"
$four := twice(2)
$p := new_point(-1, 2)
$any := $p as any
$is := $any is point
$v := get $p
wait 1000
commit
transaction 3
abort";
    let bytes = commands(said).unwrap_or_else(|why| panic!("{why}"));
    let numbering = numbering();
    let explained = text::Explainer::new(&numbering, &[]).lines(&bytes);
    assert!(
        explained.contains("foreach $x15 in @1.users() do\n  @16 := $x15.touch()\nend\nexcept\n"),
        "{explained}"
    );
    let again = commands(&explained).unwrap_or_else(|why| panic!("{why}\n{explained}"));
    assert_eq!(bytes, again, "{explained}");
}

#[test]
fn what_the_text_form_has_no_words_for_is_a_comment() {
    let numbering = numbering();
    let mut bytes = Vec::new();
    encode::call(&mut bytes, MethodNumber(4_000), Ref(5), &[]);
    encode::call_routine(&mut bytes, RoutineNumber(900), &[Arg::Ref(Ref::NONE)]);
    encode::send(&mut bytes, MethodNumber(4_000), Ref(5), &[]);
    encode::get(&mut bytes, Ref::earlier(ids::Earlier { back: 1, position: 3 }));
    encode::free(&mut bytes, &[Ref(3), Ref(7)], 0);
    encode::flush(&mut bytes, [1, 2, 4], false);
    encode::plain(&mut bytes, op::COMMIT);
    bytes.push(1);
    let lines = text::Explainer::new(&numbering, &[]).lines(&bytes);
    assert_eq!(
        lines,
        "@1 := h5.? # method 4000 is none
@2 := ? # routine 900 is none
# send of method 4000, which is none
@4 := get @3^1
# gives back h3, h7
flush # wants @1 to @2, @4
@1 := commit
# 1 bytes that are no whole command
"
    );
}

#[test]
fn a_conversation_explains_its_batch_and_the_last_one() {
    let said = play(
        "explain
        $db := lookup database: DataBase
        $e := $db.fetch(\"x\")
        explain
        ? $e.visits()
        explain
        $n := $e.visits()
        explain",
    );
    let explained: Vec<&str> =
        said.split("explain\n").skip(1).map(|part| part.split("\n$").next().unwrap()).collect();
    assert_eq!(explained[0].lines().next(), Some("# batch 1: nothing is recorded"), "{said}");
    assert!(
        explained[1].starts_with("# batch 1\n@1 := lookup database: DataBase\n@2 := @1.fetch(\"x\")\n"),
        "{said}"
    );
    assert!(explained[2].starts_with("# batch 1: 3 calls run, fuel 9, 2 failures\n@1 := lookup"), "{said}");
    assert!(explained[2].contains("@3 := @2.visits()\nflush # wants @1 to @3"), "{said}");
    assert!(explained[3].starts_with("# batch 2\n"), "{said}");
}

#[test]
fn a_conversation_keeps_so_much_of_a_batch() {
    let (mut translator, mut bytes) = (translator(), Vec::new());
    let mut say = |line: &str| {
        let mut answer = String::new();
        translator.line(line, &mut bytes, &mut answer).unwrap();
        answer
    };
    say("$db := lookup database: DataBase");
    let long = "x".repeat(1_000);
    for _ in 0..100 {
        say(&format!("$db.new_user(\"{long}\")"));
    }
    let explained = say("explain");
    let last = explained.lines().last().unwrap();
    assert!(last.starts_with("# ") && last.ends_with(" more bytes, which are not kept"), "{last}");
    let lines = explained.lines().count();
    assert!((50..70).contains(&lines) && explained.len() < text::EXPLAINED_BYTES + 2_000, "{lines}");
}

#[test]
fn profiles_are_asked_for_and_shown() {
    use bifrost_wire::profile::{Cost, Entry, Rest, Subject, Totals};

    // A server that has not announced the limit does not know the command.
    let (mut bytes, mut answer) = (Vec::new(), String::new());
    let refused = translator().line("profile on", &mut bytes, &mut answer).unwrap_err();
    assert_eq!((refused.to_string().as_str(), bytes.len()), ("column 1: the server makes no profiles", 0));
    let mut t = translator();
    t.set_limits([(Limit::ProfileEntries as u32, 7)].into_iter());
    let mut lines = |lines: &str| {
        let mut all = String::new();
        for line in lines.lines() {
            let (mut bytes, mut answer) = (Vec::new(), String::new());
            match t.line(line, &mut bytes, &mut answer) {
                Ok(_) => all += &answer,
                Err(error) => all += &format!("{error}\n"),
            }
            let mut rest = &bytes[..];
            while let Ok(Decoded::Command(command, length)) = decode(rest, FRAME_BYTES_MAX) {
                rest = &rest[length..];
                match command {
                    Command::Profile { on } => all += &format!("profile {on}\n"),
                    Command::Flush { wanted, .. } => {
                        let reply = profiled(wanted.positions());
                        let Ok(DecodedReply::Reply(reply, _)) = decode_reply(&reply, REPLY_BYTES_MAX) else {
                            panic!()
                        };
                        let mut answer = String::new();
                        t.reply(&reply, &mut Vec::new(), &mut answer);
                        all += &answer;
                    }
                    _ => {}
                }
            }
        }
        all
    };
    fn profiled(wanted: impl Iterator<Item = u32>) -> Vec<u8> {
        let mut reply = Vec::new();
        let mut writer = Flushed::begin(&mut reply);
        wanted.for_each(|position| writer.outcome(&Outcome::Value(Value::Int(position.into()))));
        let cost = Cost { nanoseconds: 61_000, calls: 1, fuel: 1, fetches: 2, objects: 9 };
        let entries = [
            Entry { subject: Subject::Command, call: 1, cost },
            Entry { subject: Subject::Structure, call: 2, cost: Cost { fetches: 0, objects: 0, ..cost } },
            Entry { subject: Subject::Command, call: 9, cost: Cost::default() },
        ];
        let totals = Totals { nanoseconds: 84_200, fetches: 2, objects: 9, runs: 2 };
        writer.profile(&totals, entries.into_iter(), Some(&Rest { omitted: 3, cost }));
        writer.finish(Counters { calls: 3, fuel: 9 }, 0);
        reply
    }
    assert_eq!(
        lines("profile\nprofile maybe\nprofile on off"),
        "\
column 8: `on` or `off` was expected
column 9: `on` or `off` was expected
column 12: the end of the line was expected
"
    );
    assert_eq!(
        lines("if\nprofile on\nthen 1.lt(2)\nend\n?").lines().next(),
        Some("column 1: `profile` is not allowed inside a structure: `end` it first")
    );
    let told =
        lines("profile on\n$p := new_point(1, 2)\nforeach $i in 1.to(3) do\n$p.set_x($i)\nend\n? 5\nexplain");
    let expected = "\
profile true
value = 5
# 84.2 us, 2 fetches, 9 objects, 2 runs
# @1 new_point: 61.0 us, 1 calls, fuel 1, 2 fetches, 9 objects
# @2 structure: 61.0 us, 1 calls, fuel 1
# @9 ?: 0.0 us
# 3 more: 61.0 us, 1 calls, fuel 1, 2 fetches, 9 objects
ok 3 calls
# batch 2: 3 calls run, fuel 9, 84.2 us, 2 fetches, 9 objects, 2 runs
profile on
@1 := new_point(1, 2)  # 61.0 us, 1 calls, fuel 1, 2 fetches, 9 objects
@2 := 1
";
    assert!(told.starts_with(expected), "{told}");
    assert!(told.ends_with("# 3 more: 61.0 us, 1 calls, fuel 1, 2 fetches, 9 objects\n"), "{told}");
}
