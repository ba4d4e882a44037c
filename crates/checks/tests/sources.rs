//! What the sources must not contain: the invariants of ARCHITECTURE.md that a search can see.

use bifrost_checks::repository::{files, none, read, section};

/// The code of a Rust file, with its line numbers: without comments and without what follows `#[cfg(test)]`, which
/// stands at the end of files.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]" || line.starts_with(' '));
    lines.enumerate().map(|(i, line)| (i + 1, line.find("//").map_or(line, |at| &line[..at])))
}

/// The Rust files of a folder that are not tests.
fn sources(folder: &str) -> Vec<String> {
    let mut paths = files(&[".rs"]);
    paths.retain(|p| p.starts_with(folder) && p.contains("/src/") && !p.ends_with("/tests.rs"));
    paths
}

/// Crates, and parts of them, that take bytes, the time and a seed as arguments.
const PURE: &[&str] = &[
    "ir",
    "wire",
    "theta",
    "recorder",
    "heap",
    "runtime",
    "actors",
    "interp",
    "jit",
    "engine",
    "session",
    "repository",
    "trader",
    "rex",
    "capsule/src/mesh",
];

/// Their parts that are made for files.
const ENGINES: &[&str] = &["crates/repository/src/embedded/", "crates/repository/src/postgres/"];

/// How a program reaches outside.
const OUTSIDE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::os::unix",
    "std::process",
    "std::env",
    "std::thread",
    "Instant::now",
    "SystemTime",
    "std::io::std",
    "println!",
    "eprint",
    "dbg!",
    "tracing::",
    "rustix",
    "getrandom",
];

/// The exceptions, which ARCHITECTURE.md names.
const REACHED: &[(&str, &str)] = &[
    // Where a Theta program's `print` writes unless somebody asks for its text.
    ("crates/runtime/src/cx.rs", "std::io::stdout()"),
    // Compiling borrows a thread for its stack.
    ("crates/theta/src/lib.rs", "std::thread::"),
    // Large objects have pages of their own.
    ("crates/heap/src/large.rs", "rustix::mm"),
    ("crates/heap/src/supply.rs", "rustix::mm"),
    // Code is written through one view of its memory and run through another.
    ("crates/jit/src/memory.rs", "rustix::fs::{MemfdFlags, ftruncate, memfd_create}"),
    ("crates/jit/src/memory.rs", "rustix::mm"),
    // A malformed form ends a process with debug assertions, and its text must not be lost with the
    // output of a test.
    ("crates/jit/src/lib.rs", "std::io::stderr()"),
    ("crates/jit/src/lib.rs", "std::process::abort()"),
    // How long a group of commits takes, and so how long a small one waits for others; nothing else hangs on it.
    ("crates/repository/src/store/mod.rs", "Instant::now"),
    ("crates/repository/src/store/sequence.rs", "Instant::now"),
    // A new store has an identity that no other has.
    ("crates/repository/src/ids.rs", "getrandom::fill"),
];

#[test]
fn pure_crates_do_no_input_or_output() {
    let mut mistakes = Vec::new();
    for name in PURE {
        let paths = sources(&format!("crates/{name}/"));
        for path in paths.into_iter().filter(|path| !ENGINES.iter().any(|engine| path.starts_with(engine))) {
            for (number, line) in code(&read(&path)) {
                let reached = OUTSIDE.iter().any(|word| line.contains(word));
                if reached && !REACHED.iter().any(|(file, word)| path == *file && line.contains(word)) {
                    mistakes.push(format!("{path}:{number}: {}", line.trim()));
                }
            }
        }
    }
    none(&mistakes);
}

