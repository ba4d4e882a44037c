//! Links and anchors of all documents lead somewhere.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use bifrost_checks::repository::{files, none, read, root};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// What matters of a document.
#[derive(Default)]
struct Document {
    links: Vec<String>,
    anchors: Vec<String>,
}

/// The anchor that a heading gets where documents are shown.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

fn document(text: &str) -> Document {
    let mut document = Document::default();
    let mut heading: Option<String> = None;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                document.links.push(dest_url.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let name = anchor(&heading.take().unwrap_or_default());
                let times = seen.entry(name.clone()).or_default();
                document.anchors.push(if *times == 0 { name } else { format!("{name}-{times}") });
                *times += 1;
            }
            _ => {}
        }
    }
    document
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[test]
fn links_lead_somewhere() {
    let paths = files(&[".md"]);
    let documents: BTreeMap<PathBuf, Document> =
        paths.iter().map(|path| (PathBuf::from(path), document(&read(path)))).collect();
    let mut mistakes = Vec::new();
    for (path, document) in &documents {
        for link in &document.links {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (target, wanted) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.parent().unwrap_or(Path::new(""));
            let target = if target.is_empty() { path.clone() } else { plain(&folder.join(target)) };
            if !root().join(&target).exists() {
                mistakes.push(format!("{}: there is no `{}`", path.display(), target.display()));
            } else if !wanted.is_empty()
                && !documents.get(&target).is_some_and(|d| d.anchors.iter().any(|a| a == wanted))
            {
                mistakes.push(format!("{}: `{}` has no `#{wanted}`", path.display(), target.display()));
            }
        }
    }
    none(&mistakes);
}

/// The alternatives of a path with braces: `wire/src/{op,word}.rs` names two files.
fn alternatives(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (inner, after))) => {
            inner.split(',').flat_map(|part| alternatives(&format!("{before}{part}{after}"))).collect()
        }
        None => vec![path.to_owned()],
    }
}

/// The path that a code span names, if it names one of a file or folder of the repository.
fn named_path(span: &str) -> Option<&str> {
    let path = span.split_whitespace().next().filter(|first| *first == span)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./{},".contains(c);
    let is_file = [".rs", ".md", ".sh"].iter().any(|ending| path.ends_with(ending));
    let is_folder = path.ends_with('/') && path.len() > 1;
    let is_outside = path.starts_with(['/', '.']) || path.starts_with("target/");
    ((is_file || is_folder) && !is_outside && path.chars().all(is_plain)).then_some(path)
}

/// True if the end of a tracked path, or a folder in it, is that path.
fn is_there(tracked: &[String], path: &str) -> bool {
    tracked.iter().any(|file| match path.strip_suffix('/') {
        None => file == path || file.ends_with(&format!("/{path}")),
        Some(folder) => file.starts_with(path) || file.contains(&format!("/{folder}/")),
    })
}

#[test]
fn files_that_are_named_exist() {
    let tracked = files(&[]);
    let mut mistakes = Vec::new();
    for path in &tracked {
        let is_source = path.ends_with(".rs") && path.starts_with("crates/");
        let is_document = path.ends_with(".md")
            && (["docs/internals/", "docs/spec/"].iter().any(|folder| path.starts_with(folder))
                || ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"].contains(&path.as_str()));
        if !is_source && !is_document {
            continue;
        }
        for (number, line) in read(path).lines().enumerate() {
            let text = match is_source {
                true => line.trim_start().strip_prefix("//").unwrap_or_default(),
                false => line,
            };
            let spans = text.split('`').skip(1).step_by(2).filter_map(named_path);
            let gone = spans.flat_map(alternatives).filter(|named| !is_there(&tracked, named));
            mistakes.extend(gone.map(|named| format!("{path}:{}: there is no `{named}`", number + 1)));
        }
    }
    none(&mistakes);
}

#[test]
fn paths_are_found_in_code_spans() {
    assert_eq!(named_path("capsule/src/{nodes,look}.rs"), Some("capsule/src/{nodes,look}.rs"));
    assert_eq!(["cargo test", "Session::new", "/tmp/a.rs", "a"].map(named_path), [None; 4]);
    assert_eq!(alternatives("a/{b,c}.rs"), ["a/b.rs", "a/c.rs"]);
    let tracked = ["crates/wire/src/op.rs".to_owned()];
    let there = |path: &str| is_there(&tracked, path);
    assert!(there("op.rs") && there("wire/src/op.rs") && there("src/") && there("crates/wire/"));
    assert!(!there("p.rs") && !there("ire/") && !there("wire/op.rs"));
}

#[test]
fn every_chapter_is_in_the_index() {
    let index = document(&read("docs/book/README.md"));
    let mut mistakes = Vec::new();
    for path in files(&[".md"]) {
        let link = match (path.strip_prefix("docs/book/"), path.strip_prefix("docs/")) {
            (Some("README.md"), _) => continue,
            (Some(chapter), _) => chapter.to_owned(),
            (None, Some(other)) => format!("../{other}"),
            (None, None) => continue,
        };
        if !index.links.contains(&link) {
            mistakes.push(format!("docs/book/README.md does not lead to {path}"));
        }
    }
    none(&mistakes);
}

#[test]
fn anchors_are_those_of_the_viewer() {
    assert_eq!(anchor("3.1 Opening `x_y` - a (b)"), "31-opening-x_y---a-b");
    let document = document("# A b\n\n## A b\n\n[x](y.md#z)\n");
    assert_eq!(
        (document.anchors, document.links),
        (vec!["a-b".into(), "a-b-1".into()], vec!["y.md#z".into()])
    );
}
