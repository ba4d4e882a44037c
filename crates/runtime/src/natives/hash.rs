//! Hashes: those that programs see, and those by which maps find keys.
//!
//! The hash for programs (`hash ()`) depends on the value alone, in every run. Maps use a key that
//! is drawn anew for each process, so that a client that chooses keys cannot choose where they go;
//! nothing that a program sees depends on it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use bifrost_ir::{TypeId, TypeKind};

use super::generic::{self, Step, Walk, attend};
use super::tagged;
use crate::abi::Word;
use crate::cx::Cx;
use crate::image::ElementMethod;
use crate::object;

/// A hash of a word (the finaliser of SplitMix64).
pub fn mix(word: Word) -> Word {
    let mut z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The hash that programs see, word by word.
#[derive(Default)]
struct Visible(Word);

impl Hasher for Visible {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(Word::from_le_bytes(word));
        }
        self.write_u64(bytes.len() as Word);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0.rotate_left(5) ^ word);
    }
}

/// The value that `hash ()` returns.
///
/// # Errors
/// The outcome of a user's `hash` that did not return.
pub fn visible(cx: &mut Cx, ty: TypeId, word: Word) -> Step<i64> {
    let mut hasher = Visible::default();
    feed(cx, ty, word, &mut hasher)?;
    Ok(hasher.finish() as i64)
}

/// The hash of a key of a map.
///
/// # Errors
/// As [`visible`].
pub fn keyed(cx: &mut Cx, ty: TypeId, word: Word) -> Step<Word> {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let mut hasher = KEY.build_hasher();
    feed(cx, ty, word, &mut hasher)?;
    Ok(hasher.finish())
}

/// The hash of a key of a map whose keys are words: two products with halves folded, of numbers
/// that are drawn anew for each process. Of such short keys nobody sees more than the time that
/// searches take, and this takes much less time than [`keyed`].
#[inline]
pub fn keyed_word(word: Word) -> Word {
    static KEYS: LazyLock<[Word; 4]> =
        LazyLock::new(|| [0; 4].map(|n: Word| RandomState::new().hash_one(n) | 1));
    let fold = |x: Word, y: Word| {
        let product = u128::from(x) * u128::from(y);
        product as Word ^ (product >> 64) as Word
    };
    let [a, b, c, d] = *KEYS;
    fold(fold(word ^ a, b) ^ c, d)
}

/// The hash of an object of a tagged type that never changes.
///
/// # Errors
/// As [`visible`].
pub fn of_fields(cx: &mut Cx, word: Word) -> Step<i64> {
    let mut hasher = Visible::default();
    feed_fields(cx, word, &mut hasher)?;
    Ok(hasher.finish() as i64)
}

/// The tag, and the values behind it.
fn feed_fields(cx: &mut Cx, word: Word, to: &mut impl Hasher) -> Step<()> {
    attend(cx)?;
    let _kept = cx.keep(word);
    generic::open(cx, word)?;
    to.write(tagged::tag(word).as_bytes());
    for at in 0..tagged::field_count(cx, word) {
        let (ty, value) = tagged::field(cx, word, at);
        feed(cx, ty, value, to)?;
    }
    Ok(())
}

fn feed(cx: &mut Cx, ty: TypeId, word: Word, to: &mut impl Hasher) -> Step<()> {
    let kind = cx.image().program().types.kind(ty);
    match kind {
        // Equal reals hash alike: -0.0 = 0.0.
        TypeKind::Real if f64::from_bits(word) == 0.0 => to.write_u64(0),
        k if k.is_basic() => to.write_u64(word),
        // SAFETY: the word is a string by its static type.
        TypeKind::String => to.write(unsafe { object::text(word) }.as_bytes()),
        // SAFETY: the word is bytes by its static type.
        TypeKind::Bytes => to.write(unsafe { object::byte_slice(word) }),
        TypeKind::Sequence(element) | TypeKind::List(element) => {
            let _container = cx.keep(word);
            let mut walk = Walk::new(kind, word);
            let mut count = 0;
            while let Some(value) = walk.next(cx)? {
                attend(cx)?;
                feed(cx, element, value, to)?;
                count += 1;
            }
            to.write_u64(count);
        }
        TypeKind::Struct(_) | TypeKind::OneOf(_) | TypeKind::Maybe(_) => feed_fields(cx, word, to)?,
        // By identity, as they are compared; objects keep their places. Programs do not see it.
        _ if cx.image().program().types.def(ty).actor => to.write_u64(word),
        _ => to.write_u64(generic::call(cx, ty, ElementMethod::Hash, &[word])?),
    }
    Ok(())
}
