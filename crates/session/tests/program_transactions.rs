//! Transactions of programs: `transaction … end` in `main`, in both executions and with a collection at every allocation.

use std::cell::RefCell;
use std::sync::Arc;

use bifrost_cache::{Cache, Options, Prefetch, Schema};
use bifrost_engine::{Engine, Mode, Run};
use bifrost_repository::Repository;
use bifrost_repository::memory::Memory;
use bifrost_runtime::cx::{Limits, Output};
use bifrost_runtime::{Collect, Cx};
use bifrost_theta::{Colour, Sources, compile, render_all};

const ACCOUNTS: &str = include_str!("program_transactions.theta");

fn load(text: &str, mode: Mode) -> Arc<Engine> {
    let mut sources = Sources::new();
    sources.add("test.theta", text);
    let compilation = compile(&sources, &bifrost_theta::Options::default());
    let rendered = render_all(&sources, &compilation.diagnostics, Colour::Plain);
    let program = compilation.program.unwrap_or_else(|| panic!("{rendered}"));
    Engine::new(program, Run::kept(mode)).unwrap_or_else(|e| panic!("{e}"))
}

/// A program over a repository.
struct Process {
    engine: Arc<Engine>,
    cx: Box<Cx>,
    cache: Cache,
}

thread_local! {
    /// What `now_ms()` does: somebody else's work while the program runs.
    static MEANWHILE: RefCell<Option<Process>> = const { RefCell::new(None) };
}

/// The clock of programs: each look at it has somebody else deposit 1 on the account of ann and commit.
fn meanwhile() -> i64 {
    MEANWHILE.with_borrow_mut(|other| {
        other.as_mut().map_or(0, |other| {
            other.cache.refresh(&mut other.cx);
            assert_eq!(other.run("disturb"), "");
            other.cache.commit(&mut other.cx, None).unwrap();
            1
        })
    })
}

impl Process {
    fn open(engine: &Arc<Engine>, repository: &Arc<dyn Repository>, collect: Collect) -> Process {
        let schema = Schema::new(engine.image().clone(), repository.clone()).unwrap();
        let limits = Limits { stack_bytes: 512 << 10, collect, ..Limits::default() };
        let mut cx = Cx::new(engine.image().clone(), limits, 1, meanwhile);
        cx.set_output(Output::Buffer(String::new()));
        // Where everything is collected all the time, what is not needed now is not kept either.
        let bytes_max = if collect == Collect::Zeal(1) { 1 } else { 64 << 20 };
        // What comes along is of the same moment; each object shall be asked for when it is wanted.
        let options = Options { bytes_max, prefetch: Prefetch { objects_max: 0, ..Prefetch::default() } };
        let cache = Cache::open_with(&mut cx, schema, &options);
        Process { engine: engine.clone(), cx, cache }
    }

    /// What a routine prints, and how it ends if not by returning.
    fn run(&mut self, routine: &str) -> String {
        let entry = self.engine.find_entry(routine, 0).expect("there is such a routine");
        // SAFETY: the context runs the engine's image, and the routine takes nothing.
        let ended = unsafe { self.engine.call(&mut self.cx, entry, &[]) };
        let mut text = self.cx.take_output();
        if let Err(raised) = ended {
            text.push_str(&format!("{raised}\n"));
        }
        text.trim_end().to_owned()
    }
}

/// What `main` prints, and then what a session sees, in all ways to run; it must be the same in all.
fn said(main: &str) -> String {
    let text = format!(
        "{ACCOUNTS}\n{main}\ndisturb () owned(\"ann\").deposit(1) except when not_found: end end disturb\n"
    );
    let mut all = Vec::new();
    for mode in [Mode::Interpreted, Mode::Compiled] {
        let engine = load(&text, mode);
        for collect in [Collect::Checked, Collect::Zeal(1)] {
            let repository: Arc<dyn Repository> = Arc::new(Memory::new());
            let mut first = Process::open(&engine, &repository, collect);
            assert_eq!(first.run("setup"), "");
            first.cache.commit(&mut first.cx, None).unwrap();
            MEANWHILE.set(Some(first));
            let mut process = Process::open(&engine, &repository, collect);
            process.cx.set_transactions_by_program();
            let mut found = process.run("main");
            MEANWHILE.set(None);
            found.push_str(&format!("\n{}", Process::open(&engine, &repository, collect).run("show")));
            let report = repository.check(&mut |_| {}).unwrap();
            assert_eq!(report.mistakes, vec![], "{mode:?}");
            all.push((mode, collect, found));
        }
    }
    for (mode, collect, found) in &all {
        assert_eq!(*found, all[0].2, "{mode:?} {collect:?}");
    }
    all.remove(0).2
}

