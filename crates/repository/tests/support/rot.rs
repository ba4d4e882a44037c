//! A disk whose sectors change by themselves: bits that rot, sectors in the place of others,
//! sectors that are lost, and older copies of sectors. A store on it must give what was written, or
//! say what is lost.

use std::collections::{BTreeMap, BTreeSet};

use bifrost_repository::embedded::log::{NAMES, WITNESS};
use bifrost_repository::record::{ClassDescriptor, Kind};
use bifrost_repository::{BatchId, Error, Mistake, Oref, Repository, go_on};

use super::disk::{SECTOR, Sim};
use super::life::{Model, open};
use super::random::Random;
use super::{commit_reading, directory, fresh, links, links_class, put};

/// A store that has ended, all that it must have, and all that it ever had.
pub struct Sound {
    pub sim: Sim,
    model: Model,
    batches: Vec<BatchId>,
    /// Every object that ever was.
    given: Vec<Oref>,
    /// The base as it was at earlier moments.
    older: Vec<Vec<u8>>,
    /// The sectors of the base that are not all zeros.
    sectors: Vec<u64>,
}

/// A way in which a disk changes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A bit is another.
    Bit,
    /// A sector or a page has the content of another place, in the same file or in another one.
    Misplaced,
    /// A sector is zeros, or bytes of nobody.
    Lost,
    /// A sector is as it was earlier.
    Older,
}

impl Damage {
    pub const ALL: [Damage; 4] = [Damage::Bit, Damage::Misplaced, Damage::Lost, Damage::Older];
}

/// The outcome of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// Nothing that is used was damaged.
    Unharmed,
    /// The store was not opened, with a reason.
    Refused,
    /// It says which objects are lost; the others are as they were.
    Told,
}

impl Sound {
    /// Makes the store.
    pub fn new(seed: u64) -> Sound {
        let sim = Sim::new(seed);
        let mut random = Random::new(seed);
        let store = open(&sim).unwrap();
        let class = store.define_class(&links_class()).unwrap();
        for version in 2..5 {
            store.define_class(&ClassDescriptor { version, kind: Kind::Native, ..links_class() }).unwrap();
        }
        let (mut given, mut older) = (vec![Oref::ROOT], Vec::new());
        let mut batches = BTreeMap::new();
        for round in 0..12 {
            let new = fresh(&*store, 12);
            given.extend(&new);
            let state = |random: &mut Random, at: i64| {
                let filling = if random.chance(12) { random.below(9000) } else { random.below(200) };
                let targets: Vec<Oref> =
                    (0..random.below(3)).map(|_| given[1 + random.below(given.len() - 1)]).collect();
                links(class, at, filling, &targets)
            };
            let creates: Vec<_> = new.iter().map(|oref| (*oref, state(&mut random, round))).collect();
            let mut writes = BTreeMap::new();
            for _ in 0..20 {
                let oref = given[1 + random.below(given.len() - 1)];
                if !new.contains(&oref) {
                    writes.insert(oref, state(&mut random, 100 + round));
                }
            }
            // All but a few stay reachable, so that a collection frees some.
            let names: Vec<String> = given.iter().map(|oref| format!("object {oref}")).collect();
            let entries: Vec<(&str, Oref)> =
                names.iter().map(String::as_str).zip(given.iter().copied()).skip(1).collect();
            let kept = entries.len() - entries.len() / 8;
            writes.insert(Oref::ROOT, directory(class, &entries[..kept]));
            let batch = BatchId { session: random.below(5) as u128, number: round as u64 + 1 };
            batches.insert(batch.session, batch);
            let writes = writes.into_iter().collect();
            let reply = Some((batch, format!("reply {round}").into()));
            commit_reading(&*store, store.head(), &[], writes, creates, reply).unwrap();
            store.install_all().unwrap();
            older.push(sim.rot("base", |bytes| bytes.clone()));
        }
        let freed = store.collect(&mut go_on).unwrap().freed;
        assert!(freed > 5);
        put(&*store, vec![], vec![]);
        store.install_all().unwrap();
        let model = Model::of(&*store, batches.values().copied()).unwrap();
        drop(store);
        let sectors = sim.rot("base", |bytes| {
            let used = |sector: &u64| {
                let at = (sector * SECTOR) as usize;
                bytes[at..bytes.len().min(at + SECTOR as usize)].iter().any(|byte| *byte != 0)
            };
            (0..bytes.len() as u64 / SECTOR).filter(used).collect()
        });
        Sound { sim, model, batches: batches.into_values().collect(), given, older, sectors }
    }

    /// Damages a copy of it, and says how that ended, or what is wrong.
    pub fn damaged(&self, damage: Damage, seed: u64) -> Result<Ended, String> {
        let mut random = Random::new(seed);
        let sim = self.sim.fork(seed);
        self.damage(&sim, damage, &mut random);
        self.examine(&sim, damage).map_err(|wrong| format!("{damage:?} {seed}: {wrong}"))
    }

