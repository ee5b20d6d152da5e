//! The metrics and simulated users of the cases that a run plans, with their places. Opens nothing.

use holodeck_model::{MetricConfig, ModelConfig, ResolvedAgent, SimulatedUser};
use holodeck_runner::JudgedSubject;

/// The model of judges and simulated users that name none.
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
    /// Whether the metric is one of `evaluations`, which all cases share.
    pub(crate) fn is_of_agent(self) -> bool {
        self.owner == Owner::Agent
    }

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

/// The model of simulated users that name none, if there are any.
pub(crate) fn default_user_model(agent: &ResolvedAgent) -> Option<&ModelConfig> {
    let needs_it = users(agent, None).any(|(_, user)| user.model.is_none());
    needs_it.then(|| default_model(agent))
}
