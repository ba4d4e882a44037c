//! Facts about code by its address: the ranges that are code, and the places of references at
//! calls.

use std::collections::BTreeMap;

/// The calls of one function. The key is a return address, as an offset from the function's start.
/// The values are the places of its caller's references, as byte offsets from the stack pointer at
/// the call.
pub(crate) type Calls = Vec<(u32, Box<[u32]>)>;

/// A function at its place.
#[derive(Debug)]
struct Function {
    end: usize,
    /// In the order of their offsets.
    calls: Calls,
}

/// All code that was made, by the address of its start.
#[derive(Default, Debug)]
pub(crate) struct Maps {
    functions: BTreeMap<usize, Function>,
}

impl Maps {
    /// Adds a function at its final place.
    pub(crate) fn add(&mut self, start: usize, bytes: usize, mut calls: Calls) {
        calls.sort_unstable_by_key(|(at, _)| *at);
        self.functions.insert(start, Function { end: start + bytes, calls });
    }

    /// Forgets a function whose code nobody runs any more.
    pub(crate) fn remove(&mut self, start: usize) {
        self.functions.remove(&start);
    }

    /// The places of the references in the frame that a call returns to; `None` if that is no code
    /// of ours.
    pub(crate) fn find(&self, return_address: usize) -> Option<&[u32]> {
        // A call may be the last instruction, so that it returns to the end.
        let (start, Function { end, calls }) = self.functions.range(..return_address).next_back()?;
        if return_address > *end {
            return None;
        }
        let at = (return_address - start) as u32;
        Some(match calls.binary_search_by_key(&at, |(at, _)| *at) {
            Ok(found) => &calls[found].1,
            Err(_) => &[],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Maps;

    #[test]
    fn return_addresses_are_found_inside_functions_only() {
        let mut maps = Maps::default();
        maps.add(1000, 100, vec![(50, Box::new([8])), (20, Box::new([0, 16]))]);
        maps.add(2000, 10, vec![(10, Box::new([24]))]);
        assert_eq!(maps.find(999), None);
        assert_eq!(maps.find(1000), None, "nothing returns to a function's first instruction");
        assert_eq!(maps.find(1020), Some([0, 16].as_slice()));
        assert_eq!(maps.find(1021), Some([].as_slice()));
        assert_eq!(maps.find(1050), Some([8].as_slice()));
        assert_eq!(maps.find(1101), None);
        assert_eq!(maps.find(2010), Some([24].as_slice()), "a call at the end");
        assert_eq!(maps.find(2011), None);
        maps.remove(1000);
        assert_eq!(maps.find(1020), None);
    }
}
