//! Opens the models that judge answers, play users or score the quality loop, and finds which metrics need them.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, Occasion};
use holodeck_eval::{Grader, JUDGE_INSTRUCTIONS, VerdictFormat};
use holodeck_model::{
    Code, Diagnostic, MetricConfig, ModelConfig, RagMetricType, ResolvedAgent, SimulatedUser,
};
use holodeck_runner::{JudgeSettings, JudgedSubject, Judges, OpenJudge};
use holodeck_turn::TurnRunner;
use holodeck_yaml::Load;

use crate::{
    backends::{BackendSelector, Specialist},
    model_places::is_same,
    quality,
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

pub(crate) fn default_model(agent: &ResolvedAgent) -> &ModelConfig {
    agent.default_judge()
}

/// The place of a metric in the file.
#[derive(Clone, Copy)]
pub(crate) struct MetricPlace {
    owner: Owner,
    index: usize,
}

/// The owner of a list of metrics.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Agent,
    Case(usize),
    /// The conversation of a case as a whole.
    Conversation(usize),
    Turn(usize, usize),
}

impl MetricPlace {
    /// The subject of a metric at this place.
    pub(crate) fn subject(self) -> JudgedSubject {
        match self.owner {
            Owner::Conversation(_) => JudgedSubject::Conversations,
            Owner::Agent | Owner::Case(_) | Owner::Turn(..) => JudgedSubject::Answers,
        }
    }

    pub(crate) fn pointer(self) -> String {
        let index = self.index;
        match self.owner {
            Owner::Agent => format!("evaluations.metrics.{index}"),
            Owner::Case(case) => format!("test_cases.{case}.evaluations.{index}"),
            Owner::Conversation(case) => format!("test_cases.{case}.conversation_evaluations.{index}"),
            Owner::Turn(case, turn) => format!("test_cases.{case}.turns.{turn}.evaluations.{index}"),
        }
    }
}

/// The enabled metrics of an agent and of its `planned` cases, which are in the order of the file; `None` means all
/// cases.
pub(crate) fn metrics<'a>(
    agent: &'a ResolvedAgent,
    planned: Option<&'a [usize]>,
) -> impl Iterator<Item = (MetricPlace, &'a MetricConfig)> {
    let shared = agent.config.evaluations.as_ref();
    let runs_cases = planned.is_none_or(|planned| !planned.is_empty());
    let shared = shared
        .filter(|_| runs_cases)
        .map_or(&[][..], |evaluations| &evaluations.metrics);
    let own = agent.config.test_cases.detailed();
    let own = own
        .filter(move |(index, _)| planned.is_none_or(|planned| planned.binary_search(index).is_ok()))
        .flat_map(|(case, config)| {
            let turns = config.turns.iter().enumerate();
            let of_turns = turns.map(move |(turn, config)| (Owner::Turn(case, turn), &config.evaluations));
            let of_case = [
                (Owner::Case(case), &config.evaluations),
                (Owner::Conversation(case), &config.conversation_evaluations),
            ];
            of_case.into_iter().chain(of_turns)
        })
        .map(|(owner, metrics)| (owner, metrics.as_slice()));
    std::iter::once((Owner::Agent, shared))
        .chain(own)
        .flat_map(|(owner, metrics)| {
            let metrics = metrics.iter().enumerate();
            metrics.map(move |(index, metric)| (MetricPlace { owner, index }, metric))
        })
        .filter(|(_, metric)| metric.enabled())
}

/// The models that judge the metrics of the `planned` cases.
pub(crate) fn judge_models<'a>(
    agent: &'a ResolvedAgent,
    planned: Option<&'a [usize]>,
) -> Vec<&'a ModelConfig> {
    let mut models = match planned {
        Some([]) => Vec::new(),
        _ => loop_judge_models(agent),
    };
    for (_, metric) in metrics(agent, planned) {
        let Some(judging) = metric.judging() else { continue };
        let named = match judging.judges {
            [] => std::slice::from_ref(default_model(agent)),
            judges => judges,
        };
        for model in named {
            if !models.iter().any(|known| is_same(known, model)) {
                models.push(model);
            }
        }
    }
    models
}

