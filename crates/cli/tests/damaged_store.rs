//! Stores whose files are not what was written, and stores of earlier programs: what commands say
//! of them.

mod support;

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;

use support::{Server, bifrost, stderr, stdout};

const NOTES: &str = "
Notes = type   add (text: string)   count () returns (int)   end Notes
module notes exports new_notes
  Book = class implements Notes
    all: array[Note]   title: string   other: Notes
    add (text: string) all.append(Note{text := text, next := all.length()}) end add
    count () returns (int) return (all.length()) end count
    own (n: Notes) other := n end own
  end Book
  Note = class
    text: string   next: int
  end Note
  new_notes () returns (Notes)
    b: Book := Book{all := array_new[Note](), title := \"t\", other := None{}}
    b.own(b)
    return (b)
  end new_notes
  None = class implements Notes
    add (text: string) end add
    count () returns (int) return (0) end count
  end None
end notes
setup () root().insert(\"notes\", new_notes()) end setup
";

/// A program and a store with a few hundred objects, made by a server that has ended.
fn stored(folder: &Path) -> (PathBuf, PathBuf) {
    let program = folder.join("notes.theta");
    std::fs::write(&program, NOTES).unwrap();
    let store = folder.join("store");
    let server = Server::serve(&program, &["--store", &store.display().to_string()]);
    let calls: String = (0..200).map(|n| format!("$n.add(\"note {n} {}\")\n", "x".repeat(n))).collect();
    let output =
        server.shell(&server.urls[0], &[], &format!("$n := lookup notes: Notes\n{calls}commit\nflush\n"));
    assert_eq!(stderr(&output), "");
    server.end("TERM");
    (program, store)
}

fn tool(arguments: &[&str], store: &Path) -> Output {
    bifrost().args(arguments).arg(store).output().unwrap()
}

/// A command on a damaged store ends with a clear error, or does what it should: no panic is
/// printed, and no signal ends it.
#[track_caller]
fn told(output: &Output, why: &str) -> bool {
    let said = stderr(output);
    assert!(!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "{why}: {said}");
    let status = output.status.code().unwrap_or_else(|| panic!("{why}: {} {said}", output.status));
    assert!(status == 0 || status == 1, "{why}: {status} {said}");
    assert!(
        status == 0 || said.contains("damaged") || said.contains("lost") || said.contains("mistakes"),
        "{why}: {said}"
    );
    status != 0
}

#[test]
fn commands_say_what_is_damaged_and_print_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let (program, store) = stored(folder.path());
    let base = store.join("base");
    let sound = std::fs::read(&base).unwrap();
    let used: Vec<usize> = (0..sound.len() / 4096)
        .filter(|page| sound[page * 4096..][..4096].iter().any(|byte| *byte != 0))
        .collect();
    let restore = || {
        std::fs::write(&base, &sound).unwrap();
        OpenOptions::new().write(true).open(&base).unwrap()
    };
    let mut refused = 0;
    let mut look = |what: &str| {
        for command in [&["store", "info"][..], &["store", "check"], &["store", "dump"]] {
            refused += usize::from(told(&tool(command, &store), &format!("{command:?} {what}")));
        }
    };
    for length in [0, 1, 100, 4096, sound.len() / 2, sound.len() - 1, sound.len() + 5000] {
        restore().set_len(length as u64).unwrap();
        look(&format!("{length} bytes"));
    }
    // Each page that is used: zeros, another page, and bytes of nobody in its head.
    for (number, page) in used.iter().enumerate() {
        let file = restore();
        match number % 3 {
            0 => file.write_all_at(&[0; 4096], *page as u64 * 4096).unwrap(),
            1 => {
                let other = used[(number + 1) % used.len()] * 4096;
                file.write_all_at(&sound[other..other + 4096], *page as u64 * 4096).unwrap();
            }
            _ => file.write_all_at(&[0xa5; 16], *page as u64 * 4096).unwrap(),
        }
        look(&format!("page {page}"));
    }
    assert!(refused > used.len() / 2, "{refused} of {}", used.len());
    // A server on a base that cannot be opened, and on files that are no base at all.
    for text in [&b""[..], b"this is no base", &[0; 10_000]] {
        std::fs::write(&base, text).unwrap();
        let output = bifrost().args(["serve", "--store"]).arg(&store).arg(&program).output().unwrap();
        assert!(told(&output, "serve"));
        assert!(stderr(&output).contains("the store is damaged"), "{}", stderr(&output));
    }
    std::fs::remove_file(&base).unwrap();
    for command in [&["store", "info"][..], &["store", "check"], &["store", "dump"]] {
        let said = tool(command, &store);
        assert!(
            told(&said, "no base") && stderr(&said).contains("the file base is missing"),
            "{}",
            stderr(&said)
        );
    }
    let output = bifrost().args(["serve", "--store"]).arg(&store).arg(&program).output().unwrap();
    assert!(stderr(&output).contains("the file base is missing"), "{}", stderr(&output));
    assert!(!base.exists());
}

#[test]
fn a_flipped_bit_is_told_with_the_object_that_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (_, store) = stored(folder.path());
    let base = store.join("base");
    let bytes = std::fs::read(&base).unwrap();
    let at = bytes.windows(8).position(|window| window == b"note 17 ").unwrap();
    let file = OpenOptions::new().write(true).open(&base).unwrap();
    file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
    let output = tool(&["store", "check"], &store);
    assert_eq!(output.status.code(), Some(1));
    let said = stdout(&output);
    assert!(said.contains(" is lost: its state is corrupted"), "{said}");
    let output = tool(&["store", "dump"], &store);
    assert!(!output.status.success() && stderr(&output).contains("is lost"), "{}", stderr(&output));
}

