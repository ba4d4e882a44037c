//! The least that durable commits cost: the same bytes, written to a file and synchronised.
//!
//! Two files are measured: one that grows with each write, and one whose blocks were written
//! before, as those of a store's log. A write to the second changes no metadata.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::common::Failed;

/// The bytes of the file that was written before; its writes begin again at the start.
const LENGTH: u64 = 64 << 20;
/// The length of the steps in which a log writes.
const BLOCK: u64 = 4096;

/// A file of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It grows.
    Append,
    /// Its blocks are there.
    InPlace,
}

impl Kind {
    /// Both.
    pub const ALL: [Kind; 2] = [Kind::Append, Kind::InPlace];

    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Append => "raw append",
            Kind::InPlace => "raw in place",
        }
    }
}

/// Writes groups of so many times so many bytes, and synchronises after each group. Returns the
/// number of parts that were durable in each second.
///
/// # Errors
/// The disk refuses.
pub fn rate(folder: &Path, kind: Kind, bytes: u64, group: u64, time: Duration) -> Result<f64, Failed> {
    let path = folder.join("raw");
    let file = File::create(&path)?;
    // Whole blocks, as a log writes: a part of one would be read again.
    let length = (bytes * group).div_ceil(BLOCK) * BLOCK;
    let record = vec![0x5a_u8; length as usize];
    if kind == Kind::InPlace {
        let zeros = vec![0_u8; 1 << 20];
        for at in 0..LENGTH.max(length).div_ceil(1 << 20) {
            file.write_all_at(&zeros, at << 20)?;
        }
        file.sync_all()?;
    }
    let (mut at, mut parts) = (0, 0_u64);
    let start = Instant::now();
    while start.elapsed() < time {
        file.write_all_at(&record, at)?;
        file.sync_data()?;
        at += length;
        parts += group;
        if kind == Kind::InPlace && at + length > LENGTH {
            at = 0;
        }
    }
    let rate = parts as f64 / start.elapsed().as_secs_f64();
    std::fs::remove_file(&path)?;
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_groups_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        for kind in Kind::ALL {
            let rate = rate(folder.path(), kind, 5000, 16, Duration::from_millis(50)).unwrap();
            // One group is written at least.
            assert!(rate > 0.0, "{kind:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
