//! [`Caller`]: the role for which a context runs, and the names that its clients may use.
//!
//! A context without one runs for a program, a node of actors, or clients of a server without
//! roles: all names are granted, and `caller` returns an empty string.
//!
//! The program's own code is not bounded by the names. Clients' calls of methods of the root
//! directory are: they enter the routines of `natives/granted.rs` instead of the methods.

/// A set of names: those of a list of patterns, each a name or a beginning.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    patterns: Vec<Pattern>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Pattern {
    /// `database`: this name.
    Name(String),
    /// `catalog.*`: all names with this beginning.
    Beginning(String),
}

impl Names {
    /// The set of all names.
    pub fn all() -> Names {
        Names { patterns: vec![Pattern::Beginning(String::new())] }
    }

    /// The set of names that one of these patterns fits: `database` fits that name, `catalog.*` all
    /// names that begin with `catalog.`, `*` all names.
    ///
    /// # Errors
    /// The first pattern with a `*` before its end, or without any character.
    pub fn of<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<Names, &'p str> {
        let pattern = |text: &'p str| {
            let (beginning, is_whole) = match text.strip_suffix('*') {
                Some(beginning) => (beginning, false),
                None => (text, true),
            };
            match (beginning.contains('*') || text.is_empty(), is_whole) {
                (true, _) => Err(text),
                (false, true) => Ok(Pattern::Name(text.to_owned())),
                (false, false) => Ok(Pattern::Beginning(beginning.to_owned())),
            }
        };
        Ok(Names { patterns: patterns.into_iter().map(pattern).collect::<Result<_, _>>()? })
    }

    /// True if the set has a name.
    pub fn contains(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| match pattern {
            Pattern::Name(known) => known == name,
            Pattern::Beginning(beginning) => name.starts_with(beginning.as_str()),
        })
    }

    /// True if the set has all names.
    pub fn is_all(&self) -> bool {
        self.contains_beginning("")
    }

    fn contains_beginning(&self, beginning: &str) -> bool {
        self.patterns.iter().any(|pattern| *pattern == Pattern::Beginning(beginning.to_owned()))
    }
}

/// The role for which a context runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The name of the role, which `caller` returns; never empty.
    pub role: String,
    /// The names of the root directory that its clients may use.
    pub roots: Names,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names_and_beginnings() {
        let names = Names::of(["database", "catalog.*"]).unwrap();
        for (name, expected) in [
            ("database", true),
            ("catalog.", true),
            ("catalog.books", true),
            ("catalog", false),
            ("databases", false),
            ("data", false),
            ("", false),
            ("catalog*", false),
        ] {
            assert_eq!(names.contains(name), expected, "{name}");
        }
        assert!(!names.is_all() && Names::of(["x", "*"]).unwrap().is_all() && Names::all().is_all());
        assert!(!Names::default().contains("") && !Names::default().contains("x"));
    }

    #[test]
    fn stars_inside_are_refused() {
        for wrong in ["a*b", "**", "*a", "*a*", ""] {
            assert_eq!(Names::of(["fine", wrong]), Err(wrong));
        }
    }
}
