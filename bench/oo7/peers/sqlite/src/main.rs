//! OO7 over SQLite in this process: `oo7-sqlite SIZE SEED FOLDER SAMPLES OP...`.
//!
//! The database has the rows of the same objects, from the same seed, in a file in FOLDER. Operations go from row to row as the
//! program in Theta goes from object to object, with prepared statements; sets of what was seen are in memory. Each run is a
//! transaction, and durable when it ends. Prints a line for each operation and temperature: its name, `cold` or `hot`, the result,
//! and the milliseconds of each run. Cold is with a new connection, hot with one that has run it before.

#[path = "../../../../../crates/cli/tests/oo7/oracle.rs"]
#[allow(dead_code)]
mod oracle;

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use oracle::{Assembly, Oracle, Random, Sizes};
use rusqlite::{Connection, OptionalExtension, Result, params};

/// Cold runs of an operation at most.
const COLD_MAX: usize = 3;

const SCHEMA: &str = "
create table module (id integer primary key, kind text, date integer, root integer, title text, manual text);
create table complex (id integer primary key, kind text, date integer, above integer);
create table base (id integer primary key, kind text, date integer, above integer);
create table private (base integer, place integer, composite integer, primary key (base, place)) without rowid;
create table shared (base integer, place integer, composite integer, primary key (base, place)) without rowid;
create table composite (id integer primary key, kind text, date integer, root integer, document integer);
create table document (id integer primary key, title text, text text, composite integer);
create table atomic (id integer primary key, kind text, date integer, x integer, y integer, document integer, composite integer);
create table connection (source integer, place integer, target integer, kind text, length integer, primary key (source, place)) without rowid;
";

const INDEXES: &str = "
create index complex_above on complex (above);
create index base_above on base (above);
create index private_composite on private (composite);
create index shared_composite on shared (composite);
create index document_title on document (title);
create index atomic_date on atomic (date);
create index connection_target on connection (target);
";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [size, seed, folder, samples, ops @ ..] = &arguments[..] else {
        eprintln!("usage: oo7-sqlite SIZE SEED FOLDER SAMPLES OP...");
        std::process::exit(2);
    };
    let numbers = (seed.parse(), samples.parse());
    let (Ok(seed), Ok(samples)) = numbers else {
        eprintln!("SEED and SAMPLES are numbers");
        std::process::exit(2);
    };
    if let Err(error) = measure(size, seed, Path::new(folder), samples, ops) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn measure(size: &str, seed: u32, folder: &Path, samples: usize, ops: &[String]) -> Result<()> {
    let file = folder.join("oo7.sqlite");
    let sizes = Sizes::named(size);
    fill(&mut open(&file)?, &Oracle::new(size, seed))?;
    for op in ops {
        let Some(run) = find(op) else { continue };
        let mut cold = Vec::new();
        let mut result = 0;
        for _ in 0..samples.min(COLD_MAX) {
            let db = open(&file)?;
            cold.push(timed(&db, &sizes, run, &mut result)?);
            undo(&db, &sizes, op, run)?;
        }
        let db = open(&file)?;
        let mut hot = Vec::new();
        for sample in 0..=samples {
            let ms = timed(&db, &sizes, run, &mut result)?;
            if sample > 0 {
                hot.push(ms);
            }
            undo(&db, &sizes, op, run)?;
        }
        for (temperature, times) in [("cold", cold), ("hot", hot)] {
            let times: Vec<String> = times.iter().map(|ms| format!("{ms:.4}")).collect();
            println!("{op} {temperature} {result} {}", times.join(" "));
        }
    }
    Ok(())
}

