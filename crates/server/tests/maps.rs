//! Maps against a model: random stores and removals, also in the middle of loops over the map.

#[path = "../../capsule/tests/support/output.rs"]
mod output;

use std::sync::Arc;

use bifrost_engine::{Engine, Mode};
use bifrost_runtime::{Collect, Limits};
use bifrost_server::program;
use bifrost_theta::{Options, Sources};
use proptest::prelude::*;

/// Carries out commands and prints what they answer. `KEY` is the type of keys, `MAKE` makes one of a string.
const PROGRAM: &str = r#"
Key = immutable type
  text () returns (string)
  equal (x: Key) returns (bool)
  hash () returns (int)
  similar (x: Key) returns (bool)
  copy () returns (Key)
  unparse () returns (string)
end Key
module keys exports new_key
  KeyRep = class implements Key
    text: string
    equal (x: Key) returns (bool) return (text = x.text()) end equal
    hash () returns (int) return (text.length()) end hash
    similar (x: Key) returns (bool) return (text = x.text()) end similar
    copy () returns (Key) return (self) end copy
    unparse () returns (string) return (text) end unparse
  end KeyRep
  new_key (text: string) returns (Key) return (KeyRep{text := text}) end new_key
end keys
number (text: string) returns (int)
  return (text.to_int()) except when bad_format, overflow: return (0) end
end number
same (text: string) returns (string) return (text) end same

apply (m: map[KEY, int], command: string)
  rest: string := command.substr(2, command.length() - 1) except when bounds: return end
  if command.starts_with("+") then m[MAKE(rest)] := m.length()
  elseif command.starts_with("-") then
    m.remove(MAKE(rest)) except when not_found: print("none") end
  elseif command.starts_with("?") then
    print(m[MAKE(rest)].unparse()) except when not_found: print("none") end
  elseif command = "!" then m.clear()
  end
end apply

main (args: sequence[string])
  m: map[KEY, int] := map_new[KEY, int]()
  at: int := 1
  while at <= args.length() do
    command: string := args[at] except when bounds: return end
    at := at + 1
    if command = "*" then
      % Each step of the loop carries out the next command.
      for k: KEY, v: int in m.pairs() do
        print(k.unparse() || "=" || v.unparse())
        next: string := args[at] except when bounds: break end
        if next = "*" then break end
        apply(m, next)
        at := at + 1
      end
    else apply(m, command)
    end
  end
  print(m.unparse() || m.length().unparse() || (m.copy().unparse() = m.unparse()).unparse())
  print(m.similar(clone m).unparse())
end main
"#;

/// The model: entries in the order in which their keys came, each with a number that grows.
#[derive(Default)]
struct Model {
    entries: Vec<(u64, String, usize)>,
    next: u64,
    output: String,
}

impl Model {
    fn print(&mut self, line: &str) {
        self.output.push_str(line);
        self.output.push('\n');
    }

    fn apply(&mut self, command: &str) {
        let rest = &command[1..];
        let found = self.entries.iter().position(|(_, k, _)| k == rest);
        let length = self.entries.len();
        match (command.as_bytes()[0], found) {
            (b'+', Some(at)) => self.entries[at].2 = length,
            (b'+', None) => {
                self.next += 1;
                self.entries.push((self.next, rest.to_owned(), length));
            }
            (b'-', Some(at)) => drop(self.entries.remove(at)),
            (b'?', Some(at)) => self.print(&self.entries[at].2.to_string()),
            (b'!', _) => self.entries.clear(),
            _ => self.print("none"),
        }
    }

    fn run(mut self, commands: &[String], quote: &str) -> String {
        let mut at = 0;
        while at < commands.len() {
            at += 1;
            if commands[at - 1] != "*" {
                self.apply(&commands[at - 1]);
                continue;
            }
            let mut last = 0;
            while let Some((stamp, key, value)) = self.entries.iter().find(|(s, ..)| *s > last).cloned() {
                last = stamp;
                self.print(&format!("{key}={value}"));
                match commands.get(at).filter(|next| *next != "*") {
                    Some(next) => self.apply(next),
                    None => break,
                }
                at += 1;
            }
        }
        let all: Vec<String> =
            self.entries.iter().map(|(_, k, v)| format!("{quote}{k}{quote}: {v}")).collect();
        self.print(&format!("{{{}}}{}true", all.join(", "), all.len()));
        self.print("true");
        self.output
    }
}

/// The program for a type of keys.
fn engine(key: &str, make: &str) -> Arc<Engine> {
    let mut sources = Sources::new();
    sources.add("main.theta", PROGRAM.replace("KEY", key).replace("MAKE", make));
    program::load_sources(sources, &Options::default(), Mode::Compiled).unwrap_or_else(|e| panic!("{e}"))
}

fn run(engine: &Arc<Engine>, commands: &[String], collect: Collect) -> String {
    output::run(engine, Limits { collect, ..Limits::default() }, commands).output
}

fn commands() -> impl Strategy<Value = Vec<String>> {
    let key = 0..40_u32;
    let command = prop_oneof![
        8 => key.clone().prop_map(|k| format!("+{k}")),
        5 => key.clone().prop_map(|k| format!("-{k}")),
        1 => key.prop_map(|k| format!("?{k}")),
        1 => Just("*".to_owned()),
    ];
    let clearing = prop_oneof![60 => command, 1 => Just("!".to_owned())];
    proptest::collection::vec(clearing, 0..300)
}

#[test]
fn maps_do_what_a_list_of_pairs_does() {
    let kinds = [("int", "number", ""), ("string", "same", "\""), ("Key", "new_key", "")];
    let engines = kinds.map(|(key, make, quote)| (engine(key, make), quote));
    // proptest prints the commands that failed, made as few as possible.
    proptest!(ProptestConfig::with_cases(60), |(commands in commands())| {
        for (engine, quote) in &engines {
            let expected = Model::default().run(&commands, quote);
            prop_assert_eq!(run(engine, &commands, Collect::Ordinary), &*expected);
            prop_assert_eq!(run(engine, &commands, Collect::Zeal(7)), &*expected);
        }
    });
}
