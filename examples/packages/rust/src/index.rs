//! Reading a package index: paragraphs of fields, as in `Packages` of a Debian mirror and in `/var/lib/dpkg/status`.

/// What is used of a paragraph.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Paragraph {
    pub name: String,
    pub version: String,
    pub section: String,
    /// Installed, in KiB.
    pub size: i64,
    /// Names that the package stands for.
    pub provides: Vec<String>,
    /// For each need the names of which any will do.
    pub needs: Vec<Vec<String>>,
}

/// The packages of an index. Paragraphs without a name, and fields that are not used, are passed over.
pub fn paragraphs(text: &str) -> impl Iterator<Item = Paragraph> {
    text.split("\n\n").map(paragraph).filter(|p| !p.name.is_empty())
}

fn paragraph(text: &str) -> Paragraph {
    let mut found = Paragraph::default();
    // A line that begins with a blank goes on with the field before; none of those that are used has such lines.
    for (field, value) in
        text.lines().filter(|l| !l.starts_with([' ', '\t'])).filter_map(|l| l.split_once(':'))
    {
        let value = value.trim();
        match field {
            "Package" => value.clone_into(&mut found.name),
            "Version" => value.clone_into(&mut found.version),
            "Section" => value.clone_into(&mut found.section),
            "Installed-Size" => found.size = value.parse().unwrap_or(0),
            "Provides" => found.provides = value.split(',').filter_map(name).collect(),
            "Depends" | "Pre-Depends" => {
                let needs = value.split(',').map(|need| need.split('|').filter_map(name).collect::<Vec<_>>());
                found.needs.extend(needs.filter(|need| !need.is_empty()));
            }
            _ => {}
        }
    }
    found
}

/// The name in `libc6:any (>= 2.34)`.
fn name(relation: &str) -> Option<String> {
    let name = relation.split_whitespace().next()?.split(':').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::paragraphs;

    #[test]
    fn paragraphs_have_what_is_used() {
        let text = "Package: dash\nInstalled-Size: 191\nVersion: 0.5\nDescription: a shell\n Package: none\nDepends: a (>= 1) | b:any, c\n\
                    Pre-Depends: libc6\nProvides: sh (= 1), posix-shell\n\nnothing: here\n\nPackage:\n\nPackage: last\nInstalled-Size: many";
        let found: Vec<_> = paragraphs(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), found[0].size, found[1].size), ("dash", 191, 0));
        assert_eq!(found[0].needs, [vec!["a", "b"], vec!["c"], vec!["libc6"]]);
        assert_eq!(found[0].provides, ["sh", "posix-shell"]);
    }
}
