//! The fields that every judged metric has: how its judges are asked, and what follows from their answers.

/// A metric with the fields of every judged metric between its own, which judges one `$subject`.
macro_rules! judged_metric {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident { $($before:tt)* }
        judging $subject:literal
        { $($after:tt)* }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($before)*
            /// Whether the judge gives a reason, which costs tokens.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("default" = true))]
            pub include_reason: Option<bool>,
            /// Whether an error of the metric fails the case instead of leaving it without a verdict.
            #[serde(default)]
            pub fail_on_error: bool,
            /// How often a judge that returned no verdict is asked again.
            #[schemars(range(min = 1, max = 3))]
            pub retry_on_failure: Option<u32>,
            /// Milliseconds that one call of the judge may take; `execution.llm_timeout` if absent.
            #[schemars(range(min = 1))]
            pub timeout_ms: Option<u64>,
            /// Several judges instead of one: the majority decides, and the score is their median.
            #[schemars(length(min = 1))]
            pub judges: Option<Vec<$crate::ModelConfig>>,
            /// How many of the `judges` must return a verdict; all but one if absent, at least one.
            #[schemars(range(min = 1))]
            pub min_judges: Option<u32>,
            /// How the scores of several judges are combined.
            pub aggregate: Option<$crate::Aggregate>,
            #[doc = concat!(" How often each judge judges the same ", $subject, ", to measure its noise.")]
            #[schemars(range(min = 1, max = 20))]
            pub judge_repeats: Option<u32>,
            /// When the metric is computed; always if absent.
            pub when: Option<$crate::MetricCondition>,
            /// Whether a run needs a stored calibration of the judge: `true`, or the lowest `min_kappa` and `min_labels`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub require_calibrated: Option<$crate::RequireCalibrated>,
            /// How to handle it if a text that it reads held a secret and was masked, instead of `evaluations.on_masked`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub on_masked: Option<$crate::OnMasked>,
            /// How much its score counts in the score of its case; 1 if absent.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 0.0))]
            pub weight: Option<f64>,
            $($after)*
        }
    };
}

pub(super) use judged_metric;
