//! The ten scenarios of Hermitage (after Adya's phenomena), with sessions over every engine: none of them can happen. Over a
//! database the clients are sessions of two processes.

#[path = "../../repository/tests/support/cluster.rs"]
mod cluster;
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_repository::memory::Memory;
use bifrost_repository::{Repository, embedded, postgres};
use bifrost_runtime::Collect;
use support::{Client, World, load};

const ROWS: &str = "
row = type   value () returns (int)   put (n: int) end row
table = type   insert (n: int)   count (n: int) returns (int) end table
module rows exports new_row, new_table
  R = class implements row
    value: int
    put (n: int) value := n end put
  end R
  T = class implements table
    all: map[int, row]
    insert (n: int) all.store(n, new_row(n)) end insert
    count (n: int) returns (int)
      found: int := 0
      for r: row in all.values() do
        if r.value() = n then found := found + 1 end
      end
      return (found)
    end count
  end T
  remote new_row (n: int) returns (row) return (R{value := n}) end new_row
  remote new_table () returns (table) return (T{all := map_new[int, row]()}) end new_table
end rows
setup ()
  root().insert(\"a\", new_row(10))
  root().insert(\"b\", new_row(20))
  t: table := new_table()
  t.insert(1)
  root().insert(\"t\", t)
end setup
";

/// A transaction has been aborted.
#[derive(Debug, PartialEq)]
struct Aborted;

/// Clients over stores.
struct Site {
    clients: Vec<Client>,
    stores: Vec<Arc<dyn Repository>>,
    /// Whose transaction was aborted before its end.
    aborted: Vec<bool>,
}

impl Site {
    fn new(stores: Vec<Arc<dyn Repository>>) -> Site {
        let run = support::modes().into_iter().next().expect("there is a mode");
        let tables = load(ROWS, run).expect("it is linked");
        World::over(tables, stores[0].clone(), Collect::Checked).set_up();
        let mut site = Site { clients: Vec::new(), stores, aborted: vec![false; 3] };
        site.meet();
        for number in 0..3 {
            let mut world =
                World::over(tables, site.stores[number % site.stores.len()].clone(), Collect::Checked);
            let mut client = world.client();
            client.play("a = lookup a\nb = lookup b\nt = lookup t\nc = commit\nflush a b t c");
            site.clients.push(client);
        }
        site
    }

    /// Waits until all processes know the same commits.
    fn meet(&self) {
        let start = Instant::now();
        while self.stores.iter().any(|store| store.head() != self.stores[0].head()) {
            assert!(start.elapsed() < Duration::from_secs(20), "processes hear of each other");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What the last line of a script gave.
    fn play(&mut self, client: usize, line: &str) -> Result<Option<i64>, Aborted> {
        self.meet();
        if self.aborted[client] {
            return Err(Aborted);
        }
        let said = self.clients[client].play(&format!("x = {line}\nflush x"));
        if said.contains("Conflict") {
            self.aborted[client] = true;
            return Err(Aborted);
        }
        let value = said.lines().find_map(|line| line.strip_prefix("x = "));
        Ok(value.unwrap_or_else(|| panic!("{line}: {said}")).parse().ok())
    }

    fn get(&mut self, client: usize, row: &str) -> Result<i64, Aborted> {
        self.play(client, &format!("row.value {row}")).map(Option::unwrap)
    }

    fn put(&mut self, client: usize, row: &str, value: i64) -> Result<(), Aborted> {
        self.play(client, &format!("row.put {row} {value}")).map(|_| ())
    }

    fn count(&mut self, client: usize, value: i64) -> Result<i64, Aborted> {
        self.play(client, &format!("table.count t {value}")).map(Option::unwrap)
    }

    fn insert(&mut self, client: usize, value: i64) -> Result<(), Aborted> {
        self.play(client, &format!("table.insert t {value}")).map(|_| ())
    }

    fn commit(&mut self, client: usize) -> Result<(), Aborted> {
        let done = self.play(client, "commit").map(|_| ());
        self.aborted[client] = false;
        done
    }

    fn abort(&mut self, client: usize) {
        self.play(client, "abort").unwrap();
    }

    /// The rows as they are now.
    fn now(&mut self) -> [i64; 2] {
        // A transaction that has read nothing yet begins with what is known.
        let rows = [self.get(2, "a"), self.get(2, "b")].map(Result::unwrap);
        self.commit(2).unwrap();
        rows
    }
}

type Scenario = (&'static str, fn(&mut Site));

const SCENARIOS: [Scenario; 10] = [
    ("G0: writes in a circle", |site| {
        site.put(0, "a", 11).unwrap();
        site.put(1, "a", 12).unwrap();
        site.put(0, "b", 21).unwrap();
        site.commit(0).unwrap();
        _ = site.put(1, "b", 22);
        assert_eq!(site.commit(1), Err(Aborted));
        assert_eq!(site.now(), [11, 21]);
    }),
    ("G1a: reading what is aborted", |site| {
        site.put(0, "a", 101).unwrap();
        assert_eq!(site.get(1, "a"), Ok(10));
        site.abort(0);
        assert_eq!(site.get(1, "a"), Ok(10));
        site.commit(1).unwrap();
        assert_eq!(site.now(), [10, 20]);
    }),
    ("G1b: reading what is not final", |site| {
        site.put(0, "a", 101).unwrap();
        assert_eq!(site.get(1, "a"), Ok(10));
        site.put(0, "a", 11).unwrap();
        site.commit(0).unwrap();
        assert_ne!(site.get(1, "a"), Ok(101));
        _ = site.commit(1);
        assert_eq!(site.now(), [11, 20]);
    }),
    ("G1c: information in a circle", |site| {
        site.put(0, "a", 11).unwrap();
        site.put(1, "b", 22).unwrap();
        assert_eq!(site.get(0, "b"), Ok(20));
        assert_eq!(site.get(1, "a"), Ok(10));
        site.commit(0).unwrap();
        assert_eq!(site.commit(1), Err(Aborted));
        assert_eq!(site.now(), [11, 20]);
    }),
    ("OTV: a transaction that vanishes", |site| {
        site.put(0, "a", 11).unwrap();
        site.put(0, "b", 19).unwrap();
        site.put(1, "a", 12).unwrap();
        site.commit(0).unwrap();
        assert_eq!(site.get(2, "a"), Ok(11));
        _ = site.put(1, "b", 18);
        assert_eq!(site.get(2, "b"), Ok(19));
        assert_eq!(site.commit(1), Err(Aborted));
        assert_eq!([site.get(2, "a"), site.get(2, "b")], [Ok(11), Ok(19)]);
        site.commit(2).unwrap();
        assert_eq!(site.now(), [11, 19]);
    }),
    ("PMP: what a predicate found changes", |site| {
        assert_eq!(site.count(0, 30), Ok(0));
        site.insert(1, 30).unwrap();
        site.commit(1).unwrap();
        assert_ne!(site.count(0, 30), Ok(1));
        _ = site.commit(0);
        assert_eq!(site.count(0, 30), Ok(1));
    }),
    ("P4: an update that is lost", |site| {
        assert_eq!(site.get(0, "a"), Ok(10));
        assert_eq!(site.get(1, "a"), Ok(10));
        site.put(0, "a", 11).unwrap();
        site.put(1, "a", 12).unwrap();
        site.commit(0).unwrap();
        assert_eq!(site.commit(1), Err(Aborted));
        assert_eq!(site.now(), [11, 20]);
    }),
    ("G-single: a read that is skewed", |site| {
        assert_eq!(site.get(0, "a"), Ok(10));
        assert_eq!([site.get(1, "a"), site.get(1, "b")], [Ok(10), Ok(20)]);
        site.put(1, "a", 12).unwrap();
        site.put(1, "b", 18).unwrap();
        site.commit(1).unwrap();
        assert_ne!(site.get(0, "b"), Ok(18));
        _ = site.commit(0);
        assert_eq!(site.now(), [12, 18]);
    }),
    ("G2-item: writes that are skewed", |site| {
        for client in [0, 1] {
            assert_eq!([site.get(client, "a"), site.get(client, "b")], [Ok(10), Ok(20)]);
        }
        site.put(0, "a", 11).unwrap();
        site.put(1, "b", 21).unwrap();
        site.commit(0).unwrap();
        assert_eq!(site.commit(1), Err(Aborted));
        assert_eq!(site.now(), [11, 20]);
    }),
    ("G2: writes skewed by a predicate", |site| {
        for client in [0, 1] {
            assert_eq!(site.count(client, 30), Ok(0));
        }
        site.insert(0, 30).unwrap();
        site.insert(1, 30).unwrap();
        site.commit(0).unwrap();
        assert_eq!(site.commit(1), Err(Aborted));
        assert_eq!(site.count(1, 30), Ok(1));
    }),
];

fn each(stores: impl Fn() -> Vec<Arc<dyn Repository>>) {
    for (name, scenario) in SCENARIOS {
        println!("{name}");
        let mut site = Site::new(stores());
        scenario(&mut site);
        assert_eq!(site.stores[0].check(&mut |_| {}).unwrap().mistakes, vec![], "{name}");
    }
}

#[test]
fn in_memory() {
    each(|| vec![Arc::new(Memory::new())]);
}

#[test]
fn in_files() {
    let folder = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    each(|| {
        count.set(count.get() + 1);
        let folder = folder.path().join(count.get().to_string());
        vec![Arc::new(embedded::open(&folder, &embedded::Options::default()).unwrap())]
    });
}

#[test]
fn in_a_database() {
    let options =
        postgres::Options { poll_interval: Duration::from_millis(2), ..postgres::Options::default() };
    each(|| {
        let address = cluster::cluster().fresh().parse().unwrap();
        let store = |_| Arc::new(postgres::open(&address, &options).unwrap()) as Arc<dyn Repository>;
        (0..2).map(store).collect()
    });
}
