//! Capsules as exports: a process that waits for a run is an offer of the service
//! `bifrost.Capsule`.
//!
//! Such an offer has the digest of the program and the name of a group as properties, and one
//! address. `bifrost run --trader` finds the offers of its program in its group. There are no calls
//! of a capsule: the type has no methods.

use bifrost_trader::{Export, Properties, Value};
use bifrost_wire::Interface;
use bifrost_wire::interface::{Kind, Numbering, Type};

use super::{Exports, Traders};

/// The service of capsules.
pub const SERVICE: &str = "bifrost.Capsule";
/// The property with the digest of the program, in hexadecimal.
pub const PROGRAM: &str = "program";
/// The property with the name of the group.
pub const GROUP: &str = "group";
/// The group, if none is named.
pub const GROUP_DEFAULT: &str = "default";

/// Returns the interface of all capsules.
fn numbering() -> Numbering {
    let ty = Type {
        name: SERVICE.to_owned(),
        names: Vec::new(),
        kind: Kind::Object,
        element: None,
        fields: Vec::new(),
        immutable: false,
        actor: false,
        supertypes: Vec::new(),
        methods: Vec::new(),
        doc: String::new(),
    };
    Numbering::new(Interface { types: vec![ty], routines: Vec::new() })
}

/// Returns the query that finds the capsules of a program in a group.
pub fn query(program: &str, group: &str) -> String {
    // Escaped wherever the query has a meaning of its own for a character.
    let escaped = group.bytes().map(|byte| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    format!("{PROGRAM}='{program}'&{GROUP}='{}'&prefer=random", escaped.collect::<String>())
}

/// Exports a capsule that waits at an address, until it is dropped.
///
/// # Errors
/// A sentence about the fault of the address or the group, or the system has no thread.
pub fn export(traders: Traders, address: String, program: &str, group: &str) -> Result<Exports, String> {
    let texts = [(PROGRAM, program), (GROUP, group)];
    let properties: Properties =
        texts.into_iter().map(|(name, text)| (name, Value::String(text.to_owned()))).collect();
    let export = Export {
        service: SERVICE.to_owned(),
        name: "capsule".to_owned(),
        addresses: vec![address],
        properties,
        ..Export::default()
    };
    Exports::begin(traders, &numbering(), vec![export], Box::new(|| 0.0))
}

#[cfg(test)]
mod tests {
    use bifrost_trader::{Offer, Query};

    use super::*;

    #[test]
    fn queries_find_groups_of_any_name() {
        for group in ["default", "a&b=c", "1", "\u{e9}t\u{e9} %", "true", "'x'"] {
            let digest = "0a".repeat(32);
            let query = Query::parse(&query(&digest, group)).unwrap();
            let with = |program: &str, group: &str| -> Offer {
                let texts = [(PROGRAM, program), (GROUP, group)];
                let texts = texts.into_iter().map(|(name, text)| (name, Value::String(text.to_owned())));
                Offer { properties: texts.collect(), ..Offer::default() }
            };
            assert!(query.matches(&with(&digest, group)), "{group}");
            assert!(!query.matches(&with(&digest, "other")), "{group}");
            assert!(!query.matches(&with(&"0b".repeat(32), group)), "{group}");
        }
    }
}
