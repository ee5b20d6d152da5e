//! The steps that a judge derives from criteria: which metrics need some, and what makes them the same steps.

use serde_json::json;

use super::{CheckIdentities, Digest};
use crate::{GevalMetric, MetricConfig, ModelConfig, ResolvedAgent};

/// A metric whose steps a judge derives.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data")]
pub struct DerivedSteps {
    /// Identifies the steps: they are derived again only if it changes.
    pub key: Digest,
    /// The metric.
    pub metric: GevalMetric,
    /// Whether it measures whole conversations.
    pub conversation: bool,
    /// The model that derives them: the first of its judges.
    pub judge: ModelConfig,
}

impl DerivedSteps {
    fn of(
        metric: &GevalMetric,
        conversation: bool,
        default_judge: Option<&ModelConfig>,
        prompts: u32,
    ) -> Option<Self> {
        let has_steps = metric
            .evaluation_steps
            .as_ref()
            .is_some_and(|steps| !steps.is_empty());
        if !metric.enabled || has_steps || metric.custom_prompt.is_some() {
            return None;
        }
        let own = metric.judges.as_ref().and_then(|judges| judges.first());
        let judge = own.or(metric.model.as_ref()).or(default_judge)?.clone();
        let parts = json!([
            metric.criteria,
            metric.evaluation_params,
            conversation,
            judge.answering(),
            prompts
        ]);
        Some(Self {
            key: Digest::of(&parts),
            metric: metric.clone(),
            conversation,
            judge,
        })
    }
}

impl CheckIdentities {
    /// The metrics of an agent whose steps a judge must derive, each once. `planned` are the places of the cases that
    /// count, in the order of the file; `None` means all.
    pub fn derived_steps(
        agent: &ResolvedAgent,
        planned: Option<&[usize]>,
        prompts: u32,
    ) -> Vec<DerivedSteps> {
        let mut found: Vec<DerivedSteps> = Vec::new();
        for (place, metric) in agent.config.metrics(planned) {
            let MetricConfig::Geval(metric) = metric else {
                continue;
            };
            let conversation = place.is_of_conversation();
            let steps = DerivedSteps::of(metric, conversation, agent.default_judge(), prompts);
            let steps = steps.filter(|steps| found.iter().all(|known| known.key != steps.key));
            found.extend(steps);
        }
        found
    }

    /// Enters steps that were derived before. Metrics without steps for their key stay as they are.
    pub fn enter_steps(
        agent: &mut ResolvedAgent,
        prompts: u32,
        steps: &dyn Fn(Digest) -> Option<Vec<String>>,
    ) {
        let default_judge = agent.default_judge().cloned();
        let enter = |metrics: &mut [MetricConfig], conversation: bool| {
            for metric in metrics {
                let MetricConfig::Geval(metric) = metric else {
                    continue;
                };
                let needed = DerivedSteps::of(metric, conversation, default_judge.as_ref(), prompts);
                if let Some(steps) = needed.and_then(|needed| steps(needed.key)) {
                    metric.evaluation_steps = Some(steps);
                }
            }
        };
        if let Some(evaluations) = &mut agent.config.evaluations {
            enter(&mut evaluations.metrics, false);
        }
        for case in agent.config.test_cases.detailed_mut() {
            enter(&mut case.evaluations, false);
            case.turns
                .iter_mut()
                .for_each(|turn| enter(&mut turn.evaluations, false));
            enter(&mut case.conversation_evaluations, true);
        }
    }
}
