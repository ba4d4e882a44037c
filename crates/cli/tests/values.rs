//! Objects that cross by value, with the stubs of `cases/programs/conformance.theta`, against a server
//! in another process.

mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "conformance/bifrost_stubs.rs"]
mod stubs;

use std::path::Path;

use bifrost_veneer::signals::Failure;
use bifrost_veneer::{Error, Misuse, Promise, Reference, Session};
use stubs::signals::{Nothing, Rejected};
use stubs::{Family, Item, Line, Numbers, Point, PointValue, Probe, Shape, Spot, SpotRef, Values};
use support::{Server, stderr, stdout};

/// Runs a case with both engines, and with a collection at each allocation.
fn everywhere(case: impl Fn(&Session, &Values)) {
    everywhere_at(|_, s, v| case(s, v));
}

/// As [`everywhere`], with the address of the server.
fn everywhere_at(case: impl Fn(&str, &Session, &Values)) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/programs/conformance.theta");
    for (arguments, collect) in [(&[][..], "check"), (&[], "zeal"), (&["--interpret"], "zeal")] {
        let server = Server::serve_collected(&program, collect, arguments);
        let s = stubs::connect(&server.urls[0]).unwrap();
        let p: Probe = s.lookup("probe");
        case(&server.urls[0], &s, &p.values());
        s.close().unwrap();
    }
}

fn crossings(s: &Session) -> u64 {
    s.counters().crossings
}

#[test]
fn sequences_are_vectors() {
    everywhere(|s, v| {
        let n = s.value(4);
        let sums = [
            v.total([1, 2, 3]),
            v.total(vec![5]),
            v.total(&[][..] as &[i64]),
            v.total([&n, &(&n + 1)]),
            v.nested([vec![1, 2], vec![], vec![3]]),
        ];
        let twice = v.twice([1, 2]);
        let again = v.total(&twice);
        let contents = twice.get();
        assert_eq!(contents.claim().unwrap(), [2, 4]);
        assert_eq!(again.claim().unwrap(), 6);
        let sums: Vec<i64> = sums.iter().map(|sum| sum.claim().unwrap()).collect();
        assert_eq!(sums, [6, 5, 0, 9, 6]);
        assert_eq!(crossings(s), 1);
        let long: Vec<i64> = (0..10_000).collect();
        assert_eq!(v.total(&long).claim().unwrap(), 49_995_000);
        assert_eq!(v.twice(&long).get().claim().unwrap()[9_999], 19_998);
    });
}

#[test]
fn structs_and_oneofs_are_structs_and_enums() {
    everywhere(|s, v| {
        let line = Line { name: "ab".to_owned(), from: Spot { x: 1, y: 2 }, to: Spot { x: 5, y: 9 } };
        let distance = v.distance(&line);
        let n = s.value(3);
        let with_promises = v.distance(("a", (&n, &n), Spot { x: 4, y: 5 }));
        let areas = [
            v.area(Shape::Circle(2.5)),
            v.area(&Shape::Nothing),
            v.area(Shape::Dot(Spot { x: 1, y: 2 })),
            v.area(v.shape(1)),
        ];
        let shapes = [0, 1, 2].map(|n| v.shape(n).get());
        assert_eq!(distance.claim().unwrap(), 211);
        assert_eq!(with_promises.claim().unwrap(), 103);
        let areas: Vec<String> = areas.iter().map(|area| area.claim().unwrap()).collect();
        assert_eq!(areas, ["{circle: 2.5}", "{nothing: nil}", "{dot: {x: 1, y: 2}}", "{circle: 0.5}"]);
        let shapes: Vec<Shape> = shapes.iter().map(|shape| shape.claim().unwrap()).collect();
        assert_eq!(shapes, [Shape::Nothing, Shape::Circle(0.5), Shape::Dot(Spot { x: 2, y: 0 })]);
        assert_eq!(crossings(s), 1);
    });
}

