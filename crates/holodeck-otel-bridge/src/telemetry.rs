//! Starts, holds and ends the export of spans and metrics for a run.
//!
//! Telemetry must never change or fail a run.

use std::{
    fmt,
    io::Write,
    ops::Deref,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use holodeck_backend_api::AgentBackend;
use holodeck_http::HttpOptions;
use holodeck_model::{ModelConfig, Redactor, ResolvedAgent};
use opentelemetry::{
    Context, KeyValue, SpanId, TraceFlags, TraceId,
    metrics::MeterProvider as _,
    trace::{
        Link, Span as _, SpanContext, SpanKind, TraceContextExt as _, TraceState, Tracer as _,
        TracerProvider as _,
    },
};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use serde_json::{Map, Value};

use crate::{
    Evaluation,
    content::Content,
    conventions::{AGENT_NAME, PROVIDER_NAME, REGRADED_RUN, REQUEST_MODEL, provider_name},
    evaluation::{self, EvaluatedTurn},
    meters::Meters,
    providers::Providers,
    traced::TracedBackend,
};

/// The instrumentation scope.
const SCOPE: &str = "holodeck";

/// Output of the console exporter.
pub type ConsoleWriter = fn() -> Box<dyn Write + Send>;

/// Inputs of [`Telemetry::start`] besides the YAML.
#[derive(Clone, Debug)]
pub struct TelemetryOptions {
    /// How to reach a collector.
    pub http: HttpOptions,
    /// Output of `exporters.console`.
    pub console: ConsoleWriter,
    /// Redacts secrets in exported content.
    pub redactor: Arc<Redactor>,
    /// Name of the root span of a run, as in `holodeck test`.
    pub run: String,
    /// The W3C `traceparent` of the root span's parent.
    pub parent: Option<String>,
    /// The earlier run whose answers are graded again.
    pub regraded: Option<String>,
}

/// Exports HoloDeck's own spans and metrics. Clones share it; disabled, it costs nothing.
#[derive(Clone, Default)]
pub struct Telemetry(Option<SharedRunning>);

/// A trait object, which is fast to compile (see `ARCHITECTURE.md`).
type SharedRunning = Arc<dyn AsRef<Running> + Send + Sync>;

impl Telemetry {
    /// Starts the export that `observability` configures; must be called inside a tokio runtime. Nothing is sent before
    /// the first turn. A collector that cannot be used becomes the warning of [`shutdown`](Self::shutdown).
    pub fn start(agent: &ResolvedAgent, options: &TelemetryOptions) -> Self {
        let Some(config) = agent
            .config
            .observability
            .as_ref()
            .filter(|config| config.enabled)
        else {
            return Self::off();
        };
        let name = &agent.config.name;
        let service = config
            .service_name
            .clone()
            .unwrap_or_else(|| format!("holodeck-{name}"));
        let providers = Providers::new(config, &service, options);
        if providers.tracer.is_none() && providers.meter.is_none() && providers.fate.is_none() {
            return Self::off();
        }
        let tracer = providers.tracer.as_ref().map(|provider| provider.tracer(SCOPE));
        let meters = providers
            .meter
            .as_ref()
            .map(|provider| Meters::new(&provider.meter(SCOPE)));
        let parent = options.parent.as_deref().and_then(parse_traceparent);
        let regraded = options.regraded.clone();
        let run = tracer.as_ref().map(|tracer| {
            let mut attributes = vec![KeyValue::new(AGENT_NAME, name.clone())];
            attributes.extend(regraded.clone().map(|run| KeyValue::new(REGRADED_RUN, run)));
            let above = parent.map_or_else(Context::new, |parent| {
                Context::new().with_remote_span_context(parent)
            });
            tracer
                .span_builder(options.run.clone())
                .with_kind(SpanKind::Internal)
                .with_attributes(attributes)
                .start_with_context(tracer, &above)
        });
        let traces = config.traces.clone().unwrap_or_default();
        let content = |captured| Content::new(captured, &traces, Arc::clone(&options.redactor));
        Self(Some(Arc::new(Running {
            run_context: run.as_ref().map(|span| span.span_context().clone()),
            providers,
            tracer,
            meters,
            content: content(traces.capture_content),
            evaluations: content(traces.capture_evaluation_content),
            redactor: Arc::clone(&options.redactor),
            agent: name.clone(),
            regraded,
            ended: AtomicU64::new(0),
            run: Mutex::new(run),
        })))
    }

    /// Nothing is exported.
    pub fn off() -> Self {
        Self(None)
    }

    fn running(&self) -> Option<&Running> {
        self.0.as_deref().map(AsRef::as_ref)
    }

    /// Whether anything is exported.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The W3C `traceparent` of the run, for programs whose spans belong to it.
    pub fn traceparent(&self) -> Option<String> {
        let context = self.running()?.run_context.as_ref()?;
        Some(traceparent(context))
    }

    /// Exports the results of the evaluation of a turn, under its span, which this `traceparent` names.
    pub fn evaluated(&self, turn: &str, results: &[Evaluation<'_>]) {
        if let (Some(running), Some(turn)) = (self.running(), parse_traceparent(turn)) {
            evaluation::export(running, &EvaluatedTurn::OfThisRun(turn), results);
        }
    }

    /// Exports the results of the evaluation of a turn of an earlier run, in a trace of their own. It is linked to the span
    /// of the turn, if the turn was traced. `unit` is the test case.
    pub fn evaluated_again(&self, unit: &str, turn: Option<&str>, results: &[Evaluation<'_>]) {
        if let Some(running) = self.running() {
            let turn = turn.and_then(parse_traceparent);
            evaluation::export(running, &EvaluatedTurn::OfEarlierRun { unit, turn }, results);
        }
    }

    /// Exports an event about a command as a span of its own, which is linked to that of the run. Numbers and booleans keep
    /// their type, secrets are masked, and absent fields are left out.
    pub fn command_event(&self, name: &str, fields: &Map<String, Value>) {
        let Some(running) = self.running() else { return };
        let mut attributes = vec![KeyValue::new(AGENT_NAME, running.agent.clone())];
        attributes.extend(fields.iter().filter_map(|(field, value)| {
            let key = format!("holodeck.{field}");
            Some(match value {
                Value::Null => return None,
                Value::Bool(value) => KeyValue::new(key, *value),
                Value::Number(number) => match number.as_i64() {
                    Some(number) => KeyValue::new(key, number),
                    None => KeyValue::new(key, number.as_f64().unwrap_or_default()),
                },
                Value::String(text) => KeyValue::new(key, running.redactor.text(text).into_owned()),
                other => KeyValue::new(key, running.redactor.text(&other.to_string()).into_owned()),
            })
        }));
        let now = SystemTime::now();
        let span = running.span(
            name.to_owned(),
            SpanKind::Internal,
            &Context::new(),
            now,
            attributes,
        );
        running.end(&span, now);
    }

    /// A traced wrapper of a backend that asks `model`, or the backend itself if nothing is exported. Several backends may
    /// share one export; [`shutdown`](Self::shutdown) ends it.
    pub fn wrap(&self, backend: Arc<dyn AgentBackend>, model: &ModelConfig) -> Arc<dyn AgentBackend> {
        match &self.0 {
            Some(running) => {
                let part = BackendPart {
                    running: Arc::clone(running),
                    model: model.name.clone(),
                    provider: provider_name(model),
                };
                Arc::new(TracedBackend::new(backend, Arc::new(part)))
            }
            None => backend,
        }
    }

    /// Sends what is left within `limit`. All problems of the run become one warning.
    pub async fn shutdown(&self, limit: Duration) -> Option<String> {
        let running = self.running()?;
        if let Some(mut run) = running.run.lock().unwrap_or_else(PoisonError::into_inner).take() {
            running.count(run.span_context());
            run.end();
        }
        let in_time = running.providers.flush(limit).await;
        let fate = running.providers.fate.as_ref()?;
        if let Some(problem) = fate.problem() {
            return Some(format!("telemetry was not exported: {problem}"));
        }
        if !in_time {
            return Some(format!(
                "telemetry was not exported: the collector did not answer within {} s",
                limit.as_secs_f64()
            ));
        }
        let (ended, exported) = (running.ended.load(Ordering::Relaxed), fate.exported());
        (running.tracer.is_some() && exported < ended).then(|| {
            format!(
                "{} of {ended} spans were not exported: the queue was full (`traces.max_queue_size`)",
                ended - exported
            )
        })
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Telemetry").field(&self.is_on()).finish()
    }
}

/// The tracer, unless tracing is off.
pub(crate) struct Running {
    providers: Providers,
    tracer: Option<SdkTracer>,
    pub(crate) meters: Option<Meters>,
    pub(crate) content: Content,
    /// Whether the explanations of evaluations are exported.
    pub(crate) evaluations: Content,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) agent: String,
    /// The earlier run whose answers are graded again.
    pub(crate) regraded: Option<String>,
    ended: AtomicU64,
    run_context: Option<SpanContext>,
    run: Mutex<Option<Span>>,
}

impl AsRef<Self> for Running {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Running {
    /// A span under `parent`.
    pub(crate) fn span(
        &self,
        name: String,
        kind: SpanKind,
        parent: &Context,
        started: SystemTime,
        attributes: Vec<KeyValue>,
    ) -> Context {
        self.linked_span(name, kind, parent, started, attributes, None)
    }

    /// A span under `parent` with a link.
    pub(crate) fn linked_span(
        &self,
        name: String,
        kind: SpanKind,
        parent: &Context,
        started: SystemTime,
        attributes: Vec<KeyValue>,
        link: Option<SpanContext>,
    ) -> Context {
        let Some(tracer) = &self.tracer else {
            return parent.clone();
        };
        let mut builder = tracer
            .span_builder(name)
            .with_kind(kind)
            .with_start_time(started)
            .with_attributes(attributes);
        // Each turn is its own trace, so that sampling works per turn; a link leads to the run.
        let run = self.run_context.clone().filter(|_| !parent.has_active_span());
        let links: Vec<Link> = run.into_iter().chain(link).map(Link::with_context).collect();
        if !links.is_empty() {
            builder = builder.with_links(links);
        }
        let span = builder.start_with_context(tracer, parent);
        parent.with_span(span)
    }

    /// Ends a span of [`span`](Self::span).
    pub(crate) fn end(&self, span: &Context, at: SystemTime) {
        if self.tracer.is_some() {
            self.count(span.span().span_context());
            span.span().end_with_timestamp(at);
        }
    }

    fn count(&self, span: &SpanContext) {
        if span.is_sampled() {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The part of one backend in the export: its spans and metrics name its own model, not the agent's.
pub(crate) struct BackendPart {
    running: SharedRunning,
    pub(crate) model: String,
    provider: &'static str,
}

impl Deref for BackendPart {
    type Target = Running;

    fn deref(&self) -> &Running {
        (*self.running).as_ref()
    }
}

impl BackendPart {
    /// Attributes of every span and metric.
    pub(crate) fn identity(&self) -> Vec<KeyValue> {
        vec![
            KeyValue::new(PROVIDER_NAME, self.provider),
            KeyValue::new(REQUEST_MODEL, self.model.clone()),
        ]
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // No effect after a shutdown. Without one, the run's span is lost, but no drop waits for a collector.
        self.providers.abandon();
    }
}

/// The W3C `traceparent` of a span.
pub(crate) fn traceparent(context: &SpanContext) -> String {
    format!(
        "00-{}-{}-{:02x}",
        context.trace_id(),
        context.span_id(),
        context.trace_flags().to_u8()
    )
}

/// Reads a W3C `traceparent`.
fn parse_traceparent(text: &str) -> Option<SpanContext> {
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let sizes = version.len() == 2 && trace.len() == 32 && span.len() == 16 && flags.len() == 2;
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()?),
        true,
        TraceState::default(),
    );
    (sizes && version != "ff" && context.is_valid()).then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_taken_only_if_it_is_one() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = parse_traceparent(good).unwrap();
        assert!(context.is_sampled() && context.is_remote());
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf9-00f067aa0ba902b7-01",
            "00-zzf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert!(parse_traceparent(bad).is_none(), "{bad}");
        }
    }
}
