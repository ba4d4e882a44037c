//! Measures of the text of doc comments and documents: words, sentences, lines.

use std::ops::Range;

/// A doc comment, or a paragraph of a document: where it begins, and its text without markers.
#[derive(Clone, Debug)]
pub struct Paragraph {
    /// The file.
    pub path: String,
    /// The first line, from 1.
    pub line: usize,
    /// The text in one line.
    pub text: String,
}

/// The paragraphs of the doc comments of a Rust source, without code blocks and tables.
pub fn of_source(path: &str, source: &str) -> Vec<Paragraph> {
    let lines = source.lines().map(|line| {
        let line = line.trim_start();
        // Four slashes are no doc comment.
        let text = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?;
        (!text.starts_with('/')).then_some(text)
    });
    paragraphs(path, lines)
}

/// The paragraphs of a document in Markdown, without code blocks and tables.
pub fn of_document(path: &str, document: &str) -> Vec<Paragraph> {
    paragraphs(path, document.lines().map(Some))
}

/// Joins lines to paragraphs. A line without a comment ends one.
fn paragraphs<'t>(path: &str, lines: impl Iterator<Item = Option<&'t str>>) -> Vec<Paragraph> {
    let mut all: Vec<Paragraph> = Vec::new();
    let (mut is_open, mut is_code) = (false, false);
    for (number, line) in lines.enumerate() {
        let Some(line) = line.map(str::trim) else {
            (is_open, is_code) = (false, false);
            continue;
        };
        if line.starts_with("```") {
            (is_open, is_code) = (false, !is_code);
            continue;
        }
        if is_code || line.is_empty() || line.starts_with('|') || line.starts_with("<!--") {
            is_open = false;
            continue;
        }
        let item = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or_else(|| numbered(line));
        let heading = line.starts_with('#');
        let text = item.unwrap_or(line).trim_start_matches('#').trim();
        match all.last_mut().filter(|_| is_open && item.is_none() && !heading) {
            Some(paragraph) => {
                paragraph.text.push(' ');
                paragraph.text.push_str(text);
            }
            None => all.push(Paragraph { path: path.into(), line: number + 1, text: text.into() }),
        }
        is_open = !heading;
    }
    all
}

/// The text of an item of a numbered list.
fn numbered(line: &str) -> Option<&str> {
    let (number, text) = line.split_once(". ")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(text)
}

/// The text with each code span replaced by one word, and how many there are.
fn without_code(text: &str) -> (String, usize) {
    let mut plain = String::new();
    let mut spans = 0;
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 0 {
            plain.push_str(part);
        } else {
            plain.push_str("Code");
            spans += 1;
        }
    }
    (plain, spans)
}

/// The words of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '-').filter(|word| !word.is_empty())
}

/// The sentences of a text: they end with `.`, `!` or `?` before a space.
fn sentences(text: &str) -> Vec<&str> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        if b".!?".contains(byte) && bytes.get(at + 1).is_none_or(|next| *next == b' ') {
            ranges.push(start..at + 1);
            start = at + 1;
        }
    }
    ranges.push(start..bytes.len());
    ranges.into_iter().map(|range| text[range].trim()).filter(|text| words(text).next().is_some()).collect()
}

/// Words that stand for a noun that was not named.
pub const UNNAMED: [&str; 4] = ["what", "who", "whom", "whoever"];

/// Words that name nothing at the beginning of a sentence.
pub const BEGINS: [&str; 4] = ["what", "who", "how", "whether"];

/// Counts over some paragraphs.
#[derive(Clone, Default, Debug)]
pub struct Counts {
    /// Words, a code span as one.
    pub words: usize,
    /// Code spans.
    pub spans: usize,
    /// The words of [`UNNAMED`]: they stand for a noun that was not named.
    pub unnamed: usize,
    /// The words of each sentence.
    pub sentences: Vec<usize>,
    /// The sentences that begin with a word of [`BEGINS`].
    pub begins: usize,
    /// The words of the longest paragraph.
    pub longest: usize,
}

