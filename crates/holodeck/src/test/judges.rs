//! Checks the judged metrics of an agent, and how many calls they take. It opens nothing.

use holodeck_eval::Grader;
use holodeck_model::{Code, Diagnostic, MetricConfig, RagMetricType, ResolvedAgent};
use holodeck_yaml::Load;

use crate::agent::inventory::metrics;

/// The smallest number of calls that judging these cases takes. A jury and repetitions multiply them; retries, samples
/// and the number of passages come in addition.
pub(crate) fn least_calls(agent: &ResolvedAgent, cases: impl Iterator<Item = usize>) -> u64 {
    let of_list = |metrics: &[MetricConfig]| -> u64 {
        let enabled = metrics.iter().filter(|metric| metric.enabled());
        let judged = enabled.filter_map(|metric| Some((metric, metric.judging()?)));
        judged
            .map(|(metric, judging)| {
                let steps = match metric {
                    MetricConfig::Rag(rag) => match rag.metric_type {
                        RagMetricType::Faithfulness | RagMetricType::AnswerRelevancy => 2,
                        _ => 1,
                    },
                    _ => 1,
                };
                steps * u64::from(judging.repeats) * judging.judges.len().max(1) as u64
            })
            .sum()
    };
    let cases = cases.filter_map(|index| agent.config.test_cases.get(index));
    cases
        .map(|case| {
            let of_turns = case
                .turns
                .iter()
                .map(|turn| agent.config.metrics_for(&case, Some(turn)));
            let of_answers: u64 = if case.turns.is_empty() {
                // A simulated user writes at least one question.
                of_list(agent.config.metrics_for(&case, None))
            } else {
                of_turns.map(of_list).sum()
            };
            of_answers + of_list(&case.conversation_evaluations)
        })
        .sum()
}

/// Reports judged metrics that cannot work when the agent is loaded.
pub(crate) fn check(load: &mut Load) {
    let Some(agent) = &load.agent else { return };
    let judged = metrics(agent, None).filter(|(_, metric)| metric.judging().is_some());
    let found: Vec<Diagnostic> = judged
        .filter_map(|(place, metric)| {
            let pointer = place.pointer();
            let metrics = std::slice::from_ref(metric);
            let grader = if place.is_of_conversation() {
                Grader::for_conversation(metrics)
            } else {
                Grader::new(metrics)
            };
            let error = grader.err()?;
            let pointer = match error.field {
                Some(field) => format!("{pointer}.{field}"),
                None => pointer,
            };
            let problem = error.problem;
            let message = format!("metric `{}` cannot be used: {problem}", metric.name());
            let error = Diagnostic::error(Code::InconsistentValues, message);
            Some(error.at(agent.locate(&pointer)).about(pointer))
        })
        .collect();
    load.diagnostics.extend(found);
    if load.has_errors() {
        load.agent = None;
    }
}
