//! The SDK's two pipelines, configured by the YAML.

use std::{sync::Arc, thread, time::Duration};

use holodeck_http::{Headers, HttpClient, HttpOptions, HttpUrl};
use holodeck_model::{Env, MetricsConfig, ObservabilityConfig, OtlpExporter, TracesConfig};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider},
};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use crate::{
    TelemetryOptions,
    check::headers,
    collector::{collector_endpoint, compression, otlp, timeout_ms, whole_url},
    console::Console,
    export::{Collector, Fate, OtlpMetrics, OtlpSpans},
    variables::{Completed, complete},
    wire::{Encoding, Signal, Wire},
};

/// Metrics are cumulative, so the console shows them once, at the end.
const AT_THE_END: Duration = Duration::from_hours(24 * 365);

/// Both pipelines; `None` if the YAML disables one.
#[derive(Debug)]
pub(crate) struct Providers {
    pub(crate) tracer: Option<SdkTracerProvider>,
    pub(crate) meter: Option<SdkMeterProvider>,
    /// `None` without a collector.
    pub(crate) fate: Option<Arc<Fate>>,
}

impl Providers {
    /// Must be called inside a tokio runtime, which sends the requests.
    pub(crate) fn new(config: &ObservabilityConfig, service: &str, options: &TelemetryOptions) -> Self {
        let traces = config.traces.clone().unwrap_or_default();
        let metrics = config.metrics.clone().unwrap_or_default();
        let mut signals = Vec::new();
        signals.extend(traces.enabled.then_some(Signal::Traces));
        signals.extend(metrics.enabled.then_some(Signal::Metrics));
        let found = otlp(config.exporters.as_ref()).map(|otlp| collectors(otlp, &signals, options));
        let (collectors, fate) = match found {
            Some(Ok((collectors, fate))) => (collectors, Some(fate)),
            Some(Err(problem)) => (Vec::new(), Some(Arc::new(Fate::failed(problem)))),
            None => (Vec::new(), None),
        };
        let collector = |signal| collectors.iter().find(|found| found.signal == signal).cloned();
        let (spans, measures) = (collector(Signal::Traces), collector(Signal::Metrics));
        let console = console(config, options);
        let resource = resource(config, service);
        Self {
            tracer: (traces.enabled && (spans.is_some() || console.is_some()))
                .then(|| tracer(&traces, resource.clone(), spans, console.clone())),
            meter: (metrics.enabled && (measures.is_some() || console.is_some()))
                .then(|| meter(&metrics, resource, measures, console)),
            fate,
        }
    }

    /// Sends what is left; returns `false` and gives up after `limit`.
    pub(crate) async fn flush(&self, limit: Duration) -> bool {
        if let Some(fate) = &self.fate {
            fate.ends_within(limit);
        }
        // The SDK blocks while it waits, so it runs on its own threads.
        let spans = self.tracer.clone().map(|tracer| {
            on_thread(move || {
                let _ = tracer.shutdown_with_timeout(limit);
            })
        });
        let metrics = self.meter.clone().map(|meter| {
            on_thread(move || {
                let _ = meter.shutdown();
            })
        });
        let all = async {
            for done in [spans, metrics].into_iter().flatten() {
                let _ = done.await;
            }
        };
        timeout(limit, all).await.is_ok()
    }

    /// Ends immediately; unsent data is lost.
    pub(crate) fn abandon(&self) {
        if let Some(tracer) = &self.tracer {
            let _ = tracer.shutdown_with_timeout(Duration::ZERO);
        }
        if let Some(meter) = self.meter.clone() {
            drop(on_thread(move || {
                let _ = meter.shutdown();
            }));
        }
    }
}

fn on_thread(work: impl FnOnce() + Send + 'static) -> oneshot::Receiver<()> {
    let (done, wait) = oneshot::channel();
    let spawned = thread::Builder::new()
        .name("telemetry".to_owned())
        .spawn(move || {
            work();
            let _ = done.send(());
        });
    drop(spawned);
    wait
}

