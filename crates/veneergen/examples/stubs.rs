//! Writes the stubs of an interface description: `stubs LANGUAGE INTERFACE.json FOLDER`.

use std::path::Path;

use bifrost_veneergen::{Lang, generate};
use bifrost_wire::Interface;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, language, interface, folder] = arguments.as_slice() else {
        panic!("stubs LANGUAGE INTERFACE.json FOLDER")
    };
    let interface = Interface::from_json(&std::fs::read(interface).unwrap()).unwrap();
    for (name, text) in generate(&interface, Lang::from_name(language).unwrap()).unwrap() {
        let path = Path::new(folder).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}