/// The models that judge answers in the quality loop.
pub(crate) fn loop_judge_models(agent: &ResolvedAgent) -> Vec<&ModelConfig> {
    let Some(config) = quality::enabled(agent) else {
        return Vec::new();
    };
    let of_metrics = quality::loop_metrics(agent, config).filter_map(MetricConfig::judging);
    let of_metrics = of_metrics.flat_map(|judging| match judging.judges {
        [] => std::slice::from_ref(default_model(agent)),
        judges => judges,
    });
    let of_scorer = config.scorer.judge.iter();
    let of_scorer = of_scorer.map(|judge| judge.model.as_ref().unwrap_or_else(|| default_model(agent)));
    let mut models: Vec<&ModelConfig> = Vec::new();
    for model in of_metrics.chain(of_scorer) {
        if !models.iter().any(|known| is_same(known, model)) {
            models.push(model);
        }
    }
    models
}

/// The simulated users of the `planned` cases, with the places of these cases in the file.
pub(crate) fn users<'a>(
    agent: &'a ResolvedAgent,
    planned: Option<&'a [usize]>,
) -> impl Iterator<Item = (usize, &'a SimulatedUser)> {
    let cases = agent.config.test_cases.detailed();
    cases
        .filter(move |(index, _)| planned.is_none_or(|planned| planned.binary_search(index).is_ok()))
        .filter_map(|(index, case)| Some((index, case.user.as_deref()?)))
}

/// The models that play the users of the `planned` cases.
pub(crate) fn user_models<'a>(
    agent: &'a ResolvedAgent,
    planned: Option<&'a [usize]>,
) -> Vec<&'a ModelConfig> {
    let mut models: Vec<&ModelConfig> = Vec::new();
    for (_, user) in users(agent, planned) {
        let model = user.model.as_ref().unwrap_or_else(|| default_model(agent));
        if !models.iter().any(|known| is_same(known, model)) {
            models.push(model);
        }
    }
    models
}

/// The model of simulated users that name none, if there are any.
pub(crate) fn default_user_model(agent: &ResolvedAgent) -> Option<&ModelConfig> {
    let needs_it = users(agent, None).any(|(_, user)| user.model.is_none());
    needs_it.then(|| default_model(agent))
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

/// The warning that an agent's own model judges its answers.
pub(crate) fn warn_own_model(agent: &ResolvedAgent, planned: Option<&[usize]>) -> Option<String> {
    let evaluations = agent.config.evaluations.as_ref();
    if evaluations.is_some_and(|evaluations| evaluations.model.is_some()) {
        return None;
    }
    let mut names = BTreeSet::new();
    for (_, metric) in metrics(agent, planned) {
        if metric.judging().is_some_and(|judging| judging.judges.is_empty()) {
            names.insert(metric.name());
        }
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the agent's own model `{}` judges its answers ({}); set `evaluations.model` for an independent judge",
            agent.config.model.name,
            names.join(", ")
        )
    })
}

/// The warning that an agent's own model plays its users.
pub(crate) fn warn_own_user(agent: &ResolvedAgent, planned: Option<&[usize]>) -> Option<String> {
    let own = user_models(agent, planned)
        .into_iter()
        .find(|model| agent.has_model(model))?;
    Some(format!(
        "the agent's own model `{}` plays the user, who decides whether the goal is reached; set `user.model` or \
         `evaluations.model` for an independent one",
        own.name
    ))
}

/// The fields that can make a judged metric unusable.
const CHECKED: [&str; 4] = ["custom_prompt", "scale", "score_range", "min_judges"];

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
            let problem = grader.err()?.problem;
            let field = CHECKED
                .into_iter()
                .find(|field| problem.contains(&format!("`{field}`")));
            let pointer = match field {
                Some("score_range") => format!("{pointer}.rubric"),
                Some(field) => format!("{pointer}.{field}"),
                None => pointer,
            };
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
