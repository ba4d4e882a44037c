//! The native actor that reads slowly, as the third test of the paper has it (004 section 6.3).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bifrost_native::{Signals, Task, theta_actor};

/// The folder whose files are read.
#[derive(Clone, Debug)]
pub struct DiskFolder(pub PathBuf);

/// The most bytes of a read.
const READ_BYTES_MAX: usize = 64 << 20;

/// `bench.Disk`: files that are slow to read.
#[derive(Debug)]
pub struct Disk {
    folder: Option<PathBuf>,
}

/// The exceptions of a read.
#[derive(Signals)]
enum ReadSignal {
    NotFound,
}

#[theta_actor("bench::Disk", concurrency = 0)]
impl Disk {
    fn new(task: &Task) -> Disk {
        Disk { folder: task.settings::<DiskFolder>().map(|folder| folder.0) }
    }

    fn read(
        &self,
        _task: &Task,
        name: &str,
        at: i64,
        most: i64,
        compute_us: i64,
        block_us: i64,
    ) -> Result<Vec<u8>, ReadSignal> {
        // A name leads nowhere else.
        let folder = self.folder.as_ref().filter(|_| !name.contains('/') && name != "..");
        let path = folder.ok_or(ReadSignal::NotFound)?.join(name);
        let micros = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
        let start = Instant::now();
        while start.elapsed() < micros(compute_us) {
            std::hint::spin_loop();
        }
        if block_us > 0 {
            std::thread::sleep(micros(block_us));
        }
        let at = u64::try_from(at - 1).map_err(|_| ReadSignal::NotFound)?;
        let mut bytes = vec![0; usize::try_from(most).unwrap_or(0).min(READ_BYTES_MAX)];
        let read = File::open(path).and_then(|file| file.read_at(&mut bytes, at));
        bytes.truncate(read.map_err(|_| ReadSignal::NotFound)?);
        Ok(bytes)
    }

    fn nothing(&self, _task: &Task) -> i64 {
        1
    }
}
