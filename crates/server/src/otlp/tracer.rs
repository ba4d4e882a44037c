//! [`Tracer`]: decides which batches are sampled, and keeps their spans until they are sent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bifrost_wire::{ErrorNumber, TraceContext};
use parking_lot::{Condvar, Mutex};

use super::{Exported, Target};

/// Most spans of a request. Default: 512.
pub(super) const SPANS_AT_ONCE: usize = 512;
/// The longest time for which a span waits for others of its request. Default: 1 s.
const GATHER: Duration = Duration::from_secs(1);

/// The place of a span in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SpanPlace {
    pub trace: u128,
    pub span: u64,
    /// The parent, and the flags of the trace; none for the first span of a trace.
    pub parent: Option<(u64, u8)>,
}

/// A batch that was sampled, with its counters.
#[derive(Clone, Debug)]
pub(crate) struct BatchSpan {
    pub place: SpanPlace,
    /// The moment at which its answer was written.
    pub ended: Instant,
    /// The time since its first byte.
    pub whole_ns: u64,
    /// The part of it in which its fiber was parked or blocked.
    pub parked_ns: u64,
    /// The number of the session.
    pub session: u64,
    pub role: String,
    pub medium: &'static str,
    /// The number of batches: above 1 if a line of the text form has made several.
    pub batches: u64,
    pub calls: u64,
    pub structures: u64,
    pub failures: u64,
    pub fuel: u64,
    pub fetched: u64,
    pub commits: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// The error that has ended the session.
    pub error: Option<ErrorNumber>,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of an export.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub sent: Counter,
    pub refused: Counter,
    pub failed: Counter,
    pub dropped: Counter,
    pub exports: Counter,
    pub exports_failed: Counter,
}

/// The spans that wait for their export.
#[derive(Debug, Default)]
struct Queue {
    spans: VecDeque<BatchSpan>,
    /// The moment until which the first of them waits for others.
    due: Option<Instant>,
    stopping: bool,
}

/// Decides which batches are sampled, and keeps their spans until they are sent.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// Numbers below it are sampled.
    threshold: u64,
    samples_all: bool,
    spans_max: usize,
    seed: u64,
    drawn: AtomicU64,
    queue: Mutex<Queue>,
    changed: Condvar,
    counts: Counts,
}

/// Mixes the bits of a number: SplitMix64 (Steele, Lea, Flood 2014).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

impl Tracer {
    /// Makes a tracer that samples so many of 1 of the batches without a trace context, and keeps
    /// at most `spans_max` spans.
    pub(crate) fn new(ratio: f64, spans_max: usize, seed: u64) -> Tracer {
        Tracer {
            threshold: (ratio * u64::MAX as f64) as u64,
            samples_all: ratio >= 1.0,
            spans_max,
            seed,
            drawn: AtomicU64::new(0),
            queue: Mutex::default(),
            changed: Condvar::new(),
            counts: Counts::default(),
        }
    }