#[test]
fn maybe_is_an_option() {
    everywhere(|_, v| {
        let names = [v.name(0).get(), v.name(7).get()];
        let named = [v.named(None::<String>), v.named(Some("ann")), v.named(v.name(5))];
        let names: Vec<Option<String>> = names.iter().map(|name| name.claim().unwrap()).collect();
        assert_eq!(names, [None, Some("7".to_owned())]);
        let named: Vec<String> = named.iter().map(|name| name.claim().unwrap()).collect();
        assert_eq!(named, ["nobody", "ann", "5"]);
    });
}

#[test]
fn objects_in_values_are_stubs() {
    everywhere(|s, v| {
        let family = v.family(3).get();
        assert_eq!(crossings(s), 0);
        let family: Family = family.claim().unwrap();
        assert_eq!(family.members.len(), 3);
        let names: Vec<Promise<String>> = family.members.iter().map(Item::name).collect();
        let members = v.members(&family);
        family.members[1].rename("two");
        let renamed = v.members((&family.head, [&family.members[1]]));
        assert_eq!(members.claim().unwrap(), "head,1,2,3");
        assert_eq!(renamed.claim().unwrap(), "head,two");
        assert_eq!(names[2].claim().unwrap(), "3");
        assert_eq!(crossings(s), 2);
        drop(family);
    });
}

#[test]
fn contents_of_collections_are_those_of_the_moment() {
    everywhere(|_, v| {
        let array = v.array();
        let before = array.get();
        array.append(9);
        let after = array.get();
        assert_eq!(before.claim().unwrap(), [7, 8]);
        assert_eq!(after.claim().unwrap(), [7, 8, 9]);
        let counts = v.counts().get().claim().unwrap();
        let expected = [("one".to_owned(), Spot { x: 1, y: 1 }), ("two".to_owned(), Spot { x: 2, y: 2 })];
        assert_eq!(counts, expected);
        assert_eq!(v.list().get().claim().unwrap(), ['a', 'b']);
    });
}

#[test]
fn records_have_contents() {
    everywhere(|s, _| {
        let p: Probe = s.lookup("probe");
        let point: Point = p.tagged().point(3, 4);
        let (before, _) = (point.get(), point.set_x(5));
        let after = point.get();
        assert_eq!(before.claim().unwrap(), PointValue { x: 3, y: 4 });
        assert_eq!(after.claim().unwrap(), PointValue { x: 5, y: 4 });
        let found = p.tagged().found(2).get().claim().unwrap();
        assert_eq!(found.unwrap().x().claim().unwrap(), 2);
        assert_eq!(p.tagged().sum(Some(&point)).claim().unwrap(), 9);
        assert_eq!(p.tagged().sum(None::<Point>).claim().unwrap(), 0);
    });
}

#[test]
fn rows_have_values_and_loops_make_them() {
    everywhere(|s, v| {
        let total = s.cell_with::<i64>(0);
        let spots = s.collect(v.spots(3), |spot: SpotRef| {
            total.put(total.get() + v.distance(("", &spot, (spot.x(), 5))) + v.total([spot.x(), spot.y()]));
            (spot.clone(), spot.x())
        });
        let total = total.get();
        let spots = spots.claim().unwrap();
        assert_eq!(spots[2], (Spot { x: 3, y: -3 }, 3));
        assert_eq!(spots.len(), 3);
        // 5 - y for each spot.
        assert_eq!(total.claim().unwrap(), 6 + 7 + 8);
        assert_eq!(crossings(s), 1);
    });
}

#[test]
fn procedures_take_and_return_values() {
    everywhere(|s, v| {
        let pair = s.procedure::<(i64,), Numbers, _>("pair", |_, (n,)| [n.clone(), n + 1]);
        let ten = s.procedure::<(), Numbers, _>("ten", |_, _| [10_i64]);
        let total = s.procedure::<(Numbers,), i64, _>("total", |_, (ns,)| v.total(ns));
        let contents = pair.call((4,)).get();
        let sums = [v.total(pair.call((1,))), total.call(([5, 6],)), total.call((ten.call(()),))];
        assert_eq!(contents.claim().unwrap(), [4, 5]);
        assert_eq!(sums.map(|sum| sum.claim().unwrap()), [3, 11, 10]);
        assert_eq!(crossings(s), 1);
    });
}

