//! Verdicts of judges and programs that a regrade keeps.

use std::time::Duration;

use holodeck_eval::{MetricError, MetricKind, MetricOutcome, Verdict};
use holodeck_model::{CheckReads, Decider, MetricConfig, MetricResult, TestCase};

use super::{Graders, asks, conversation::whole_expectations};
use holodeck_runs::{Grade, TurnGrade, expectations};

/// Which verdicts of judges and programs a regrade renews. Other checks cost nothing and are always computed again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "callers construct it")]
pub enum Renew {
    /// All of them.
    #[default]
    All,
    /// Those of the metrics with these names.
    Metrics(Vec<String>),
    /// Those that are errors.
    Errors,
}

/// A metric whose verdict would have to be kept, but is not one of the metric as it is now.
#[derive(Debug)]
pub(crate) struct CannotKeep {
    pub(crate) metric: String,
    stored: StoredVerdict,
}

/// The verdict that a run has of a metric.
#[derive(Debug)]
enum StoredVerdict {
    Missing,
    /// An earlier version recorded it, without its deciders.
    Unidentified,
    /// These decide otherwise now.
    Changed(Vec<Decider>),
}

impl CannotKeep {
    /// Why.
    pub(crate) fn reason(&self) -> String {
        match &self.stored {
            StoredVerdict::Missing => "the run has none of a metric of this name".to_owned(),
            StoredVerdict::Unidentified => "the run does not record what decided them".to_owned(),
            StoredVerdict::Changed(changed) if changed.is_empty() => {
                "the run has fewer of them than are needed now".to_owned()
            }
            StoredVerdict::Changed(changed) => {
                let names: Vec<&str> = changed.iter().map(|decider| decider.as_str()).collect();
                format!("another {} decides now", names.join(" and another "))
            }
        }
    }
}

impl Renew {
    fn renews(&self, config: &MetricConfig, stored: &MetricResult) -> bool {
        match self {
            Self::All => true,
            Self::Metrics(names) => names.iter().any(|name| name == config.name()),
            Self::Errors => stored.error.is_some(),
        }
    }

    /// Whether a metric is renewed whatever its verdict is.
    fn names(&self, config: &MetricConfig) -> bool {
        match self {
            Self::All => true,
            Self::Metrics(names) => names.iter().any(|name| name == config.name()),
            Self::Errors => false,
        }
    }
}

impl Graders {
    /// The verdicts of an earlier grading that are kept, in the order of the metrics of each subject.
    pub(crate) fn kept(
        &self,
        case: &TestCase,
        stored: &Grade,
        renew: &Renew,
    ) -> Result<Vec<Vec<Option<MetricOutcome>>>, CannotKeep> {
        let expected = expectations(case, stored.turns.len());
        let turns = stored.turns.iter().zip(expected).map(|(stored, expected)| {
            let configs: Vec<_> = self.enabled(expected).collect();
            self.kept_of(stored, &configs, expected.reads(None, false), renew)
        });
        let mut kept = turns.collect::<Result<Vec<_>, _>>()?;
        let configs: Vec<_> = case.conversation_metrics().collect();
        if !configs.is_empty() {
            let reads = whole_expectations(case).reads(case.goal(), true);
            let stored = stored.conversation.as_deref();
            let of_conversation = stored.map(|stored| self.kept_of(stored, &configs, reads, renew));
            kept.push(of_conversation.transpose()?.unwrap_or_default());
        }
        Ok(kept)
    }

    fn kept_of(
        &self,
        stored: &TurnGrade,
        configs: &[&MetricConfig],
        reads: CheckReads<'_>,
        renew: &Renew,
    ) -> Result<Vec<Option<MetricOutcome>>, CannotKeep> {
        if stored.metrics.is_empty() {
            // There was nothing to measure, so there is no verdict to keep.
            return Ok(Vec::new());
        }
        let mut verdicts: Vec<_> = stored.metrics.iter().map(Some).collect();
        let kept = configs.iter().map(|&config| {
            if !asks(config) || renew.names(config) {
                return Ok(None);
            }
            let identity = self.checks.check(config, reads);
            let has_name = |result: &MetricResult| result.metric_name == config.name();
            let same = verdicts.iter_mut().find(|verdict| {
                verdict.is_some_and(|result| result.identity == identity && has_name(result))
            });
            // Each verdict is used once: the same metric twice has two.
            let Some(result) = same.and_then(Option::take) else {
                let other = verdicts.iter().flatten().find(|result| has_name(result));
                return Err(CannotKeep {
                    metric: config.name().to_owned(),
                    stored: match other.map(|result| result.identity.differences(&identity)) {
                        None => StoredVerdict::Missing,
                        Some(None) => StoredVerdict::Unidentified,
                        Some(Some(changed)) => StoredVerdict::Changed(changed),
                    },
                });
            };
            // Whether a skipped metric is skipped again depends on the gates as they are now.
            let is_kept = !renew.renews(config, result) && !result.skipped;
            Ok(is_kept.then(|| outcome(config, result)))
        });
        kept.collect()
    }

    /// The names of all enabled metrics of a case.
    pub(crate) fn names_of_metrics<'a>(&'a self, case: &'a TestCase) -> impl Iterator<Item = &'a str> {
        // A simulated user writes at least one message.
        let turns = expectations(case, 1).into_iter();
        let of_turns = turns.flat_map(|expected| self.enabled(expected));
        of_turns
            .chain(case.conversation_metrics())
            .map(MetricConfig::name)
    }
}

fn outcome(config: &MetricConfig, result: &MetricResult) -> MetricOutcome {
    let verdict = match (result.passed, &result.error) {
        (Some(true), None) => Verdict::Passed,
        (Some(false), _) => Verdict::Failed,
        (Some(true) | None, Some(_)) => Verdict::Error,
        (None, None) => Verdict::NotGated,
    };
    MetricOutcome {
        name: result.metric_name.clone(),
        kind: MetricKind::of(config),
        score: result.score,
        threshold: result.threshold,
        verdict,
        reason: result.reasoning.clone(),
        error: result.error.clone().map(MetricError::Earlier),
        evidence: result.details.clone(),
        retries: result.retry_count,
        missing_votes: result.missing_votes.clone(),
        evaluation_time: Duration::try_from_secs_f64(result.evaluation_time_ms.unwrap_or_default() / 1e3)
            .unwrap_or_default(),
    }
}
