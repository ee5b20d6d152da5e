//! Opens the models that judge answers, play users or score the quality loop, and finds which metrics need them.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, Occasion};
use holodeck_eval::{Grader, JUDGE_INSTRUCTIONS, VerdictFormat};
use holodeck_model::{Code, Diagnostic, MetricConfig, ModelConfig, RagMetricType, ResolvedAgent};
use holodeck_runner::{JudgeSettings, JudgedSubject, Judges, OpenJudge};
use holodeck_turn::TurnRunner;
use holodeck_yaml::Load;

use crate::{
    backends::{BackendSelector, Specialist},
    inventory::is_same,
    planned::{default_model, metrics, users},
};

/// The judges of an agent's metrics.
pub(crate) struct AgentJudges {
    agent: Arc<ResolvedAgent>,
    backends: BackendSelector,
    turns: TurnRunner,
    /// The judges that were opened, by model and form of the answer.
    opened: Mutex<Vec<(ModelConfig, VerdictFormat, OpenJudge)>>,
}

impl AgentJudges {
    /// The models that play the users of the `planned` cases, if there are any.
    pub(crate) fn users(
        agent: &Arc<ResolvedAgent>,
        planned: Option<&[usize]>,
        backends: &BackendSelector,
        turns: &TurnRunner,
    ) -> Option<Arc<dyn Judges>> {
        let has_users = users(agent, planned).next().is_some();
        has_users.then(|| Arc::new(Self::new(agent, backends, turns)) as Arc<dyn Judges>)
    }

    fn new(agent: &Arc<ResolvedAgent>, backends: &BackendSelector, turns: &TurnRunner) -> Self {
        Self {
            agent: Arc::clone(agent),
            backends: backends.clone(),
            turns: turns.clone(),
            opened: Mutex::default(),
        }
    }

    /// The judges of `agent`, if a metric of the `planned` cases needs one.
    pub(crate) fn settings(
        agent: &Arc<ResolvedAgent>,
        planned: Option<&[usize]>,
        backends: &BackendSelector,
        turns: &TurnRunner,
    ) -> Option<JudgeSettings> {
        let needs_judge = metrics(agent, planned).any(|(_, metric)| metric.judging().is_some());
        needs_judge.then(|| JudgeSettings {
            concurrency: agent.execution.parallel_judge_calls.value.get(),
            judges: Arc::new(Self::new(agent, backends, turns)),
        })
    }

    /// The judges of the quality loop of `agent`.
    pub(crate) fn for_loop(
        agent: &Arc<ResolvedAgent>,
        backends: &BackendSelector,
        turns: &TurnRunner,
    ) -> JudgeSettings {
        JudgeSettings {
            concurrency: agent.execution.parallel_judge_calls.value.get(),
            judges: Arc::new(Self::new(agent, backends, turns)),
        }
    }

    fn find(&self, model: &ModelConfig, format: VerdictFormat) -> Option<OpenJudge> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let mut opened = opened.iter();
        let found = opened.find(|(other, of, _)| *of == format && is_same(other, model));
        found.map(|(_, _, judge)| judge.clone())
    }
}

#[async_trait]
impl Judges for AgentJudges {
    async fn open(
        &self,
        model: Option<&ModelConfig>,
        format: VerdictFormat,
    ) -> Result<OpenJudge, BackendError> {
        let model = model.unwrap_or_else(|| default_model(&self.agent));
        if let Some(judge) = self.find(model, format) {
            return Ok(judge);
        }
        let specialist = specialist(model, Some(format));
        let backend = self
            .backends
            .specialist(&self.agent, specialist, Occasion::Test)
            .await?;
        let mut turns = self.turns.clone();
        turns.model.clone_from(&model.name);
        let judge = OpenJudge {
            backend,
            turns: Arc::new(turns),
        };
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.push((model.clone(), format, judge.clone()));
        Ok(judge)
    }

    fn name(&self, model: Option<&ModelConfig>) -> String {
        model.unwrap_or_else(|| default_model(&self.agent)).name.clone()
    }

    async fn close(&self) -> Result<(), BackendError> {
        let opened = std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner));
        let mut result = Ok(());
        for (_, _, judge) in opened {
            result = result.and(judge.backend.teardown().await);
        }
        result
    }
}

/// A judge with this form of the answer, or any other model that has no tools.
pub(crate) fn specialist(model: &ModelConfig, format: Option<VerdictFormat>) -> Specialist {
    Specialist {
        model: model.clone(),
        instructions: format
            .map_or(JUDGE_INSTRUCTIONS, VerdictFormat::instructions)
            .to_owned(),
        response_format: format.map(VerdictFormat::schema),
    }
}

/// The smallest number of calls that judging these cases takes. A jury and repetitions multiply them; retries, samples
/// and the number of passages come in addition.
pub(crate) fn least_calls(agent: &ResolvedAgent, cases: impl Iterator<Item = usize>) -> u64 {
    let shared = agent.config.evaluations.as_ref();
    let shared = shared.map_or(&[][..], |evaluations| &evaluations.metrics);
    let of_list = |own: &[MetricConfig], above: &[MetricConfig]| -> u64 {
        let list = if own.is_empty() { above } else { own };
        let enabled = list.iter().filter(|metric| metric.enabled());
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
            let of_conversation = of_list(&case.conversation_evaluations, &[]);
            if case.turns.is_empty() {
                // A simulated user writes at least one question.
                return of_conversation + of_list(&case.evaluations, shared);
            }
            let own = if case.evaluations.is_empty() {
                shared
            } else {
                &case.evaluations
            };
            let of_turns = case.turns.iter().map(|turn| of_list(&turn.evaluations, own));
            of_conversation + of_turns.sum::<u64>()
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
            let grader = match place.subject() {
                JudgedSubject::Conversations => Grader::for_conversation(metrics),
                JudgedSubject::Answers => Grader::new(metrics),
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
