//! The layout of generated headers: that of `clang-format` with the style
//! `veneers/clang-format.yaml`.
//!
//! Templates write each declaration and statement on a line of its own. [`layout`] breaks the lines
//! that are too long, by the only way that the style has:
//!
//! ```text
//! head(all arguments)          if it fits
//! head(                        else, if the rest fits a line
//!     all arguments)
//! head(other(                  else, if the only argument is a call
//!     all arguments))
//! head(                        else each argument is laid out alike
//!     one,
//!     other(
//!         ...))
//! head = {                     braces always so
//!     one,
//!     other,
//! }
//! ```
//!
//! A macro's body goes to a line of its own first. A line that cannot be broken in this way stays
//! as it is, and `clang-format` is told to leave it. Comments and tables are not touched.

/// The most columns of a line.
const COLUMNS: usize = 120;

/// The columns by which the rest of a declaration is indented.
const CONTINUED: usize = 4;

/// The ways to tell `clang-format` to leave a part: in C, and in C++.
#[derive(Clone, Copy)]
pub(crate) enum Comments {
    Block,
    Line,
}

impl Comments {
    fn guard(self, on: &str) -> String {
        match self {
            Comments::Block => format!("/* clang-format {on} */"),
            Comments::Line => format!("// clang-format {on}"),
        }
    }
}

/// Breaks the lines of a header that are too long.
pub(crate) fn layout(text: &str, comments: Comments) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut is_off = false;
    for line in text.lines() {
        is_off = (is_off || line.contains("clang-format off")) && !line.contains("clang-format on");
        let code = line.trim_start();
        let is_comment = ["*", "/*", "//"].iter().any(|begin| code.starts_with(begin));
        if is_off || is_comment || columns(line) <= COLUMNS {
            push(&mut out, line);
            continue;
        }
        let indent = line.len() - code.len();
        let lines = broken(indent, code, (0, 0));
        if lines.iter().all(|line| columns(line) <= COLUMNS) {
            lines.iter().for_each(|line| push(&mut out, line));
        } else {
            // Behind a line that opens a block the comment is inside it.
            let inner = if line.ends_with('{') { indent + 2 } else { indent };
            push(&mut out, &(" ".repeat(indent) + &comments.guard("off")));
            push(&mut out, line);
            push(&mut out, &(" ".repeat(inner) + &comments.guard("on")));
        }
    }
    out
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// Returns the number of columns of a line; names are ASCII, literals may be not.
fn columns(line: &str) -> usize {
    line.chars().count()
}

/// Breaks code at an indentation into lines. Columns are kept behind each but the last, and behind
/// the last.
fn broken(indent: usize, code: &str, (room, last): (usize, usize)) -> Vec<String> {
    let whole = || vec![" ".repeat(indent) + code];
    if indent + columns(code) + last <= COLUMNS {
        return whole();
    }
    if let Some(head) = macro_head(code) {
        let body = code.get(head..).unwrap_or_default().trim_start();
        let body = match 2 + columns(body) <= COLUMNS {
            true => vec![format!("  {body}")],
            // As if each line went on, the last one too.
            false => broken(2, body, (2, 2)),
        };
        let head = code.get(..head).unwrap_or_default().trim_end().to_owned();
        let mut lines: Vec<String> = std::iter::once(head).chain(body).collect();
        if let Some((_, others)) = lines.split_last_mut() {
            others.iter_mut().for_each(|line| line.push_str(" \\"));
        }
        return lines;
    }
    let Some(Group { kind, head, arguments, tail }) = first_group(code) else { return whole() };
    let inner = indent + CONTINUED;
    let fits = |arguments: &str, tail: &str| inner + columns(arguments) + columns(tail) + last <= COLUMNS;
    let begin = " ".repeat(indent) + head;
    match kind {
        // The layout of what stands behind is not known here.
        _ if tail.starts_with(") : ") || head.ends_with("decltype(") => whole(),
        b'(' if fits(arguments, tail) => vec![begin, " ".repeat(inner) + arguments + tail],
        b'(' => {
            let parts = split(arguments);
            match (parts.as_slice(), first_group(arguments)) {
                ([_], Some(call)) if call.kind == b'(' && call.tail == ")" => {
                    let (begin, tail) = (begin + call.head, format!("){tail}"));
                    if fits(call.arguments, &tail) {
                        return vec![begin, " ".repeat(inner) + call.arguments + &tail];
                    }
                    one_each(begin, &split(call.arguments), &tail, inner, (room, last))
                }
                _ => one_each(begin, &parts, tail, inner, (room, last)),
            }
        }
        b'{' => {
            let mut lines = vec![begin];
            for part in split(arguments) {
                lines.extend(broken(inner, &format!("{part},"), (room, room)));
            }
            lines.push(" ".repeat(indent) + tail);
            lines
        }
        _ => one_each(begin, &split(arguments), tail, inner, (room, last)),
    }
}

/// Lays each argument out on lines of its own.
fn one_each(
    begin: String,
    arguments: &[&str],
    tail: &str,
    indent: usize,
    (room, last): (usize, usize),
) -> Vec<String> {
    let mut lines = vec![begin];
    for (index, argument) in arguments.iter().enumerate() {
        let (behind, last) = if index + 1 == arguments.len() { (tail, last) } else { (",", room) };
        lines.extend(broken(indent, &format!("{argument}{behind}"), (room, last)));
    }
    lines
}

