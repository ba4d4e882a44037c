//! The flow state at a point of a body: if it is reached, and which variables have values.

use crate::source::Span;

/// A local variable, counted from 0 in its body. Temporaries have none: they are never read before
/// they are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(pub u32);

/// The flow state at one point.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// True if control can come here.
    pub reachable: bool,
    assigned: Vec<u64>,
    /// True if every path to here has answered the message under way.
    answered: bool,
    /// The place where some path has.
    may_have: Option<Span>,
}

/// The state of the answer to the message under way at some points together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answered {
    /// True if there is such a point.
    known: bool,
    /// True if every path to each of them has answered.
    answered: bool,
    /// The place where a path to one of them has.
    may_have: Option<Span>,
}

impl Answered {
    /// Returns the state at one point.
    pub fn at(flow: &Flow) -> Answered {
        Answered { known: flow.reachable, answered: flow.answered, may_have: flow.may_have }
    }

    /// Returns the state behind an answer that is given while replies are missing, which may be
    /// exceptions.
    pub fn behind(answer: Span) -> Answered {
        Answered { known: true, answered: true, may_have: Some(answer) }
    }

    /// Joins the points of both.
    pub fn join(&mut self, other: Answered) {
        if other.known {
            self.answered = other.answered && (self.answered || !self.known);
            (self.known, self.may_have) = (true, self.may_have.or(other.may_have));
        }
    }
}

impl Flow {
    /// Returns the start of a body.
    pub fn start() -> Flow {
        Flow { reachable: true, ..Flow::default() }
    }

    /// Notes that `slot` has a value.
    pub fn assign(&mut self, slot: Slot) {
        let (word, bit) = (slot.0 as usize / 64, slot.0 % 64);
        if self.assigned.len() <= word {
            self.assigned.resize(word + 1, 0);
        }
        self.assigned[word] |= 1 << bit;
    }

    /// Returns true if `slot` has a value on every path to here; true where no path leads.
    pub fn is_assigned(&self, slot: Slot) -> bool {
        let (word, bit) = (slot.0 as usize / 64, slot.0 % 64);
        !self.reachable || self.assigned.get(word).is_some_and(|bits| bits & (1 << bit) != 0)
    }

    /// Notes that the message under way is answered at `span`.
    pub fn answer(&mut self, span: Span) {
        (self.answered, self.may_have) = (true, Some(span));
    }

    /// Sets the state of the answer where handlers begin, from that of the places where an
    /// exception was raised.
    pub fn raised(&mut self, answered: Answered) {
        self.may_have = self.may_have.or(answered.may_have);
        self.answered |= answered.known && answered.answered;
    }

    /// Returns true if every path to here has answered.
    pub fn has_answered(&self) -> bool {
        self.answered
    }

    /// Returns the place where a path to here has answered, if one has.
    pub fn may_have_answered(&self) -> Option<Span> {
        self.may_have
    }

    /// Begins another message; returns the state of the answer to the one before.
    pub fn begin_message(&mut self) -> (bool, Option<Span>) {
        (std::mem::take(&mut self.answered), self.may_have.take())
    }

    /// Ends that other message.
    pub fn end_message(&mut self, before: (bool, Option<Span>)) {
        (self.answered, self.may_have) = before;
    }

    /// Takes the state behind `return` and the like, and returns the state before.
    pub fn leave(&mut self) -> Flow {
        let before = self.clone();
        self.reachable = false;
        before
    }

    /// Joins the states of two paths where they meet.
    pub fn join(&mut self, other: Flow) {
        if !self.reachable {
            *self = other;
        } else if other.reachable {
            self.answered &= other.answered;
            self.may_have = self.may_have.or(other.may_have);
            self.assigned.truncate(other.assigned.len());
            for (word, bits) in self.assigned.iter_mut().zip(other.assigned) {
                *word &= bits;
            }
        }
    }

    /// Returns the end of no path, to join others to.
    pub fn nowhere() -> Flow {
        Flow::default()
    }
}
