//! `fmt`, `doc` and `check --json`: tools for people who write Theta.

mod support;

use std::path::Path;

use support::{bifrost, example, feed, stderr, stdout};

const UGLY: &str = "f( a:int )returns(int)\nreturn(a) % all of it\nend f";
const PRETTY: &str = "f (a: int) returns (int)\n  return (a)  % all of it\nend f\n";

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn fmt_rewrites_files() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "ugly.theta", UGLY);
    write(dir.path(), "pretty.theta", PRETTY);
    let fmt =
        |arguments: &[&str]| bifrost().arg("fmt").args(arguments).current_dir(dir.path()).output().unwrap();

    let checked = fmt(&["--check", "ugly.theta", "pretty.theta"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(stderr(&checked).contains("`ugly.theta` is not formatted"), "{}", stderr(&checked));
    assert_eq!(read(dir.path(), "ugly.theta"), UGLY, "`--check` writes nothing");

    let written = fmt(&["ugly.theta", "pretty.theta"]);
    assert!(written.status.success());
    assert_eq!(stderr(&written), "formatted ugly.theta\n");
    assert_eq!(read(dir.path(), "ugly.theta"), PRETTY);
    assert!(fmt(&["--check", "ugly.theta", "pretty.theta"]).status.success());
}

#[test]
fn fmt_refuses_what_does_not_parse() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "broken.theta", "f (\n");
    write(dir.path(), "ugly.theta", UGLY);
    let output =
        bifrost().args(["fmt", "broken.theta", "ugly.theta"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("error[E0109]"), "{}", stderr(&output));
    assert_eq!(read(dir.path(), "broken.theta"), "f (\n");
    assert_eq!(read(dir.path(), "ugly.theta"), PRETTY, "the others are formatted");
}

#[test]
fn fmt_is_a_filter() {
    let filter = |arguments: &[&str], text: &str| {
        let mut command = bifrost();
        command.args(["fmt", "--stdin"]).args(arguments);
        feed(command, text)
    };
    assert_eq!(stdout(&filter(&[], UGLY)), PRETTY);
    assert_eq!(filter(&["--check"], UGLY).status.code(), Some(1));
    assert!(filter(&["--check"], PRETTY).status.success());
    let broken = filter(&[], "f (");
    assert_eq!((broken.status.code(), stdout(&broken)), (Some(1), ""));
}

#[test]
fn check_reports_every_mistake_as_json() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "two.theta", "f () returns (int)\n  n: int := \"a\"\n  return (m)\nend f\n");
    let output = bifrost().args(["check", "--json", "two.theta"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let places: Vec<_> =
        found.iter().map(|d| (d["code"].as_str().unwrap(), d["line"].as_u64().unwrap())).collect();
    assert_eq!(places, [("E0202", 2), ("E0208", 3)]);
    for diagnostic in &found {
        for field in ["code", "severity", "message", "file", "line", "column", "end_line", "end_column"] {
            assert!(diagnostic.get(field).is_some(), "no `{field}` in {diagnostic}");
        }
    }
    assert!(found[0]["help"].as_str().unwrap().starts_with("`string` has `to_int ()"));
    assert_eq!(found[0]["file"], "two.theta");
    assert_eq!((&found[0]["column"], &found[0]["end_column"]), (&13.into(), &16.into()));

    let fine = bifrost().args(["check", "--json"]).arg(example("lists")).output().unwrap();
    assert!(fine.status.success());
    assert_eq!(stdout(&fine), "");
}

#[test]
fn doc_writes_pages() {
    let dir = tempfile::tempdir().unwrap();
    let doc = |arguments: &[&str]| {
        let mut command = bifrost();
        command.arg("doc").args(arguments).arg(example("database")).arg(example("lists"));
        command.arg("--root").arg(support::examples()).current_dir(dir.path()).output().unwrap()
    };
    let output = doc(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        stderr(&output),
        "wrote doc/index.html\nwrote doc/database.database.html\nwrote doc/lists.lists.html\n"
    );
    assert!(read(dir.path(), "doc/database.database.html").contains("<p>Counts a visit.</p>"));
    assert!(doc(&["--markdown", "--out", "pages"]).status.success());
    assert!(read(dir.path(), "pages/index.md").contains("(database.database.md#def.DataBase)"));

    write(dir.path(), "broken.theta", "f (");
    let broken = bifrost().args(["doc", "broken.theta"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(broken.status.code(), Some(1));
    assert!(stderr(&broken).contains("error[E0109]"));
}
