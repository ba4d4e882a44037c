//! The native class `index::Index`: which pages have a word, and how often.

use std::collections::HashMap;

use bifrost_native::{
    Cx, Flow, ObjectType, Proc, Raised, Ref, Signals, Struct, Text, theta_class, theta_routine,
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
    counts: HashMap<String, i64>,
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
        let mut counts = HashMap::new();
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

/// An index without pages.
#[theta_routine("index::new_index")]
pub fn new_index(_cx: &mut Cx) -> Index {
    Index::default()
}
