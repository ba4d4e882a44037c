//! The check of a whole store: reads it to find mistakes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::{ClassDescriptor, Kind, Reference, Value, class_of, walk, walk_refs};
use crate::store::Store;
use crate::store::base::{Base, Journal, Scanned};
use crate::store::marks::{Bits, Marks};
use crate::{ClassNumber, Error, Mistake, Oref, Progress, Report, Repository, Stored, Tid};

const CHUNK: usize = 256;

/// All classes by number.
type Definitions = [Arc<ClassDescriptor>];

/// A class for each oref, in pages, because orefs are dense; 0 where no object is.
#[derive(Default)]
struct ClassesByOref {
    pages: BTreeMap<u64, Box<[u32; ClassesByOref::PAGE]>>,
}

impl ClassesByOref {
    const PAGE: usize = 1024;

    fn set(&mut self, oref: Oref, class: ClassNumber) {
        let (page, at) = (oref.get() / Self::PAGE as u64, oref.get() as usize % Self::PAGE);
        self.pages.entry(page).or_insert_with(|| Box::new([0; Self::PAGE]))[at] = class.0;
    }

    fn get(&self, oref: Oref) -> u32 {
        let (page, at) = (oref.get() / Self::PAGE as u64, oref.get() as usize % Self::PAGE);
        self.pages.get(&page).map_or(0, |page| page[at])
    }
}

impl<B: Base, J: Journal> Store<B, J> {
    pub(super) fn check_alone(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
        // Nothing is freed meanwhile.
        let _alone = self.maintenance.lock();
        let mut report =
            check_all(self, &|from, limit| self.scan_merged(from, limit), Garbage::Whole, progress)?;
        let mut wrong = self.base.examine()?;
        wrong.extend(self.journal.lock().examine()?);
        report.mistakes.extend(wrong.into_iter().map(|what| Mistake::Damaged { what }));
        Ok(report)
    }
}

/// The garbage that an engine leaves when it ends in the middle of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    /// All of it, or nothing.
    Whole,
    /// A part, which may refer to freed objects.
    HalfFreed,
}

/// The walk of a check over the objects.
type Scan<'s> = dyn Fn(Oref, usize) -> Result<Scanned, Error> + 's;

/// Goes over all objects twice: for their classes, then for their references.
pub(crate) fn check_all(
    store: &dyn Repository,
    scan: &Scan<'_>,
    garbage: Garbage,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    let mut report = Report::default();
    let mut classes = ClassesByOref::default();
    let of = store.info()?.objects;
    let mut lost = Bits::default();
    for_all(store, scan, |oref, state, _| {
        match state {
            Ok(stored) => {
                if let Ok(class) = class_of(&stored.bytes) {
                    classes.set(oref, class);
                }
            }
            Err(error) => {
                lost.insert(oref);
                if report.mistakes.len() < Report::MISTAKES_MAX {
                    report.mistakes.push(lost_object(oref, error));
                }
            }
        }
        Ok(())
    })?;
    if classes.get(Oref::ROOT) == 0 && !lost.contains(Oref::ROOT) {
        report.mistakes.push(Mistake::NoRoot);
    }
    let mut by_class = BTreeMap::new();
    for_all(store, scan, |oref, state, known| {
        // Told already.
        let Ok(stored) = state else { return Ok(()) };
        report.objects += 1;
        report.bytes += stored.bytes.len() as u64;
        if let Ok(class) = class_of(&stored.bytes) {
            *by_class.entry(class).or_insert(0) += 1;
        }
        check_object(store, (oref, &stored), known, &classes, &lost, &mut report)?;
        if report.objects.is_multiple_of(CHUNK as u64) {
            progress(Progress { done: report.objects, of: of.max(report.objects) });
        }
        Ok(())
    })?;
    let is_dangling = |mistake: &Mistake| matches!(mistake, Mistake::Dangling { .. });
    if garbage == Garbage::HalfFreed && report.mistakes.iter().any(is_dangling) {
        let reached = reached(store)?;
        report.mistakes.retain(|mistake| match mistake {
            Mistake::Dangling { from, .. } => reached.contains(*from),
            _ => true,
        });
    }
    progress(Progress { done: report.objects, of: report.objects });
    report.by_class = by_class.into_iter().collect();
    Ok(report)
}

