//! Files from a user's own templates.
//!
//! Templates are of minijinja, whose language is that of Jinja. They get the [`Model`] as `m`, with
//! Theta's own names, and filters that spell names otherwise. `docs/book/templates.md` describes
//! both for users.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, context};

use bifrost_wire::Interface;
use bifrost_wire::interface::Kind;

use crate::GenerateError;
use crate::model::Model;
use crate::naming::Naming;

/// The end of a template's name; the rest is the name of the file that it makes.
pub const TEMPLATE: &str = ".jinja";

/// The begin of the name of a template that only others use, by `include`, `import` or `extends`.
pub const PART: char = '_';

/// Theta's own names.
struct Plain;

impl Naming for Plain {
    fn lower(&self, name: &str) -> String {
        name.to_owned()
    }

    fn upper(&self, words: &[&str]) -> String {
        words.join("_")
    }

    fn value(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Real => "real",
            Kind::Char => "char",
            Kind::String => "string",
            Kind::Bytes => "bytes",
            _ => "null",
        }
    }

    fn builtin(&self, name: &str) -> String {
        name.to_owned()
    }

    fn cell(&self, element: &str) -> String {
        format!("cell[{element}]")
    }

    fn list(&self, element: &str) -> String {
        format!("sequence[{element}]")
    }

    fn optional(&self, some: &str) -> String {
        format!("maybe[{some}]")
    }

    fn pairs(&self, key: &str, value: &str) -> String {
        format!("map[{key}, {value}]")
    }
}

/// Returns the words of a name: `new_user`, `newUser` and `NewUser` have two.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut chars = name.chars().peekable();
    let (mut word, mut before) = (String::new(), ' ');
    while let Some(c) = chars.next() {
        if !c.is_alphanumeric() {
            words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
        } else {
            let next_is_small = chars.peek().is_some_and(|next| next.is_lowercase());
            let begins = c.is_uppercase() && (before.is_lowercase() || before.is_numeric() || next_is_small);
            if begins && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Spells a name as `newUser`.
fn camel(name: &str) -> String {
    let spelled = pascal(name);
    let mut chars = spelled.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}

/// Spells a name as `NewUser`.
fn pascal(name: &str) -> String {
    words(name).iter().map(|word| capital(word)).collect()
}

/// Spells a name as `new_user`.
fn snake(name: &str) -> String {
    words(name).join("_")
}

/// Spells a name as `NEW_USER`.
fn upper_snake(name: &str) -> String {
    snake(name).to_uppercase()
}

/// Spells a name as `new-user`.
fn kebab(name: &str) -> String {
    words(name).join("-")
}

/// Makes the files of a user's templates. `templates` are their names, relative to the folder, and
/// texts: `client.go.jinja` makes `client.go`. A name that begins with `_` is a part of others. A
/// value that is not there is a mistake, so a wrong word in a template is told with its line.
///
/// # Errors
/// A template cannot be read, or fails; the message has its name and line. There is none to make a
/// file of.
pub fn generate_from(
    interface: &Interface,
    templates: &[(String, String)],
) -> Result<Vec<(String, String)>, GenerateError> {
    let model = Model::new(interface, &Plain)?;
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    for (name, spell) in [
        ("camel", camel as fn(&str) -> String),
        ("pascal", pascal),
        ("snake", snake),
        ("upper_snake", upper_snake),
        ("kebab", kebab),
    ] {
        environment.add_filter(name, move |text: String| spell(&text));
    }
    for (name, text) in templates {
        environment.add_template(name, text)?;
    }
    let mut files = Vec::new();
    for (name, _) in templates {
        let Some(file) = name.strip_suffix(TEMPLATE) else { continue };
        if file.rsplit('/').next().is_none_or(|last| last.starts_with(PART)) {
            continue;
        }
        let digest: String = model.digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = environment
            .get_template(name)?
            .render(context! { m => Serde(&model), digest, interface => interface.to_json_lines() })?;
        files.push((file.to_owned(), text));
    }
    if files.is_empty() { Err(GenerateError::NoTemplate) } else { Ok(files) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_by_their_words() {
        for name in ["new_user", "newUser", "NewUser", "new user", "new-user", "NEW_USER"] {
            let spelled = [camel(name), pascal(name), snake(name), upper_snake(name), kebab(name)];
            assert_eq!(spelled, ["newUser", "NewUser", "new_user", "NEW_USER", "new-user"], "{name}");
        }
        assert_eq!(snake("HTTPServer2Go"), "http_server2_go");
        assert_eq!(pascal("array_of_int"), "ArrayOfInt");
        assert_eq!([camel(""), snake("__")], ["", ""]);
    }
}
