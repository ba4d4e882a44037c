//! Texts with mistakes of syntax: which reports of the checker can be believed.
//!
//! A mistake inside the body of a routine makes that body untrustworthy and nothing else. A mistake
//! anywhere else may have lost a definition or a part of one. Then reports about names, headings
//! and exceptions are dropped, and those about values that are known stay.

use crate::ast::{self, Item};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::{Sources, Span};

/// Removes the reports of the checker that may follow from the mistakes of syntax in `syntax`.
pub(crate) fn keep_trusted(
    sources: &Sources,
    files: &[ast::File],
    syntax: &[Diagnostic],
    found: &mut Vec<Diagnostic>,
) {
    // The other mistakes of notation have one clear repair, which the parser has made.
    let unread = |d: &&Diagnostic| matches!(d.code, Code::E0109 | Code::E0110);
    let mut bodies = vec![];
    files.iter().for_each(|file| collect(&file.items, &mut bodies));
    let mut broken: Vec<Span> = vec![];
    let mut lost_definition = false;
    for mistake in syntax.iter().filter(unread) {
        match bodies.iter().find(|body| contains(body, &mistake.span)) {
            Some(body) => broken.push(*body),
            None => lost_definition = true,
        }
    }
    found.retain(|diagnostic| {
        let local = matches!(
            diagnostic.code,
            Code::E0105
                | Code::E0106
                | Code::E0107
                | Code::E0202
                | Code::E0301
                | Code::E0306
                | Code::E0308
                | Code::E0309
        );
        if lost_definition && !local {
            return false;
        }
        let inside = broken.iter().any(|body| contains(body, &diagnostic.span));
        // A body without its `end` may have swallowed the definitions behind it.
        let name = sources.slice(diagnostic.span);
        let lost = diagnostic.code == Code::E0208 && broken.iter().any(|body| defines(sources, body, name));
        !inside && !lost
    });
}

fn contains(body: &Span, place: &Span) -> bool {
    body.file == place.file && body.start <= place.start && place.start <= body.end
}

/// Returns true if something that looks like a definition of `name` stands in `body`.
fn defines(sources: &Sources, body: &Span, name: &str) -> bool {
    let defined = |line: &str| {
        let rest = line.trim_start().strip_prefix(name).map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with(['(', '[', '=']))
    };
    !name.is_empty() && sources.slice(*body).lines().any(defined)
}

/// Collects the bodies of all routines, methods, makers and creators, from behind the heading to
/// the `end`.
fn collect(items: &[Item], bodies: &mut Vec<Span>) {
    for item in items {
        match item {
            Item::Module(module) => collect(&module.items, bodies),
            Item::Routine(routine) => bodies.push(body(routine.heading.span, routine.end)),
            Item::Class(class) => {
                bodies.extend(class.methods.iter().map(|it| body(it.heading.span, it.end)));
                bodies.extend(class.makers.iter().map(|it| body(it.heading.span, it.end)));
                let creators = class.actor.iter().flat_map(|actor| &actor.creators);
                bodies.extend(creators.filter_map(|it| Some(body(it.span, it.body.last()?.span))));
            }
            Item::Equate(_) | Item::Type(_) | Item::NativeRoutine(_) => {}
        }
    }
}

/// Returns the span from the end of a heading to the end of the body's last part.
fn body(heading: Span, last: Span) -> Span {
    Span::new(heading.file, heading.end, last.end.max(last.start).max(heading.end))
}