/// Returns the mistake of an object that cannot be read.
fn lost_object(oref: Oref, error: Error) -> Mistake {
    let what = match error {
        Error::Object { what, .. } => what.to_owned(),
        Error::Damaged { what } => what,
        other => other.to_string(),
    };
    Mistake::Lost { oref, what }
}

/// Returns the objects to which the root directory leads.
fn reached(store: &dyn Repository) -> Result<Bits, Error> {
    let mut marks = Marks::default();
    marks.reach(Oref::ROOT);
    while let Some(chunk) = marks.next_grey(CHUNK) {
        let states = store.fetch(&chunk)?.states;
        let classes = store.classes();
        for (oref, stored) in chunk.into_iter().zip(states) {
            marks.scanned.insert(oref);
            if let Some(stored) = stored {
                // A record that cannot be read is a mistake already.
                let _ = walk_refs(&stored.bytes, &classes[..], |target| marks.reach(target));
            }
        }
    }
    Ok(marks.reached)
}

fn for_all(
    store: &dyn Repository,
    scan: &Scan<'_>,
    mut each: impl FnMut(Oref, Result<Stored, Error>, &Definitions) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut from = Some(Oref::ROOT);
    while let Some(start) = from {
        let chunk = scan(start, CHUNK)?;
        from = chunk.last().and_then(|(last, _)| Oref::new(last.get() + 1));
        // Asked after the objects, so that theirs are among them.
        let classes = store.classes();
        chunk.into_iter().try_for_each(|(oref, state)| each(oref, state, &classes))?;
    }
    Ok(())
}

fn check_object(
    store: &dyn Repository,
    (oref, stored): (Oref, &Stored),
    classes: &Definitions,
    known: &ClassesByOref,
    lost: &Bits,
    report: &mut Report,
) -> Result<(), Error> {
    let room = Report::MISTAKES_MAX.saturating_sub(report.mistakes.len());
    let mut mistakes = Vec::new();
    let head = store.head();
    if stored.tid > head || stored.tid == Tid::NONE {
        mistakes.push(Mistake::Future { oref, tid: stored.tid, head });
    }
    let mut suspects = Vec::new();
    let walked = walk(&stored.bytes, classes, |value| {
        if let Value::Ref(Reference::Object { oref: to, class, .. }) = value {
            report.references += 1;
            // Of an object that is lost nothing more is told.
            if known.get(to) != class.0 && !lost.contains(to) {
                suspects.push((to, class));
            }
        }
    });
    if let Err(source) = walked {
        mistakes.push(Mistake::Record { oref, source });
    }
    // Objects created since the first time over are not known yet.
    for (to, said) in suspects {
        let mut found = store.fetch(&[oref, to])?.states;
        let target = found.pop().flatten();
        // Nor are objects that others write or free meanwhile.
        if found.pop().flatten().is_none_or(|now| now.tid != stored.tid) {
            continue;
        }
        match target {
            None => mistakes.push(Mistake::Dangling { from: oref, to }),
            Some(target) => match class_of(&target.bytes) {
                // The target of a reference may have been written since, as one of its class as it
                // is now.
                Ok(is) if is != said && !are_alike(classes, is, said) => {
                    mistakes.push(Mistake::Class { from: oref, to, said, is })
                }
                _ => {}
            },
        }
    }
    report.mistakes.extend(mistakes.into_iter().take(room));
    Ok(())
}

/// True if references to objects of the one class may lead to objects of the other: a reference
/// tells how much room the object takes.
fn are_alike(classes: &Definitions, one: ClassNumber, other: ClassNumber) -> bool {
    let class = |number: ClassNumber| classes.get((number.0 as usize).checked_sub(1)?);
    match (class(one), class(other)) {
        (Some(one), Some(other)) => {
            one.name == other.name || matches!((&one.kind, &other.kind), (Kind::Object(_), Kind::Object(_)))
        }
        _ => false,
    }
}
