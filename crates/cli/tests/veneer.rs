//! Client programs with generated stubs, each in a process of its own, and a server in another.

mod support;

#[allow(dead_code, reason = "its `main` is for the program of its own")]
#[path = "../../../examples/database/rust/src/bin/tour.rs"]
mod tour;

use std::path::Path;
use std::process::Output;

use support::{Server, again, bifrost, examples, stderr};

/// The client process of the test below.
#[test]
fn tour_process() {
    if support::child_url().is_some() {
        tour::tour(&mut std::io::stderr()).unwrap();
    }
}

#[test]
fn the_tour_is_the_same_over_every_transport() {
    let expected = std::fs::read_to_string(examples().join("database/rust/tour.txt")).unwrap();
    let sockets = ["--listen", "tcp://127.0.0.1:0", "--listen", "tls://127.0.0.1:0"];
    let listen = [&["--listen", "shm://FOLDER/shm", "--token", "s3cret"][..], &sockets].concat();
    for transport in 0..4 {
        // Each tour needs a database of its own.
        let server = Server::start("database", &listen);
        let mut client = again("tour_process");
        client.env("BIFROST_URL", &server.urls[transport]);
        if transport >= 2 {
            client.env("BIFROST_TOKEN", "s3cret");
        }
        let output = client.output().unwrap();
        assert_eq!(stderr(&output), expected, "{}", server.urls[transport]);
        assert!(output.status.success());
    }
}

/// `--ints` sets the type of ints in TypeScript, and is a mistake for other languages.
#[test]
fn ints_of_typescript_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let program = examples().join("database/database.theta");
    let veneer = |language: &str, ints: &[&str]| {
        let mut command = bifrost();
        command.args(["veneer", "--lang", language]).args(ints).arg(&program).arg("-o").arg(folder.path());
        command.output().unwrap()
    };
    let said = |output: &Output| {
        assert!(output.status.success(), "{}", stderr(output));
        std::fs::read_to_string(folder.path().join("bifrost_stubs.ts")).unwrap()
    };
    let default = said(&veneer("typescript", &[]));
    assert!(default.contains("from \"bifrost-veneer\";"), "{default}");
    assert_eq!(said(&veneer("typescript", &["--ints", "bigint"])), default);
    let numbers = said(&veneer("typescript", &["--ints", "number"]));
    assert!(numbers.contains("from \"bifrost-veneer/numbers\";"), "{numbers}");
    let refused = veneer("rust", &["--ints", "number"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("`--ints` is for `--lang typescript` only"), "{}", stderr(&refused));
    assert_eq!(veneer("typescript", &["--ints", "float"]).status.code(), Some(2));
}

/// The package of stubs in Go has the name of its folder, or of `--package`.
#[test]
fn packages_of_go_have_the_name_of_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let program = examples().join("database/database.theta");
    let veneer = |language: &str, output: &str, more: &[&str]| {
        let mut command = bifrost();
        command.args(["veneer", "--lang", language]).arg(&program).arg("-o").arg(folder.path().join(output));
        command.args(more).output().unwrap()
    };
    for (output, more, package) in
        [("people", &[][..], "people"), ("my-stubs", &[], "my_stubs"), ("Any", &["--package", "any"], "any")]
    {
        let made = veneer("go", output, more);
        assert!(made.status.success(), "{}", stderr(&made));
        let text = std::fs::read_to_string(folder.path().join(output).join("bifrost_stubs.go")).unwrap();
        assert!(text.contains(&format!("\npackage {package}\n")), "{text}");
    }
    for (output, more, why) in [
        ("Any", &[][..], "gives no name for a package: use --package"),
        ("func", &[], "gives no name for a package: use --package"),
        ("people", &["--package", "func"], "a package has a name of small letters and digits"),
    ] {
        let refused = veneer("go", output, more);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
    let refused = veneer("rust", "people", &["--package", "people"]);
    assert!(stderr(&refused).contains("`--package` is for `--lang go` only"), "{}", stderr(&refused));
}