impl Counts {
    /// Adds a paragraph.
    pub fn add(&mut self, paragraph: &Paragraph) {
        let (text, spans) = without_code(&paragraph.text);
        let count = words(&text).count();
        self.words += count;
        self.spans += spans;
        self.longest = self.longest.max(count);
        self.unnamed += words(&text).filter(|word| is_one_of(word, &UNNAMED)).count();
        for sentence in sentences(&text) {
            self.sentences.push(words(sentence).count());
            self.begins += usize::from(words(sentence).next().is_some_and(|word| is_one_of(word, &BEGINS)));
        }
    }

    /// Counts of some paragraphs.
    pub fn of<'p>(paragraphs: impl IntoIterator<Item = &'p Paragraph>) -> Counts {
        let mut counts = Counts::default();
        paragraphs.into_iter().for_each(|paragraph| counts.add(paragraph));
        counts
    }

    /// The words of [`UNNAMED`] in 1,000 words.
    pub fn unnamed_in_1000(&self) -> f64 {
        1000.0 * self.unnamed as f64 / self.words.max(1) as f64
    }

    /// The share of sentences that begin with a word of [`BEGINS`], in percent.
    pub fn begins_percent(&self) -> f64 {
        100.0 * self.begins as f64 / self.sentences.len().max(1) as f64
    }

    /// Code spans in 100 words.
    pub fn spans_in_100(&self) -> f64 {
        100.0 * self.spans as f64 / self.words.max(1) as f64
    }
}

fn is_one_of(word: &str, list: &[&str]) -> bool {
    list.iter().any(|one| word.eq_ignore_ascii_case(one))
}

/// The number that nine tenths of the numbers do not pass; 0 of none.
pub fn percentile_90(numbers: &[usize]) -> usize {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len() * 9 / 10).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// The most columns of a line of a comment.
pub const COMMENT_COLUMNS: usize = 100;

/// The lines of comments of a Rust source that have more than [`COMMENT_COLUMNS`], and the number
/// of all.
pub fn wide_comments(source: &str) -> (Vec<usize>, usize) {
    let comments = source.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
    let mut count = 0;
    let mut wide = Vec::new();
    for (number, line) in comments {
        count += 1;
        if line.chars().count() > COMMENT_COLUMNS {
            wide.push(number + 1);
        }
    }
    (wide, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! The head. What it is,\n//! on two lines!\n//!\n//! ```\n//! what code\n//! ```\n\
        //! - Who is `who`?\n//! - One.\n\n/// How long.\nfn f() {} // what\n//// what\n";

    #[test]
    fn comments_are_paragraphs_without_code() {
        let found = of_source("a.rs", SOURCE);
        let texts: Vec<(usize, &str)> = found.iter().map(|p| (p.line, p.text.as_str())).collect();
        let expected = [
            (1, "The head. What it is, on two lines!"),
            (7, "Who is `who`?"),
            (8, "One."),
            (10, "How long."),
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn words_and_sentences_are_counted() {
        let counts = Counts::of(&of_source("a.rs", SOURCE));
        assert_eq!((counts.words, counts.spans, counts.unnamed), (14, 1, 2));
        assert_eq!((counts.sentences, counts.begins, counts.longest), (vec![2, 6, 3, 1, 2], 3, 8));
    }

    #[test]
    fn wide_lines_are_those_of_comments() {
        let wide = format!("// {}\nlet x = \"{}\";\n/// short\n", "x".repeat(98), "x".repeat(98));
        assert_eq!(wide_comments(&wide), (vec![1], 2));
    }

    #[test]
    fn a_percentile_is_one_of_the_numbers() {
        let numbers: Vec<usize> = (1..=10).rev().collect();
        assert_eq!((percentile_90(&numbers), percentile_90(&[7]), percentile_90(&[])), (10, 7, 0));
    }
}
