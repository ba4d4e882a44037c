//! Spans and metrics as messages of OpenTelemetry.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

use super::tracer::BatchSpan;
use crate::metrics::{Family, Kind, Value};

/// The flags that say of a parent that it is in another process (`SpanFlags`).
const PARENT_IS_REMOTE: u32 = 0x300;

/// The server, as the collector sees it.
#[derive(Debug)]
pub(super) struct Origin {
    resource: Resource,
    scope: InstrumentationScope,
    started_ns: u64,
}

impl Origin {
    pub(super) fn new(instance: u64, started: SystemTime) -> Origin {
        let version = env!("CARGO_PKG_VERSION");
        let attributes = vec![
            text("service.name", "bifrost"),
            text("service.version", version),
            text("service.instance.id", &format!("{instance:016x}")),
            whole("process.pid", u64::from(std::process::id())),
        ];
        Origin {
            resource: Resource { attributes, ..Resource::default() },
            scope: InstrumentationScope {
                name: "bifrost".to_owned(),
                version: version.to_owned(),
                ..InstrumentationScope::default()
            },
            started_ns: unix_ns(started),
        }
    }
}

/// Returns the nanoseconds since 1970.
fn unix_ns(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn attribute(key: &str, value: any_value::Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, any_value::Value::StringValue(value.to_owned()))
}

fn whole(key: &str, value: u64) -> KeyValue {
    attribute(key, any_value::Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// Returns the request with some spans.
pub(super) fn spans(origin: &Origin, spans: &[BatchSpan]) -> ExportTraceServiceRequest {
    let (now, now_ns) = (Instant::now(), unix_ns(SystemTime::now()));
    let of = |span: &BatchSpan| {
        let ago = now.saturating_duration_since(span.ended).as_nanos();
        message(span, now_ns.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX)))
    };
    let scope_spans = vec![ScopeSpans {
        scope: Some(origin.scope.clone()),
        spans: spans.iter().map(of).collect(),
        ..ScopeSpans::default()
    }];
    let resource = Some(origin.resource.clone());
    let resource_spans = vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }
}

/// Returns the message of a span that ended then.
fn message(span: &BatchSpan, ended_ns: u64) -> Span {
    let outcome = match span.error {
        Some(error) => error.name(),
        None if span.failures > 0 => "failures",
        None => "done",
    };
    let attributes = vec![
        whole("bifrost.session", span.session),
        text("bifrost.role", &span.role),
        text("bifrost.medium", span.medium),
        whole("bifrost.batches", span.batches),
        whole("bifrost.calls", span.calls),
        whole("bifrost.structures", span.structures),
        whole("bifrost.failures", span.failures),
        whole("bifrost.fuel", span.fuel),
        whole("bifrost.fetched_objects", span.fetched),
        whole("bifrost.commits", span.commits),
        whole("bifrost.received_bytes", span.received_bytes),
        whole("bifrost.sent_bytes", span.sent_bytes),
        whole("bifrost.parked_ns", span.parked_ns),
        text("bifrost.outcome", outcome),
    ];
    let (parent, flags) = match span.place.parent {
        Some((parent, flags)) => (parent.to_be_bytes().to_vec(), u32::from(flags) | PARENT_IS_REMOTE),
        None => (Vec::new(), 1),
    };
    let status =
        span.error.map(|error| Status { message: error.text().to_owned(), code: StatusCode::Error.into() });
    Span {
        trace_id: span.place.trace.to_be_bytes().to_vec(),
        span_id: span.place.span.to_be_bytes().to_vec(),
        parent_span_id: parent,
        flags,
        name: "batch".to_owned(),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: ended_ns.saturating_sub(span.whole_ns),
        end_time_unix_nano: ended_ns,
        attributes,
        status,
        ..Span::default()
    }
}

/// Returns the request with metrics that were measured then. Their names are those of the text.
pub(super) fn metrics(origin: &Origin, families: &[Family], now: SystemTime) -> ExportMetricsServiceRequest {
    let times = (origin.started_ns, unix_ns(now));
    let scope_metrics = vec![ScopeMetrics {
        scope: Some(origin.scope.clone()),
        metrics: families.iter().map(|family| metric_of(family, times)).collect(),
        ..ScopeMetrics::default()
    }];
    let resource = Some(origin.resource.clone());
    let resource_metrics = vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }
}

fn metric_of(family: &Family, (started, now): (u64, u64)) -> Metric {
    let cumulative = i32::from(AggregationTemporality::Cumulative);
    let labels = |labels: &Vec<(&'static str, &'static str)>| {
        labels.iter().map(|(name, value)| text(name, value)).collect::<Vec<_>>()
    };
    let points = |start: u64| {
        let point = |(label, value): &_| {
            let value = match value {
                Value::Whole(value) => {
                    number_data_point::Value::AsInt(i64::try_from(*value).unwrap_or(i64::MAX))
                }
                Value::Real(value) => number_data_point::Value::AsDouble(*value),
                Value::Times { .. } => return None,
            };
            Some(NumberDataPoint {
                attributes: labels(label),
                start_time_unix_nano: start,
                time_unix_nano: now,
                value: Some(value),
                ..NumberDataPoint::default()
            })
        };
        family.samples.iter().filter_map(point).collect::<Vec<_>>()
    };
    let (suffix, data) = match family.kind {
        Kind::Counter => {
            let data_points = points(started);
            let sum = Sum { data_points, aggregation_temporality: cumulative, is_monotonic: true };
            ("_total", metric::Data::Sum(sum))
        }
        Kind::Gauge => ("", metric::Data::Gauge(Gauge { data_points: points(0) })),
        Kind::Histogram => {
            let point = |(label, value): &_| {
                let Value::Times { bounds, classes, sum } = value else { return None };
                Some(HistogramDataPoint {
                    attributes: labels(label),
                    start_time_unix_nano: started,
                    time_unix_nano: now,
                    count: classes.iter().sum(),
                    sum: Some(*sum),
                    bucket_counts: classes.clone(),
                    explicit_bounds: bounds.clone(),
                    ..HistogramDataPoint::default()
                })
            };
            let data_points = family.samples.iter().filter_map(point).collect();
            ("", metric::Data::Histogram(Histogram { data_points, aggregation_temporality: cumulative }))
        }
    };
    let unit = match family.name {
        name if name.ends_with("seconds") => "s",
        name if name.ends_with("bytes") || name.ends_with("bytes_max") => "By",
        _ => "",
    };
    Metric {
        name: format!("bifrost_{}{suffix}", family.name),
        description: family.help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}
