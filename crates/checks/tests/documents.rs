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
