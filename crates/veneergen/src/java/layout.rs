//! The layout of google-java-format, as far as generated code needs it.
//!
//! A list in brackets stands on its line if it fits, else on the next line if it fits there, else
//! its entries have a line each. A chain of calls that does not fit has a line for each call.

/// The longest line.
pub(super) const WIDTH: usize = 100;

/// The indent of a line that goes on with the one before.
const MORE: usize = 4;

/// An expression, or the head of a declaration.
#[derive(Clone, Debug)]
pub(super) enum Code {
    /// A text that is not broken.
    Text(String),
    /// A list in brackets, behind a text that ends with the opening one.
    List { before: String, items: Vec<Code>, close: char },
    /// A call, and calls of its result.
    Chain(Vec<String>),
    /// A function of one expression.
    Lambda { head: String, body: Box<Code> },
}

impl Code {
    pub(super) fn text(text: impl Into<String>) -> Code {
        Code::Text(text.into())
    }

    /// A call, or a head with parameters. `before` is without the bracket.
    pub(super) fn call(before: impl std::fmt::Display, items: Vec<Code>) -> Code {
        Code::List { before: format!("{before}("), items, close: ')' }
    }

    fn flat(&self) -> String {
        match self {
            Code::Text(text) => text.clone(),
            Code::List { before, items, close } => {
                let items: Vec<String> = items.iter().map(Code::flat).collect();
                format!("{before}{}{close}", items.join(", "))
            }
            Code::Chain(calls) => calls.join("."),
            Code::Lambda { head, body } => format!("{head} -> {}", body.flat()),
        }
    }

    /// Returns it without the indent of its first line, whose text so far has `used` columns.
    /// `indent` is that of the line, and `behind` stands behind it.
    fn lay(&self, used: usize, indent: usize, behind: &str) -> String {
        let flat = format!("{}{behind}", self.flat());
        if used + width(&flat) <= WIDTH {
            return flat;
        }
        let inner = indent + MORE;
        let pad = " ".repeat(inner);
        match self {
            Code::Text(_) => flat,
            Code::List { items, .. } if items.is_empty() => flat,
            Code::List { before, items, close } => {
                let all: Vec<String> = items.iter().map(Code::flat).collect();
                let line = format!("{}{close}{behind}", all.join(", "));
                if inner + width(&line) <= WIDTH {
                    return format!("{before}\n{pad}{line}");
                }
                let last = items.len() - 1;
                let lines = items.iter().enumerate().map(|(at, item)| {
                    let end = if at == last { format!("{close}{behind}") } else { ",".to_owned() };
                    format!("\n{pad}{}", item.lay(inner, inner, &end))
                });
                format!("{before}{}", lines.collect::<String>())
            }
            Code::Chain(calls) => {
                let lines: Vec<&str> = calls.iter().map(String::as_str).collect();
                format!("{}{behind}", lines.join(&format!("\n{pad}.")))
            }
            Code::Lambda { head, body } => {
                format!("{head} ->\n{pad}{}", body.lay(inner, inner, behind))
            }
        }
    }

    /// Returns it as lines, with a text before and behind it.
    pub(super) fn line(&self, indent: usize, before: &str, behind: &str) -> String {
        format!("{}{before}{}", " ".repeat(indent), self.lay(indent + width(before), indent, behind))
    }

    /// Returns an assignment to it: on one line, or on the next one. `before` are the modifiers and
    /// the type of the variable.
    pub(super) fn assigned(&self, indent: usize, before: &str, name: &str) -> String {
        let pad = " ".repeat(indent);
        let line = format!("{pad}{before} {name} = {};", self.flat());
        if width(&line) <= WIDTH {
            return line;
        }
        let mut inner = indent + MORE;
        let mut target = format!("{pad}{before} {name} =");
        if width(&target) > WIDTH {
            target = format!("{pad}{before}\n{}{name} =", " ".repeat(inner));
            inner += MORE;
        }
        format!("{target}\n{}{}", " ".repeat(inner), self.lay(inner, inner, ";"))
    }
}

/// Returns the head of a declaration with what it extends or implements.
pub(super) fn extended(indent: usize, head: &str, extends: &str, behind: &str) -> String {
    let pad = " ".repeat(indent);
    let line = format!("{pad}{head} {extends}{behind}");
    match width(&line) <= WIDTH {
        true => line,
        false => format!("{pad}{head}\n{pad}    {extends}{behind}"),
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Returns a string literal.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            c if c.is_control() => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Returns text as one of a comment: nothing in it is a mark.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '@' => out += "&#64;",
            '{' => out += "&#123;",
            '}' => out += "&#125;",
            '*' => out += "&#42;",
            '\\' => out += "&#92;",
            c => out.push(c),
        }
    }
    out
}

/// Returns text in the font of code.
pub(super) fn code(text: &str) -> String {
    match text.contains(['{', '}', '@', '*', '\\']) {
        true => format!("<code>{}</code>", escaped(text)),
        false => format!("{{@code {text}}}"),
    }
}

/// Returns a comment of paragraphs, whose lines are filled.
pub(super) fn javadoc(indent: usize, paragraphs: &[String]) -> String {
    let pad = " ".repeat(indent);
    if let [one] = paragraphs {
        let line = format!("{pad}/** {} */", one.split_whitespace().collect::<Vec<_>>().join(" "));
        if width(&line) <= WIDTH {
            return line;
        }
    }
    let mut out = format!("{pad}/**");
    for (at, paragraph) in paragraphs.iter().enumerate() {
        if at > 0 {
            out += &format!("\n{pad} *");
        }
        let mut line = format!("{pad} * {}", if at > 0 { "<p>" } else { "" });
        let mut is_start = true;
        for word in paragraph.split_whitespace() {
            if !is_start && width(&line) + 1 + width(word) > WIDTH {
                out += &format!("\n{line}");
                line = format!("{pad} * ");
                is_start = true;
            }
            if !is_start {
                line.push(' ');
            }
            line += word;
            is_start = false;
        }
        out += &format!("\n{line}");
    }
    format!("{out}\n{pad} */")
}

/// Returns the paragraphs of a comment in Theta: lines with an empty one between.
pub(super) fn paragraphs(lines: &[String]) -> Vec<String> {
    let groups = lines.split(|line| line.is_empty()).filter(|group| !group.is_empty());
    groups.map(|group| escaped(&group.join(" "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_comment_is_a_mark() {
        assert_eq!(escaped("a */ {@b} \\u002a <p>"), "a &#42;/ &#123;&#64;b&#125; &#92;u002a &lt;p&gt;");
        assert_eq!(code("f (x: int)"), "{@code f (x: int)}");
        assert_eq!(code("f {"), "<code>f &#123;</code>");
        assert_eq!(quoted("a\"\\\n\u{1}"), "\"a\\\"\\\\\\n\\u0001\"");
    }

    #[test]
    fn comments_are_filled() {
        assert_eq!(javadoc(2, &["One.".to_owned()]), "  /** One. */");
        let long = "word ".repeat(25);
        let filled = javadoc(0, &[long.clone(), long]);
        let lines: Vec<&str> = filled.lines().collect();
        assert_eq!(lines.len(), 7, "{filled}");
        assert!(lines[4].starts_with(" * <p>word") && lines[3] == " *", "{filled}");
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{filled}");
    }
}
