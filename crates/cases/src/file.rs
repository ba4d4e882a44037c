//! The files of cases.

use std::path::Path;

use serde_json::{Map, Value as Json, json};
use yaml_rust2::{Yaml, YamlLoader};

/// A case as it stands in its file.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, which is no other's.
    pub name: String,
    /// The rule that it shows, in a sentence.
    pub why: String,
    /// The name of its file, without ending.
    pub file: String,
    /// The program of the server, in `cases/programs`.
    pub program: String,
    /// The program that the client's stubs were made from.
    pub client: String,
    /// Settings of the server: `limits.handles_max=8`.
    pub set: Vec<String>,
    /// The parts of a client that it covers.
    pub covers: Vec<String>,
    /// The names of its sessions; none if it has one, which needs no name.
    pub sessions: Vec<String>,
    /// The steps, each an object with one or more keys.
    pub(crate) steps: Vec<Map<String, Json>>,
}

impl Case {
    /// Returns the parts of its file in `cases/generated` that are no outputs.
    pub(crate) fn describe(&self) -> Json {
        let mut json = json!({
            "case": self.name,
            "why": self.why,
            "covers": self.covers,
            "program": self.program,
            "interface": self.client,
        });
        if !self.set.is_empty() {
            json["set"] = json!(self.set);
        }
        if self.program != self.client {
            json["server_interface"] = json!(self.program);
        }
        json
    }
}

/// Reads all files of cases in a folder, in the order of their names.
///
/// # Panics
/// A file is not of the form of `cases/README.md`.
pub fn read(folder: &Path) -> Vec<Case> {
    let entries = std::fs::read_dir(folder).expect("the folder of the cases");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    let mut cases: Vec<Case> = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let file = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let documents = YamlLoader::load_from_str(&text).unwrap_or_else(|why| panic!("{file}: {why}"));
        for document in documents.iter().map(json) {
            for case in document.as_array().unwrap_or_else(|| panic!("{file} is no list of cases")) {
                let case = self::case(&file, case);
                assert!(
                    !cases.iter().any(|other| other.name == case.name),
                    "two cases are named {}",
                    case.name
                );
                cases.push(case);
            }
        }
    }
    cases
}

fn case(file: &str, case: &Json) -> Case {
    let known = ["case", "why", "program", "client", "set", "covers", "sessions", "steps"];
    let object = case.as_object().unwrap_or_else(|| panic!("{file}: {case} is no case"));
    let name =
        object.get("case").and_then(Json::as_str).unwrap_or_else(|| panic!("{file}: a case has no name"));
    for key in object.keys() {
        assert!(known.contains(&key.as_str()), "{file}: {name} has an unknown key `{key}`");
    }
    let text = |key: &str| object.get(key).and_then(Json::as_str).map(str::to_owned);
    let list = |key: &str| -> Vec<String> {
        let all = object.get(key).and_then(Json::as_array).into_iter().flatten();
        all.map(|one| one.as_str().unwrap_or_else(|| panic!("{name}: {key} has texts")).to_owned()).collect()
    };
    let program = text("program").unwrap_or_else(|| panic!("{name} has no program"));
    let steps = object.get("steps").and_then(Json::as_array).unwrap_or_else(|| panic!("{name} has no steps"));
    Case {
        name: name.to_owned(),
        why: text("why").unwrap_or_else(|| panic!("{name} does not say why")),
        file: file.to_owned(),
        client: text("client").unwrap_or_else(|| program.clone()),
        program,
        set: list("set"),
        covers: list("covers"),
        sessions: list("sessions"),
        steps: steps
            .iter()
            .map(|step| step.as_object().unwrap_or_else(|| panic!("{name}: {step} is no step")).clone())
            .collect(),
    }
}

fn json(yaml: &Yaml) -> Json {
    match yaml {
        Yaml::Real(text) => json!({"real": text}),
        Yaml::Integer(number) => json!(number),
        Yaml::String(text) => json!(text),
        Yaml::Boolean(is) => json!(is),
        Yaml::Array(all) => all.iter().map(json).collect(),
        Yaml::Hash(hash) => {
            let entry = |(key, value): (&Yaml, &Yaml)| {
                let key = key.as_str().unwrap_or_else(|| panic!("{key:?} is no text")).to_owned();
                (key, json(value))
            };
            Json::Object(hash.iter().map(entry).collect())
        }
        Yaml::Null => Json::Null,
        Yaml::Alias(_) | Yaml::BadValue => panic!("{yaml:?}"),
    }
}
