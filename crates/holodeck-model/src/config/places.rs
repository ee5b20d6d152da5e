//! The metrics and tools of an agent with their places in its file: the one walk over them.
//!
//! It must not decide what a run uses beyond the cases that the caller names.

use super::{Agent, MetricConfig, SimulatedUser, ToolConfig};

/// The place of a metric in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricPlace {
    owner: Owner,
    index: usize,
}

/// The owner of a list of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Agent,
    Case(usize),
    /// The conversation of a case as a whole.
    Conversation(usize),
    Turn(usize, usize),
}

impl MetricPlace {
    /// Whether the metric is one of `evaluations`, which all cases share.
    pub fn is_of_agent(self) -> bool {
        self.owner == Owner::Agent
    }

    /// Whether the metric measures a conversation as a whole.
    pub fn is_of_conversation(self) -> bool {
        matches!(self.owner, Owner::Conversation(_))
    }

    /// The place as the YAML has it, as in `evaluations.metrics.0`.
    pub fn pointer(self) -> String {
        let index = self.index;
        match self.owner {
            Owner::Agent => format!("evaluations.metrics.{index}"),
            Owner::Case(case) => format!("test_cases.{case}.evaluations.{index}"),
            Owner::Conversation(case) => format!("test_cases.{case}.conversation_evaluations.{index}"),
            Owner::Turn(case, turn) => format!("test_cases.{case}.turns.{turn}.evaluations.{index}"),
        }
    }
}

impl Agent {
    /// The metrics of the agent and of its `planned` cases, which are in the order of the file; `None` means all cases.
    pub fn metrics<'a>(
        &'a self,
        planned: Option<&'a [usize]>,
    ) -> impl Iterator<Item = (MetricPlace, &'a MetricConfig)> {
        let runs_cases = planned.is_none_or(|planned| !planned.is_empty());
        let shared = self.evaluations.as_ref().filter(|_| runs_cases);
        let shared = shared.map_or(&[][..], |evaluations| &evaluations.metrics);
        let own = self.detailed_cases(planned).flat_map(|(case, config)| {
            let turns = config.turns.iter().enumerate();
            let of_turns = turns.map(move |(turn, config)| (Owner::Turn(case, turn), &config.evaluations));
            let of_case = [
                (Owner::Case(case), &config.evaluations),
                (Owner::Conversation(case), &config.conversation_evaluations),
            ];
            of_case.into_iter().chain(of_turns)
        });
        let own = own.map(|(owner, metrics)| (owner, metrics.as_slice()));
        std::iter::once((Owner::Agent, shared))
            .chain(own)
            .flat_map(|(owner, metrics)| {
                let metrics = metrics.iter().enumerate();
                metrics.map(move |(index, metric)| (MetricPlace { owner, index }, metric))
            })
    }

    /// The simulated users of the `planned` cases, with the places of these cases in the file.
    pub fn simulated_users<'a>(
        &'a self,
        planned: Option<&'a [usize]>,
    ) -> impl Iterator<Item = (usize, &'a SimulatedUser)> {
        let cases = self.detailed_cases(planned);
        cases.filter_map(|(index, case)| Some((index, case.user.as_deref()?)))
    }

    /// The tools that run, with their places: those with a `mock` answer from it.
    pub fn real_tools(&self) -> impl Iterator<Item = (usize, &ToolConfig)> {
        let tools = self.tools.iter().enumerate();
        tools.filter(|(_, tool)| !tool.is_mocked())
    }

    fn detailed_cases<'a>(
        &'a self,
        planned: Option<&'a [usize]>,
    ) -> impl Iterator<Item = (usize, &'a super::TestCase)> {
        let cases = self.test_cases.detailed();
        cases.filter(move |(index, _)| planned.is_none_or(|planned| planned.binary_search(index).is_ok()))
    }
}
