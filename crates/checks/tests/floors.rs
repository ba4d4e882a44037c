//! Crates depend only on crates of lower floors: the table of ARCHITECTURE.md against the manifests.

use std::collections::BTreeMap;

use bifrost_checks::repository::{none, read, root, section};
use cargo_metadata::{Metadata, MetadataCommand};

/// The manifests of the workspace.
fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).no_deps();
    command.exec().expect("cargo describes the workspace")
}

/// The table of ARCHITECTURE.md: each crate's floor.
fn floors() -> BTreeMap<String, u32> {
    let text = read("ARCHITECTURE.md");
    let rows = section(&text, "floors").lines().filter_map(|line| {
        let mut parts = line.split('|').map(str::trim).skip(1);
        let floor = parts.next()?.parse().ok()?;
        Some((parts.next()?.trim_matches('`').to_owned(), floor))
    });
    rows.collect()
}

#[test]
fn the_table_has_every_crate() {
    let crates: Vec<String> = metadata().packages.iter().map(|p| p.name.to_string()).collect();
    let floors = floors();
    let missing = crates.iter().filter(|c| !floors.contains_key(*c)).map(|c| format!("{c} has no floor"));
    let gone = floors.keys().filter(|c| !crates.contains(c)).map(|c| format!("{c} is no crate"));
    none(&missing.chain(gone).collect::<Vec<_>>());
}

#[test]
fn crates_know_only_lower_floors() {
    let floors = floors();
    let mut mistakes = Vec::new();
    for package in metadata().packages {
        let own = floors[package.name.as_str()];
        // For tests as well: a test that needs a higher floor belongs there.
        for dependency in &package.dependencies {
            if floors.get(&dependency.name).is_some_and(|floor| *floor >= own) {
                mistakes
                    .push(format!("{} depends on {}, which is not below it", package.name, dependency.name));
            }
        }
    }
    none(&mistakes);
}

#[test]
fn only_jit_names_the_code_generator() {
    let mut users = Vec::new();
    for package in metadata().packages {
        for dependency in &package.dependencies {
            let generator = dependency.name.starts_with("cranelift") && dependency.name != "cranelift-entity";
            if generator && package.name.as_str() != "bifrost-jit" {
                users.push(format!("{} depends on {}", package.name, dependency.name));
            }
        }
    }
    none(&users);
}

/// Streams are encrypted in `transport`, and connections with databases in the engine of PostgreSQL.
#[test]
fn few_crates_name_tls() {
    let mut users = Vec::new();
    for package in metadata().packages {
        for dependency in &package.dependencies {
            let known = ["bifrost-transport", "bifrost-repository"].contains(&package.name.as_str());
            if dependency.name.starts_with("rustls") && !known {
                users.push(format!("{} depends on {}", package.name, dependency.name));
            }
        }
    }
    none(&users);
}

/// Crates that know few others, and must stay so.
const KNOWS: &[(&str, &[&str])] = &[
    ("bifrost-ir", &[]),
    ("bifrost-wire", &[]),
    ("bifrost-tasks", &[]),
    ("bifrost-workers", &[]),
    ("bifrost-repository", &["bifrost-workers"]),
    ("bifrost-rex", &[]),
    ("bifrost-transport", &["bifrost-rex"]),
    ("bifrost-heap", &[]),
    ("bifrost-theta", &["bifrost-ir"]),
    // `theta` compiles the programs of its tests.
    (
        "bifrost-capsule",
        &[
            "bifrost-ir",
            "bifrost-tasks",
            "bifrost-theta",
            "bifrost-transport",
            "bifrost-runtime",
            "bifrost-actors",
            "bifrost-native",
            "bifrost-engine",
        ],
    ),
    ("bifrost-recorder", &["bifrost-wire"]),
    ("bifrost-trader", &["bifrost-wire"]),
    ("bifrost-trader-etcd", &["bifrost-trader"]),
    ("bifrost-client", &["bifrost-recorder", "bifrost-wire", "bifrost-trader", "bifrost-transport"]),
    (
        "bifrost-veneer",
        &[
            "bifrost-client",
            "bifrost-recorder",
            "bifrost-wire",
            "bifrost-trader",
            "bifrost-transport",
            "bifrost-veneer-macros",
        ],
    ),
    ("bifrost-capi", &["bifrost-client", "bifrost-recorder", "bifrost-wire", "bifrost-transport"]),
    ("bifrost-veneergen", &["bifrost-recorder", "bifrost-wire"]),
    ("bifrost-pynative", &["bifrost-recorder", "bifrost-wire", "bifrost-transport"]),
];

#[test]
fn some_crates_know_few_others() {
    let floors = floors();
    let mut mistakes = Vec::new();
    for package in metadata().packages {
        let Some((_, known)) = KNOWS.iter().find(|(name, _)| *name == package.name.as_str()) else {
            continue;
        };
        for dependency in &package.dependencies {
            if floors.contains_key(&dependency.name) && !known.contains(&dependency.name.as_str()) {
                mistakes.push(format!("{} depends on {}", package.name, dependency.name));
            }
        }
    }
    none(&mistakes);
}

/// Outside crates are named once, in the root manifest.
#[test]
fn outside_crates_are_named_once() {
    let mut mistakes = Vec::new();
    for package in metadata().packages {
        let path = package.manifest_path.strip_prefix(root()).expect("a crate of the repository").to_string();
        for (number, line) in read(&path).lines().enumerate() {
            // The sources of the veneer are compiled in two packages. A program that wants the other
            // one gives it the name of the first, which a workspace cannot.
            if path == "crates/veneer-async/Cargo.toml" || line.contains("package = \"bifrost-veneer-async\"")
            {
                continue;
            }
            if line.contains("version = \"") || line.contains("path = \"../") {
                mistakes.push(format!("{path}:{}: {line}", number + 1));
            }
        }
    }
    none(&mistakes);
}
