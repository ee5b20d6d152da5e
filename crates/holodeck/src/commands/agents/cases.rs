//! How well agents are selected: tasks with the agent expected for each, and what was selected.

use std::collections::BTreeMap;

use holodeck_model::{RoutingCase, TaskRoute, TaskRouter};
use holodeck_orchestrator::{KeywordSelector, SelectedBy, Selection, SelectionTask, Selector};
use serde::Serialize;

/// The agents selected for all tasks, against those expected.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RoutingReport {
    /// The number of tasks.
    pub tasks: usize,
    /// How many tasks have the expected agent, or none as expected.
    pub correct: usize,
    /// `correct` of `tasks`, 0–1.
    pub top1: f64,
    /// The tasks for which no agent is expected.
    pub abstention: Abstention,
    /// How often each pair of expected and selected agents occurs, where they differ.
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
    /// For how many tasks no agent was selected.
    pub selected: usize,
    /// For how many tasks both hold.
    pub correct: usize,
}

/// How often one agent was selected instead of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Confusion {
    /// The expected agent; `None`: no agent.
    pub expected: Option<String>,
    /// The selected agent; `None`: no agent.
    pub selected: Option<String>,
    /// How often.
    pub count: usize,
}

/// A task with what was selected.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RoutingResult {
    /// The task.
    #[serde(flatten)]
    pub case: RoutingCase,
    /// The selected agent; `None`: no agent.
    pub selected: Option<String>,
    /// Whether it is the expected one.
    pub correct: bool,
    /// How confident the selection was.
    pub confidence: f64,
}

/// Converts a selection.
fn task_route(selection: Selection) -> TaskRoute {
    TaskRoute {
        agent: selection.agent.filter(|_| selection.use_sdk),
        by_default: selection.selected_by == SelectedBy::Default,
        confidence: selection.confidence,
        reason: selection.reason,
    }
}

/// Routes the tasks of test cases.
pub(crate) struct SelectorRouter(pub(crate) KeywordSelector);

impl TaskRouter for SelectorRouter {
    fn route(&self, task: &str) -> TaskRoute {
        task_route(self.0.select(&SelectionTask {
            text: task.to_owned(),
            ..SelectionTask::default()
        }))
    }
}

/// Selects an agent for every task.
pub fn evaluate_routing(selector: &dyn Selector, cases: Vec<RoutingCase>) -> RoutingReport {
    let mut abstention = Abstention::default();
    let mut confusion: BTreeMap<(Option<String>, Option<String>), usize> = BTreeMap::new();
    let results: Vec<RoutingResult> = cases
        .into_iter()
        .map(|case| {
            let selection = selector.select(&SelectionTask {
                text: case.task.clone(),
                command: case.command.clone().unwrap_or_default(),
                ..SelectionTask::default()
            });
            let route = task_route(selection);
            let correct = route.fits(case.expected_agent.as_deref());
            // A default agent counts as selected only where it is expected.
            let counts = !route.by_default || (correct && case.expected_agent.is_some());
            let selected = route.agent.filter(|_| counts);
            abstention.expected += usize::from(case.expected_agent.is_none());
            abstention.selected += usize::from(selected.is_none());
            abstention.correct += usize::from(selected.is_none() && correct);
            if !correct {
                *confusion
                    .entry((case.expected_agent.clone(), selected.clone()))
                    .or_default() += 1;
            }
            RoutingResult {
                case,
                selected,
                correct,
                confidence: route.confidence,
            }
        })
        .collect();
    let correct = results.iter().filter(|result| result.correct).count();
    let mut confusion: Vec<Confusion> = confusion
        .into_iter()
        .map(|((expected, selected), count)| Confusion {
            expected,
            selected,
            count,
        })
        .collect();
    confusion.sort_by_key(|row| std::cmp::Reverse(row.count));
    RoutingReport {
        tasks: results.len(),
        correct,
        top1: if results.is_empty() {
            0.0
        } else {
            correct as f64 / results.len() as f64
        },
        abstention,
        confusion,
        results,
    }
}
