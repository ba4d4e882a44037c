//! TypeScript stubs: stable, and the ones that the runtime is tested with.
//! `veneers/typescript/test.sh` compiles them and compares their form with prettier's.

use std::path::Path;

use bifrost_veneergen::{Ints, Lang, generate, generate_typescript};
use bifrost_wire::Interface;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The interfaces, the values of ints, and the folders of the stubs.
const STUBS: &[(&str, Ints, &str)] = &[
    ("vectors/interface.json", Ints::Bigint, "veneers/typescript/tests/stubs/vectors"),
    (CONFORMANCE, Ints::Bigint, "veneers/typescript/tests/stubs/conformance"),
    (CONFORMANCE, Ints::Number, "veneers/typescript/tests/stubs/numbers"),
];

const CONFORMANCE: &str = "crates/cli/tests/conformance/bifrost_stubs.interface.json";

fn files(interface: &str, ints: Ints) -> Vec<(String, String)> {
    let json = std::fs::read(Path::new(ROOT).join(interface)).unwrap();
    generate_typescript(&Interface::from_json(&json).unwrap(), ints).unwrap()
}

#[test]
fn the_committed_stubs_are_fresh() {
    for &(interface, ints, folder) in STUBS {
        let folder = Path::new(ROOT).join(folder);
        let files = files(interface, ints);
        assert_eq!(files, self::files(interface, ints), "equal interfaces give equal texts");
        for (name, text) in files {
            let path = folder.join(name);
            if std::env::var_os("BIFROST_UPDATE").is_some() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, &text).unwrap();
            }
            let golden = std::fs::read_to_string(&path).unwrap_or_default();
            let update = "BIFROST_UPDATE=1 cargo test -p bifrost-veneergen";
            assert!(golden == text, "{} is stale: {update}", path.display());
        }
    }
}

#[test]
fn keywords_and_clashes_are_renamed() {
    let [(path, text), (beside, json)] = files(STUBS[0].0, Ints::Bigint).try_into().unwrap();
    assert_eq!([path, beside], ["bifrost_stubs.ts", "bifrost_stubs_interface.ts"]);
    assert!(text.contains("newUser(user: bf.StrArg): DataElem {"), "a name in mixed case");
    assert!(text.contains("export class ListOfInt extends bf.Contents"), "an instantiation");
    assert!(
        text.contains("Theta: `fetch (user: string) returns (DataElem) signals (not_found)`"),
        "a heading"
    );
    assert!(json.lines().all(|line| line.len() < 400), "the interface is a file of short lines");
}

/// Without a choice ints are bigints; as numbers they come from another entry of the package.
#[test]
fn ints_are_bigints_or_numbers() {
    let json = std::fs::read(Path::new(ROOT).join(CONFORMANCE)).unwrap();
    let bigints = files(CONFORMANCE, Ints::Bigint);
    assert_eq!(generate(&Interface::from_json(&json).unwrap(), Lang::TypeScript).unwrap(), bigints);
    let numbers = files(CONFORMANCE, Ints::Number);
    assert!(bigints[0].1.contains("bigint") && !numbers[0].1.contains("bigint"), "types of contents");
    assert!(numbers[0].1.contains("import * as bf from \"bifrost-veneer/numbers\";"), "the entry");
    assert_eq!(bigints[1], numbers[1], "the interface is the same");
}