/// Returns the end of a macro's name and parameters, if the code defines one.
fn macro_head(code: &str) -> Option<usize> {
    let name = code.strip_prefix("#define ")?;
    let end = name.find([' ', '('])?;
    match name.as_bytes().get(end)? {
        b'(' => Some("#define ".len() + name.find(')')? + 1),
        _ => Some("#define ".len() + end),
    }
}

/// Calls `each` with the bytes of code that are not inside literals, and the depth of brackets
/// around them.
fn scan(code: &str, angles: bool, mut each: impl FnMut(usize, u8, usize)) {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (index, byte) in code.bytes().enumerate() {
        if let Some(end) = quote {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                _ if byte == end => quote = None,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' | b'\'' => quote = Some(byte),
            b'(' | b'[' | b'{' => {
                each(index, byte, depth);
                depth += 1;
                continue;
            }
            b'<' if angles => {
                each(index, byte, depth);
                depth += 1;
                continue;
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'>' if angles => depth = depth.saturating_sub(1),
            _ => {}
        }
        each(index, byte, depth);
    }
}

/// Code with brackets that have something inside.
struct Group<'c> {
    /// The opening bracket.
    kind: u8,
    /// The code up to the opening bracket, with it.
    head: &'c str,
    arguments: &'c str,
    /// The code from the closing bracket on.
    tail: &'c str,
}

/// Returns the first brackets that have something inside: parentheses or braces; those of a
/// template's parameters, if the code is their list. The parentheses of a cast are passed over.
fn first_group(code: &str) -> Option<Group<'_>> {
    let angles = code.starts_with("template <") || code.starts_with("using ");
    let (mut open, mut found) = (None, None);
    scan(code, angles, |index, byte, depth| match byte {
        _ if depth > 0 || found.is_some() => {}
        b'<' if angles => open = Some((index, byte)),
        b'(' | b'{' if !angles => open = Some((index, byte)),
        b')' | b'}' | b'>' => {
            if let Some((open, kind)) = open.take()
                && index > open + 1
                && code.as_bytes().get(index + 1) != Some(&b'{')
            {
                found = Some((kind, open, index));
            }
        }
        _ => {}
    });
    let (kind, open, close) = found?;
    let part = |range| code.get(range).unwrap_or_default();
    Some(Group {
        kind,
        head: part(0..open + 1),
        arguments: part(open + 1..close),
        tail: part(close..code.len()),
    })
}

/// Splits arguments at their commas.
fn split(arguments: &str) -> Vec<&str> {
    let (mut parts, mut from) = (Vec::new(), 0);
    scan(arguments, true, |index, byte, depth| {
        if byte == b',' && depth == 0 {
            parts.push(arguments.get(from..index).unwrap_or_default().trim());
            from = index + 1;
        }
    });
    parts.push(arguments.get(from..).unwrap_or_default().trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn c(line: &str) -> Vec<String> {
        layout(line, Comments::Block).lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_that_fit_stay() {
        let line = format!("int f({});", "x".repeat(COLUMNS - 8));
        assert_eq!(line.len(), COLUMNS);
        assert_eq!(c(&line), [line]);
    }

    #[test]
    fn arguments_go_to_one_line_or_to_one_each() {
        let (x, y, z) = ("x".repeat(60), "y".repeat(70), "z".repeat(60));
        let short = format!("  static inline int a_name_that_is_long({x}, int y) {{");
        let lines = ["  static inline int a_name_that_is_long(", &format!("      {x}, int y) {{")];
        assert_eq!(c(&short), std::slice::from_ref(&short), "it fits");
        assert_eq!(
            c(&short.replace("int y", "long double y_of_it")),
            [lines[0].to_owned(), lines[1].replace("int y", "long double y_of_it"),]
        );
        let call = format!("  return f({x}, g({y}, {z}), \"a, b\");");
        let lines =
            ["  return f(", "      X,", "      g(", "          Y,", "          Z),", "      \"a, b\");"];
        let lines = lines.map(|line| line.replace('X', &x).replace('Y', &y).replace('Z', &z));
        assert_eq!(c(&call), lines);
    }

    #[test]
    fn bodies_of_macros_begin_a_line() {
        let (a, b) = ("a".repeat(60), "b".repeat(60));
        let lines = ["#define f(x, y) \\", "  g( \\", "      x, \\", "      A, \\", "      B)"];
        let lines = lines.map(|line| line.replace('A', &a).replace('B', &b));
        assert_eq!(c(&format!("#define f(x, y) g(x, {a}, {b})")), lines);
        let short = format!("#define f(x, y) g(x, {a}, {})", &b[..45]);
        assert_eq!(c(&short), ["#define f(x, y) \\".to_owned(), format!("  g(x, {a}, {})", &b[..45])]);
    }

    #[test]
    fn lines_that_cannot_be_broken_are_left() {
        let line = "x".repeat(COLUMNS + 1);
        assert_eq!(c(&line), ["/* clang-format off */", &line, "/* clang-format on */"]);
        let comment = format!(" * {line}");
        assert_eq!(c(&comment), [comment]);
    }
}
