//! The native class `index::Index`: which pages have a word, and how often. Its objects are stored.

use std::collections::BTreeMap;

use bifrost_native::{
    Cx, Flow, ObjectType, Parts, Persist, Proc, Raised, Ref, Signals, Stored, Struct, Text, theta_class,
    theta_routine,
};

/// `Page = type … end Page`: pages are objects of the program.
pub struct Page;

impl ObjectType for Page {
    const NAME: &'static str = "Page";
}

/// `Hit = struct[title: string, count: int]`
#[derive(Struct)]
pub struct Hit {
    title: Text,
    count: i64,
}

/// What is known of a page.
struct Entry {
    /// Keeps the page alive.
    page: Ref<Page>,
    title: Text,
    counts: BTreeMap<String, i64>,
}

/// An object of the class; it is the value behind one of the program's objects.
#[derive(Default)]
pub struct Index {
    entries: Vec<Entry>,
}

/// What `add` signals: an exception of its own, and what the methods of the page signal.
#[derive(Signals)]
enum AddSignal {
    Twice,
    Raised(Raised),
}

#[theta_class("index::Index")]
impl Index {
    fn add(&mut self, cx: &mut Cx, page: Ref<Page>) -> Result<(), AddSignal> {
        if self.entries.iter().any(|entry| entry.page == page) {
            return Err(AddSignal::Twice);
        }
        let title: Text = page.call(cx, "title", ())?;
        let words: Text = page.call(cx, "words", ())?;
        let mut counts = BTreeMap::new();
        for word in words.split_whitespace() {
            *counts.entry(word.to_lowercase()).or_default() += 1;
        }
        self.entries.push(Entry { page, title, counts });
        Ok(())
    }

    fn best(&self, _cx: &mut Cx, word: &str) -> Option<Ref<Page>> {
        self.found(word).first().map(|(entry, _)| entry.page.clone())
    }

    fn hits(&self, cx: &mut Cx, word: &str, each: &mut dyn FnMut(&mut Cx, Hit) -> Flow) {
        for (entry, count) in self.found(word) {
            if each(cx, Hit { title: entry.title.clone(), count }) == Flow::Leave {
                return;
            }
        }
    }

    fn retain(&mut self, cx: &mut Cx, wanted: Proc<fn(Ref<Page>) -> bool>) -> Result<i64, Raised> {
        let mut unwanted = Vec::new();
        for entry in &self.entries {
            if !wanted.call(cx, (entry.page.clone(),))? {
                unwanted.push(entry.page.clone());
            }
        }
        self.entries.retain(|entry| !unwanted.contains(&entry.page));
        Ok(unwanted.len() as i64)
    }
}

impl Index {
    /// The entries with a word and how often they have it, the most first. Not a method of the class: it takes no `cx`.
    fn found(&self, word: &str) -> Vec<(&Entry, i64)> {
        let word = word.to_lowercase();
        let mut found: Vec<(&Entry, i64)> =
            self.entries.iter().filter_map(|entry| Some((entry, *entry.counts.get(&word)?))).collect();
        found.sort_by_key(|(_, count)| -count);
        found
    }
}

/// How an index is stored: the pages as objects, and as bytes in the same order for each page its title, how many words it has, and each
/// word with its count. Numbers are little-endian; a text is its length and its bytes.
impl Persist for Index {
    fn encode(&self) -> Parts {
        let mut bytes = Vec::new();
        for entry in &self.entries {
            put_text(&mut bytes, &entry.title);
            put_number(&mut bytes, entry.counts.len() as u64);
            for (word, count) in &entry.counts {
                put_text(&mut bytes, word);
                put_number(&mut bytes, count.unsigned_abs());
            }
        }
        Parts { bytes, objects: self.entries.iter().map(|entry| entry.page.clone().into()).collect() }
    }

    fn decode(from: &mut Stored<'_>) -> Result<Index, String> {
        let bytes = from.bytes().to_vec();
        let mut rest = bytes.as_slice();
        let mut entries = Vec::new();
        for _ in 0..from.objects() {
            let title = take_text(&mut rest)?.into();
            let words = take_number(&mut rest)?;
            let mut counts = BTreeMap::new();
            for _ in 0..words {
                let word = take_text(&mut rest)?.to_owned();
                let count = i64::try_from(take_number(&mut rest)?).map_err(|_| "a count is too large")?;
                counts.insert(word, count);
            }
            entries.push(Entry { page: from.object()?, title, counts });
        }
        if rest.is_empty() { Ok(Index { entries }) } else { Err("there are bytes of no page".to_owned()) }
    }
}

fn put_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// The next number. Bytes may come from anywhere: a store can be loaded from a text.
fn take_number(rest: &mut &[u8]) -> Result<u64, String> {
    let (number, after) = rest.split_first_chunk().ok_or("a number is cut off")?;
    *rest = after;
    Ok(u64::from_le_bytes(*number))
}

fn take_text<'b>(rest: &mut &'b [u8]) -> Result<&'b str, String> {
    let length = usize::try_from(take_number(rest)?).map_err(|_| "a text is too long")?;
    let (text, after) = rest.split_at_checked(length).ok_or("a text is cut off")?;
    *rest = after;
    std::str::from_utf8(text).map_err(|_| "a text is no UTF-8".to_owned())
}

/// An index without pages.
#[theta_routine("index::new_index")]
pub fn new_index(_cx: &mut Cx) -> Index {
    Index::default()
}
