//! Settings as an annotated file, which `--config` reads again: `bifrost serve --print-config`.
//!
//! [`annotated`] writes all settings. The sentences are the comments of the fields of [`Config`]
//! (crate `documented`) and the texts of [`Limit`]; [`sentence`] returns one, for the help of an
//! argument. So sources, help and file cannot differ.
//!
//! A line `name = value` differs from the default; a line `#name = value` is the default. A setting
//! that is absent by default is in a comment, `# name = ...`, which has no value to try.

use std::fmt::Write;

use bifrost_repository::postgres;
use bifrost_wire::Limit;
use documented::DocumentedFields;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::config::{Config, TlsConfig, WebsocketConfig};
use crate::exports::ExportConfig;
use crate::roles::RoleSettings;
use crate::tasks::{ActorConfig, TasksConfig};
use crate::trader::LinkConfig;

/// The head of the file.
const HEAD: &str = "\
# Settings of `bifrost serve`. The defaults are commented out: to change one, remove the `#` before
# its name. BIFROST_* variables and arguments win over this file. A `.` leads into a table:
# `--set limits.fuel_max=1000` and BIFROST_LIMITS__FUEL_MAX=1000 are the same.
";

/// Returns the sentences about a setting, on one line and without the last period. A setting of the
/// tables `tls` and `websocket` has the name of its table before it.
///
/// # Panics
/// If there is no such setting: its name is a constant.
pub fn sentence(setting: &str) -> String {
    let text = match setting.split_once('.') {
        Some(("tls", name)) => TlsConfig::get_field_docs(name),
        Some(("tasks", name)) => TasksConfig::get_field_docs(name),
        Some((_, name)) => WebsocketConfig::get_field_docs(name),
        None => Config::get_field_docs(setting),
    };
    let text = text.unwrap_or_else(|error| panic!("{error}"));
    let line = text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    line.trim_end_matches('.').to_owned()
}

/// Returns the default of a setting as text; none if it is absent by default, or has no value.
pub fn default(setting: &str) -> String {
    match as_map(&Config::default()).get(setting) {
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
        _ => String::new(),
    }
}

/// Returns the settings as a file. Secrets are left out: the tokens, and the URL of a database.
pub fn annotated(config: &Config) -> String {
    let [now, default] = [config, &Config::default()].map(as_map);
    let mut out = HEAD.to_owned();
    let mut tables = String::new();
    for (name, text) in Config::FIELD_NAMES.iter().zip(Config::FIELD_DOCS) {
        match now.get(*name) {
            Some(Value::Object(table)) => {
                let default = default.get(*name).and_then(Value::as_object).cloned().unwrap_or_default();
                put_comment(&mut tables, text, None);
                match *name {
                    "limits" => put_limits(&mut tables, table),
                    "roles" => put_named::<RoleSettings>(&mut tables, "roles", table),
                    "links" => put_named::<LinkConfig>(&mut tables, "links", table),
                    "exports" => put_exports(&mut tables, table),
                    "properties" => put_properties(&mut tables, table),
                    "tasks" => put_tasks(&mut tables, table, &default),
                    "tls" => put_fields::<TlsConfig>(&mut tables, "tls", table, &default),
                    _ => put_fields::<WebsocketConfig>(&mut tables, "websocket", table, &default),
                }
            }
            _ if *name == "token" && !config.token.is_empty() => {
                put_comment(&mut out, text, None);
                out += "# token is set, and not shown\n";
            }
            _ if *name == "trader_token" && !config.trader_token.is_empty() => {
                put_comment(&mut out, text, None);
                out += "# trader_token is set, and not shown\n";
            }
            _ if *name == "store" && postgres::is_url(&config.store) => {
                put_comment(&mut out, text, None);
                out += "# store is a database, and not shown\n";
            }
            value => put(&mut out, (name, text), value, default.get(*name)),
        }
    }
    out + &tables
}

fn as_map(config: &Config) -> Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(map)) => map,
        other => unreachable!("settings are a table: {other:?}"),
    }
}

/// Writes a comment, and the default with its unit, if there is one.
fn put_comment(out: &mut String, text: &str, default: Option<String>) {
    out.push('\n');
    for line in text.lines().map(str::trim) {
        let _ = writeln!(out, "# {line}");
    }
    if let Some(default) = default {
        let _ = writeln!(out, "# Default: {default}.");
    }
}

/// Writes a setting with its comment.
fn put(out: &mut String, (name, text): (&str, &str), now: Option<&Value>, default: Option<&Value>) {
    let unit = unit(name).map(|unit| format!(" {unit}")).unwrap_or_default();
    let shown = default.map_or("absent".to_owned(), |value| format!("{value}{unit}"));
    put_comment(out, text, Some(shown));
    let _ = match now {
        None => writeln!(out, "# {name} = ..."),
        Some(value) if Some(value) == default => writeln!(out, "#{name} = {value}"),
        Some(value) => writeln!(out, "{name} = {value}"),
    };
}

