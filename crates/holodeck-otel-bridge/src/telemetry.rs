//! Starts, holds and ends the export of spans and metrics for a run.
//!
//! Telemetry must never change or fail a run.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use holodeck_backend_api::AgentBackend;
use holodeck_model::{ModelConfig, ResolvedAgent};
use opentelemetry::{
    Context, KeyValue,
    metrics::MeterProvider as _,
    trace::{Span as _, SpanKind, TraceContextExt as _, Tracer as _, TracerProvider as _},
};
use serde_json::{Map, Value};

use crate::{
    Evaluation, TelemetryOptions,
    content::Content,
    conventions::{AGENT_NAME, REGRADED_RUN, provider_name, service_name},
    evaluation::{self, EvaluatedTurn},
    meters::Meters,
    providers::Providers,
    running::{BackendPart, Running, SharedRunning, parse_traceparent, traceparent},
    traced::TracedBackend,
    variables::is_disabled,
};

/// The instrumentation scope.
const SCOPE: &str = "holodeck";

/// Exports HoloDeck's own spans and metrics. Clones share it; disabled, it costs nothing.
#[derive(Clone, Default)]
pub struct Telemetry(Option<SharedRunning>);

impl Telemetry {
    /// Starts the export that `observability` configures; must be called inside a tokio runtime. Nothing is sent before
    /// the first turn. A collector that cannot be used becomes the warning of [`shutdown`](Self::shutdown).
    pub fn start(agent: &ResolvedAgent, options: &TelemetryOptions) -> Self {
        let Some(config) = agent
            .config
            .observability
            .as_ref()
            .filter(|config| config.enabled && !is_disabled(&options.env))
        else {
            return Self::off();
        };
        let name = &agent.config.name;
        let service = service_name(config, name);
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
        self.wrap_named(backend, model.name.clone(), provider_name(model))
    }

    /// As [`wrap`](Self::wrap), for a backend without a model, with the name of what it asks.
    pub fn wrap_named(
        &self,
        backend: Arc<dyn AgentBackend>,
        model: String,
        provider: &'static str,
    ) -> Arc<dyn AgentBackend> {
        match &self.0 {
            Some(running) => {
                let part = BackendPart {
                    running: Arc::clone(running),
                    model,
                    provider,
                };
                Arc::new(TracedBackend::new(backend, Arc::new(part)))
            }
            None => backend,
        }
    }

    /// Sends what is left within `limit`. All problems of the run become one warning, without secrets.
    pub async fn shutdown(&self, limit: Duration) -> Option<String> {
        let running = self.running()?;
        let warning = running.end_export(limit).await?;
        Some(running.redactor.text(&warning).into_owned())
    }
}

impl Running {
    async fn end_export(&self, limit: Duration) -> Option<String> {
        if let Some(mut run) = self.run.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.count(run.span_context());
            run.end();
        }
        let in_time = self.providers.flush(limit).await;
        let fate = self.providers.fate.as_ref()?;
        if let Some(problem) = fate.problem() {
            return Some(format!("telemetry was not exported: {problem}"));
        }
        if let Some(reason) = fate.waiting() {
            return Some(format!("telemetry was not exported: {reason}"));
        }
        if !in_time {
            return Some(format!(
                "telemetry was not exported: the collector did not answer within {} s",
                limit.as_secs_f64()
            ));
        }
        let (ended, exported) = (self.ended.load(Ordering::Relaxed), fate.exported());
        (self.tracer.is_some() && exported < ended).then(|| {
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
