//! Digests of checks, by which later runs recognise stored verdicts that are still valid.

use holodeck_eval::JUDGE_PROMPTS;
use holodeck_model::{MetricConfig, hex_prefix};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Expectations, asks};

/// The metrics of an agent, with the digests that grading each case needs.
pub(super) struct SharedMetrics {
    configs: Vec<MetricConfig>,
    digests: Vec<Digests>,
}

/// What depends on the configuration of a metric only.
struct Digests {
    /// The beginning of [`SharedMetrics::metric_check`].
    check: JsonHasher,
    judge_prompt: String,
}

impl SharedMetrics {
    pub(super) fn new(configs: &[MetricConfig]) -> Self {
        let digests = configs.iter().map(|config| Digests {
            check: begin_check(config),
            judge_prompt: judge_prompt(config),
        });
        Self {
            digests: digests.collect(),
            configs: configs.to_vec(),
        }
    }

    pub(super) fn configs(&self) -> &[MetricConfig] {
        &self.configs
    }

    /// The digests of a metric of the agent, which its place in memory identifies; `None` for a metric of a case.
    fn digests(&self, config: &MetricConfig) -> Option<&Digests> {
        let mut known = self.configs.iter().zip(&self.digests);
        Some(known.find(|(known, _)| std::ptr::eq(*known, config))?.1)
    }

    /// Fingerprint of a metric and of what it compares an answer with. A verdict is only valid for the same one.
    pub(super) fn metric_check(
        &self,
        config: &MetricConfig,
        expected: Expectations<'_>,
        goal: Option<&str>,
    ) -> String {
        let known = self.digests(config).map(|digests| digests.check.clone());
        let mut hasher = known.unwrap_or_else(|| begin_check(config));
        hasher.add(",", &expected.ground_truth);
        if asks(config) {
            hasher.add(",", &(expected.retrieval_context, expected.turn_config, goal));
        }
        hasher.0.update("]");
        hasher.finish()
    }

    /// Digest of what shapes the prompts of a judged metric: scores of different prompts are not comparable.
    pub(super) fn judge_prompt(&self, config: &MetricConfig) -> String {
        let known = self.digests(config).map(|digests| digests.judge_prompt.clone());
        known.unwrap_or_else(|| judge_prompt(config))
    }
}

/// The beginning of a list whose first element is the metric.
fn begin_check(config: &MetricConfig) -> JsonHasher {
    let mut hasher = JsonHasher(Sha256::new());
    hasher.add("[", config);
    hasher
}

fn judge_prompt(config: &MetricConfig) -> String {
    let mut value = serde_json::to_value(config).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        for name in NOT_IN_PROMPTS {
            fields.remove(name);
        }
    }
    fingerprint(&(JUDGE_PROMPTS, value))
}

/// The fields of a judged metric that shape no prompt.
const NOT_IN_PROMPTS: [&str; 12] = [
    "threshold",
    "enabled",
    "model",
    "judges",
    "min_judges",
    "aggregate",
    "judge_repeats",
    "retry_on_failure",
    "timeout_ms",
    "fail_on_error",
    "when",
    "require_calibrated",
];

/// The beginning of a SHA-256 over a value as JSON.
pub(super) fn fingerprint(value: &impl Serialize) -> String {
    let mut hasher = JsonHasher(Sha256::new());
    hasher.add("", value);
    hasher.finish()
}

#[derive(Clone)]
struct JsonHasher(Sha256);

impl JsonHasher {
    fn add(&mut self, before: &str, value: &impl Serialize) {
        self.0.update(before);
        // A configuration read from YAML can always be written as JSON.
        let _ = serde_json::to_writer(self, value);
    }

    fn finish(self) -> String {
        hex_prefix(&self.0.finalize(), 8)
    }
}

impl std::io::Write for JsonHasher {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Journals of earlier versions contain these digests.
    #[test]
    fn a_check_is_the_fingerprint_of_a_list() {
        let configs: Vec<MetricConfig> = serde_json::from_value(json!([
            {"standard": {"metric": "contains", "value": "30 days"}},
            {"standard": {"metric": "relevance", "threshold": 0.5}},
        ]))
        .unwrap();
        let shared = SharedMetrics::new(&configs);
        let context = ["a passage".to_owned()];
        let expected = Expectations {
            ground_truth: Some("within 30 days"),
            retrieval_context: Some(&context),
            ..Expectations::default()
        };
        let known = (expected.retrieval_context, expected.turn_config, Some("a goal"));
        let whole = [
            fingerprint(&(&configs[0], expected.ground_truth)),
            fingerprint(&(&configs[1], expected.ground_truth, known)),
        ];
        // Those of the agent are known, equal ones of a case are not.
        for list in [shared.configs(), &configs] {
            let checks = list
                .iter()
                .map(|config| shared.metric_check(config, expected, Some("a goal")));
            assert_eq!(checks.collect::<Vec<_>>(), whole);
            let prompts = list.iter().map(|config| shared.judge_prompt(config));
            assert!(prompts.eq(configs.iter().map(judge_prompt)));
        }
    }
}