/// Returns the unit of a setting, which is a part of its name.
fn unit(name: &str) -> Option<&'static str> {
    name.split('_').find_map(|part| match part {
        "ms" => Some("milliseconds"),
        "us" => Some("microseconds"),
        "bytes" => Some("bytes"),
        _ => None,
    })
}

/// Writes a table with the fields of a type.
fn put_fields<T: DocumentedFields>(
    out: &mut String,
    name: &str,
    table: &Map<String, Value>,
    default: &Map<String, Value>,
) {
    let _ = writeln!(out, "[{name}]");
    for (name, text) in T::FIELD_NAMES.iter().zip(T::FIELD_DOCS) {
        put(out, (name, text), table.get(*name), default.get(*name));
    }
}

fn put_limits(out: &mut String, table: &Map<String, Value>) {
    *out += "[limits]\n";
    for limit in Limit::ALL {
        let default = Value::from(limit.default_value());
        put(out, (limit.name(), limit.text()), table.get(limit.name()), Some(&default));
    }
}

/// Writes the settings of the tasks, and behind them those of classes of native actors, or those
/// that a class can have.
fn put_tasks(out: &mut String, tasks: &Map<String, Value>, default: &Map<String, Value>) {
    const ACTORS: &str = "actors";
    *out += "[tasks]\n";
    let fields = TasksConfig::FIELD_NAMES.iter().zip(TasksConfig::FIELD_DOCS);
    for (name, text) in fields.clone().filter(|(name, _)| **name != ACTORS) {
        put(out, (name, text), tasks.get(*name), default.get(*name));
    }
    let text = fields.clone().find(|(name, _)| **name == ACTORS).map_or("", |(_, text)| text);
    put_comment(out, text, None);
    let actors = tasks.get(ACTORS).and_then(Value::as_object).cloned().unwrap_or_default();
    if actors.is_empty() {
        *out += "# [tasks.actors.\"std::FileServer\"]\n";
        for (name, text) in ActorConfig::FIELD_NAMES.iter().zip(ActorConfig::FIELD_DOCS) {
            put_comment(out, text, None);
            let _ = writeln!(out, "# {name} = ...");
        }
    }
    for (class, actor) in &actors {
        // A name in quotes is written the same in JSON and in TOML.
        let name = format!("tasks.actors.{}", Value::from(class.as_str()));
        actor.as_object().into_iter().for_each(|actor| put_table(out, &name, actor));
    }
}

/// Writes tables by name, as those of roles, or the settings that one can have.
fn put_named<T: DocumentedFields + Default + Serialize>(
    out: &mut String,
    all: &str,
    tables: &Map<String, Value>,
) {
    if tables.is_empty() {
        let _ = writeln!(out, "# [{all}.NAME]");
        let empty = serde_json::to_value(T::default()).unwrap_or_default();
        for (name, text) in T::FIELD_NAMES.iter().zip(T::FIELD_DOCS) {
            put_comment(out, text, None);
            let value = empty.get(*name).map_or("...".to_owned(), Value::to_string);
            let _ = writeln!(out, "# {name} = {value}");
        }
    }
    for (name, table) in tables {
        // A name with a point is in quotes, which are written the same in JSON and in TOML.
        let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        let name = if is_bare { name.clone() } else { Value::from(name.as_str()).to_string() };
        table.as_object().into_iter().for_each(|table| put_table(out, &format!("{all}.{name}"), table));
    }
}