#[test]
fn contents_are_not_taken_inside_structures() {
    everywhere_at(|url, s, v| {
        s.foreach(v.spots(3), |spot| drop(spot.get()));
        let Err(Error::Unseen { failures, .. }) = s.flush() else { panic!("nothing was told") };
        assert!(failures[0].to_string().contains("inside a structure"), "{}", failures[0]);
        let other = stubs::connect(url).unwrap();
        let foreign = v.total([other.value(1)]);
        let Err(Error::NotSent { cause, .. }) = foreign.claim() else { panic!("it was sent") };
        assert!(matches!(*cause, Error::Misuse(Misuse::OtherSession)), "{cause}");
        assert_eq!(v.total([1]).claim().unwrap(), 1);
    });
}

#[test]
fn a_failed_part_fails_the_call() {
    everywhere(|s, v| {
        let p: Probe = s.lookup("probe");
        let failed = p.choose(3);
        let sum = v.total([&failed, &failed]);
        let Err(Error::Unhandled { argument: 1, .. }) = sum.claim() else { panic!("{:?}", sum.claim()) };
        assert!(failed.claim().is_err());
        let later = v.distance(("x", (1, &failed), (1, 1)));
        let Err(Error::Unhandled { argument: 1, cause: Some(cause), .. }) = later.claim() else {
            panic!("{:?}", later.claim())
        };
        assert!(cause.to_string().contains("third"), "{cause}");
    });
}

#[test]
fn exceptions_are_types() {
    everywhere(|s, v| {
        let p: Probe = s.lookup("probe");
        let item = p.fresh();
        let (rejected, nothing) = (v.reject(&item, 3), v.reject(&item, 0));
        assert!(rejected.caught::<Rejected>().is_none(), "not known yet");
        assert!(rejected.claim().is_err() && nothing.claim().is_err());
        assert!(rejected.caught::<Nothing>().is_none() && nothing.caught::<Rejected>().is_none());
        let Rejected(of, n, spot) = rejected.caught().unwrap();
        let Rejected(again, ..) = rejected.caught().unwrap();
        assert!(nothing.caught::<Nothing>().is_some());
        assert_eq!(n, 3);
        // They are stubs of the object, which outlive the failure.
        drop(rejected);
        of.rename("told");
        let (name, x) = (again.name(), spot.x());
        assert_eq!((name.claim().unwrap().as_str(), x.claim().unwrap()), ("told", 3));
        assert!(of.stub().is_same(item.stub()));

        let heard = s.rows::<(String, i64)>();
        s.except(|| drop(v.reject(&item, 7)))
            .when::<Nothing>(|_| heard.push(("nothing", 0)))
            .when::<Rejected>(|(of, n, spot)| heard.push((of.name(), n + spot.x())));
        assert_eq!(heard.claim().unwrap(), [("told".to_owned(), 14)]);
    });
}

#[test]
fn a_failure_that_was_caught_was_told() {
    everywhere(|s, v| {
        let p: Probe = s.lookup("probe");
        s.commit().claim().unwrap();
        let rejected = v.reject(p.fresh(), 3);
        let Err(Error::Unseen { .. }) = s.commit().claim() else { panic!("it was not told") };
        let rejected_again = v.reject(p.fresh(), 3);
        let _ = s.flush();
        assert!(rejected_again.caught::<Rejected>().is_some());
        s.commit().claim().unwrap();
        drop(rejected);
        let failed = p.choose(1);
        assert!(failed.claim().is_err());
        assert!(failed.caught::<Failure>().is_none());
    });
}

/// The answers of a shell at a server of the conformance program.
#[track_caller]
fn shell(arguments: &[&str], script: &str) -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/programs/conformance.theta");
    let server = Server::serve(&program, &[]);
    let script = format!("$p := lookup probe: Probe\n$v := $p.values()\n{script}");
    let output = server.shell(&server.urls[0], arguments, &script);
    assert_eq!((stderr(&output), output.status.code()), ("", Some(0)));
    stdout(&output).to_owned()
}

