//! What is predeclared here is what the compiler knows.

use bifrost_ir::builtin::{Builtin, METHODS, ROUTINES};
use bifrost_theta::ast::Item;
use bifrost_theta::{Sources, parse};
use bifrost_tools::index::PRELUDE;

/// Types with their methods, and routines, of the prelude.
fn prelude() -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let mut sources = Sources::new();
    let file = sources.add("prelude", PRELUDE);
    let (tree, diagnostics) = parse(&sources, file);
    assert_eq!(diagnostics.len(), 0);
    let (mut types, mut routines) = (vec![], vec![]);
    for item in &tree.items {
        match item {
            Item::Type(it) => {
                types.push((it.name.to_string(), it.methods.iter().map(|m| m.name.to_string()).collect()));
            }
            Item::NativeRoutine(it) => routines.push(it.heading.name.to_string()),
            item => panic!("{}", item.name()),
        }
    }
    (types, routines)
}

#[test]
fn every_built_in_method_is_in_the_prelude() {
    let (types, _) = prelude();
    let listed = |row: &&Builtin| {
        let own = types.iter().find(|(ty, _)| ty == row.family).map(|(_, methods)| methods);
        own.is_some_and(|own| own.iter().any(|method| method == row.name()))
    };
    let missing: Vec<String> = METHODS.iter().filter(|row| !listed(row)).map(Builtin::key).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn every_built_in_routine_is_in_the_prelude() {
    let (_, routines) = prelude();
    let missing: Vec<&str> =
        ROUTINES.iter().map(|row| row.name).filter(|name| !routines.iter().any(|r| r == name)).collect();
    assert_eq!(missing, [""; 0]);
}