fn open(file: &Path) -> Result<Connection> {
    let db = Connection::open(file)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", "full")?;
    // Room for the whole database, in kibibytes.
    db.pragma_update(None, "cache_size", -4_000_000)?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

fn timed(db: &Connection, sizes: &Sizes, run: Run, result: &mut i64) -> Result<f64> {
    let start = Instant::now();
    db.execute_batch("begin")?;
    *result = run(db, sizes)?;
    db.execute_batch("commit")?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Updates are done twice, so that everything is as before.
fn undo(db: &Connection, sizes: &Sizes, op: &str, run: Run) -> Result<()> {
    if op.starts_with("T2") || op.starts_with("T3") {
        timed(db, sizes, run, &mut 0)?;
    }
    Ok(())
}

fn kind(kind: i64) -> String {
    format!("type00{kind}")
}

fn fill(db: &mut Connection, o: &Oracle) -> Result<()> {
    let id = |at: usize| at as i64 + 1;
    let all = db.transaction()?;
    all.execute_batch(SCHEMA)?;
    for (i, m) in o.modules.iter().enumerate() {
        all.prepare_cached("insert into module values (?, ?, ?, ?, ?, ?)")?
            .execute(params![id(i), kind(m.kind), m.date, id(m.root), m.title, m.manual])?;
    }
    for (i, c) in o.complexes.iter().enumerate() {
        all.prepare_cached("insert into complex values (?, ?, ?, ?)")?
            .execute(params![id(i), kind(c.kind), c.date, c.above.map(id)])?;
        debug_assert!(c.below.iter().all(|b| matches!(b, Assembly::Base(_) | Assembly::Complex(_))));
    }
    for (i, b) in o.bases.iter().enumerate() {
        all.prepare_cached("insert into base values (?, ?, ?, ?)")?
            .execute(params![id(i), kind(b.kind), b.date, id(b.above)])?;
        for (table, used) in [("private", &b.private), ("shared", &b.shared)] {
            for (place, composite) in used.iter().enumerate() {
                all.prepare_cached(&format!("insert into {table} values (?, ?, ?)"))?
                    .execute(params![id(i), place as i64, id(*composite)])?;
            }
        }
    }
    for (i, c) in o.composites.iter().enumerate() {
        let root = id(i * o.sizes.atomic);
        all.prepare_cached("insert into composite values (?, ?, ?, ?, ?)")?
            .execute(params![id(i), kind(c.kind), c.date, root, id(i)])?;
        all.prepare_cached("insert into document values (?, ?, ?, ?)")?
            .execute(params![id(i), c.title, c.text, id(i)])?;
    }
    for (i, a) in o.atomics.iter().enumerate() {
        let composite = id(i / o.sizes.atomic);
        all.prepare_cached("insert into atomic values (?, ?, ?, ?, ?, ?, ?)")?
            .execute(params![id(i), kind(a.kind), a.date, a.x, a.y, id(a.document), composite])?;
        for (place, (k, length, target)) in a.to.iter().enumerate() {
            all.prepare_cached("insert into connection values (?, ?, ?, ?, ?)")?
                .execute(params![id(i), place as i64, id(*target), kind(*k), length])?;
        }
    }
    all.execute_batch(INDEXES)?;
    all.commit()
}

type Run = fn(&Connection, &Sizes) -> Result<i64>;

fn find(op: &str) -> Option<Run> {
    Some(match op {
        "T1" => |db, _| traverse(db, Change::Nothing),
        "T2b" => |db, _| traverse(db, Change::Swap),
        "T3b" => |db, _| traverse(db, Change::Toggle),
        "T6" => |db, _| {
            let mut n = 0;
            for composite in components(db)? {
                let root: i64 = one(db, "select root from composite where id = ?", composite)?;
                one::<i64>(db, "select x from atomic where id = ?", root)?;
                n += 1;
            }
            Ok(n)
        },
        "T7" => t7,
        "Q1" => |db, sizes| {
            let (mut random, mut n) = (Random::new(1), 0);
            for _ in 0..10 {
                let part = random.below(parts(sizes)) + 1;
                one::<i64>(db, "select x from atomic where id = ?", part)?;
                n += 1;
            }
            Ok(n)
        },
        "Q2" => |db, _| since(db, 1990),
        "Q3" => |db, _| since(db, 1900),
        "Q4" => q4,
        "Q5" => |db, _| {
            one0(
                db,
                "select count(*) from base b where exists (select 1 from private p join composite c on c.id = p.composite \
                 where p.base = b.id and c.date > b.date)",
            )
        },
        "Q7" => |db, _| {
            let mut rows = db.prepare_cached("select id, x, y from atomic order by id")?;
            let mut rows = rows.query([])?;
            let mut n = 0;
            while let Some(row) = rows.next()? {
                row.get::<_, i64>(1)?;
                n += 1;
            }
            Ok(n)
        },
        "Q8" => |db, _| one0(db, "select count(*) from atomic a join document d on d.id = a.document"),
        _ => return None,
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Change {
    Nothing,
    Swap,
    Toggle,
}

fn parts(sizes: &Sizes) -> i64 {
    (sizes.total() * sizes.atomic) as i64
}

fn one<T: rusqlite::types::FromSql>(db: &Connection, sql: &str, id: i64) -> Result<T> {
    db.prepare_cached(sql)?.query_row([id], |row| row.get(0))
}

fn one0(db: &Connection, sql: &str) -> Result<i64> {
    db.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

fn ids(db: &Connection, sql: &str, id: i64) -> Result<Vec<i64>> {
    db.prepare_cached(sql)?.query_map([id], |row| row.get(0))?.collect()
}

/// The private composite parts below the design root of the first module, in order.
fn components(db: &Connection) -> Result<Vec<i64>> {
    fn walk(db: &Connection, complex: i64, found: &mut Vec<i64>) -> Result<()> {
        for sub in ids(db, "select id from complex where above = ? order by id", complex)? {
            walk(db, sub, found)?;
        }
        for base in ids(db, "select id from base where above = ? order by id", complex)? {
            found.extend(ids(db, "select composite from private where base = ? order by place", base)?);
        }
        Ok(())
    }
    let mut found = Vec::new();
    walk(db, one(db, "select root from module where id = ?", 1)?, &mut found)?;
    Ok(found)
}

fn traverse(db: &Connection, change: Change) -> Result<i64> {
    let mut n = 0;
    for composite in components(db)? {
        let root = one(db, "select root from composite where id = ?", composite)?;
        visit(db, root, &mut HashSet::new(), change, &mut n)?;
    }
    Ok(n)
}

fn visit(db: &Connection, part: i64, seen: &mut HashSet<i64>, change: Change, n: &mut i64) -> Result<()> {
    if !seen.insert(part) {
        return Ok(());
    }
    *n += 1;
    match change {
        Change::Nothing => drop(one::<i64>(db, "select x from atomic where id = ?", part)?),
        Change::Swap => {
            db.prepare_cached("update atomic set x = y, y = x where id = ?")?.execute([part])?;
        }
        Change::Toggle => {
            let sql = "update atomic set date = date + case date % 2 when 1 then 1 else -1 end where id = ?";
            db.prepare_cached(sql)?.execute([part])?;
        }
    }
    for target in ids(db, "select target from connection where source = ? order by place", part)? {
        visit(db, target, seen, change, n)?;
    }
    Ok(())
}

fn since(db: &Connection, date: i64) -> Result<i64> {
    let mut rows = db.prepare_cached("select id, date, x from atomic where date >= ? order by date, id")?;
    let mut rows = rows.query([date])?;
    let mut n = 0;
    while let Some(row) = rows.next()? {
        row.get::<_, i64>(2)?;
        n += 1;
    }
    Ok(n)
}

fn t7(db: &Connection, sizes: &Sizes) -> Result<i64> {
    let part = Random::new(1).below(parts(sizes)) + 1;
    let composite = one(db, "select composite from atomic where id = ?", part)?;
    let bases: HashSet<i64> = ids(db, "select base from private where composite = ?", composite)?.into_iter().collect();
    let mut above = HashSet::new();
    for base in &bases {
        let mut next: Option<i64> = one(db, "select above from base where id = ?", *base)?;
        while let Some(complex) = next.filter(|complex| above.insert(*complex)) {
            next = one(db, "select above from complex where id = ?", complex)?;
        }
    }
    Ok((bases.len() + above.len()) as i64)
}

fn q4(db: &Connection, sizes: &Sizes) -> Result<i64> {
    let (mut random, mut n) = (Random::new(1), 0);
    for _ in 0..10 {
        let title = format!("Composite Part {:08}", random.below(sizes.total() as i64) + 1);
        let mut found = db.prepare_cached("select composite from document where title = ?")?;
        let composite: Option<i64> = found.query_row([title], |row| row.get(0)).optional()?;
        let users = ids(db, "select base from private where composite = ?", composite.unwrap_or_default())?;
        n += users.len() as i64;
    }
    Ok(n)
}
