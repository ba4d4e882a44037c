//! The metrics in the text form of Prometheus, version 0.0.4.
//!
//! The form is that of the crate of Prometheus; here is only the way to it. There is no
//! OpenMetrics: there a gauge and a counter must not differ by `_total` alone, as
//! `bifrost_sessions` and `bifrost_sessions_total` do.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::families::{Family, Kind, Value, families};
use super::measured::Measured;

/// The families of one moment.
#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for family in &self.0 {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for (labels, value) in &family.samples {
                match &labels[..] {
                    [] => put(&mut metric, family.kind, value)?,
                    [label] => put(&mut metric.encode_family(&[*label])?, family.kind, value)?,
                    [first, second, ..] => {
                        put(&mut metric.encode_family(&[*first, *second])?, family.kind, value)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn put(metric: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Whole(value)) => metric.encode_counter::<NoLabelSet, u64, f64>(value, None),
        (Kind::Counter, Value::Real(value)) => metric.encode_counter::<NoLabelSet, f64, f64>(value, None),
        (_, Value::Whole(value)) => metric.encode_gauge(value),
        (_, Value::Real(value)) => metric.encode_gauge(value),
        (_, Value::Times { bounds, classes, sum }) => {
            let buckets: Vec<(f64, u64)> = bounds.iter().copied().zip(classes.iter().copied()).collect();
            metric.encode_histogram::<NoLabelSet>(*sum, classes.iter().sum(), &buckets, None)
        }
    }
}

/// Returns all metrics as text.
pub fn text(measured: &Measured) -> String {
    let mut registry = Registry::with_prefix("bifrost");
    registry.register_collector(Box::new(Families(families(measured))));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_text::encode(&mut text, &registry);
    text
}
