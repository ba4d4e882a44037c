//! The waits of a node that pass other nodes, as packets, and the state of the search for rounds.

use crate::between::line::Line;
use crate::between::packet::{NOBODY, Wrong, numbers, put};

/// The most waits of each kind that a node tells.
pub(crate) const WAITS_MAX: usize = 1 << 17;

/// A request to another node: the node that has made it, and the index and generation by which that
/// awaits the answer.
pub(crate) type Request = [u32; 3];

/// The state of the search for rounds over several nodes.
#[derive(Default, Debug)]
pub(crate) struct Rounds {
    /// The number of the first node's last question.
    pub(super) number: u32,
    /// The packet of waits that was told since then.
    pub(super) told: Option<Vec<u8>>,
    /// True if the first node has asked, and was not answered; and in `with_names` true if it wants
    /// names.
    pub(super) is_asked: bool,
    pub(super) with_names: bool,
    /// The number of requests of rounds within this node that have failed since waits were told.
    pub(crate) cut: u32,
    /// Of the first node: by node, the waits that it has told since it was asked.
    pub(super) heard: Vec<Option<Waits>>,
    /// Of the first node: true if waits were told since all were joined.
    pub(super) is_new: bool,
    pub(super) next_ms: i64,
    /// Of the first node: the number of rounds that are being cut.
    pub(super) cutting: u32,
    /// Of the first node: true if nothing could happen any more, and it has asked all, and no
    /// request has failed since.
    pub(super) at_end: bool,
    /// Of the first node: true if a request has failed since nothing could happen any more.
    pub(super) has_cut: bool,
    /// Of the first node: the waits by name that all have told.
    pub(super) lines: Vec<Line>,
}

impl Rounds {
    /// True if waits are to be joined.
    pub(crate) fn is_due(&self) -> bool {
        self.is_new && self.cutting == 0
    }

    /// Notes that a request has failed, or is about to: something can happen.
    pub(super) fn note_cut(&mut self) {
        (self.at_end, self.has_cut) = (false, true);
    }
}

/// The waits of a node: which answers cannot come before which requests are answered, by way of
/// methods that the node numbers as it likes.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Waits {
    /// The index and generation of a request of the node, and the method that waits for its answer.
    pub(super) requests: Vec<[u32; 3]>,
    /// A method, and another that cannot go on before.
    pub(super) methods: Vec<[u32; 2]>,
    /// A method, and the request of another node that is not answered before.
    pub(super) answers: Vec<[u32; 4]>,
}

impl Waits {
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len() + self.methods.len() + self.answers.len()
    }

    pub(super) fn write(&self, packet: &mut Vec<u8>) {
        put(packet, &[self.requests.len() as u32, self.methods.len() as u32, self.answers.len() as u32]);
        put(packet, self.requests.as_flattened());
        put(packet, self.methods.as_flattened());
        put(packet, self.answers.as_flattened());
    }

    pub(super) fn read(packet: &mut &[u8]) -> Result<Waits, Wrong> {
        let counts: [u32; 3] = numbers(packet)?;
        let [requests, methods, answers] = counts.map(|count| count as usize);
        if counts.iter().any(|count| *count as usize > WAITS_MAX)
            || (requests * 3 + methods * 2 + answers * 4) * 4 > packet.len()
        {
            return Err("it has too few bytes for its waits".into());
        }
        Ok(Waits {
            requests: (0..requests).map(|_| numbers(packet)).collect::<Result<_, _>>()?,
            methods: (0..methods).map(|_| numbers(packet)).collect::<Result<_, _>>()?,
            answers: (0..answers).map(|_| numbers(packet)).collect::<Result<_, _>>()?,
        })
    }

    /// Leaves out the methods that lead to no answer.
    pub(super) fn trim(&mut self, methods: usize) {
        const NONE: u32 = u32::MAX;
        // By method the last way into it, and by way the one before.
        let mut last = vec![NONE; methods];
        let before: Vec<u32> = (0..)
            .zip(&self.methods)
            .map(|(at, [_, to])| std::mem::replace(&mut last[*to as usize], at))
            .collect();
        let mut leads = vec![false; methods];
        let mut found: Vec<u32> = self.answers.iter().map(|[method, ..]| *method).collect();
        while let Some(method) = found.pop() {
            if std::mem::replace(&mut leads[method as usize], true) {
                continue;
            }
            let mut way = last[method as usize];
            while way != NONE {
                found.push(self.methods[way as usize][0]);
                way = before[way as usize];
            }
        }
        self.requests.retain(|[.., method]| leads[*method as usize]);
        self.methods.retain(|pair| pair.iter().all(|method| leads[*method as usize]));
    }
}

/// The request of a line that names its waiter itself.
pub(crate) const NO_REQUEST: Request = [NOBODY; 3];
