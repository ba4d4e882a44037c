//! TypeScript stubs: stable, and the ones that the runtime is tested with.
//! `veneers/typescript/test.sh` compiles them and compares their form with prettier's.

use std::path::Path;

use bifrost_veneergen::{Lang, generate};
use bifrost_wire::Interface;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The interfaces, and the folders of their stubs.
const STUBS: &[(&str, &str)] = &[
    ("vectors/interface.json", "veneers/typescript/tests/stubs/vectors"),
    (
        "crates/cli/tests/conformance/bifrost_stubs.interface.json",
        "veneers/typescript/tests/stubs/conformance",
    ),
];

fn files(interface: &str) -> Vec<(String, String)> {
    let json = std::fs::read(Path::new(ROOT).join(interface)).unwrap();
    generate(&Interface::from_json(&json).unwrap(), Lang::TypeScript).unwrap()
}

#[test]
fn the_committed_stubs_are_fresh() {
    for (interface, folder) in STUBS {
        let folder = Path::new(ROOT).join(folder);
        let files = files(interface);
        assert_eq!(files, self::files(interface), "equal interfaces give equal texts");
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
    let [(path, text), (beside, json)] = files(STUBS[0].0).try_into().unwrap();
    assert_eq!([path, beside], ["bifrost_stubs.ts", "bifrost_stubs_interface.ts"]);
    assert!(text.contains("newUser(user: bf.StrArg): DataElem {"), "a name in mixed case");
    assert!(text.contains("export class ListOfInt extends bf.Contents"), "an instantiation");
    assert!(
        text.contains("Theta: `fetch (user: string) returns (DataElem) signals (not_found)`"),
        "a heading"
    );
    assert!(json.lines().all(|line| line.len() < 400), "the interface is a file of short lines");
}
