//! Comments, which are Markdown, without HTML of their own and without links that are programs.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

const OPTIONS: Options = Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH);

/// `text` as HTML.
pub fn to_html(text: &str) -> String {
    let events = Parser::new_ext(text, OPTIONS).map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            Event::Start(Tag::Link { link_type, dest_url: safe(dest_url), title, id })
        }
        // Pages need nothing from outside.
        Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
            Event::Start(Tag::Link { link_type, dest_url: safe(dest_url), title, id })
        }
        Event::End(TagEnd::Image) => Event::End(TagEnd::Link),
        event => event,
    });
    let mut out = String::new();
    html::push_html(&mut out, events);
    out
}

/// `text` as Markdown in which HTML is text.
pub fn to_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
        if matches!(event, Event::Html(_) | Event::InlineHtml(_)) && range.start >= last {
            out.push_str(&text[last..range.start]);
            out.push_str(&text[range.clone()].replace('<', "&lt;"));
            last = range.end;
        }
    }
    out.push_str(&text[last..]);
    out
}

/// Returns the first sentence of `text`, without markup.
pub fn summary(text: &str) -> String {
    let mut plain = String::new();
    for event in Parser::new_ext(text, OPTIONS) {
        match event {
            Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) | Event::Html(text) => {
                plain.push_str(&text);
            }
            Event::SoftBreak | Event::HardBreak => plain.push(' '),
            Event::End(_) if !plain.is_empty() => break,
            _ => {}
        }
    }
    let end = plain.find(". ").map_or(plain.len(), |at| at + 1);
    plain.truncate(end);
    plain
}

/// Returns the link, if a browser may follow it without running it.
fn safe(link: CowStr<'_>) -> CowStr<'_> {
    let scheme = link.split(['/', '?', '#']).next().and_then(|start| start.split_once(':'));
    match scheme {
        Some((scheme, _)) if !["http", "https", "mailto"].contains(&&*scheme.to_ascii_lowercase()) => {
            "".into()
        }
        _ => link,
    }
}
