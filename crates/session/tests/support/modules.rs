//! The bodies of the fuzz targets for modules of clients.
//!
//! Whatever a module is and calls: the session goes on, the results of a run leave nothing behind,
//! and no run takes more fuel than there is.

use std::sync::OnceLock;

use bifrost_engine::Mode;
use bifrost_session::Limits;
use bifrost_wire::{Arg, Limit, ModuleNumber, Ref, Value, encode};

use crate::support::{Client, GUEST, World, tables};

/// Plays bytes as calls of all imports.
const PROBER: &str = include_str!("prober.wat");

/// Most bytes of an input.
const BYTES_MAX: usize = 4096;

/// The functions of the guest, and the words of their arguments.
const FUNCTIONS: &[(&str, &str)] = &[
    ("touch", "e 5"),
    ("add", "t 5"),
    ("try_add", "t -1"),
    ("raise_add", "t -1"),
    ("pair", "t"),
    ("pair_text", "t"),
    ("pair_released", "t"),
    ("raw", "1 -1 16"),
    ("try_raw", "1 -1 16"),
    ("same", "e"),
    ("half", "1.5"),
    ("nothing", ""),
    ("fail", "x"),
    ("command", "x"),
    ("deep", ""),
    ("grow", ""),
];

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.set(Limit::Modules, 4);
    limits.set(Limit::ModuleBytes, 1 << 16);
    limits.set(Limit::ModuleMemoryBytes, 4 << 16);
    limits.set(Limit::Fuel, 2000);
    limits.set(Limit::Futures, 200);
    limits.set(Limit::Exceptions, 20);
    limits
}

fn world() -> World {
    let limits =
        bifrost_runtime::cx::Limits { heap_bytes: 32 << 20, batch_heap_bytes: 1 << 20, ..Default::default() };
    World::of(tables(Mode::Interpreted).expect("the program is interpreted everywhere"), limits)
}

fn binary(text: &'static str, made: &'static OnceLock<Vec<u8>>) -> &'static [u8] {
    made.get_or_init(|| wat::parse_str(text).expect("a module in the text form"))
}

/// The session goes on, and its numbering is the client's.
fn goes_on(client: &mut Client) {
    assert!(!client.session.ended(), "a module has ended the session");
    let told = client.play("y = int.add 1 2\nflush y");
    assert_eq!(told, "y = 3\n");
}

/// Loads a module, and runs its functions. The input is the module itself, if it begins as one, or
/// changes of the guest: two bytes for a place and one for its new value each.
pub fn module_load(data: &[u8]) {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    let data = &data[..data.len().min(BYTES_MAX)];
    let module = match data.starts_with(b"\0asm") {
        true => data.to_vec(),
        false => {
            let mut module = binary(GUEST, &MADE).to_vec();
            for change in data.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % module.len();
                module[at] = change[2];
            }
            module
        }
    };
    let mut world = world();
    let mut client = world.client_with(limits());
    encode::module(&mut client.bytes, ModuleNumber(0), &module);
    for (function, words) in FUNCTIONS {
        let told = client.play(&format!(
            "e = lookup db DataBase\ne = DataBase.fetch e \"ann\"\nt = new_tally()\nx = const \"ab\"\n\
             r = run 0 {function} - {words}\nflush r"
        ));
        assert!(!told.contains("NotAllowed"), "{told}");
        goes_on(&mut client);
    }
}

/// Plays the input from inside a module as calls of its imports, with positions, addresses and
/// lengths as they come; and each 64 bytes of it as a command of its own. Returns the result of the
/// first, and that of a call behind all.
pub fn module_calls(data: &[u8]) -> String {
    static GUEST_MADE: OnceLock<Vec<u8>> = OnceLock::new();
    static PROBER_MADE: OnceLock<Vec<u8>> = OnceLock::new();
    let data = &data[..data.len().min(BYTES_MAX)];
    let mut world = world();
    let mut client = world.client_with(limits());
    encode::module(&mut client.bytes, ModuleNumber(0), binary(GUEST, &GUEST_MADE));
    encode::module(&mut client.bytes, ModuleNumber(1), binary(PROBER, &PROBER_MADE));
    client.record("t = lookup tally Tally");
    let object = client.reference("t");
    let probed = run(&mut client, 1, "probe", &[bytes(data), Arg::Ref(object)]);
    client.names.insert("p".to_owned(), probed);
    for command in data.chunks(64).take(16) {
        run(&mut client, 0, "command", &[bytes(command)]);
    }
    // Each run has one result, whatever its calls have: the numbering of the batch is unchanged.
    let told = client.play("y = int.add 20 22\nflush p y");
    assert!(told.contains("y = 42\n") || told.contains("y = exception"), "{told}");
    goes_on(&mut client);
    told
}

fn bytes(bytes: &[u8]) -> Arg<'_> {
    Arg::Value(Value::Bytes(bytes))
}

/// Records a run of a function; returns its result.
fn run(client: &mut Client, module: u32, function: &str, args: &[Arg<'_>]) -> Ref {
    encode::run(&mut client.bytes, ModuleNumber(module), function, None, args);
    client.next += 1;
    Ref::future(client.next - 1)
}