    fn sector(&self, random: &mut Random) -> usize {
        (self.sectors[random.below(self.sectors.len())] * SECTOR) as usize
    }

    fn damage(&self, sim: &Sim, damage: Damage, random: &mut Random) {
        let at = self.sector(random);
        match damage {
            Damage::Bit if random.chance(10) => {
                let name = [NAMES[0], NAMES[1], WITNESS][random.below(3)];
                sim.rot(name, |bytes| {
                    let at = random.below(bytes.len());
                    bytes[at] ^= 1 << random.below(8);
                });
            }
            Damage::Bit => {
                sim.rot("base", |bytes| bytes[at + random.below(SECTOR as usize)] ^= 1 << random.below(8))
            }
            Damage::Misplaced => {
                let length = if random.chance(3) { 4096 } else { SECTOR as usize };
                let (from, at) = (self.sector(random) / length * length, at / length * length);
                let source = if random.chance(10) { NAMES[random.below(2)] } else { "base" };
                let bytes = sim.rot(source, |bytes| {
                    let mut moved = vec![0; length];
                    let there = bytes.len().saturating_sub(from).min(length);
                    moved[..there].copy_from_slice(&bytes[bytes.len().min(from)..][..there]);
                    moved
                });
                sim.rot("base", |base| base[at..at + length].copy_from_slice(&bytes));
            }
            Damage::Lost => sim.rot("base", |bytes| {
                let sector = &mut bytes[at..at + SECTOR as usize];
                match random.chance(2) {
                    true => sector.fill(0),
                    false => sector.iter_mut().for_each(|byte| *byte = random.next() as u8),
                }
            }),
            Damage::Older => {
                let older = &self.older[random.below(self.older.len())];
                let length = if random.chance(2) { 4096 } else { SECTOR as usize };
                let at = at / length * length;
                if let Some(old) = older.get(at..at + length) {
                    sim.rot("base", |bytes| bytes[at..at + length].copy_from_slice(old));
                }
            }
        }
    }

    /// Opens and reads a store on a damaged disk: it serves nothing wrong, and tells each loss.
    fn examine(&self, sim: &Sim, damage: Damage) -> Result<Ended, String> {
        let store = match open(sim) {
            Ok(store) => store,
            Err(Error::Damaged { .. }) => return Ok(Ended::Refused),
            Err(other) => return Err(format!("opening: {other}")),
        };
        if store.head() != self.model.head {
            return Err(format!("the last commit is {} and not {}", store.head(), self.model.head));
        }
        if !store.classes().iter().map(|class| &**class).eq(&self.model.classes) {
            return Err("a class is another".into());
        }
        for batch in &self.batches {
            let reply = self.model.replies.get(&batch.session).map(|(_, reply)| reply.clone());
            if store.outcome(*batch).map_err(|error| error.to_string())? != reply {
                return Err(format!("the reply of {batch:?} is another"));
            }
        }
        let mut lost = BTreeSet::new();
        for oref in &self.given {
            let wanted = self.model.objects.get(oref);
            match store.fetch(&[*oref]) {
                Ok(fetched) => {
                    let found = fetched.states[0].as_ref().map(|stored| (stored.tid, stored.bytes.clone()));
                    if found.as_ref() != wanted {
                        return Err(format!("object {oref} is {found:?} and not {wanted:?}"));
                    }
                }
                Err(Error::Object { oref: which, .. }) if which == *oref && wanted.is_some() => {
                    _ = lost.insert(which)
                }
                Err(other) => return Err(format!("object {oref}: {other}")),
            }
        }
        // The same, many at once: some are found that cannot be found alone, because a page that
        // leads to them is damaged.
        if let Ok(all) = store.fetch(&self.given) {
            for (oref, found) in self.given.iter().zip(all.states) {
                let found = found.map(|stored| (stored.tid, stored.bytes));
                if found.as_ref() != self.model.objects.get(oref) {
                    return Err(format!("object {oref} is {found:?} when all are asked for"));
                }
            }
        }
        if lost.is_empty() && damage != Damage::Older && !sim.changes().is_multiple_of(8) {
            return Ok(Ended::Unharmed);
        }
        self.check(&*store, &lost)
    }

    fn check(&self, store: &dyn Repository, lost: &BTreeSet<Oref>) -> Result<Ended, String> {
        let report = store.check(&mut |_| {}).map_err(|error| format!("the check ends: {error}"))?;
        let told: BTreeSet<Oref> = report
            .mistakes
            .iter()
            .filter_map(|mistake| match mistake {
                Mistake::Lost { oref, .. } => Some(*oref),
                _ => None,
            })
            .collect();
        // A damaged page that leads to objects is told as such.
        let pages = report.mistakes.iter().any(|mistake| matches!(mistake, Mistake::Damaged { .. }));
        if !(told == *lost || told.is_subset(lost) && pages) {
            return Err(format!("{lost:?} are lost, and the check says {told:?}"));
        }
        Ok(if lost.is_empty() { Ended::Unharmed } else { Ended::Told })
    }
}
