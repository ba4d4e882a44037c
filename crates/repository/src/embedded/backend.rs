//! The file below redb, and one that only remembers the bytes written to it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;

use crate::embedded::disk::DiskFile;

/// A file as redb wants it.
#[derive(Debug)]
pub struct Backend(pub Arc<dyn DiskFile>);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read(&*self.0, offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }
}

/// Reads, and gives zeros behind the end: only a damaged reference leads there, and redb would take
/// a failure for one of the disk, after which it reads nothing any more.
fn read(file: &dyn DiskFile, offset: u64, out: &mut [u8]) -> io::Result<()> {
    match file.read_at(offset, out) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let there = file.len()?.saturating_sub(offset).min(out.len() as u64) as usize;
            out[there..].fill(0);
            if there > 0 { file.read_at(offset, &mut out[..there]) } else { Ok(()) }
        }
        result => result,
    }
}

const BLOCK: u64 = 4096;

/// A file that is read and never changed: written bytes stay in memory, and are gone with it.
#[derive(Debug)]
pub struct Overlay {
    below: Arc<dyn DiskFile>,
    over: Mutex<Over>,
}

#[derive(Debug)]
struct Over {
    length: u64,
    /// Blocks that were written, by their numbers.
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    /// One over a file.
    pub fn new(below: Arc<dyn DiskFile>) -> io::Result<Overlay> {
        let length = below.len()?;
        Ok(Overlay { below, over: Mutex::new(Over { length, blocks: BTreeMap::new() }) })
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.over.lock().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let over = self.over.lock();
        read(&*self.below, offset, out)?;
        let end = offset + out.len() as u64;
        for (number, block) in over.blocks.range(offset / BLOCK..end.div_ceil(BLOCK)) {
            let (start, stop) = (offset.max(number * BLOCK), end.min((number + 1) * BLOCK));
            let within = (start - number * BLOCK) as usize..(stop - number * BLOCK) as usize;
            out[(start - offset) as usize..(stop - offset) as usize].copy_from_slice(&block[within]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut over = self.over.lock();
        over.length = len;
        over.blocks.split_off(&len.div_ceil(BLOCK));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut over = self.over.lock();
        let end = offset + data.len() as u64;
        for number in offset / BLOCK..end.div_ceil(BLOCK) {
            let block = match over.blocks.remove(&number) {
                Some(block) => block,
                None => {
                    let mut block = vec![0; BLOCK as usize];
                    read(&*self.below, number * BLOCK, &mut block)?;
                    block
                }
            };
            let block = over.blocks.entry(number).or_insert(block);
            let (start, stop) = (offset.max(number * BLOCK), end.min((number + 1) * BLOCK));
            let within = (start - number * BLOCK) as usize..(stop - number * BLOCK) as usize;
            block[within].copy_from_slice(&data[(start - offset) as usize..(stop - offset) as usize]);
        }
        over.length = over.length.max(end);
        Ok(())
    }
}
