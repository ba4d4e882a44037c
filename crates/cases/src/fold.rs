//! Bytes in few words: runs of words that repeat, or that grow by the same numbers each time.
//!
//! The crossings of a case with a loop have many equal calls, and answers with ascending handles.
//! `cases/README.md` has the form.

use serde_json::{Value as Json, json};

use crate::script;

/// The most words of a block that repeats.
const BLOCK_WORDS_MAX: usize = 12;
/// The fewest words that a run stands for beyond its first block.
const SAVED_WORDS_MIN: usize = 12;
/// The most that a word grows by: each language has the number as it is.
const PLUS_MAX: u64 = 1 << 40;

/// Writes down a crossing without its commands.
pub(crate) fn crossing(sent: &[Vec<u8>], answered: Option<&[u8]>) -> Json {
    let pieces = counted(sent.iter().map(|piece| fold(piece)));
    let sent: Json = pieces
        .into_iter()
        .map(|(piece, times)| match times {
            1 => piece,
            _ => json!({"sent": piece, "times": times}),
        })
        .collect();
    json!({"sent": sent, "answered": answered.map_or(Json::Null, fold)})
}

/// Returns crossings; equal ones in a row are one, with their number.
pub(crate) fn crossings(all: Vec<Json>) -> Json {
    let counted = counted(all.into_iter()).into_iter();
    counted
        .map(|(mut crossing, times)| {
            if times > 1 {
                crossing["times"] = json!(times);
            }
            crossing
        })
        .collect()
}

/// Returns the parts, each with the number of equal ones in a row.
fn counted(parts: impl Iterator<Item = Json>) -> Vec<(Json, u64)> {
    let mut counted: Vec<(Json, u64)> = Vec::new();
    for part in parts {
        match counted.last_mut() {
            Some((last, times)) if *last == part => *times += 1,
            _ => counted.push((part, 1)),
        }
    }
    counted
}

/// Returns the answers of crossings; there is none where the stream was lost.
pub(crate) fn answers(crossings: &Json) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    for crossing in crossings.as_array().into_iter().flatten().filter(|one| !one["answered"].is_null()) {
        let times = crossing["times"].as_u64().unwrap_or(1);
        answers.extend(std::iter::repeat_n(unfold(&crossing["answered"]), times as usize));
    }
    answers
}

/// A block of words, and the numbers by which they grow.
struct Run<'w> {
    block: &'w [u64],
    plus: Vec<u64>,
    times: usize,
}

impl<'w> Run<'w> {
    /// Returns the run at the beginning of these words with blocks of so many.
    fn of(words: &'w [u64], size: usize) -> Option<Run<'w>> {
        let (block, second) = (words.get(..size)?, words.get(size..2 * size)?);
        let plus: Option<Vec<u64>> = block
            .iter()
            .zip(second)
            .map(|(a, b)| b.checked_sub(*a).filter(|plus| *plus <= PLUS_MAX))
            .collect();
        let plus = plus?;
        let goes_on = |pair: [&[u64]; 2]| {
            pair[0].iter().zip(pair[1]).zip(&plus).all(|((a, b), plus)| a.checked_add(*plus) == Some(*b))
        };
        let blocks = words.chunks_exact(size);
        let times = 1 + blocks.clone().zip(blocks.skip(1)).take_while(|(a, b)| goes_on([a, b])).count();
        Some(Run { block, plus, times })
    }

    /// The words that it stands for beyond its first block.
    fn saved(&self) -> usize {
        self.block.len() * (self.times - 1)
    }
}

/// Writes down bytes: text, or a list if there are runs.
fn fold(bytes: &[u8]) -> Json {
    let whole = bytes.chunks_exact(8);
    if !whole.remainder().is_empty() {
        return script::json::hex(bytes).into();
    }
    let words: Vec<u64> =
        whole.map(|word| word.try_into().map(u64::from_le_bytes).unwrap_or_default()).collect();
    let (mut parts, mut plain, mut rest) = (Vec::new(), Vec::new(), words.as_slice());
    while let Some(word) = rest.first() {
        let runs = (1..=BLOCK_WORDS_MAX).filter_map(|size| Run::of(rest, size));
        // Of runs that save as much the one with the shortest block.
        let best = runs.reduce(|best, run| if run.saved() > best.saved() { run } else { best });
        match best.filter(|run| run.times > 2 && run.saved() >= SAVED_WORDS_MIN) {
            None => {
                plain.push(*word);
                rest = &rest[1..];
            }
            Some(run) => {
                flush(&mut plain, &mut parts);
                let mut part = json!({"words": hex(run.block), "times": run.times});
                if run.plus.iter().any(|plus| *plus > 0) {
                    part["plus"] = json!(run.plus);
                }
                parts.push(part);
                rest = &rest[run.block.len() * run.times..];
            }
        }
    }
    flush(&mut plain, &mut parts);
    match parts.as_slice() {
        [] => Json::from(""),
        [text @ Json::String(_)] => text.clone(),
        _ => parts.into(),
    }
}

fn flush(plain: &mut Vec<u64>, parts: &mut Vec<Json>) {
    if !plain.is_empty() {
        parts.push(hex(&std::mem::take(plain)).into());
    }
}

fn hex(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    script::json::hex(&bytes)
}

/// Returns the bytes that were written down.
fn unfold(bytes: &Json) -> Vec<u8> {
    match bytes {
        Json::Array(parts) => parts.iter().flat_map(unfold).collect(),
        Json::String(text) => script::json::unhex(text),
        run => {
            let block = script::json::unhex(run["words"].as_str().expect("words"));
            let mut words: Vec<u64> = block
                .chunks_exact(8)
                .map(|word| word.try_into().map(u64::from_le_bytes).unwrap_or_default())
                .collect();
            let plus: Vec<u64> =
                run["plus"].as_array().into_iter().flatten().filter_map(Json::as_u64).collect();
            let mut all = Vec::new();
            for _ in 0..run["times"].as_u64().expect("a number of times") {
                all.extend(words.iter().flat_map(|word| word.to_le_bytes()));
                words.iter_mut().zip(&plus).for_each(|(word, plus)| *word += plus);
            }
            all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn bytes_come_back_as_they_went() {
        let ascending: Vec<u64> = (0..1000).flat_map(|n| [7, 1 + (n << 32), 3 + n]).collect();
        let cases: Vec<(Vec<u8>, usize)> = vec![
            (Vec::new(), 10),
            (vec![1, 2, 3], 20),
            (bytes(&[1, 5, 2]), 80),
            (bytes(&[9; 5000]), 80),
            (bytes(&ascending), 200),
            (bytes(&[ascending.as_slice(), &[5, 4, 3], &[0; 64], &[u64::MAX, 1]].concat()), 400),
        ];
        for (bytes, longest) in cases {
            let folded = fold(&bytes);
            assert_eq!(unfold(&folded), bytes);
            assert!(folded.to_string().len() <= longest, "{folded}");
        }
    }

    #[test]
    fn equal_pieces_are_counted() {
        let (one, other) = (bytes(&[1, 2]), bytes(&[3, 2]));
        let written = crossing(&[one.clone(), one.clone(), other.clone()], None);
        let again = json!({"sent": script::json::hex(&one), "times": 2});
        assert_eq!(written, json!({"sent": [again, script::json::hex(&other)], "answered": null}));
        let (answered, lost) = (crossing(&[], Some(&one)), crossing(&[], None));
        let all = crossings(vec![answered.clone(), answered, lost]);
        assert_eq!(all.as_array().map(Vec::len), Some(2), "{all}");
        assert_eq!(answers(&all), [one.clone(), one]);
    }
}
