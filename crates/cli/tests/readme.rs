//! The commands of the documents do what the documents say.
//!
//! A block `sh tested` is run; a `text` block right behind it is what it prints. A block `sh
//! background` is started, and gone on with when it has said `ready`. A block `sh socket` is a
//! conversation over a unix socket, which the test holds itself, for not every machine has an `nc`.
//! Any other `sh` block must be in [`COVERED`]. All run in an empty folder with `examples` in it,
//! beside the checkout, which is called `bifrost`, and with the blocks whose fence says
//! `file=NAME`. `BIFROST_UPDATE=1 cargo test -p bifrost-cli --test readme` writes what the commands
//! print.

mod document;
mod player;

use std::path::Path;

use document::{Document, blocks};
use player::{Cut, Player};

/// Lines that are not run here, and what covers them.
const COVERED: &[(&str, &str)] = &[
    ("cargo run --release -p bifrost-cli -- demo", "the tests of `demo` run the program itself"),
    ("bifrost token --role reader", "crates/cli/tests/roles.rs"),
    ("./test.sh", "it runs this test"),
    (
        "BIFROST_STORE=postgres://ann:secret@db.example/bank bifrost serve --listen tls://0.0.0.0:7447 bank.theta",
        "crates/cli/tests/shared_store.rs",
    ),
    (
        "bifrost serve --listen tls://0.0.0.0:7447 --token-file secret database.theta",
        "crates/cli/tests/tls.rs, with every command of the chapter on security",
    ),
    (
        "BIFROST_TOKEN=... bifrost shell tls://db1.example:7447#sha256-q0XGTVnjzWgntQCX37Mv03i7-Y_dGPth7_rvhYR7PCQ",
        "as above",
    ),
    (
        "bifrost serve --listen tls://0.0.0.0:7447 --certificate certificates/localhost.pem --key certificates/localhost-key.pem --token-file secret database.theta",
        "as above",
    ),
    ("BIFROST_TOKEN=... bifrost shell --ca certificates/ca.pem tls://db1.example:7447", "as above"),
    ("bifrost certificate --name localhost --ca certificates/ca.pem -o renewed", "as above"),
    ("mv renewed/localhost.pem renewed/localhost-key.pem certificates/", "as above"),
    ("kill -HUP \"$(pidof bifrost)\"", "as above"),
    (
        "bifrost serve --listen quic://0.0.0.0:7447 --token-file secret database.theta",
        "tests/quic.rs, on a free port",
    ),
    ("BIFROST_TOKEN=... bifrost shell quic://db1.example:7447#sha256-PIN", "as above"),
    ("bifrost capsule --listen tls://0.0.0.0:7448 --token-file secret queens.theta", "as above"),
    (
        "bifrost run --join tls://one:7448#sha256-PIN,tls://two:7448#sha256-PIN --token-file secret queens.theta 10",
        "as above",
    ),
    (
        "openssl s_client -quiet -connect db1.example:7447 -servername db1.example -CAfile certificates/ca.pem -verify_return_error",
        "as above",
    ),
    ("cargo run --release -p bifrost-packaging -- -o packages", "crates/packaging/tests/packages.rs"),
    ("cargo build --release", "the tests have built the program"),
    ("export PATH=\"$PWD/target/release:$PATH\"", "the test puts it into the path"),
    ("export BIFROST_URL=shm:///tmp/bifrost-tour/counter", "the test has a folder of its own"),
    ("export BIFROST_URL=shm:///tmp/bifrost-tour/board", "the test has a folder of its own"),
    ("cargo install --path crates/cli", "the tests have built the program"),
    ("export BIFROST_URL=shm:///tmp/bifrost-tour/db", "the test has a folder of its own"),
    ("cargo run --release -p database-client", "examples/database/rust/tests/output.rs"),
    (
        "cargo run --release -p index-server -- run examples/natives/natives.theta",
        "examples/natives/rust/tests/output.rs",
    ),
    ("cargo run -p index-server -- run examples/natives/natives.theta", "as above"),
    ("bifrost bench theta", "tests/bench.rs runs it with a small n"),
    ("bifrost bench theta fib shapes --peers c --samples 9", "tests/bench.rs runs it with a small n"),
    ("bifrost bench actors", "tests/bench_actors.rs runs it with a small n"),
    (
        "bifrost bench actors send request --peers go,erlang --samples 9",
        "tests/bench_actors.rs runs it with a small n",
    ),
    ("bifrost bench actors --instructions send", "tests/bench_actors.rs runs it with a small n"),
    ("bifrost bench sizes", "tests/sizes.rs runs it with small sizes"),
    ("bifrost bench sessions", "tests/bench_sessions.rs runs it with few sessions"),
    ("bifrost bench soak --minutes 30", "tests/bench_sessions.rs runs it for a minute"),
    ("bifrost bench commits", "tests/bench_sessions.rs runs it with few sessions"),
    ("bifrost bench imports", "tests/bench_sessions.rs runs it with few offers"),
    ("bifrost bench veneers", "tests/bench_sessions.rs runs it with few samples"),
    ("bifrost bench echo", "tests/bench_echo.rs runs it with few exchanges"),
    (
        "bifrost bench echo --bulk 16 --over tcp,tls,quic",
        "tests/bench_echo.rs runs it with messages of 2 MiB",
    ),
    (
        "bifrost bench echo --loss 1 --delay-us 500 --sizes 16",
        "tests/bench_echo.rs runs it with few exchanges",
    ),
    ("bifrost bench files", "tests/bench_files.rs runs it with small files"),
    ("bifrost bench blocking", "tests/bench_files.rs runs it with small files"),
    ("bifrost bench blocking --null", "tests/bench_files.rs runs it with few samples"),
    ("bifrost bench savina", "tests/savina.rs runs it with small sizes"),
    ("bifrost bench savina counting big --nodes 2 --samples 9", "tests/savina.rs runs it with small sizes"),
    ("bifrost bench calls --over shm,unix,tcp,tls,ws,wss", "tests/bench.rs runs it with few samples"),
    (
        "bifrost bench oo7 --op T1 --op T2a --op T2b --op T2c --samples 9",
        "tests/oo7.rs runs it with a small database",
    ),
    ("bifrost bench oo7", "tests/oo7.rs runs it with a small database"),
    ("bifrost bench oo7 --store DIR", "tests/oo7_stored.rs runs it with a small database"),
    ("bifrost run bench/theta/fib.theta 35", "tests/bench.rs runs the program with a small n"),
];

