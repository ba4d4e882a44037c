//! Documents as tests see them: their fenced blocks, and the blocks whose text the tests write.
#![allow(dead_code, reason = "each test file uses a part")]

use std::ops::Range;
use std::path::{Path, PathBuf};

/// A fenced block: what follows the fence, and its lines.
pub struct Block {
    pub info: String,
    pub text: String,
    /// The lines of the document, fences excluded.
    pub lines: Range<usize>,
}

/// The blocks of a document.
pub fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in document.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block { info: info.to_owned(), text: String::new(), lines: number + 1..0 });
            }
            (Some(_), Some(_)) => {
                let mut block = open.take().expect("a block is open");
                block.lines.end = number;
                blocks.push(block);
            }
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

impl Block {
    /// Whether the block stands right behind `before`.
    pub fn follows(&self, before: &Block) -> bool {
        self.lines.start <= before.lines.end + 3
    }
}

/// A document, with what its blocks should say instead.
pub struct Document {
    path: String,
    file: PathBuf,
    pub text: String,
    wrong: Vec<(Range<usize>, String, String)>,
}

impl Document {
    /// The document at a path from the root of the repository.
    pub fn read(path: &str) -> Document {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{path}: {e}"));
        Document { path: path.to_owned(), file, text, wrong: Vec::new() }
    }

    /// Compares what a block shows with what `source` says when it is run.
    pub fn compare(&mut self, shown: &Block, source: &str, said: String) {
        if shown.text != said {
            self.wrong.push((shown.lines.clone(), source.to_owned(), said));
        }
    }

    /// What is wrong, if anything; with `BIFROST_UPDATE` it is written anew instead.
    pub fn finish(self) -> Option<String> {
        if self.wrong.is_empty() {
            return None;
        }
        if std::env::var_os("BIFROST_UPDATE").is_some() {
            let mut lines: Vec<String> = self.text.lines().map(str::to_owned).collect();
            for (range, _, said) in self.wrong.into_iter().rev() {
                lines.splice(range, said.lines().map(str::to_owned));
            }
            std::fs::write(&self.file, lines.join("\n") + "\n").unwrap();
            return None;
        }
        let texts = self.wrong.into_iter().map(|(_, source, said)| format!("{source}prints\n{said}"));
        Some(format!("{} shows something else:\n{}", self.path, texts.collect::<Vec<_>>().join("\n")))
    }
}
