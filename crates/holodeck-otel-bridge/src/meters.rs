//! Measures duration and tokens of model calls under the names of the semantic conventions.

use std::time::Duration;

use holodeck_model::TokenUsage;
use opentelemetry::{
    KeyValue,
    metrics::{Histogram, Meter},
};

use crate::conventions::{DURATION_BUCKETS, OPERATION_DURATION, TOKEN_BUCKETS, TOKEN_TYPE, TOKEN_USAGE};

/// The two metrics of the conventions.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    duration: Histogram<f64>,
    tokens: Histogram<u64>,
}

impl Meters {
    pub(crate) fn new(meter: &Meter) -> Self {
        Self {
            duration: meter
                .f64_histogram(OPERATION_DURATION)
                .with_unit("s")
                .with_description("GenAI operation duration.")
                .with_boundaries(DURATION_BUCKETS.to_vec())
                .build(),
            tokens: meter
                .u64_histogram(TOKEN_USAGE)
                .with_unit("{token}")
                .with_description("Number of input and output tokens used.")
                .with_boundaries(TOKEN_BUCKETS.to_vec())
                .build(),
        }
    }

    pub(crate) fn took(&self, duration: Duration, attributes: &[KeyValue]) {
        self.duration.record(duration.as_secs_f64(), attributes);
    }

    pub(crate) fn used(&self, usage: &TokenUsage, attributes: &[KeyValue]) {
        for (kind, count) in [
            ("input", usage.prompt_tokens),
            ("output", usage.completion_tokens),
        ] {
            let mut attributes = attributes.to_vec();
            attributes.push(KeyValue::new(TOKEN_TYPE, kind));
            self.tokens.record(count, &attributes);
        }
    }
}
