//! Telemetry as JSON for people.

use std::{
    fmt,
    io::Write,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use holodeck_model::ConsoleExporter;
use jiff::Timestamp;
use opentelemetry::{
    KeyValue, Value as Attribute,
    trace::{SpanId, Status},
};
use opentelemetry_sdk::{
    error::{OTelSdkError, OTelSdkResult},
    metrics::{
        Temporality,
        data::{AggregatedMetrics, Histogram, Metric, MetricData, ResourceMetrics, ScopeMetrics},
        exporter::PushMetricExporter,
    },
    trace::{SpanData, SpanExporter},
};
use serde_json::{Map, Value, json};

/// The output and its format.
#[derive(Clone)]
pub(crate) struct Console {
    writer: Arc<Mutex<Box<dyn Write + Send>>>,
    style: ConsoleExporter,
}

impl Console {
    pub(crate) fn new(writer: Box<dyn Write + Send>, style: ConsoleExporter) -> Self {
        Self {
            writer: Arc::new(Mutex::new(writer)),
            style,
        }
    }

    fn write(&self, records: impl Iterator<Item = Value>) -> OTelSdkResult {
        let mut text = String::new();
        for record in records {
            let record = if self.style.pretty_print {
                format!("{record:#}")
            } else {
                record.to_string()
            };
            text.push_str(&record);
            text.push('\n');
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer
            .write_all(text.as_bytes())
            .and_then(|()| writer.flush())
            .map_err(|error| OTelSdkError::InternalFailure(error.to_string()))
    }

    fn span(&self, span: SpanData) -> Value {
        let mut record = Map::new();
        let mut set = |name: &str, value: Value| record.insert(name.to_owned(), value);
        set("span", span.name.into_owned().into());
        set("trace_id", span.span_context.trace_id().to_string().into());
        set("span_id", span.span_context.span_id().to_string().into());
        if span.parent_span_id != SpanId::INVALID {
            set("parent_span_id", span.parent_span_id.to_string().into());
        }
        if self.style.include_timestamps {
            set("start", timestamp(span.start_time));
            set("end", timestamp(span.end_time));
        }
        let took = span.end_time.duration_since(span.start_time).unwrap_or_default();
        set("duration_ms", json!(took.as_secs_f64() * 1000.0));
        if let Status::Error { description } = &span.status {
            set("error", description.as_ref().into());
        }
        set("attributes", attributes(span.attributes.iter()));
        let events = span.events.iter();
        let events: Vec<Value> = events
            .map(|event| json!({"event": event.name, "attributes": attributes(event.attributes.iter())}))
            .collect();
        if !events.is_empty() {
            set("events", events.into());
        }
        Value::Object(record)
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Console")
    }
}

impl SpanExporter for Console {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.write(batch.into_iter().map(|span| self.span(span)))
    }
}

impl PushMetricExporter for Console {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let metrics = metrics.scope_metrics().flat_map(ScopeMetrics::metrics);
        self.write(metrics.flat_map(points))
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

/// Only histograms are recorded.
fn points(metric: &Metric) -> Vec<Value> {
    match metric.data() {
        AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
            of_histogram(metric, histogram, |sum| json!(sum))
        }
        AggregatedMetrics::U64(MetricData::Histogram(histogram)) => {
            of_histogram(metric, histogram, |sum| json!(sum))
        }
        _ => Vec::new(),
    }
}

fn of_histogram<T: Copy>(metric: &Metric, histogram: &Histogram<T>, number: fn(T) -> Value) -> Vec<Value> {
    let point = |point: &opentelemetry_sdk::metrics::data::HistogramDataPoint<T>| {
        json!({
            "metric": metric.name(),
            "unit": metric.unit(),
            "count": point.count(),
            "sum": number(point.sum()),
            "min": point.min().map(number),
            "max": point.max().map(number),
            "attributes": attributes(point.attributes()),
        })
    };
    histogram.data_points().map(point).collect()
}

fn attributes<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> Value {
    attributes
        .map(|attribute| (attribute.key.to_string(), value(&attribute.value)))
        .collect::<Map<_, _>>()
        .into()
}

fn value(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Bool(value) => json!(value),
        Attribute::I64(value) => json!(value),
        Attribute::F64(value) => json!(value),
        other => other.as_str().into_owned().into(),
    }
}

fn timestamp(time: SystemTime) -> Value {
    Timestamp::try_from(time).map_or(Value::Null, |time| time.to_string().into())
}
