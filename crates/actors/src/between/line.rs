//! Waits as lines of text, which nodes send to the first one.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::between::packet::{Wrong, number, numbers, put};
use crate::between::round_waits::NO_REQUEST;

/// The most lines that a node tells.
pub(crate) const LINES_MAX: usize = 256;

/// The most lines in a text.
const TEXT_LINES_MAX: usize = 12;

/// The most bytes of a name.
pub(crate) const NAME_BYTES_MAX: usize = 1024;

/// A wait of a method; or, without its object, the name of the method that awaits the answer to a
/// request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The request that a method of another node waits for, in place of its name.
    pub(crate) request: [u32; 3],
    pub(crate) waiter: String,
    pub(crate) what: String,
}

impl Line {
    pub(crate) fn write(&self, packet: &mut Vec<u8>) {
        put(packet, &self.request);
        for text in [&self.waiter, &self.what] {
            put(packet, &[text.len() as u32]);
            packet.extend_from_slice(text.as_bytes());
        }
    }

    /// Reads all lines of a packet.
    pub(crate) fn read_all(packet: &mut &[u8]) -> Result<Vec<Line>, Wrong> {
        let mut lines = Vec::new();
        while !packet.is_empty() {
            if lines.len() == LINES_MAX {
                return Err("it has too many lines".into());
            }
            let request = numbers(packet)?;
            let mut text = || {
                let bytes = number(packet)? as usize;
                let (text, rest) = packet.split_at_checked(bytes).ok_or("it ends too early")?;
                *packet = rest;
                match std::str::from_utf8(text) {
                    Ok(text) if bytes <= NAME_BYTES_MAX => Ok(text.to_owned()),
                    _ => Err(Wrong::from("it has a malformed name")),
                }
            };
            let (waiter, what) = (text()?, text()?);
            lines.push(Line { request, waiter, what });
        }
        Ok(lines)
    }
}

/// Returns the lines of all nodes as one text: those of `main` first.
pub(crate) fn text(lines: &[Line]) -> String {
    let (names, waits): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.what.is_empty());
    let names: FxHashMap<[u32; 3], &str> = names.iter().map(|line| (line.request, &*line.waiter)).collect();
    let waits = waits.iter().filter_map(|line| {
        // A request that is not named has an answer that nobody awaits any more.
        let waiter = if line.request == NO_REQUEST { &*line.waiter } else { names.get(&line.request)? };
        Some((!waiter.starts_with("main "), format!("{waiter} waits for {}", line.what)))
    });
    let waits: BTreeSet<(bool, String)> = waits.collect();
    let left = waits.len().saturating_sub(TEXT_LINES_MAX);
    let mut told: Vec<String> = waits.into_iter().take(TEXT_LINES_MAX).map(|(_, line)| line).collect();
    if left > 0 {
        told.push(format!("and {left} more"));
    }
    told.join("; ")
}