/// Writes the exports, or the settings that one can have.
fn put_exports(out: &mut String, exports: &Map<String, Value>) {
    if exports.is_empty() {
        *out += "# [exports.NAME]\n";
        let values = [r#""DataBase""#, r#"{ region = "eu", tier = 1 }"#, "..."];
        for ((name, text), value) in
            ExportConfig::FIELD_NAMES.iter().zip(ExportConfig::FIELD_DOCS).zip(values)
        {
            put_comment(out, text, None);
            let _ = writeln!(out, "# {name} = {value}");
        }
    }
    for (name, export) in exports {
        // A name in quotes is written the same in JSON and in TOML.
        let name = format!("exports.{}", Value::from(name.as_str()));
        export.as_object().into_iter().for_each(|export| put_table(out, &name, export));
    }
}

/// Writes the properties of all exports, which have no names of their own here.
fn put_properties(out: &mut String, properties: &Map<String, Value>) {
    *out += "[properties]\n";
    for (name, value) in properties {
        let _ = writeln!(out, "{} = {value}", Value::from(name.as_str()));
    }
}

/// Writes a table, and those in it behind it. An empty one says nothing.
fn put_table(out: &mut String, name: &str, table: &Map<String, Value>) {
    let (tables, values): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| value.is_object());
    if !values.is_empty() {
        let _ = writeln!(out, "\n[{name}]");
        // Numbers, strings and lists of them are written the same in JSON and in TOML.
        for (name, value) in values {
            let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
            let name = if plain { name.clone() } else { Value::from(name.as_str()).to_string() };
            let _ = writeln!(out, "{name} = {value}");
        }
    }
    for (inner, value) in tables {
        value.as_object().into_iter().for_each(|value| put_table(out, &format!("{name}.{inner}"), value));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::RootNames;
    use crate::exports::PropertyValue;

    fn read(text: &str) -> Config {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("bifrost.toml");
        std::fs::write(&file, text).unwrap();
        Config::gather(&file, Map::new()).unwrap()
    }

    /// Removes the `#` before the names of settings.
    fn uncommented(text: &str) -> String {
        let setting = |line: &str| line.starts_with(|c: char| c.is_ascii_lowercase());
        let line = |line: &str| match line.strip_prefix('#').filter(|rest| setting(rest)) {
            Some(rest) => format!("{rest}\n"),
            None => format!("{line}\n"),
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn the_file_of_the_defaults_is_the_defaults() {
        let text = annotated(&Config::default());
        assert_eq!(read(&text), Config::default());
        let all = uncommented(&text);
        assert_ne!(all, text);
        assert_eq!(read(&all), Config::default());
    }

    #[test]
    fn the_file_has_every_setting_and_no_other() {
        let text = annotated(&Config::default());
        let mut found = BTreeSet::new();
        let mut table = "";
        for line in text.lines() {
            if let Some(name) = line.trim_start_matches("# ").strip_prefix('[') {
                table = name.split([']', '.']).next().unwrap();
            } else if let Some((name, _)) = line.trim_start_matches(['#', ' ']).split_once(" = ") {
                found.insert((table.to_owned(), name.to_owned()));
            }
        }
        let names = |table: &'static str, names: &[&str]| -> Vec<(String, String)> {
            names.iter().map(|name| (table.to_owned(), (*name).to_owned())).collect()
        };
        let limits: Vec<&str> = Limit::ALL.iter().map(|limit| limit.name()).collect();
        let all = [
            names("", Config::FIELD_NAMES),
            names("tls", TlsConfig::FIELD_NAMES),
            names("websocket", WebsocketConfig::FIELD_NAMES),
            names("limits", &limits),
            names("roles", RoleSettings::FIELD_NAMES),
            names("links", LinkConfig::FIELD_NAMES),
            names("exports", ExportConfig::FIELD_NAMES),
            names("tasks", TasksConfig::FIELD_NAMES),
            names("tasks", ActorConfig::FIELD_NAMES),
        ];
        let tables = ["tls", "websocket", "limits", "roles", "links", "tasks", "exports", "properties"];
        let is_value = |(table, name): &(String, String)| match table.as_str() {
            "" => !tables.contains(&&name[..]),
            table => (table, name.as_str()) != ("tasks", "actors"),
        };
        let expected: BTreeSet<_> = all.concat().into_iter().filter(is_value).collect();
        assert_eq!(found, expected);
        // Every one has a sentence above it, and its default.
        let lines: Vec<&str> = text.lines().collect();
        let unexplained = lines.windows(2).filter(|pair| pair[1].starts_with('#') && pair[1].contains(" = "));
        for pair in unexplained {
            assert!(pair[0].starts_with("# ") && pair[0].ends_with('.'), "{pair:?}");
        }
        assert!(text.contains("# Default: 5000 milliseconds.\n#hello_ms_max = 5000\n"), "{text}");
    }

    #[test]
    fn settings_read_back() {
        let role = RoleSettings {
            tokens: vec!["blake3:00".into()],
            uids: vec![7],
            limits: [("fuel_max".to_owned(), 5)].into(),
            root_names: Some(RootNames::ReadWrite),
            ..RoleSettings::default()
        };
        let link = LinkConfig { url: "tls://far:7450".into(), ..LinkConfig::default() };
        let actor = ActorConfig { concurrency: Some(3), ..ActorConfig::default() };
        let actors = [("std::FileServer".to_owned(), actor)].into();
        let export = ExportConfig {
            service: "DataBase".into(),
            properties: [("load.of".to_owned(), PropertyValue::Real(0.5))].into(),
            lease_ms: Some(20_000),
        };
        let all = [("region", PropertyValue::Text("eu".into())), ("tier", PropertyValue::Int(1))];
        let config = Config {
            traders: vec!["tls://trader.example:7450".into()],
            advertise: vec!["tls://db1.example:7447".into()],
            exports: [("data base".to_owned(), export)].into(),
            properties: all.map(|(name, value)| (name.to_owned(), value)).into(),
            tasks: TasksConfig { threads: 2, actors, ..TasksConfig::default() },
            listen: vec!["unix:///tmp/\"x\"".into()],
            sessions_max: 3,
            workers: Some(2),
            roles: [("reader".to_owned(), role)].into(),
            links: ["us", "us.far"].map(|name| (name.to_owned(), link.clone())).into(),
            ..Config::default()
        };
        assert_eq!(read(&annotated(&config)), config);
    }

    #[test]
    fn secrets_are_not_shown() {
        let config = Config { token: "s3cret".into(), ..Config::default() };
        assert!(!annotated(&config).contains("s3cret"));
        let config = Config { trader_token: "s3cret".into(), ..Config::default() };
        assert!(!annotated(&config).contains("s3cret"));
        let config = Config { store: "postgres://ann:s3cret@db/bank".into(), ..Config::default() };
        assert!(!annotated(&config).contains("s3cret"));
    }
}
