//! Durable commits a second, beside a loop that only appends as many bytes and synchronises them.
//!
//! `cargo run --release -p bifrost-repository --example commits -- [FOLDER] [SECONDS]`: every case
//! runs so long, in turn, five times, because disks differ from moment to moment. A commit writes
//! 20 objects of 100 bytes, which no other thread writes. Neither the loop nor the store makes a
//! file longer meanwhile.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bifrost_repository::embedded::{Options, open};
use bifrost_repository::{Commit, Oref, Repository};
use bytes::Bytes;

const OBJECTS: u32 = 20;
const OBJECT_BYTES: usize = 100;
const ROUNDS: usize = 5;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or("commits-bench".into()));
    let time = Duration::from_secs_f64(arguments.next().unwrap_or("2".into()).parse()?);
    std::fs::create_dir_all(&folder)?;
    let mut results = [(); 5].map(|()| Vec::new());
    for round in 0..ROUNDS {
        results[0].push(raw(&folder.join("raw"), 1, time)?);
        results[1].push(raw(&folder.join("raw"), 16, time)?);
        for (i, threads) in [1, 4, 16].into_iter().enumerate() {
            results[2 + i].push(commits(&folder.join(format!("store{round}{threads}")), threads, time)?);
        }
    }
    std::fs::remove_dir_all(&folder)?;
    let [alone, grouped, one, four, sixteen] = &results;
    println!(
        "a commit writes {OBJECTS} objects of {OBJECT_BYTES} bytes; commits a second, median of {ROUNDS} rounds,"
    );
    println!("and the median of the ratios within rounds:");
    println!("raw append and fdatasync, one commit each   {:9.0}", median(alone.clone()));
    println!("raw append and fdatasync, 16 commits each   {:9.0}", median(grouped.clone()));
    for (threads, store) in [(1, one), (4, four), (16, sixteen)] {
        let ratio = |raw: &[f64]| median(store.iter().zip(raw).map(|(store, raw)| store / raw).collect());
        let (alone, grouped) = (ratio(alone), ratio(grouped));
        println!(
            "store, {threads:2} threads                           {:9.0}  {alone:5.2} of raw, one each; {grouped:.2} of raw, 16 each",
            median(store.clone())
        );
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Commits a second of a loop that writes the bytes of that many to a file that has them already.
fn raw(path: &Path, commits: usize, time: Duration) -> Result<f64, Failure> {
    const LENGTH: usize = 64 << 20;
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.write_all_at(&vec![0; LENGTH], 0)?;
    file.sync_all()?;
    let bytes = vec![7; OBJECTS as usize * OBJECT_BYTES * commits];
    let (start, mut count, mut at) = (Instant::now(), 0, 0);
    while start.elapsed() < time {
        file.write_all_at(&bytes, at as u64)?;
        file.sync_data()?;
        count += commits;
        at = (at + bytes.len()) % (LENGTH - bytes.len());
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// Makes both files of the log as long as they become, by a large object that is written over and
/// over.
fn lengthen(store: &dyn Repository, log_bytes: usize) -> Result<(), Failure> {
    const LARGE: usize = 4 << 20;
    let oref = store.allocate(1)?.find_map(Oref::new).ok_or("no oref was given")?;
    let reads = BTreeSet::from([oref]);
    let state = Bytes::from(vec![7; LARGE]);
    for i in 0..2 * log_bytes / LARGE + 2 {
        let new = vec![(oref, state.clone())];
        let (creates, writes) = if i == 0 { (new, vec![]) } else { (vec![], new) };
        store.commit(Commit { valid_to: store.head(), reads: &reads, writes, creates, batch: None })?;
    }
    Ok(())
}

fn commits(folder: &Path, threads: usize, time: Duration) -> Result<f64, Failure> {
    let options = Options::default();
    let store = open(folder, &options)?;
    lengthen(&store, options.store.log_bytes)?;
    let count = AtomicU64::new(0);
    let mut sets = Vec::new();
    for _ in 0..threads {
        let orefs: BTreeSet<Oref> = store.allocate(OBJECTS)?.filter_map(Oref::new).collect();
        let creates = orefs.iter().map(|oref| (*oref, Bytes::new())).collect();
        store.commit(Commit {
            valid_to: store.head(),
            reads: &orefs,
            writes: vec![],
            creates,
            batch: None,
        })?;
        sets.push(orefs);
    }
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = sets
            .iter()
            .map(|orefs| {
                scope.spawn(|| {
                    while start.elapsed() < time {
                        let states = orefs.iter().map(|oref| (*oref, Bytes::from(vec![7; OBJECT_BYTES])));
                        let writes = states.collect();
                        let (valid_to, creates) = (store.head(), vec![]);
                        store.commit(Commit { valid_to, reads: orefs, writes, creates, batch: None })?;
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok::<(), bifrost_repository::CommitError>(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    Ok(count.into_inner() as f64 / start.elapsed().as_secs_f64())
}