/// Statements as the body of `main`, which signals what they say.
fn main_of(signals: &str, body: &str) -> String {
    format!("main () {signals}\n{body}\nend main")
}

#[test]
fn the_end_of_a_transaction_commits() {
    let main = main_of(
        "signals (too_little, not_found, aborted (string))",
        "  transaction
    move(\"ann\", \"bob\", 30) resignal too_little, not_found
    move(\"ann\", \"bob\", 30) resignal too_little, not_found
  end resignal aborted
  transaction
    print(owned(\"ann\").balance().unparse()) resignal not_found
  end resignal aborted",
    );
    assert_eq!(said(&main), "40\nann 40 bob 70");
}

#[test]
fn an_exception_that_leaves_it_undoes_everything() {
    // Whether a handler takes it or not.
    let main = main_of(
        "signals (too_little, not_found)",
        "  seen: array[int] := array_new[int]()
  count: int := 0
  transaction
    seen.append(1)
    count := count + 1
    move(\"bob\", \"ann\", 30)
  end except when too_little, not_found, aborted (*): print(\"undone\") end
  % Objects are as they were; a variable is not an object.
  print(seen.length().unparse() || \" \" || count.unparse())
  transaction
    seen.append(2)
    move(\"bob\", \"ann\", 30) resignal too_little, not_found
  end except when aborted (*): end",
    );
    assert_eq!(said(&main), "undone\n0 1\ntoo_little\nann 100 bob 10");
}

#[test]
fn ways_out_of_a_transaction() {
    let main = main_of(
        "signals (not_found, aborted (string))",
        "  for i: int in 1.to(5) do
    transaction
      a: Account := owned(\"ann\") resignal not_found
      if i = 2 then
        a.deposit(1000)
        continue
      end
      a.deposit(i)
      for k: int in 1.to(3) do
        if k = 2 then break end
        a.deposit(10000)
      end
      if i = 4 then break end
    end resignal aborted
    print(i.unparse())
  end
  begin
    transaction
      owned(\"bob\").deposit(5) resignal not_found
      exit enough
    end resignal aborted
    print(\"not here\")
  end except when enough: print(\"enough\") end
  begin
    transaction
      owned(\"bob\").deposit(7) resignal not_found
      begin exit inner end except when inner: end
    end resignal aborted
  end
  transaction
    owned(\"bob\").deposit(100) resignal not_found
    for k: int in 1.to(3) do
      for name: string in root().names() do
        return
      end
    end
  end resignal aborted
  print(\"not here\")",
    );
    // ann: 100 + 1 + 1000 + 3 + 4, and 10000 for each of three transactions.
    assert_eq!(said(&main), "1\n3\nenough\nann 31108 bob 117");
}

#[test]
fn who_reads_what_others_change_is_aborted() {
    let main = main_of(
        "signals (not_found)",
        "  tries: int := 0
  done: bool := false
  while ~done do
    transaction
      a: Account := owned(\"ann\") resignal not_found
      tries := tries + 1
      a.balance()
      if tries < 3 then now_ms() end
      a.deposit(10)
      done := true
    end except when aborted (why: string):
      done := false
      print(why)
    end
  end
  print(tries.unparse())
  % A leave by `return` is a commit as well, and what comes of it is seen by the same handlers.
  transaction
    a: Account := owned(\"ann\") resignal not_found
    a.balance()
    begin
      now_ms()
      a.deposit(1000)
      return
    end except others: print(\"not here\") end
  end except when aborted (why: string): print(why) end",
    );
    let conflict = "another session has changed an object that the transaction has read (`accounts.Plain`)";
    let conflict = conflict.replace("accounts.", "");
    assert_eq!(said(&main), format!("{conflict}\n{conflict}\n3\n{conflict}\nann 113 bob 10"));
}

#[test]
fn what_nobody_handles_says_what_others_have_changed() {
    let overtaken = "  transaction
    a: Account := owned(\"ann\") resignal not_found
    a.balance()
    now_ms()
    a.deposit(10)
  end";
    let unhandled = "failure(\"unhandled exception: aborted: another session has changed an object that \
        the transaction has read (`Plain`)\")";
    assert_eq!(said(&main_of("signals (not_found)", overtaken)), format!("{unhandled}\nann 101 bob 10"));
    // An exception of the same name that no transaction ended with has no such text.
    let main =
        main_of("signals (not_found)", &format!("{overtaken} except when aborted (*): end\n  own(\"mine\")"));
    let own = "own (why: string) signals (aborted (string)) signal aborted(why) end own";
    assert_eq!(said(&format!("{own}\n{main}")), "failure(\"unhandled exception: aborted\")\nann 101 bob 10");
}

#[test]
fn what_is_read_later_must_fit_what_was_read() {
    let main = main_of(
        "signals (not_found)",
        "  transaction
    a: Account := owned(\"ann\") resignal not_found
    print(a.balance().unparse())
    now_ms()
    print(owned(\"bob\").balance().unparse()) resignal not_found
  end except when aborted (why: string): print(why) end
  transaction
    print(owned(\"ann\").balance().unparse()) resignal not_found
    print(owned(\"bob\").balance().unparse()) resignal not_found
  end except when aborted (*): end",
    );
    let stale = "another session has changed an object that the transaction has read (`Plain`)";
    assert_eq!(said(&main), format!("100\n{stale}\n101\n10\nann 101 bob 10"));
}

#[test]
fn nothing_persistent_outside() {
    let main = main_of(
        "",
        "  d: directory := root() except when failure (why: string): print(why) end
  cid: Account := new_account(7)
  seen: sequence[string] := sequence_of[string](.. \"none\")
  cid.deposit(1)
  transaction
    root().insert(\"cid\", cid)
    cid.deposit(1)
    seen := names() except when not_found: end
  end except when aborted (*): end
  % It belongs to the store now.
  print(cid.balance().unparse()) except when failure (why: string): print(why) end
  cid.deposit(1) except when failure (why: string): print(why) end
  % What never changes can be looked into anywhere, and a loop over it may have transactions.
  for name: string in seen.elements() do
    transaction
      cid.deposit(1)
      owned(name).deposit(1) except when not_found: end
      print(name || \" \" || cid.balance().unparse())
    end except when aborted (*): end
  end
  print(seen.unparse())",
    );
    assert_eq!(
        said(&main),
        "no transaction\nno transaction\nno transaction\nann 10\nbob 11\ncid 13\n[\"ann\", \"bob\", \"cid\"]\nann 101 bob 11 cid 13"
    );
}

#[test]
fn objects_outside_are_undone_and_go_on() {
    let main = main_of(
        "signals (aborted (string))",
        "  all: array[int] := array_new[int]()
  r: record[n: int] := record[n: int]{n: 0}
  kept: array[Account] := array_new[Account]()
  for i: int in 1.to(200) do
    all.append(i)
    r.n := r.n + 1
    transaction
      all.append(1000 + i)
      all[1] := i
      r.n := r.n + 1
      kept.append(new_account(i))
      kept[kept.high()].deposit(1) except when bounds: end
      if i // 2 = 0 then exit back end
    end except when back: end resignal aborted
    all.append(0 - i)
  end
  sum: int := 0
  for a: Account in kept.elements() do sum := sum + a.balance() end
  print(all.length().unparse() || \" \" || all[1].unparse() || \" \" || r.n.unparse()) except when bounds: end
  print(kept.length().unparse() || \" \" || sum.unparse())",
    );
    assert_eq!(said(&main), "500 199 300\n100 10100\nann 100 bob 10");
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let main = main_of(
        "",
        "  transaction
    h: holder := new_holder(show)
    root().insert(\"show\", h)
    owned(\"ann\").deposit(1) except when not_found: end
  end except when aborted (why: string): print(why) end",
    );
    let holder = "holder = type run () end holder
module holders exports new_holder
  Held = class implements holder
    p: proc ()
    run () p() end run
  end Held
  new_holder (p: proc ()) returns (holder) return (Held{p := p}) end new_holder
end holders";
    assert_eq!(
        said(&format!("{holder}\n{main}")),
        "an object of `Held` cannot be stored: its instance variable `p` holds a routine\nann 100 bob 10"
    );
}

#[test]
fn in_a_session_one_is_under_way() {
    let text = format!(
        "{ACCOUNTS}\n{}",
        main_of("", "  transaction\n    print(\"not here\")\n  end except when aborted (*): end")
    );
    for mode in [Mode::Interpreted, Mode::Compiled] {
        let engine = load(&text, mode);
        let repository: Arc<dyn Repository> = Arc::new(Memory::new());
        let mut session = Process::open(&engine, &repository, Collect::Checked);
        assert_eq!(session.run("main"), "failure(\"a transaction is under way already\")");
    }
}