fn play(path: &str) {
    let mut document = Document::read(path);
    let mut player = Player::new();
    let blocks = blocks(&document.text);
    for (i, block) in blocks.iter().enumerate() {
        // Several tests at a time must not meet.
        let commands = block.text.replace("/tmp/bifrost-tour", &player.folder.display().to_string());
        let said = match block.info.as_str() {
            "sh background" => {
                player.start(commands.trim());
                continue;
            }
            "sh tested" => player.run(&commands),
            "sh socket" => player::converse(player::socket(&commands), player::lines(&commands), Cut::Whole),
            "sh" => {
                for line in block.text.lines() {
                    let covered = COVERED.iter().any(|(covered, _)| *covered == line);
                    assert!(covered, "{path}: `{line}` is neither tested nor covered");
                }
                continue;
            }
            info => {
                if let Some(name) = info.split(' ').find_map(|word| word.strip_prefix("file=")) {
                    player.write(name, &block.text);
                }
                continue;
            }
        };
        if let Some(shown) = blocks.get(i + 1).filter(|b| b.info == "text" && b.follows(block)) {
            document.compare(shown, &block.text, said);
        }
    }
    if let Some(wrong) = document.finish() {
        panic!("{wrong}");
    }
}

#[test]
fn the_readme_is_true() {
    play("README.md");
}

#[test]
fn the_ten_minutes_are_true() {
    play("docs/book/ten-minutes.md");
}

#[test]
fn the_chapter_on_tools_is_true() {
    play("docs/book/tools.md");
}

#[test]
fn the_chapter_on_keeping_objects_is_true() {
    play("docs/book/persistence.md");
}

#[test]
fn the_chapter_on_security_is_true() {
    play("docs/book/security.md");
}

#[test]
fn the_chapter_on_roles_is_true() {
    play("docs/book/roles.md");
}

#[test]
fn the_chapter_on_operating_is_true() {
    play("docs/book/operating.md");
}

#[test]
fn the_tutorial_is_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/tutorial");
    let mut chapters: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    chapters.sort();
    for chapter in chapters {
        play(&format!("docs/book/tutorial/{chapter}"));
    }
}

#[test]
fn the_chapter_on_performance_is_true() {
    play("docs/book/performance.md");
}
