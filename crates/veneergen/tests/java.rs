//! Java stubs: stable, and the ones that the library is tested with. `veneers/java/test.sh` compiles
//! them, and compares their form with google-java-format's.

use std::path::Path;

use bifrost_veneergen::{Exceptions, GenerateError, Lang, generate, generate_java};
use bifrost_wire::Interface;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The interfaces, the folders of the stubs, their classes, and the exceptions in them.
const STUBS: &[(&str, &str, &str, Exceptions)] = &[
    (VECTORS, "src/test/java", "org.bifrost.veneer.vectors.Vectors", UNCHECKED),
    (CONFORMANCE, "src/test/java", "org.bifrost.veneer.conformance.Conformance", UNCHECKED),
    (
        "veneers/python/tests/database/bifrost_stubs.interface.json",
        "src/test/java",
        "org.bifrost.veneer.database.Database",
        UNCHECKED,
    ),
    (
        "veneers/python/samples/auctions/bifrost_stubs.interface.json",
        "src/test/java",
        "org.bifrost.veneer.checked.Auctions",
        Exceptions::Checked,
    ),
    ("cases/generated/actors.interface.json", "src/test/java", "org.bifrost.veneer.actors.Actors", UNCHECKED),
    (
        "cases/generated/hermitage.interface.json",
        "src/test/java",
        "org.bifrost.veneer.hermitage.Hermitage",
        UNCHECKED,
    ),
    (
        "veneers/python/samples/auctions/bifrost_stubs.interface.json",
        "samples/auctions",
        "auctions.Auctions",
        UNCHECKED,
    ),
    (
        "veneers/python/samples/database/bifrost_stubs.interface.json",
        "samples/database",
        "database.Database",
        UNCHECKED,
    ),
    ("veneers/python/samples/lists/bifrost_stubs.interface.json", "samples/lists", "lists.Lists", UNCHECKED),
    (
        "veneers/python/samples/points/bifrost_stubs.interface.json",
        "samples/points",
        "points.Points",
        UNCHECKED,
    ),
];

const UNCHECKED: Exceptions = Exceptions::Unchecked;
const VECTORS: &str = "vectors/interface.json";
const CONFORMANCE: &str = "crates/cli/tests/conformance/bifrost_stubs.interface.json";

fn interface(path: &str) -> Interface {
    Interface::from_json(&std::fs::read(Path::new(ROOT).join(path)).unwrap()).unwrap()
}

fn text(path: &str, class: &str) -> String {
    let [(_, text)] = generate_java(&interface(path), Some(class), UNCHECKED).unwrap().try_into().unwrap();
    text
}

#[test]
fn the_committed_stubs_are_fresh() {
    for &(path, folder, class, exceptions) in STUBS {
        let files = generate_java(&interface(path), Some(class), exceptions).unwrap();
        assert_eq!(files, generate_java(&interface(path), Some(class), exceptions).unwrap(), "equal texts");
        for (name, text) in files {
            let path = Path::new(ROOT).join("veneers/java").join(folder).join(name);
            if std::env::var_os("BIFROST_UPDATE").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &text).unwrap();
            }
            let golden = std::fs::read_to_string(&path).unwrap_or_default();
            let update = "BIFROST_UPDATE=1 cargo test -p bifrost-veneergen";
            assert!(golden == text, "{} is stale: {update}", path.display());
        }
    }
}

#[test]
fn the_class_and_its_package_are_chosen() {
    let [(path, text)] = generate(&interface(VECTORS), Lang::Java).unwrap().try_into().unwrap();
    assert_eq!(path, "bifrost/BifrostStubs.java");
    assert!(text.contains("\npackage bifrost;\n") && text.contains("public final class BifrostStubs {"));
    let [(path, text)] =
        generate_java(&interface(VECTORS), Some("org.example.Point"), UNCHECKED).unwrap().try_into().unwrap();
    assert_eq!(path, "org/example/Point.java");
    assert!(text.contains("public static final class Point_ extends"), "a class in a class has another name");
    for none in ["Database", "org.example.", "org.class.A", "org.example.String", "a/b.C"] {
        let refused = generate_java(&interface(VECTORS), Some(none), UNCHECKED);
        assert!(matches!(refused, Err(GenerateError::NoClass(_))), "{none}");
    }
}

#[test]
fn keywords_and_clashes_are_renamed() {
    let text = text(VECTORS, "a.Stubs_");
    assert!(text.contains("class ListOfInt extends Contents<List<Long>>"), "an instantiation");
    assert!(text.contains(" notEmpty("), "a name in mixed case");
    assert!(text.contains("Theta: {@code fetch (user: string) returns (DataElem) signals (not_found)}"));
    assert!(text.lines().all(|line| line.chars().count() <= 100 || line.contains('"')), "long lines");
}

#[test]
fn arguments_are_values_or_stubs() {
    let text = text(CONFORMANCE, "a.Conformance");
    for head in [
        "public Results.Two<Int, Int> divide(long x, long y) {",
        "public Results.Two<Int, Int> divide(Int x, long y) {",
        "public Str all(boolean b, long i, double r, int c, String s, Item item) {",
        "public Str all(Bool b, Int i, Real r, Char c, Str s, Item item) {",
        "public Int total(List<Long> ns) {",
        "public Int total(Numbers ns) {",
        "public Iter.Two<Int, Str> pairs(long limit) {",
        "public static final class Counter extends Item {",
    ] {
        assert!(text.contains(head), "{head}");
    }
}
