//! Functions that become procedures: what is recorded for them.

mod common;

use bifrost_veneer::remote;
use common::stubs::{DataBase, DataElem, new_point};
use common::{Script, handle, int};

/// The least visits of somebody busy.
const BUSY: i64 = 3;

/// Visits of those who came often.
#[remote]
fn busy(db: DataBase, limit: i64) -> i64 {
    let mut n = 0;
    for user in db.users() {
        if user.visits() <= limit {
            continue;
        }
        n += user.visits();
    }
    n
}

#[remote]
fn factorial(n: i64) -> i64 {
    if n <= 1 { 1 } else { n * factorial(n - 1) }
}

#[remote(uses(touch_all))]
fn all_forms(db: DataBase, mut n: i64, name: String) -> String {
    let first = new_point(1, -2);
    let mut text = name + "!";
    let mut last: DataElem;
    while n > 0 && !(n == 7) || BUSY < n {
        n -= 1;
        if n % 2 == 0 {
            break;
        } else if n == 5 {
            return "five";
        } else {
            let point = first.x() * 2 - first.y();
            text = if point > 3 { point as String } else { text };
        }
    }
    for i in 1..n {
        last = db.fetch(&text);
        last.touch();
        let _ = i + 1;
    }
    loop {
        touch_all(db);
        break;
    }
    text
}

#[remote]
fn touch_all(db: DataBase) {
    for user in db.users() {
        user.touch();
    }
}

#[remote]
fn nothing() {}

/// A text without the places behind the names of functions.
fn placeless(text: &str) -> String {
    let mut parts = text.split('@');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(part.len());
        // `@12:1` is a place, and `@3` a result.
        let is_place = part[..end].contains(':');
        out += &if is_place { part[end..].to_owned() } else { format!("@{part}") };
    }
    out
}

/// Functions inside others may have one name.
#[test]
fn functions_of_one_name_are_two() {
    fn first(s: &bifrost_veneer::Session) -> bifrost_veneer::Promise<i64> {
        #[remote]
        fn value() -> i64 {
            1
        }
        value(s)
    }
    fn second(s: &bifrost_veneer::Session) -> bifrost_veneer::Promise<i64> {
        #[remote]
        fn value() -> i64 {
            2
        }
        value(s)
    }
    let server = Script::default();
    let s = server.connect();
    let _both = (first(&s), second(&s), first(&s));
    let recorded = placeless(&s.explain());
    assert!(recorded.contains("  return 1\n") && recorded.contains("  return 2\n"), "{recorded}");
    let calls: Vec<&str> = recorded.lines().filter(|line| line.contains(":= remote::")).collect();
    assert_eq!(calls.len(), 3, "{recorded}");
    s.flush().unwrap();
    let log: Vec<String> = server.log();
    let numbers: Vec<&str> = log
        .iter()
        .filter(|line| line.starts_with("procedure") && line.ends_with("()"))
        .map(String::as_str)
        .collect();
    assert_eq!(numbers, ["procedure0()", "procedure1()", "procedure0()"]);
}

#[test]
fn a_function_is_sent_once_and_called_by_its_number() {
    let server = Script::default();
    let s = server.connect();
    let db: DataBase = s.lookup("database");
    server.outcomes(vec![handle(5), int(42)]);
    assert_eq!(busy(&s, &db, BUSY).claim().unwrap(), 42);
    let recorded: Vec<String> = server.log().iter().map(|line| placeless(line)).collect();
    assert_eq!(
        recorded,
        [
            "lookup database",
            "procedure remote::busy/2",
            "cell int",
            "-4.put(0)",
            "Foreach",
            "-2.users()",
            "If",
            "-6.visits()",
            "-7.le(@-3)",
            "then -8",
            "Continue",
            "EndIf",
            "-4.get()",
            "-6.visits()",
            "-9.add(@-10)",
            "-4.put(@-11)",
            "EndForeach",
            "-4.get()",
            "return @-13",
            "EndProcedure",
            "procedure0(@-1, 3)",
            "flush [1, 14]",
        ]
    );
    server.outcomes(vec![int(43)]);
    assert_eq!(busy(&s, &db, s.value(4)).claim().unwrap(), 43);
    assert_eq!(server.log(), ["procedure0(@5, 4)", "flush [1]"]);
}

/// Functions that use each other have no order.
#[remote(uses(pong))]
fn ping(n: i64) -> i64 {
    pong(n)
}

#[remote(uses(ping))]
fn pong(n: i64) -> i64 {
    ping(n)
}

#[test]
fn functions_that_use_each_other_are_refused_and_nothing_hangs() {
    let server = Script::default();
    let s = server.connect();
    let failed = ping(&s, 1).claim().unwrap_err().to_string();
    assert!(failed.contains("procedure"), "{failed}");
}

#[test]
fn all_forms_are_recorded() {
    let server = Script::default();
    let s = server.connect();
    let db: DataBase = s.lookup("database");
    drop(all_forms(&s, &db, 9, "x"));
    drop(factorial(&s, 5));
    nothing(&s);
    assert!(s.exceptions().is_empty(), "{:?}", s.exceptions());
    let recorded = placeless(&s.explain());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/remote/all_forms.txt");
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        std::fs::write(path, &recorded).unwrap();
    }
    assert_eq!(recorded, std::fs::read_to_string(path).unwrap(), "`BIFROST_UPDATE=1` writes it");
}
