//! An export that runs: its providers, the span of the run, and the part that each backend has in it.

use std::{
    ops::Deref,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use holodeck_model::Redactor;
use opentelemetry::{
    Context, KeyValue, SpanId, TraceFlags, TraceId,
    trace::{Link, SpanContext, SpanKind, TraceContextExt as _, TraceState, Tracer as _},
};
use opentelemetry_sdk::trace::{SdkTracer, Span};

use crate::{
    content::Content,
    conventions::{PROVIDER_NAME, REQUEST_MODEL},
    meters::Meters,
    providers::Providers,
};

/// A trait object, which is fast to compile (see `ARCHITECTURE.md`).
pub(crate) type SharedRunning = Arc<dyn AsRef<Running> + Send + Sync>;

/// The tracer, unless tracing is off.
pub(crate) struct Running {
    pub(crate) providers: Providers,
    pub(crate) tracer: Option<SdkTracer>,
    pub(crate) meters: Option<Meters>,
    pub(crate) content: Content,
    /// Whether the explanations of evaluations are exported.
    pub(crate) evaluations: Content,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) agent: String,
    /// The earlier run whose answers are graded again.
    pub(crate) regraded: Option<String>,
    pub(crate) ended: AtomicU64,
    pub(crate) run_context: Option<SpanContext>,
    pub(crate) run: Mutex<Option<Span>>,
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

    pub(crate) fn count(&self, span: &SpanContext) {
        if span.is_sampled() {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The part of one backend in the export: its spans and metrics name its own model, not the agent's.
pub(crate) struct BackendPart {
    pub(crate) running: SharedRunning,
    pub(crate) model: String,
    pub(crate) provider: &'static str,
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
        self.identity_of(&self.model)
    }

    /// Attributes of a call of another model, as a sub-agent may have one.
    pub(crate) fn identity_of(&self, model: &str) -> Vec<KeyValue> {
        vec![
            KeyValue::new(PROVIDER_NAME, self.provider),
            KeyValue::new(REQUEST_MODEL, model.to_owned()),
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
pub(crate) fn parse_traceparent(text: &str) -> Option<SpanContext> {
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