    /// Makes the tracer of an export.
    ///
    /// # Errors
    /// When the system has no random number.
    pub(crate) fn of(target: &Target) -> std::io::Result<Tracer> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
        Ok(Tracer::new(target.ratio, target.spans_max, u64::from_le_bytes(seed)))
    }

    /// Returns a number that tells this server from others.
    pub(super) fn instance(&self) -> u64 {
        mix(!self.seed)
    }

    fn draw(&self) -> u64 {
        mix(self.seed.wrapping_add(self.drawn.fetch_add(1, Ordering::Relaxed)))
    }

    /// Returns the place of the next batch in a trace, if it is sampled: as the client's trace
    /// context says, or else by the ratio.
    pub(crate) fn sample(&self, context: Option<TraceContext>) -> Option<SpanPlace> {
        // 0 is no number of a trace or a span.
        let number = |drawn: u64| drawn.max(1);
        match context {
            Some(context) => context.is_sampled().then(|| SpanPlace {
                trace: context.trace,
                span: number(self.draw()),
                parent: Some((context.parent, context.flags)),
            }),
            None if !self.samples_all && (self.threshold == 0 || self.draw() >= self.threshold) => None,
            None => {
                let trace = u128::from(self.draw()) << 64 | u128::from(number(self.draw()));
                Some(SpanPlace { trace, span: number(self.draw()), parent: None })
            }
        }
    }

    /// Puts a span into the queue, or drops it if that is full. Waits for nobody.
    pub(crate) fn add(&self, span: BatchSpan) {
        let mut queue = self.queue.lock();
        if queue.spans.len() >= self.spans_max {
            drop(queue);
            return self.counts.dropped.add(1);
        }
        queue.spans.push_back(span);
        let count = queue.spans.len();
        if queue.due.is_none() {
            queue.due = Some(Instant::now() + GATHER);
        }
        drop(queue);
        if count == 1 || count == SPANS_AT_ONCE {
            self.changed.notify_all();
        }
    }

    /// Waits for the spans of a request, at most until then, and returns them, and whether the
    /// server stops.
    pub(super) fn take(&self, until: Instant) -> (Vec<BatchSpan>, bool) {
        let mut queue = self.queue.lock();
        loop {
            let now = Instant::now();
            let due = queue.stopping
                || queue.spans.len() >= SPANS_AT_ONCE.min(self.spans_max)
                || queue.due.is_some_and(|due| due <= now);
            if due || until <= now {
                break;
            }
            let until = queue.due.map_or(until, |due| due.min(until));
            self.changed.wait_until(&mut queue, until);
        }
        let count = queue.spans.len().min(SPANS_AT_ONCE);
        let spans = queue.spans.drain(..count).collect();
        // What is left has waited long enough.
        queue.due = (!queue.spans.is_empty()).then(Instant::now);
        (spans, queue.stopping)
    }

    /// Waits until then, or until the server stops.
    pub(super) fn pause(&self, until: Instant) {
        let mut queue = self.queue.lock();
        while !queue.stopping && !self.changed.wait_until(&mut queue, until).timed_out() {}
    }

    /// Notes that the server stops.
    pub(super) fn stop(&self) {
        self.queue.lock().stopping = true;
        self.changed.notify_all();
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the counts of the export.
    pub(crate) fn exported(&self) -> Exported {
        let Counts { sent, refused, failed, dropped, exports, exports_failed } = &self.counts;
        Exported {
            sent: sent.get(),
            refused: refused.get(),
            failed: failed.get(),
            dropped: dropped.get(),
            exports: exports.get(),
            exports_failed: exports_failed.get(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::otlp) fn span(place: SpanPlace) -> BatchSpan {
        BatchSpan {
            place,
            ended: Instant::now(),
            whole_ns: 2_000,
            parked_ns: 0,
            session: 1,
            role: String::new(),
            medium: "unix",
            batches: 1,
            calls: 3,
            structures: 0,
            failures: 0,
            fuel: 3,
            fetched: 0,
            commits: 0,
            received_bytes: 64,
            sent_bytes: 24,
            error: None,
        }
    }

    #[test]
    fn batches_are_sampled_by_flag_or_ratio() {
        let of = |ratio: f64| Tracer::new(ratio, 10, 7);
        let context = |flags| Some(TraceContext { trace: 5, parent: 6, flags });
        for ratio in [0.0, 1.0] {
            assert_eq!(of(ratio).sample(context(0)), None);
            let place = of(ratio).sample(context(3)).unwrap();
            assert_eq!((place.trace, place.parent), (5, Some((6, 3))));
        }
        let sampled = |ratio: f64| {
            let tracer = of(ratio);
            (0..10_000).filter(|_| tracer.sample(None).is_some()).count()
        };
        assert_eq!((sampled(0.0), sampled(1.0)), (0, 10_000));
        let quarter = sampled(0.25);
        assert!((2_300..2_700).contains(&quarter), "{quarter}");
        let tracer = of(1.0);
        let places: std::collections::HashSet<_> =
            (0..1000).filter_map(|_| tracer.sample(None)).map(|place| (place.trace, place.span)).collect();
        assert_eq!(places.len(), 1000);
    }

    #[test]
    fn a_full_queue_drops_spans() {
        let tracer = Tracer::new(1.0, 3, 1);
        for _ in 0..5 {
            tracer.add(span(tracer.sample(None).unwrap()));
        }
        assert_eq!(tracer.exported().dropped, 2);
        let (spans, stopping) = tracer.take(Instant::now());
        assert_eq!((spans.len(), stopping), (3, false));
        tracer.add(span(tracer.sample(None).unwrap()));
        tracer.stop();
        let (spans, stopping) = tracer.take(Instant::now() + Duration::from_secs(60));
        assert_eq!((spans.len(), stopping), (1, true));
        assert_eq!(tracer.exported().dropped, 2);
    }
}
