//! The cookbook shows the cases and tests as they are.
//!
//! `BIFROST_UPDATE=1 cargo test -p bifrost-checks --test cookbook` writes it.

use bifrost_checks::cookbook::page;
use bifrost_checks::repository::root;

#[test]
fn the_cookbook_is_fresh() {
    let (path, page) = (root().join("docs/book/cookbook.md"), page());
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        return std::fs::write(path, page).expect("a writable file");
    }
    let old = std::fs::read_to_string(path).unwrap_or_default();
    assert!(old == page, "stale: BIFROST_UPDATE=1 cargo test -p bifrost-checks --test cookbook");
}

/// Rust has all chapters, and no other language has only a few words of one.
#[test]
fn every_chapter_has_code() {
    let page = page();
    for chapter in page.split("\n## ").skip(1) {
        assert!(chapter.contains("\n```text\n") && chapter.contains("\n```rust\n"), "{chapter}");
        for block in chapter.split("\n```").skip(1).step_by(2) {
            assert!(block.lines().count() > 3, "{block}");
        }
    }
}