/// The collector of each signal. The error is the reason why nothing can be exported.
fn collectors(
    otlp: &OtlpExporter,
    signals: &[Signal],
    options: &TelemetryOptions,
) -> Result<(Vec<Collector>, Arc<Fate>), String> {
    let client = HttpClient::new(&options.http).map_err(|error| error.to_string())?;
    let fate = Arc::default();
    let collectors = signals.iter().map(|signal| {
        let (url, headers, completed) = request(otlp, &options.env, *signal)?;
        let client = match completed.certificate {
            Some(file) => HttpClient::new(&HttpOptions {
                ca_bundle: Some(file),
                ..options.http.clone()
            })
            .map_err(|error| error.to_string())?,
            None => client.clone(),
        };
        Ok(Collector {
            wire: Wire::of(&completed.otlp),
            client,
            runtime: Handle::current(),
            signal: *signal,
            url,
            headers,
            timeout: Duration::from_millis(timeout_ms(&completed.otlp).into()),
            encoding: compression(&completed.otlp).unwrap_or(Encoding::Plain),
            temporality: completed.temporality,
            fate: Arc::clone(&fate),
        })
    });
    let collectors: Result<Vec<_>, String> = collectors.collect();
    Ok((collectors?, fate))
}

/// The URL and the headers of the requests of a signal.
fn request(otlp: &OtlpExporter, env: &Env, signal: Signal) -> Result<(HttpUrl, Headers, Completed), String> {
    let completed = complete(otlp, env, Some(signal));
    if let Some(problem) = completed.problem {
        return Err(problem);
    }
    let otlp = &completed.otlp;
    let wire = Wire::of(otlp);
    let text = if completed.is_whole {
        whole_url(otlp)
    } else {
        collector_endpoint(otlp)
    };
    let url = HttpUrl::parse(&text).map_err(|error| error.to_string())?;
    let url = if completed.is_whole {
        url
    } else {
        wire.url(&url, signal)
    };
    let mut headers = headers(otlp).map_err(|error| error.to_string())?;
    let encoding = compression(otlp).unwrap_or(Encoding::Plain);
    for (name, value) in wire.headers(encoding) {
        headers.insert(name, value).map_err(|error| error.to_string())?;
    }
    Ok((url, headers, completed))
}

/// As in 0.7.1, the console is used if no exporter is configured.
fn console(config: &ObservabilityConfig, options: &TelemetryOptions) -> Option<Console> {
    let exporters = config.exporters.clone().unwrap_or_default();
    let none_named = exporters.console.is_none()
        && exporters.otlp.is_none()
        && exporters.prometheus.is_none()
        && exporters.azure_monitor.is_none();
    let style = match exporters.console {
        Some(style) => style.enabled.then_some(style)?,
        None if none_named => holodeck_model::ConsoleExporter::default(),
        None => return None,
    };
    Some(Console::new((options.console)(), style))
}

fn resource(config: &ObservabilityConfig, service: &str) -> Resource {
    let mut resource = Resource::builder_empty()
        .with_service_name(service.to_owned())
        .with_attribute(opentelemetry::KeyValue::new(
            "service.version",
            env!("CARGO_PKG_VERSION"),
        ));
    for (name, value) in &config.resource_attributes {
        resource = resource.with_attribute(opentelemetry::KeyValue::new(name.clone(), value.clone()));
    }
    resource.build()
}

fn tracer(
    traces: &TracesConfig,
    resource: Resource,
    collector: Option<Collector>,
    console: Option<Console>,
) -> SdkTracerProvider {
    let size = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let batches = || {
        BatchConfigBuilder::default()
            .with_max_queue_size(size(traces.max_queue_size))
            .with_max_export_batch_size(size(traces.max_export_batch_size))
            .with_scheduled_delay(Duration::from_millis(traces.schedule_delay_millis.into()))
            .build()
    };
    let share = Sampler::TraceIdRatioBased(traces.sample_rate.clamp(0.0, 1.0));
    let mut provider = SdkTracerProvider::builder()
        .with_resource(resource)
        .with_sampler(Sampler::ParentBased(Box::new(share)));
    if let Some(collector) = collector {
        let exporter = OtlpSpans::new(collector);
        provider = provider.with_span_processor(
            BatchSpanProcessor::builder(exporter)
                .with_batch_config(batches())
                .build(),
        );
    }
    if let Some(console) = console {
        provider = provider.with_span_processor(
            BatchSpanProcessor::builder(console)
                .with_batch_config(batches())
                .build(),
        );
    }
    provider.build()
}

fn meter(
    metrics: &MetricsConfig,
    resource: Resource,
    collector: Option<Collector>,
    console: Option<Console>,
) -> SdkMeterProvider {
    let mut provider = SdkMeterProvider::builder().with_resource(resource);
    if let Some(collector) = collector {
        let reader = PeriodicReader::builder(OtlpMetrics(collector))
            .with_interval(Duration::from_millis(metrics.export_interval_ms.into()));
        provider = provider.with_reader(reader.build());
    }
    if let Some(console) = console {
        provider = provider.with_reader(PeriodicReader::builder(console).with_interval(AT_THE_END).build());
    }
    provider.build()
}
