//! The table of `docs/spec/packets.md` is that of the code.
//!
//! `BIFROST_UPDATE=1 cargo test -p bifrost-runtime --test spec` writes it.

use bifrost_runtime::actor::PACKETS;

#[test]
fn the_document_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/spec/packets.md");
    let old = std::fs::read_to_string(path).unwrap();
    let mark = "<!-- table: packets -->\n";
    let start = old.find(mark).unwrap() + mark.len();
    let end = start + old[start..].find("<!-- end -->").unwrap();
    let mut table = String::from("| kind | name | parts |\n| --- | --- | --- |\n");
    for row in PACKETS {
        table += &format!("| {} | {} | {} |\n", row.kind, row.name, row.parts);
    }
    let new = format!("{}{table}{}", &old[..start], &old[end..]);
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        return std::fs::write(path, new).unwrap();
    }
    assert!(
        old == new,
        "docs/spec/packets.md is stale: BIFROST_UPDATE=1 cargo test -p bifrost-runtime --test spec"
    );
}

#[test]
fn kinds_are_numbered_through() {
    for (number, row) in (1..).zip(PACKETS) {
        assert_eq!(row.kind, number, "{}", row.name);
    }
}