#[test]
fn the_text_form_has_values() {
    let said = shell(
        &[],
        r#"$n := 3
? $v.total({1, $n, $n.add(1)}), $v.nested({{1}, {}, {2, 3}})
? $v.distance({name: "ab", from: {1, 2}, to: {y: 9, x: 5}}), $v.area({dot: {x: 1, y: 2}}), $v.area({nothing: nil})
? $v.named({none: nil}), $v.named({some: "ann"}), get $v.twice({1, 2}), get $v.shape(2), get $v.name(0)
? get $v.counts(), get $v.array(), get $v.list(), get 5
$f := get $v.family(2)
? $f
$g := $v.members($f)
? $g
$l := value line {"x", {1, 2}, {3, 4}}
$w := value struct[x: int, y: int] {x: 1, y: 2}
? $v.distance($l), $w.x()
list $v.spots(2)
$t := rows spot, int
foreach $s in $v.spots(2) do
emit $t, $s, $v.distance({name: "", from: $s, to: {$s.x(), 5}})
end
? $t
"#,
    );
    let expected = r#"@5 = 8
@6 = 6
ok 4 calls
@1 = 211
@2 = "{dot: {x: 1, y: 2}}"
@3 = "{nothing: nil}"
ok 3 calls
@1 = "nobody"
@2 = "ann"
@4 = {2, 4}
@6 = {dot: {x: 2, y: 0}}
@8 = {none: nil}
ok 8 calls
@2 = {"one": {x: 1, y: 1}, "two": {x: 2, y: 2}}
@4 = {7, 8}
@6 = {'a', 'b'}
@8 = 5
ok 7 calls
$f = {head: h3, members: {h4, h5}}
ok 2 calls
$g = "head,1,2"
ok 1 calls
@3 = 104
@4 = 1
ok 2 calls
{x: 1, y: -1}
{x: 2, y: -2}
ok 2 values
$t = 2 rows
  struct[x: int, y: int]  int
  {x: 1, y: -1}           6
  {x: 2, y: -2}           7
ok 9 calls
"#;
    assert_eq!(said.trim_end(), expected.trim_end(), "{said}");
}

#[test]
fn values_are_json_for_programs() {
    let said = shell(
        &["--json"],
        "? get $v.counts(), get $v.shape(1), get $v.family(1), get $v.twice({4}), get $v.name(3)\n",
    );
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let values: Vec<_> = said["results"].as_array().unwrap().iter().map(|r| r["value"].clone()).collect();
    let family = &values[2];
    assert_eq!(values[0], serde_json::json!([["one", {"x": 1, "y": 1}], ["two", {"x": 2, "y": 2}]]));
    assert_eq!(values[1], serde_json::json!({"circle": 0.5}));
    assert!(family["head"]["handle"].is_i64() && family["members"][0]["handle"].is_i64(), "{said}");
    assert_eq!(values[3], serde_json::json!([8]));
    assert_eq!(values[4], serde_json::json!({"some": "3"}));
}

#[test]
fn wrong_values_are_told_before_they_are_sent() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/programs/conformance.theta");
    let server = Server::serve(&program, &[]);
    let cases = [
        ("$x := {1, 2}", "the type of the value is not known here: write `value TYPE {...}`"),
        ("$x := value spot {1}", "the field `y` is missing"),
        ("$x := value spot {1, 2, 3}", "`struct[x: int, y: int]` has only 2 fields"),
        ("$x := value spot {x: 1, z: 2}", "`struct[x: int, y: int]` has no field `z`"),
        (
            "$x := value shape {1.5}",
            "a `oneof[dot: struct[x: int, y: int], circle: real, nothing: null]` is written",
        ),
        ("$x := value shape {square: 1.5}", "has no tag `square`"),
        ("$x := value numbers {first: 1}", "`sequence[int]` has no field `first`"),
        ("$x := value array[int] {1}", "`array[int]` is not made by value"),
        ("$x := value spot {1, 2", "`,` was expected"),
        ("while\n$x := get 1", "`get` is not allowed inside a structure"),
    ];
    for (line, expected) in cases {
        let output = server.shell(&server.urls[0], &[], &format!("{line}\n"));
        assert!(stderr(&output).contains(expected), "{line}: {}", stderr(&output));
    }
}