#[test]
fn what_is_made_is_its_owners_alone_whatever_the_umask() {
    let folder = tempfile::tempdir().unwrap();
    let (_, store) = stored(folder.path());
    for (umask, name) in [("000", "open"), ("022", "usual"), ("777", "closed")] {
        let copy = folder.path().join(name);
        let script = format!("umask {umask}; exec \"$0\" store backup \"$1\" \"$2\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]).arg(env!("CARGO_BIN_EXE_bifrost")).arg(&store).arg(&copy);
        let output = command.output().unwrap();
        assert_eq!(stderr(&output), "", "{umask}");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&copy), 0o700, "{umask}");
        for entry in std::fs::read_dir(&copy).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{umask} {}", path.display());
        }
    }
}

#[test]
fn the_migrations_that_are_missing_are_printed_ready_to_paste() {
    let folder = tempfile::tempdir().unwrap();
    let (program, store) = stored(folder.path());
    let check = || {
        let mut command = bifrost();
        command.arg("check").arg(&program).arg("--store").arg(&store);
        command.output().unwrap()
    };
    let output = check();
    assert!(output.status.success() && stdout(&output).is_empty(), "{}", stderr(&output));
    let changed = NOTES
        .replace("text: string   next: int\n", "text: string   next: int   tags: array[string]\n")
        .replace("next := all.length()}", "next := all.length(), tags := array_new[string]()}")
        .replace("title: string   other: Notes\n", "title: string   other: Notes   more: int\n")
        .replace("title := \"t\"", "title := \"t\", more := 0");
    std::fs::write(&program, &changed).unwrap();
    let output = check();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("2 classes of the store changed"), "{}", stderr(&output));
    let text = stdout(&output).to_owned();
    for heading in [
        "migrate_Book (all: array[notes.Note], title: string, other: Notes) returns (Book)",
        "migrate_Note (text: string, next: int) returns (Note)",
    ] {
        assert!(text.contains(&heading.replace("notes.Note", "Note")) || text.contains(heading), "{text}");
    }
    // Pasted as they are, they are all that was missing.
    std::fs::write(&program, changed.replace("end notes\n", &format!("{text}end notes\n"))).unwrap();
    let output = check();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let server = Server::serve(&program, &["--store", &store.display().to_string()]);
    server.end("TERM");
}
