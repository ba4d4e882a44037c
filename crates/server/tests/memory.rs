//! Stores that only one process has free by themselves what nothing leads to any more; those in memory are bounded.

#[path = "support/lamp.rs"]
mod lamp;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_cache::{Cache, NotCommitted};
use bifrost_engine::{Engine, Mode, Run};
use bifrost_native::Registry;
use bifrost_repository::Place;
use bifrost_runtime::Limits;
use bifrost_server::objects::Objects;
use bifrost_server::{Space, program};
use bifrost_theta::{Options, Sources};
use lamp::with_lamps;

const AT_MOST: Duration = Duration::from_secs(60);
/// Most bytes of the store.
const BYTES_MAX: u64 = 2 << 20;
/// About how many bytes a chunk of the program has.
const CHUNK_BYTES: u64 = 8 * 1000;

const CHUNKS: &str = "
chunks = type   add ()   replace ()   clear ()   count () returns (int) end chunks
module all exports new_chunks
  C = class implements chunks
    all: array[array[int]]
    add () all.append(array_fill[int](1, 1000, 4611686018427387904)) end add
    replace () all.clear() add() end replace
    clear () all.clear() end clear
    count () returns (int) return (all.length()) end count
  end C
  new_chunks () returns (chunks) return (C{all := array_new[array[int]]()}) end new_chunks
end all
the () returns (chunks)
  found: any := root().lookup(\"all\") except when not_found: signal failure(\"nothing\") end
  typecase found when chunks (c): return (c) others: end
  signal failure(\"no chunks\")
end the
setup () root().insert(\"all\", new_chunks()) end setup
add () the().add() end add
replace () the().replace() end replace
clear () the().clear() end clear
";

fn load(text: &str, registry: &Registry) -> Arc<Engine> {
    let mut sources = Sources::new();
    sources.add("main.theta", text);
    program::load_sources_with(sources, &Options::default(), Run::kept(Mode::Compiled), registry)
        .unwrap_or_else(|e| panic!("{e}"))
}

fn open(engine: Arc<Engine>) -> Result<Objects, String> {
    open_at(engine, &Place::Memory { bytes_max: BYTES_MAX })
}

fn open_at(engine: Arc<Engine>, place: &Place) -> Result<Objects, String> {
    Objects::open(engine, place, Limits::default(), bifrost_cache::Options::default(), None, None, None)
        .map_err(|error| error.to_string())
}

struct Session(Arc<Space>, Cache);

impl Session {
    fn of(objects: &Objects) -> Session {
        let (space, cache) = objects.space().unwrap();
        Session(space, cache)
    }

    /// A routine as a transaction.
    fn run(&self, routine: &str) -> Result<(), NotCommitted> {
        let engine = self.0.engine();
        let entry = engine.find_entry(routine, 0).unwrap();
        let mut cx = self.0.lock();
        self.1.refresh(&mut cx);
        // SAFETY: the context runs this engine's image, and the routine takes nothing.
        unsafe { engine.call(&mut cx, entry, &[]) }.unwrap();
        let done = self.1.commit(&mut cx, None).map(|_| ());
        // What is in its heap the session holds.
        cx.collect();
        done
    }

    /// The same, as often as there is no room yet.
    fn run_when_there_is_room(&self, routine: &str) {
        let until = Instant::now() + AT_MOST;
        while let Err(error) = self.run(routine) {
            assert!(error.to_string().contains("the limit is 2097152"), "{error}");
            assert!(Instant::now() < until, "{error}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn what_nothing_leads_to_is_freed_beside_sessions() {
    let objects = open(load(CHUNKS, &Registry::standard())).unwrap();
    let (one, other) = (Session::of(&objects), Session::of(&objects));
    let times = 10 * BYTES_MAX / CHUNK_BYTES;
    for n in 0..times {
        if n % 2 == 0 { &one } else { &other }.run_when_there_is_room("replace");
        assert!(objects.gauges().used_bytes().unwrap() <= BYTES_MAX);
    }
    // Nobody commits any more, and it goes all the same, as soon as there was enough of it.
    let until = Instant::now() + AT_MOST;
    while objects.gauges().used_bytes().unwrap() > BYTES_MAX / 2 + CHUNK_BYTES {
        assert!(Instant::now() < until, "{:?}", objects.gauges());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn folders_are_collected_too() {
    let folder = tempfile::tempdir().unwrap();
    let large = CHUNKS.replace("1, 1000, 46", "1, 200000, 46");
    let objects =
        open_at(load(&large, &Registry::standard()), &Place::Folder(folder.path().join("db"))).unwrap();
    let session = Session::of(&objects);
    // About 1.6 MB each: far more than what is tolerated before the first collection.
    let until = Instant::now() + AT_MOST;
    while objects.gauges().collections == 0 {
        session.run("replace").unwrap();
        assert!(Instant::now() < until, "{:?}", objects.gauges());
    }
    while objects.gauges().used_bytes().unwrap() > 32 << 20 {
        assert!(Instant::now() < until, "{:?}", objects.gauges());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_store_that_is_full_says_so_and_can_be_made_emptier() {
    let objects = open(load(CHUNKS, &Registry::standard())).unwrap();
    let session = Session::of(&objects);
    let mut added = 0;
    let error = loop {
        match session.run("add") {
            Ok(()) => added += 1,
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.starts_with("the size of the store's objects, in bytes, is "), "{error}");
    assert!(error.ends_with("; the limit is 2097152"), "{error}");
    assert!(added > BYTES_MAX / 2 / CHUNK_BYTES && added < BYTES_MAX / CHUNK_BYTES * 8, "{added}");
    session.run("clear").unwrap();
    session.run_when_there_is_room("add");
}

const LAMPS: &str = r#"
lamp = type light () returns (bool) end lamp
NativeLamp = class native "test::Lamp" implements lamp end NativeLamp
native "test::new_lamp" new_lamp () returns (NativeLamp)
setup () root().insert("lamp", new_lamp()) end setup
"#;

#[test]
fn a_native_that_setup_puts_where_it_would_be_stored_is_told_at_the_start() {
    let registry = with_lamps(Registry::standard());
    assert_eq!(
        open(load(LAMPS, &registry)).unwrap_err(),
        "the changes of `setup` are not stored: an object of `NativeLamp` cannot be stored: it is native, \
            and \
            not persistent: implement \
         `Persist` for its class and register it with `with_persistent_class`, or keep it unreachable from \
         the root directory"
    );
    // Elsewhere it needs nothing.
    let beside = LAMPS.replace("root().insert(\"lamp\", new_lamp())", "new_lamp().light()");
    open(load(&beside, &registry)).unwrap();
}
