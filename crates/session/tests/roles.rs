//! Roles: a name or routine beyond a role is as one that nobody has given, by each command.

mod support;

use std::sync::Arc;

use bifrost_repository::Repository;
use bifrost_repository::memory::Memory;
use bifrost_session::{Limits, Names, Policy, RootNames, Tables};
use bifrost_wire::{Limit, VERSION};
use support::{Client, World, assert_text, load};

const TEXT: &str = "
counter = type   value () returns (int)   add (n: int) end counter
module counters exports new_counter, hidden_value, who, who_by_loops, search_all, search_one
  C = class implements counter
    value: int
    add (n: int) value := value + n end add
  end C
  remote new_counter () returns (counter) return (C{value := 0}) end new_counter
  % The program names an object for its client.
  remote hidden_value () returns (int) signals (not_found)
    found: any := root().lookup(\"hidden\")
    typecase found
      when counter (c): return (c.value())
      others: return (-1)
    end
  end hidden_value
  remote who () returns (string) return (caller()) end who
  remote who_by_loops () returns (string)
    s: string := \"\"
    for i: int in 1.to(3) do s := s || caller() end
    return (s)
  end who_by_loops
  remote search_all () returns (int) return (1) end search_all
  remote search_one () returns (int) return (2) end search_one
end counters
setup ()
  for name: string in elements(.. \"hidden\", \"open\", \"open.a\", \"open.b\", \"private\") do
    c: counter := new_counter()
    c.add(7)
    root().insert(name, c)
  end
  root().insert(\"open.caller\", \"(\" || caller() || \")\")
end setup
elements (all: sequence[string]) yields (string)
  for s: string in all.elements() do yield (s) end
end elements
";

fn names(patterns: &[&str]) -> Names {
    Names::of(patterns.iter().copied()).unwrap()
}

fn role(tables: &Tables, name: &str, rights: RootNames, roots: &[&str], routines: &[&str]) -> Arc<Policy> {
    Arc::new(Policy::of_role(tables, name, rights, names(roots), &names(routines)))
}

/// Clients over one repository, in each way to run the program.
fn each(test: impl Fn(&dyn Fn(&dyn Fn(&Tables) -> Arc<Policy>) -> Client)) {
    for run in support::modes() {
        for collect in support::collections() {
            let tables = load(TEXT, run).expect("all ways are linked");
            let repository: Arc<dyn Repository> = Arc::new(Memory::new());
            World::over(tables, repository.clone(), collect).set_up();
            test(&|policy| {
                let policy = policy(tables);
                let mut client = World::over(tables, repository.clone(), collect).client();
                client.numbering = Box::leak(Box::new(policy.numbering(tables).clone()));
                client.session.set_policy(policy);
                client
            });
        }
    }
}

/// A role that changes names, and may use those that begin with `open`.
fn open(tables: &Tables) -> Arc<Policy> {
    role(tables, "open", RootNames::ReadWrite, &["open", "open.*"], &["*"])
}

/// All rights, in a role.
fn admin(tables: &Tables) -> Arc<Policy> {
    role(tables, "admin", RootNames::ReadWrite, &["*"], &["*"])
}

/// Commands that try a name, by each way there is.
const TRIES: &[&str] = &[
    "a = lookup NAME\nflush a",
    "a = lookup NAME counter\nv = counter.value a\nflush a v",
    "r = root()\na = directory.lookup r \"NAME\"\nflush a",
    "r = root()\na = directory.lookup r \"NAME\"\nb = as a counter\ni = is a counter\nflush b i",
    // An operand that is a future.
    "r = root()\nn = const \"NAME\"\na = directory.lookup r n\nflush a",
    // In structures: a condition, a loop, a handler, a procedure.
    "r = root()\nf = cell bool\nt = const true\nif\nthen t\na = directory.lookup r \"NAME\"\ncell[bool].put f t\nend_if\n\
     v = cell[bool].get f\nflush v",
    "r = root()\nf = cell string\nexcept\na = directory.lookup r \"NAME\"\ncell[string].put f \"found\"\nwhen not_found\n\
     cell[string].put f \"none\"\nend_except\nv = cell[string].get f\nflush v",
    "r = root()\nf = cell int\ncell[int].put f 0\no = const 1\nforeach\ni = int.to o 3\nexcept\na = directory.lookup r \"NAME\"\nb = as a counter\n\
     v = counter.value b\ncell[int].put f v\nothers named\nend_except\nend_foreach\nv = cell[int].get f\nflush v",
    "r = root()\nprocedure find directory string -> counter\na = directory.lookup #-2 #-3\nb = as #-4 counter\nreturn #-5\n\
     end_procedure\nflush r\nx = proc 0 r \"NAME\"\nv = counter.value x\nflush v",
    // All names.
    "r = root()\nf = cell bool\nz = const false\ncell[bool].put f z\nforeach\nn = directory.names r\ne = string.equal n \"NAME\"\n\
     if\nthen e\ncell[bool].put f e\nend_if\nend_foreach\nv = cell[bool].get f\nflush v",
    "r = root()\nt = rows string string\nforeach\nn, k = directory.list r\nemit t n k\nend_foreach\nflush t",
    // Batches that are transactions.
    "t = transaction\na = lookup NAME\nflush t a",
    "t = transaction\nr = root()\na = directory.lookup r \"NAME\"\nflush t a",
    "t = transaction 3 batch 1\nr = root()\nl = rows string\nforeach\nn = directory.names r\nemit l n\nend_foreach\nflush t l",
    // A name is taken away.
    "r = root()\ndirectory.remove r \"NAME\"\nflush\nr = root()\nl = rows string\nforeach\nn = directory.names r\nemit l n\n\
     end_foreach\nflush l",
];

#[test]
fn a_name_beyond_the_role_is_as_none() {
    each(|client| {
        for (at, script) in TRIES.iter().enumerate() {
            let play = |name: &str, policy: &dyn Fn(&Tables) -> Arc<Policy>| {
                let mut client = client(policy);
                let found = client.play(&script.replace("NAME", name));
                (found.replace(name, "NAME"), client.cx.is_killed())
            };
            let (hidden, none) = (play("hidden", &open), play("zzz.no", &open));
            assert_eq!(hidden, none, "try {at}: {script}");
            // The same commands find the name for others, after these and before.
            let (found, again) = (play("hidden", &admin), play("open.a", &open));
            assert_ne!(found, none, "try {at}: {script}");
            assert_ne!(again, none, "try {at}: {script}");
            assert_eq!(play("hidden", &open), none, "try {at} again: {script}");
        }
    });
}

#[test]
fn no_name_beyond_the_role_is_given_or_taken() {
    const FAILURE: &str = "failure(\"the name is not one of those that the role of this session may use\")";
    each(|client| {
        let mut one = client(&open);
        for name in ["hidden", "zzz.no", "opens", ""] {
            let found = one.play(&format!(
                "r = root()\nc = new_counter()\nx = directory.insert r \"{name}\" c\nflush\nclear_history\nk = abort\nflush k"
            ));
            assert!(found.contains(FAILURE) && found.contains("k = nil"), "{found}");
            let found = one.play(&format!("r = root()\nx = directory.remove r \"{name}\"\nflush"));
            assert!(found.contains("not_found"), "{found}");
            one.play("clear_history\nk = abort\nflush k");
        }
        let found = one.play(
            "r = root()\nc = new_counter()\ncounter.add c 3\nx = directory.insert r \"open.new\" c\ny = directory.remove r \"open.a\"\n\
             k = commit\nflush k",
        );
        assert_text(&found, "k = nil", "names within the role");
        let list = |client: &mut Client| {
            client.play(
                "r = root()\nl = rows string\nforeach\nn = directory.names r\nemit l n\nend_foreach\nflush l",
            )
        };
        assert_text(
            &list(&mut one),
            "l = rows (\"open\") (\"open.b\") (\"open.caller\") (\"open.new\")",
            "the role's names",
        );
        let mut all = client(&admin);
        assert_text(
            &list(&mut all),
            "l = rows (\"hidden\") (\"open\") (\"open.b\") (\"open.caller\") (\"open.new\") (\"private\")",
            "all names",
        );
        assert_text(&all.play("h = hidden_value()\nflush h"), "h = 7", "it is the one of the program");
        // The program's code sees all names.
        let mut one = client(&open);
        assert_text(&one.play("h = hidden_value()\nflush h"), "h = 7", "the program's own code");
        let mut nothing = client(&|tables| role(tables, "x", RootNames::ReadOnly, &[], &["*"]));
        assert_text(&list(&mut nothing), "l = rows", "no names");
        let found = nothing.play("r = root()\nx = directory.insert r \"hidden\" \"a\"\nflush");
        assert!(found.contains("NotAllowed"), "{found}");
    });
}

#[test]
fn a_handle_that_is_guessed_is_none() {
    each(|client| {
        let mut other = client(&admin);
        other.play("a = lookup hidden\nflush a");
        let mut one = client(&open);
        for number in (0..20).map(|n| 1i64 + n).chain([1 << 20, i64::from(i32::MAX)]) {
            let found = one.play(&format!("v = counter.value #{number}\nflush v"));
            assert!(found.contains("NoSuchHandle"), "{found}");
        }
    });
}

#[test]
fn a_routine_beyond_the_role_has_no_number() {
    each(|client| {
        let reader =
            |tables: &Tables| role(tables, "reader", RootNames::ReadOnly, &["*"], &["search_*", "who"]);
        let mut one = client(&reader);
        let mut known: Vec<String> =
            one.numbering.interface().routines.iter().map(|routine| routine.name.clone()).collect();
        known.sort_unstable();
        assert_eq!(known, ["root", "search_all", "search_one", "who"]);
        assert_text(&one.play("describe"), "interface", "it is the one of the role");
        let script = "a = search_all()\nb = search_one()\nw = who()\nflush a b w";
        assert_text(&one.play(script), "a = 1\nb = 2\nw = \"reader\"", "the role's routines");
        for number in 4..20 {
            let found = one.play(&format!("v = #{number}()\nflush v"));
            assert!(
                found.contains(&format!("NoSuchRoutine: there is no routine number {number}")),
                "{found}"
            );
            let found = one.play(&format!("t = const true\nif\nthen t\nv = #{number}()\nend_if\nflush"));
            assert!(
                found.contains(&format!("NoSuchRoutine: there is no routine number {number}")),
                "{found}"
            );
            one.play("clear_history\nk = abort\nflush k");
            let found = one.play(&format!("t = transaction\nv = #{number}()\nflush v"));
            assert!(found.contains("NoSuchRoutine"), "{found}");
        }
    });
}

#[test]
fn structures_of_two_roles_call_the_routine_that_each_means() {
    // One content, or the other's number, would call another routine.
    let script = |name: &str| {
        format!(
            "f = cell string\nt = const true\nif\nthen t\nv = {name}()\ncell[string].put f v\nend_if\nx = cell[string].get f\nflush x"
        )
    };
    each(|client| {
        let two = |tables: &Tables| role(tables, "two", RootNames::ReadOnly, &["*"], &["who_by_loops"]);
        let one = |tables: &Tables| role(tables, "one", RootNames::ReadOnly, &[], &["who*"]);
        for _ in 0..2 {
            assert_text(&client(&two).play(&script("who_by_loops")), "x = \"twotwotwo\"", "two");
            assert_text(&client(&one).play(&script("who")), "x = \"one\"", "one");
            assert_text(&client(&admin).play(&script("who")), "x = \"admin\"", "admin");
            assert_text(&client(&admin).play(&script("who_by_loops")), "x = \"adminadminadmin\"", "admin");
        }
    });
}

#[test]
fn the_program_learns_the_role_of_its_client() {
    each(|client| {
        let script = "w = who()\nl = who_by_loops()\nflush w l";
        assert_text(&client(&admin).play(script), "w = \"admin\"\nl = \"adminadminadmin\"", "a role");
        assert_text(&client(&open).play(script), "w = \"open\"\nl = \"openopenopen\"", "another one");
        let without = |_: &Tables| Arc::new(Policy::of_all(RootNames::ReadOnly));
        assert_text(&client(&without).play(script), "w = \"\"\nl = \"\"", "none");
        // A batch that is run again, and one that is a transaction.
        let shipped = "t = transaction\nw = who()\nflush t w";
        assert_text(&client(&open).play(shipped), "t = nil\nw = \"open\"", "a transaction");
        // `setup` ran for nobody.
        let set_up = "c = lookup open.caller\nx = as c string\nflush x";
        assert_text(&client(&open).play(set_up), "x = \"()\"", "setup");
    });
}

#[test]
fn the_reads_of_a_transaction_do_not_tell_a_name() {
    each(|client| {
        // Both have read the directory, so both meet a change of any name.
        for name in ["hidden", "zzz.no"] {
            for read in
                [format!("a = lookup {name}"), format!("r = root()\na = directory.lookup r \"{name}\"")]
            {
                let (mut one, mut other) = (client(&open), client(&admin));
                one.play(&format!("{read}\nb = lookup open\nflush quiet b\nclear_history"));
                let found =
                    other.play("r = root()\nx = directory.insert r \"new\" \"a\"\nk = commit\nflush k");
                assert_text(&found, "k = nil", "another name");
                let found = one.play("b = lookup open\ncounter.add b 1\nk = commit\nflush k");
                assert!(found.contains("Conflict"), "{name}, {read}: {found}");
            }
        }
    });
}

#[test]
fn no_role_gets_the_stored_replies_of_another() {
    let script = "t = transaction 1 batch 5\nl = lookup open counter\nx = counter.add l 1\nv = counter.value l\nflush t v";
    each(|client| {
        assert_text(&client(&admin).play(script), "t = nil\nv = 8", "the first time");
        assert_text(&client(&admin).play(script), "t = nil\nv = 8", "it is done once");
        assert_text(&client(&open).play(script), "t = nil\nv = 9", "of another role, it is another one");
        let without = |_: &Tables| Arc::new(Policy::of_all(RootNames::ReadOnly));
        assert_text(&client(&without).play(script), "t = nil\nv = 10", "and without one");
    });
}

#[test]
fn a_session_has_the_limits_that_it_was_given() {
    let mut world = World::new(bifrost_engine::Mode::Interpreted).unwrap();
    let mut limits = Limits::default();
    limits.set(Limit::Fuel, 50);
    let mut client = world.stranger(limits);
    assert_eq!(client.hello(VERSION), "welcome 1\n");
    // No command raises them: a second `hello` is out of order.
    let found = client
        .play("f = cell int\no = const 1\nforeach\ni = int.to o 100\ncell[int].put f i\nend_foreach\nflush");
    assert!(found.contains("50") && found.contains("fuel_max"), "{found}");
    assert!(client.hello(VERSION).contains("OutOfOrder"));
}
