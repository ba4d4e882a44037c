//! Persistent actors over a store: their turns are transactions, and their state outlives the
//! server.

#[path = "support/stored.rs"]
mod stored;

use std::sync::Arc;

use bifrost_engine::{Engine, Mode, Run};
use bifrost_native::Registry;
use bifrost_runtime::Collect;
use bifrost_server::program::{self, ProgramError};
use bifrost_theta::{Colour, Options, render_all};
use stored::stored_output;

/// An account that is kept, with a method that fails, and one that calls another.
const ACCOUNT: &str = r#"Account = actor persistent
  balance: int
  owner: string
  seen: map[int, int]
  new (name: string)
    make {balance := 0, owner := name, seen := map_new[int, int]()}
  end new
  deposit (amount: int) returns (int) signals (bad (int))
    balance := balance + amount
    if amount < 0 then signal bad(amount) end
    reply (balance)
  end deposit
  once (number: int, amount: int) returns (bool)
    if seen.contains(number) then
      reply (false)
      return
    end
    seen[number] := amount
    n: int := self.deposit(amount) except when bad (x: int): signal failure("bad " || x.unparse()) end
    reply (n > 0)
  end once
  note (amount: int) self.balance := self.balance + amount end note
  text () returns (string) reply (owner || " " || balance.unparse()) end text
end Account
"#;

/// Compiles a program as a server does.
#[track_caller]
fn load(text: &str, mode: Mode) -> Arc<Engine> {
    let registry = Registry::standard();
    let read = |name: &str| match name {
        "main.theta" => Some(text.to_owned()),
        name => registry.text(name).map(str::to_owned),
    };
    let options = Options::default();
    let sources = bifrost_theta::load("main.theta", &options, read).expect("the text is there");
    match program::load_sources_with(sources, &options, Run::kept(mode), &registry) {
        Ok(engine) => engine,
        Err(ProgramError::Theta { sources, diagnostics }) => {
            panic!("{}", render_all(&sources, &diagnostics, Colour::Plain))
        }
        Err(error) => panic!("{error}"),
    }
}

/// The program prints these lines, whichever way it runs.
#[track_caller]
fn prints(text: &str, expected: &[&str]) {
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(text, mode);
        for collect in [Collect::Ordinary, Collect::Zeal(1)] {
            let output = stored_output(&engine, collect);
            let lines: Vec<&str> = output.lines().take(expected.len()).collect();
            assert_eq!(lines, expected, "{mode:?} {collect:?}\n{output}");
        }
    }
}

#[test]
fn a_turn_is_a_transaction() {
    let main = r#"main ()
  ann: Account := Account.at("ann")
  print(ann.text())
  print(ann.deposit(5).unparse())
  print(ann.deposit(-3).unparse()) except when bad (n: int): print("bad " || n.unparse()) end
  print(ann.text())
  send ann.note(10)
  print(Account.at("ann").text())
  print(ann.once(1, 7).unparse())
  print(ann.once(1, 7).unparse())
  print(ann.once(2, -9).unparse()) except when failure (why: string): print(why) end
  print(ann.text() || ", " || Account.at("bob").text())
end main"#;
    let expected = ["ann 0", "5", "bad -3", "ann 5", "ann 15", "true", "false", "bad -9", "ann 22, bob 0"];
    prints(&format!("{ACCOUNT}{main}"), &expected);
}