/// The protocol of capsules names no nodes, locks or streams.
#[test]
fn the_mesh_knows_only_frames() {
    let mut mistakes = Vec::new();
    for path in sources("crates/capsule/src/mesh/") {
        for (number, line) in code(&read(&path)) {
            if ["crate::", "bifrost_transport", "parking_lot", "std::sync::Mutex"]
                .iter()
                .any(|word| line.contains(word))
            {
                mistakes.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    none(&mistakes);
}

/// The two ways to run programs are named where they are put together, and by who enters nodes directly.
#[test]
fn the_runtime_names_no_engine() {
    let mut mistakes = Vec::new();
    for name in ["ir", "heap", "runtime"] {
        for path in sources(&format!("crates/{name}/")) {
            for (number, line) in code(&read(&path)) {
                if line.contains("bifrost_interp")
                    || line.contains("bifrost_jit")
                    || line.contains("cranelift_jit")
                {
                    mistakes.push(format!("{path}:{number}: {}", line.trim()));
                }
            }
        }
    }
    none(&mistakes);
}

fn is_unsafe(line: &str) -> bool {
    line.match_indices("unsafe").any(|(at, word)| {
        let is_whole = !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let rest = line[at + word.len()..].trim_start();
        is_whole && ["{", "fn", "impl", "extern", "trait", "("].iter().any(|next| rest.starts_with(next))
    })
}

#[test]
fn unsafe_code_is_where_the_architecture_says() {
    let text = read("docs/internals/unsafe.md");
    let listed: Vec<&str> =
        section(&text, "unsafe").lines().filter_map(|line| line.split('`').nth(1)).collect();
    let covers = |path: &str, entry: &str| path == entry || entry.ends_with('/') && path.starts_with(entry);
    let mut used = vec![false; listed.len()];
    let mut mistakes = Vec::new();
    for path in sources("crates/") {
        let Some((number, _)) =
            code(&read(&path)).find(|(_, line)| is_unsafe(line)).map(|(n, l)| (n, l.to_owned()))
        else {
            continue;
        };
        match listed.iter().position(|entry| covers(&path, entry)) {
            Some(i) => used[i] = true,
            None => mistakes.push(format!(
                "{path}:{number}: unsafe code; docs/internals/unsafe.md does not list the file"
            )),
        }
    }
    let unused = listed.iter().zip(used).filter(|(_, used)| !used);
    mistakes.extend(
        unused.map(|(entry, _)| format!("{entry} has no unsafe code; docs/internals/unsafe.md lists it")),
    );
    none(&mistakes);
}

/// Most lines of a file that is not in [`LONG`].
const LINES_MAX: usize = 700;

/// Longer files, each with the reason why it is one file.
const LONG: &[(&str, &str)] = &[
    ("crates/capsule/tests/actors.rs", "tests with the programs that they run"),
    ("crates/capsule/tests/nodes.rs", "tests with the programs that they run"),
    ("crates/capsule/tests/waits.rs", "tests with the programs that they run"),
    ("crates/cli/tests/conformance.rs", "twenty cases, each in five ways"),
    ("crates/interp/src/run.rs", "one match over the nodes of a program"),
    ("crates/ir/src/builtin.rs", "one table: the built-in types and methods"),
    ("crates/engine/tests/transfer.rs", "the tests of one format"),
    ("crates/ir/src/requests.rs", "one analysis, whose passes share its lattice"),
    ("crates/ir/src/text/parse.rs", "one grammar"),
    ("crates/ir/src/verify/func.rs", "one match over statements: the verifier's rules"),
    ("crates/jit/src/lower/call.rs", "one convention: all ways to call"),
    ("crates/jit/src/lower/mod.rs", "one match over statements, and the state that it shares"),
    ("crates/pynative/src/methods.rs", "one class of Python, whose functions stand in one block"),
    ("crates/runtime/src/cx.rs", "one type: the context, with the words that machine code knows"),
    (
        "crates/runtime/src/content.rs",
        "one walk over the fields of objects: its writer and its reader side by side",
    ),
    ("crates/runtime/src/transfer.rs", "one format: its writer and its reader side by side"),
    ("crates/session/tests/refusals.rs", "a table of refused commands"),
    ("crates/theta/src/check/actors.rs", "the rules of one chapter of the language"),
    ("crates/theta/src/check/classes.rs", "the rules of one chapter of the language"),
    ("crates/theta/tests/actors.rs", "tests with the programs that they check"),
    ("crates/theta/tests/rules.rs", "a table of rules with programs"),
    ("crates/theta/tests/table.rs", "a table of built-in methods"),
    ("crates/wire/tests/roundtrip.rs", "the tests of one format"),
    (
        "crates/wire/src/text/translate.rs",
        "one match over the commands of a line, and the names that they share",
    ),
];

#[test]
fn no_file_is_long() {
    let mut mistakes = Vec::new();
    let mut longer = Vec::new();
    for path in files(&[".rs", ".sh"]) {
        let text = read(&path);
        let lines = text.lines().count();
        // Generated files are not read from top to bottom.
        if lines <= LINES_MAX || text.starts_with("// Generated by ") {
            continue;
        }
        if !LONG.iter().any(|(long, _)| *long == path) {
            mistakes.push(format!("{path} has {lines} lines; split it, or list it with a reason"));
        }
        longer.push(path);
    }
    let short = LONG.iter().filter(|(path, _)| !longer.iter().any(|long| long == path));
    mistakes.extend(short.map(|(path, _)| format!("{path} is listed as long, and is not")));
    none(&mistakes);
}

/// Words of workshops: work that is left over, machines and paths that nobody else has, hosts of registries.
const FORBIDDEN: &[&str] = &[
    "TODO",
    "FIXME",
    "todo!(",
    "unimplemented!(",
    "/work/",
    "/tmp/t-",
    "/root/",
    "index.crates.io",
    "static.crates.io",
    "registry.npmjs",
    "pypi.org",
    "pythonhosted",
    "proxy.golang",
    "repo.maven",
];

#[test]
fn nothing_of_the_workshop_is_left() {
    let mut mistakes = Vec::new();
    for path in files(&[]) {
        // The words are in this file.
        if path.ends_with("checks/tests/sources.rs") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(bifrost_checks::repository::root().join(&path)) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            if let Some(word) = FORBIDDEN.iter().find(|word| line.contains(*word)) {
                mistakes.push(format!("{path}:{}: `{word}`", number + 1));
            }
        }
    }
    none(&mistakes);
}

#[test]
fn crates_come_from_the_public_registry() {
    for path in files(&["Cargo.lock"]) {
        for line in read(&path).lines().filter(|line| line.starts_with("source = ")) {
            assert_eq!(line, "source = \"registry+https://github.com/rust-lang/crates.io-index\"", "{path}");
        }
    }
}
