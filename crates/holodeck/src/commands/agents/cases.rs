//! How well agents are routed: tasks with the agent expected for each, and the agent that would execute it.

use std::{cmp::Reverse, collections::BTreeMap};

use holodeck_model::{AgentsConfig, RoutingCase, RoutingDecision, SelectionAlgorithm, TaskRoute};
use holodeck_orchestrator::{AgentSelector, Route, SelectedBy, SelectionTask};
use serde::Serialize;

use super::LoadedAgents;

/// The agents routed for all tasks, against those expected.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RoutingReport {
    /// How agents were scored.
    pub algorithm: SelectionAlgorithm,
    /// The number of tasks.
    pub tasks: usize,
    /// How many tasks are routed to the expected agent, or to none as expected.
    pub correct: usize,
    /// `correct` of `tasks`, 0–1.
    pub top1: f64,
    /// For how many tasks an agent is expected.
    pub expected: usize,
    /// How many of these are routed to it.
    pub reached: usize,
    /// How many tasks are routed to an agent that is not the expected one.
    pub wrong: usize,
    /// The tasks for which no agent is expected.
    pub abstention: Abstention,
    /// How often each refusal keeps a selected agent from a task.
    pub refusals: BTreeMap<String, usize>,
    /// How often each pair of expected and routed agents occurs, where they differ.
    pub confusion: Vec<Confusion>,
    /// Every task.
    pub results: Vec<RoutingResult>,
}

/// How well it is recognised that no agent fits.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Abstention {
    /// For how many tasks no agent is expected.
    pub expected: usize,
    /// How many tasks are routed to no agent.
    pub selected: usize,
    /// For how many tasks both hold.
    pub correct: usize,
}

/// How often one agent was routed instead of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Confusion {
    /// The expected agent; `None`: no agent.
    pub expected: Option<String>,
    /// The routed agent; `None`: no agent.
    pub selected: Option<String>,
    /// How often.
    pub count: usize,
}

/// A task with its route.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RoutingResult {
    /// The task.
    #[serde(flatten)]
    pub case: RoutingCase,
    /// The routed agent; `None`: no agent.
    pub selected: Option<String>,
    /// Whether it is the expected one.
    pub correct: bool,
    /// How confident the selection was.
    pub confidence: f64,
    /// `sdk_executed`, or the code of the refusal.
    pub decision: RoutingDecision,
    /// The agent that was selected and refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Converts a route.
fn task_route(route: Route) -> TaskRoute {
    let refused = route
        .refusal
        .map(|why| format!("{}: {why}", route.decision.as_str()));
    let selection = route.selection;
    TaskRoute {
        agent: selection.agent.filter(|_| selection.use_sdk),
        by_default: selection.selected_by == SelectedBy::Default,
        refused,
        confidence: selection.confidence,
        reason: selection.reason,
    }
}

impl LoadedAgents {
    /// The route of a task, as `run` takes it: with every gate but those of the machine.
    pub fn route(&self, selector: &AgentSelector, task: &SelectionTask) -> Route {
        self.rules
            .route(selector, task, |name| self.registry.get(name).is_some())
    }

    /// The same agents under another algorithm.
    pub fn with_algorithm(&self, algorithm: SelectionAlgorithm) -> Self {
        Self {
            config: AgentsConfig {
                algorithm,
                ..self.config.clone()
            },
            ..self.clone()
        }
    }
}

/// Routes every task.
pub fn evaluate_routing(agents: &LoadedAgents, cases: &[RoutingCase]) -> RoutingReport {
    let selector = agents.selector();
    let results = cases.iter().map(|case| {
        let task = SelectionTask {
            text: case.task.clone(),
            command: case.command.clone().unwrap_or_default(),
            ..SelectionTask::default()
        };
        let route = agents.route(&selector, &task);
        let decision = route.decision;
        let route = task_route(route);
        let correct = route.fits(case.expected_agent.as_deref());
        // A default agent counts only where it is expected.
        let counts = !route.by_default || (correct && case.expected_agent.is_some());
        RoutingResult {
            case: case.clone(),
            selected: route.routed().filter(|_| counts).map(str::to_owned),
            correct,
            confidence: route.confidence,
            decision,
            refused: route.agent.filter(|_| route.refused.is_some()),
        }
    });
    summarize(agents.config.algorithm, results.collect())
}

fn summarize(algorithm: SelectionAlgorithm, results: Vec<RoutingResult>) -> RoutingReport {
    let count =
        |holds: &dyn Fn(&RoutingResult) -> bool| results.iter().filter(|result| holds(result)).count();
    let is_none_expected = |result: &RoutingResult| result.case.expected_agent.is_none();
    let mut confusion: BTreeMap<(Option<String>, Option<String>), usize> = BTreeMap::new();
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    for result in &results {
        if !result.correct {
            let pair = (result.case.expected_agent.clone(), result.selected.clone());
            *confusion.entry(pair).or_default() += 1;
        }
        if result.decision != RoutingDecision::SdkExecuted {
            *refusals.entry(result.decision.as_str().to_owned()).or_default() += 1;
        }
    }
    let mut confusion: Vec<Confusion> = confusion
        .into_iter()
        .map(|((expected, selected), count)| Confusion {
            expected,
            selected,
            count,
        })
        .collect();
    confusion.sort_by_key(|row| Reverse(row.count));
    let correct = count(&|result| result.correct);
    RoutingReport {
        algorithm,
        tasks: results.len(),
        correct,
        top1: if results.is_empty() {
            0.0
        } else {
            correct as f64 / results.len() as f64
        },
        expected: count(&|result| !is_none_expected(result)),
        reached: count(&|result| !is_none_expected(result) && result.correct),
        wrong: count(&|result| !result.correct && result.selected.is_some()),
        abstention: Abstention {
            expected: count(&is_none_expected),
            selected: count(&|result| result.selected.is_none()),
            correct: count(&|result| is_none_expected(result) && result.selected.is_none()),
        },
        refusals,
        confusion,
        results,
    }
}
