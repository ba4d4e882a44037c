//! The native actor `thumbnails::Thumbnails`: makes pictures smaller.

use std::io::Cursor;
use std::sync::atomic::{AtomicI64, Ordering};

use bifrost_native::{Bytes, Signals, Struct, Task, Text, theta_actor};
use image::{ImageError, ImageFormat, ImageReader, Limits};

/// The largest side of a thumbnail, in pixels.
const SIDE_MAX: i64 = 1024;

/// The largest side of a picture that is read, in pixels.
const PICTURE_SIDE_MAX: u32 = 20_000;

/// Most bytes that a picture takes while it is read.
const PICTURE_BYTES_MAX: u64 = 256 << 20;

/// Makes thumbnails. Methods run on tasks, four at once: the work keeps a processor busy, and
/// nodes and sessions go on meanwhile.
#[derive(Debug)]
pub struct Thumbnails {
    made: AtomicI64,
}

/// A small copy.
#[derive(Debug, Struct)]
struct Thumbnail {
    width: i64,
    height: i64,
    png: Bytes,
}

/// The exceptions of `shrink`.
#[derive(Debug, Signals)]
enum ShrinkSignal {
    NoPicture(Text),
    BadSide(i64),
}

#[theta_actor("thumbnails::Thumbnails", concurrency = 4)]
impl Thumbnails {
    fn new(_task: &Task) -> Thumbnails {
        Thumbnails { made: AtomicI64::new(0) }
    }

    fn shrink(&self, _task: &Task, picture: &[u8], side: i64) -> Result<Thumbnail, ShrinkSignal> {
        if !(1..=SIDE_MAX).contains(&side) {
            return Err(ShrinkSignal::BadSide(SIDE_MAX));
        }
        let thumbnail = small(picture, side as u32)
            .map_err(|why| ShrinkSignal::NoPicture(Text::from(why.to_string())))?;
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(thumbnail)
    }

    fn made(&self, _task: &Task) -> i64 {
        self.made.load(Ordering::Relaxed)
    }
}

/// Reads a picture of a stranger within limits, and makes it smaller.
fn small(picture: &[u8], side: u32) -> Result<Thumbnail, ImageError> {
    let mut reader = ImageReader::new(Cursor::new(picture)).with_guessed_format()?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(PICTURE_SIDE_MAX);
    limits.max_image_height = Some(PICTURE_SIDE_MAX);
    limits.max_alloc = Some(PICTURE_BYTES_MAX);
    reader.limits(limits);
    let picture = reader.decode()?;
    let is_small = picture.width().max(picture.height()) <= side;
    let picture = if is_small { picture } else { picture.thumbnail(side, side) };
    let mut png = Vec::new();
    picture.write_to(&mut Cursor::new(&mut png), ImageFormat::Png)?;
    Ok(Thumbnail {
        width: i64::from(picture.width()),
        height: i64::from(picture.height()),
        png: Bytes::from(png),
    })
}
