//! The committed stubs are those of their programs. `BIFROST_UPDATE=1 cargo test --workspace --test
//! fresh` writes them.

use std::path::Path;
use std::process::Command;

/// The folders of stubs in Rust, each with the program that they are made from; from the
/// repository's folder.
const STUBS: &[(&str, &str)] = &[
    ("crates/cli/src/bench", "crates/cli/src/bench/bench.theta"),
    ("crates/cli/src/bench/echo", "bench/echo/echo.theta"),
    ("crates/cli/src/bench/files", "bench/files/files.theta"),
    ("crates/cli/src/bench/oo7", "bench/oo7/oo7.theta"),
    ("crates/cli/src/bench/soak", "bench/soak/soak.theta"),
    ("crates/cli/tests/clients/actors", "cases/programs/actors.theta"),
    ("crates/cli/tests/clients/database", "cases/programs/database.theta"),
    ("crates/cli/tests/clients/hermitage", "cases/programs/hermitage.theta"),
    ("crates/cli/tests/clients/wide", "cases/programs/wide.theta"),
    ("crates/cli/tests/conformance", "cases/programs/conformance.theta"),
    ("crates/cli/tests/guests", "crates/cli/tests/guests/guests.theta"),
    ("crates/cli/tests/places", "crates/cli/tests/places/places.theta"),
    ("crates/cli/tests/tutorial", "crates/cli/tests/tutorial/board.theta"),
    ("crates/veneer/src/trader", "crates/trader/trader.theta"),
    ("examples/database/rust/src", "examples/database/database.theta"),
    ("examples/packages/rust/src", "examples/packages/packages.theta"),
    ("examples/sandbox/rust/src", "examples/sandbox/sandbox.theta"),
    ("examples/scores/rust/src", "examples/scores/scores.theta"),
];

/// Those of stubs in TypeScript.
const TYPESCRIPT: &[(&str, &str)] = &[
    ("examples/packages/typescript", "examples/packages/packages.theta"),
    ("veneers/typescript/samples/auctions", "examples/auctions/auctions.theta"),
    ("veneers/typescript/samples/database", "examples/database/database.theta"),
    ("veneers/typescript/samples/lists", "examples/lists/lists.theta"),
    ("veneers/typescript/samples/points", "examples/points/points.theta"),
    ("veneers/typescript/samples/scores", "examples/scores/scores.theta"),
    ("veneers/typescript/src/service/trader", "crates/trader/trader.theta"),
    ("veneers/typescript/tests/stubs/conformance", "cases/programs/conformance.theta"),
    ("veneers/typescript/tests/stubs/hermitage", "cases/programs/hermitage.theta"),
];

/// Those of stubs in Go.
const GO: &[(&str, &str)] = &[
    ("veneers/go/samples/auctions/auctions", "examples/auctions/auctions.theta"),
    ("veneers/go/samples/database/database", "examples/database/database.theta"),
    ("veneers/go/samples/lists/lists", "examples/lists/lists.theta"),
    ("veneers/go/samples/points/points", "examples/points/points.theta"),
];

/// The tables of the runtimes of other languages.
const TABLES: &[(&str, &str)] = &[
    ("go", "veneers/go"),
    ("python", "veneers/python/src/bifrost_veneer"),
    ("typescript", "veneers/typescript/src"),
];

#[test]
fn committed_tables_are_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (language, folder) in TABLES {
        let mut veneer = Command::new(env!("CARGO_BIN_EXE_bifrost"));
        veneer.current_dir(&root).args(["veneer", "--tables", language, "-o", folder]);
        if std::env::var_os("BIFROST_UPDATE").is_none() {
            veneer.arg("--check");
        }
        let output = veneer.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\nBIFROST_UPDATE=1 cargo test --workspace --test fresh");
    }
}

/// The interface of traders is in the crate that client libraries share, too: it has no stubs.
#[test]
fn the_interface_of_traders_is_fresh() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let made = std::fs::read(crates.join("veneer/src/trader/bifrost_stubs.interface.json")).unwrap();
    let committed = crates.join("client/src/trader.interface.json");
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        std::fs::write(&committed, &made).unwrap();
    }
    let same = std::fs::read(&committed).unwrap() == made;
    assert!(same, "it is stale: BIFROST_UPDATE=1 cargo test --workspace --test fresh, twice");
}

#[test]
fn committed_stubs_are_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let writes = std::env::var_os("BIFROST_UPDATE").is_some();
    let rust = STUBS.iter().map(|stubs| ("rust", stubs));
    let go = GO.iter().map(|stubs| ("go", stubs));
    let typescript = TYPESCRIPT.iter().map(|stubs| ("typescript", stubs));
    for (language, (folder, program)) in rust.chain(typescript).chain(go) {
        let mut veneer = Command::new(env!("CARGO_BIN_EXE_bifrost"));
        veneer.current_dir(&root).args(["veneer", "--lang", language, program, "-o", folder]);
        if !writes {
            veneer.arg("--check");
        }
        let output = veneer.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\nBIFROST_UPDATE=1 cargo test --workspace --test fresh");
    }
}
