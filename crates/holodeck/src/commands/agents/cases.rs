//! How well agents are routed: tasks with the agent expected for each, and the agent that would execute it.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use futures::{StreamExt as _, TryStreamExt as _};
use holodeck_backend_api::BackendError;
use holodeck_model::{AgentsConfig, Env, RoutingCase, RoutingDecision, SelectionAlgorithm, Spent, TaskRoute};
use holodeck_orchestrator::{
    AskedModel, Asking, CancellationToken, Route, SelectError, SelectedBy, SelectionQuestion, SelectionTask,
    Selector,
};
use holodeck_otel_bridge::Telemetry;
use holodeck_yaml::LoadedAgent;
use serde::Serialize;

use super::LoadedAgents;
use crate::{
    OpenError,
    commands::chooser::{Chooser, asking},
};

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
    /// The model that was asked to select; absent if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<AskedTotal>,
    /// How often each refusal keeps a selected agent from a task.
    pub refusals: BTreeMap<String, usize>,
    /// How often each pair of expected and routed agents occurs, where they differ.
    pub confusion: Vec<Confusion>,
    /// Every task.
    pub results: Vec<RoutingResult>,
}

/// The calls of a model for all tasks.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct AskedTotal {
    /// The model.
    pub model: String,
    /// Its calls with tokens and cost.
    #[serde(flatten)]
    pub spent: Spent,
    /// For how many tasks its answer was not usable, so that their words selected.
    pub unusable: usize,
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
    /// The model that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<AskedModel>,
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
        unselected: refused.clone().filter(|_| !route.decision.is_of_selection()),
        refused,
        confidence: selection.confidence,
        reason: selection.reason,
    }
}

impl LoadedAgents {
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

/// Routes tasks as `run` does, through every gate but those of the machine. [`close`](Self::close) it.
pub struct TaskRouting<'a> {
    agents: &'a LoadedAgents,
    selector: Arc<dyn Selector>,
    chooser: Option<Arc<Chooser>>,
}

impl<'a> TaskRouting<'a> {
    /// Selects with the algorithm of `agents`. One that asks needs an `agent`, whose model or `routing.model` is asked. Nothing
    /// is opened yet.
    pub fn new(agents: &'a LoadedAgents, agent: Option<&LoadedAgent>, env: &Env) -> Result<Self, OpenError> {
        let algorithm = agents.config.algorithm;
        let chooser = match agent {
            _ if !algorithm.asks() => None,
            Some(agent) => {
                let mut agent = agent.clone();
                let routing = &mut Arc::make_mut(&mut agent.agent).config.routing;
                routing.get_or_insert_default().agents = Some(agents.config.clone());
                let chooser = Chooser::new(&agent, env, None, &Telemetry::off());
                let missing = || {
                    BackendError::config(
                        "`algorithm: embedding` needs `embedding_provider` in the agent file",
                    )
                    .with_hint("add `embedding_provider: {provider: openai, name: text-embedding-3-small}`")
                };
                Some(Arc::new(chooser.ok_or_else(missing)?))
            }
            None => {
                let message = format!(
                    "`algorithm: {}` needs an agent file, whose model is asked",
                    algorithm.as_str()
                );
                return Err(BackendError::init(message).into());
            }
        };
        Ok(Self {
            selector: asking(
                agents.selector(),
                (&agents.registry, &agents.config, agents.rules.min_confidence),
                chooser.as_ref(),
            ),
            agents,
            chooser,
        })
    }

    /// The question to a model that a task needs.
    pub fn question(&self, task: &SelectionTask) -> Option<SelectionQuestion> {
        self.selector.question(task)
    }

    /// The question to a model that the first of these tasks needs.
    pub fn question_of_cases(&self, cases: &[RoutingCase]) -> Option<SelectionQuestion> {
        cases.iter().find_map(|case| self.question(&task_of(case)))
    }

    /// Returns an error if the model cannot be asked, for instance without a key.
    pub fn check(&self) -> Result<(), OpenError> {
        self.chooser.as_ref().map_or(Ok(()), |chooser| chooser.check())
    }

    /// The route of a task.
    pub async fn route(&self, task: &SelectionTask) -> Result<Route, SelectError> {
        let cancel = CancellationToken::new();
        let asking = Asking {
            unit: None,
            trial: 0,
            cancel: &cancel,
        };
        let selected = self.selector.select(task, &asking).await?;
        let has_definition = |name: &str| self.agents.registry.get(name).is_some();
        let rules = &self.agents.rules;
        Ok(rules.route_selection(selected.selection, task, has_definition))
    }

    /// Routes every task.
    pub async fn evaluate(&self, cases: &[RoutingCase]) -> Result<RoutingReport, SelectError> {
        let results = futures::stream::iter(cases).map(|case| self.evaluate_case(case));
        let results = results.buffered(CONCURRENCY).try_collect().await?;
        Ok(summarize(self.agents.config.algorithm, results))
    }

    async fn evaluate_case(&self, case: &RoutingCase) -> Result<RoutingResult, SelectError> {
        let route = self.route(&task_of(case)).await?;
        let asked = route.selection.asked.clone();
        let decision = route.decision;
        let route = task_route(route);
        let correct = route.fits(case.expected_agent.as_deref());
        // A default agent counts only where it is expected.
        let counts = !route.by_default || (correct && case.expected_agent.is_some());
        Ok(RoutingResult {
            case: case.clone(),
            selected: route.routed().filter(|_| counts).map(str::to_owned),
            correct,
            confidence: route.confidence,
            decision,
            refused: route.agent.filter(|_| route.refused.is_some()),
            asked,
        })
    }

    /// Ends the model that was asked.
    pub async fn close(&self) -> Result<(), BackendError> {
        match &self.chooser {
            Some(chooser) => chooser.close().await,
            None => Ok(()),
        }
    }
}

/// How many tasks are routed at the same time.
const CONCURRENCY: usize = 4;

fn task_of(case: &RoutingCase) -> SelectionTask {
    SelectionTask {
        text: case.task.clone(),
        command: case.command.clone().unwrap_or_default(),
        ..SelectionTask::default()
    }
}

/// The sum of the calls for all of these.
fn asked_total(results: &[RoutingResult]) -> Option<AskedTotal> {
    let asked: Vec<&AskedModel> = results
        .iter()
        .filter_map(|result| result.asked.as_ref())
        .collect();
    Some(AskedTotal {
        model: asked.first()?.model.clone(),
        spent: asked.iter().map(|asked| asked.spent).sum(),
        unusable: asked.iter().filter(|asked| asked.problem.is_some()).count(),
    })
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
            correct: count(&|result| is_none_expected(result) && result.correct && result.selected.is_none()),
        },
        asked: asked_total(&results),
        refusals,
        confusion,
        results,
    }
}