/// `--class` names the class of the stubs in Java, which is in the folder of its package.
#[test]
fn the_class_of_java_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let veneer = |language: &str, class: &[&str]| {
        let mut command = bifrost();
        command.args(["veneer", "--lang", language]).args(class).arg("-o").arg(folder.path());
        command.arg(examples().join("database/database.theta")).output().unwrap()
    };
    let made = veneer("java", &["--class", "org.example.Database"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let text = std::fs::read_to_string(folder.path().join("org/example/Database.java")).unwrap();
    assert!(
        text.contains("package org.example;") && text.contains("public final class Database {"),
        "{text}"
    );
    assert!(veneer("java", &["--class", "org.example.Database", "--check"]).status.success());
    assert!(veneer("java", &[]).status.success());
    assert!(folder.path().join("bifrost/BifrostStubs.java").exists());
    let wrong = veneer("java", &["--class", "Database"]);
    assert!(
        !wrong.status.success() && stderr(&wrong).contains("is no name for the class"),
        "{}",
        stderr(&wrong)
    );
    let refused = veneer("python", &["--class", "org.example.Database"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("`--class` is for `--lang java` only"), "{}", stderr(&refused));
    assert!(!text.contains("Checked"));
    assert!(veneer("java", &["--class", "org.example.Database", "--checked"]).status.success());
    let text = std::fs::read_to_string(folder.path().join("org/example/Database.java")).unwrap();
    assert!(text.contains("class NotFound extends CheckedSignalException {"), "{text}");
    let refused = veneer("go", &["--checked"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("`--checked` is for `--lang java` only"), "{}", stderr(&refused));
}

/// Comments of a type: above its definition, behind its head, and both.
const COMMENTED: &str = "\
% Above the first.
First = type
  one () returns (int)
  % A method's.
end First

Second = type
  % Behind the head of the second,
  % in two lines.
  two () returns (int)
end Second

% Above the third.
Third = type < Second
  % Behind its head.
end Third

make_first () returns (First) signals (failure (string)) signal failure(\"none\") end make_first
make_second () returns (Second) signals (failure (string)) signal failure(\"none\") end make_second
make_third () returns (Third) signals (failure (string)) signal failure(\"none\") end make_third
";

#[test]
fn comments_of_types_reach_stubs_and_descriptions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("commented.theta");
    std::fs::write(&file, COMMENTED).unwrap();
    let output = bifrost().arg("veneer").arg(&file).arg("-o").arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let stubs = std::fs::read_to_string(folder.path().join("bifrost_stubs.rs")).unwrap();
    for (name, doc) in [
        ("First", "/// Above the first.\n///\n/// Theta: `First`\n"),
        ("Second", "/// Behind the head of the second,\n/// in two lines.\n///\n"),
        ("Third", "/// Above the third.\n///\n/// Behind its head.\n///\n"),
    ] {
        let (before, _) = stubs.split_once(&format!("pub struct {name}(")).unwrap();
        let (_, before) = before.rsplit_once("\n\n").unwrap();
        assert!(before.starts_with(doc), "{name}: {before}");
    }
    for builtin in ["Any", "Bytes", "VecU8", "Directory"] {
        assert!(!stubs.contains(&format!("struct {builtin}(")), "the veneer has the stubs of {builtin}");
    }
    let server = Server::serve(&file, &[]);
    let described = server.shell(&server.urls[0], &[], "describe Second\ndescribe Third\n");
    let described = support::stdout(&described);
    let lines =
        ["% Behind the head of the second,", "% in two lines.", "% Above the third.", "% Behind its head."];
    for line in lines {
        assert!(described.lines().any(|l| l.trim() == line), "{line}: {described}");
    }
}

/// Runs `bifrost veneer` with templates over the database.
fn templated(templates: &Path, output: &Path, more: &[&str]) -> Output {
    let mut command = bifrost();
    command.arg("veneer").arg("--template").arg(templates).arg("-o").arg(output).args(more);
    command.arg(examples().join("database/database.theta")).output().unwrap()
}

#[test]
fn templates_of_ones_own_make_files() {
    let folder = tempfile::tempdir().unwrap();
    let markdown = examples().join("templates/markdown");
    let made = templated(&markdown, folder.path(), &[]);
    assert!(made.status.success(), "{}", stderr(&made));
    let page = std::fs::read_to_string(folder.path().join("interface.md")).unwrap();
    assert_eq!(page, std::fs::read_to_string(markdown.join("database.md")).unwrap());
    assert!(templated(&markdown, folder.path(), &["--check"]).status.success());
    std::fs::write(folder.path().join("interface.md"), "old").unwrap();
    let stale = templated(&markdown, folder.path(), &["--check"]);
    assert!(!stale.status.success() && stderr(&stale).contains("is stale"), "{}", stderr(&stale));
}

#[test]
fn templates_that_are_wrong_are_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (templates, output) = (folder.path().join("in"), folder.path().join("out"));
    let refused = |why: &str| {
        let made = templated(&templates, &output, &[]);
        assert!(!made.status.success() && stderr(&made).contains(why), "{why}: {}", stderr(&made));
        assert!(!output.exists());
    };
    refused("cannot read the template");
    std::fs::create_dir(&templates).unwrap();
    refused("there is no template");
    std::fs::write(templates.join("a.txt.jinja"), "{{ m.no_such }}").unwrap();
    refused("a.txt.jinja:1");
    // Longer than a template may be.
    std::fs::write(templates.join("a.txt.jinja"), " ".repeat((1 << 20) + 1)).unwrap();
    refused("it has more than 1048576 bytes");
}
