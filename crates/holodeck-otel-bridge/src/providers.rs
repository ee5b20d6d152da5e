//! The SDK's two pipelines, configured by the YAML.

use std::{sync::Arc, thread, time::Duration};

use holodeck_http::{HttpClient, HttpUrl};
use holodeck_model::{MetricsConfig, ObservabilityConfig, OtlpExporter, TracesConfig};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider},
};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use crate::{
    TelemetryOptions,
    check::headers,
    collector::{collector_endpoint, compression, otlp},
    console::Console,
    export::{Collector, Fate, OtlpMetrics, OtlpSpans},
    wire::{Encoding, Wire},
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
        let (collector, fate) = match otlp(config.exporters.as_ref()).map(|otlp| collector(otlp, options)) {
            Some(Ok(collector)) => {
                let fate = Arc::clone(&collector.fate);
                (Some(collector), Some(fate))
            }
            Some(Err(problem)) => (None, Some(Arc::new(Fate::failed(problem)))),
            None => (None, None),
        };
        let console = console(config, options);
        let traces = config.traces.clone().unwrap_or_default();
        let metrics = config.metrics.clone().unwrap_or_default();
        let resource = resource(config, service);
        let somewhere = collector.is_some() || console.is_some();
        Self {
            tracer: (traces.enabled && somewhere)
                .then(|| tracer(&traces, resource.clone(), collector.clone(), console.clone())),
            meter: (metrics.enabled && somewhere).then(|| meter(&metrics, resource, collector, console)),
            fate,
        }
    }

    /// Sends what is left; returns `false` and gives up after `limit`.
    pub(crate) async fn flush(&self, limit: Duration) -> bool {
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

/// The error is the reason why nothing can be exported.
fn collector(otlp: &OtlpExporter, options: &TelemetryOptions) -> Result<Collector, String> {
    let wire = Wire::of(otlp);
    let endpoint = HttpUrl::parse(&collector_endpoint(otlp)).map_err(|error| error.to_string())?;
    let mut headers = headers(otlp).map_err(|error| error.to_string())?;
    let encoding = compression(otlp).unwrap_or(Encoding::Plain);
    for (name, value) in wire.headers(encoding) {
        headers.insert(name, value).map_err(|error| error.to_string())?;
    }
    let client = HttpClient::new(&options.http).map_err(|error| error.to_string())?;
    Ok(Collector {
        wire,
        client,
        runtime: Handle::current(),
        endpoint,
        headers,
        timeout: Duration::from_millis(otlp.timeout_ms.into()),
        encoding,
        fate: Arc::default(),
    })
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
