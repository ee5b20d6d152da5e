//! `holodeck agents eval`: how well agents are selected.

use std::path::PathBuf;

use holodeck::{
    LoadedAgents, RoutingReport, load_task_file,
    model::{RoutingCase, SelectionAlgorithm},
    runs::ExitCode,
};
use serde_json::{Value, json};

use super::{Found, PlaceArgs};
use crate::{
    command::build_runtime,
    failure::{Failure, Problem},
    render::{self, DiagnosticFilter},
    terminal::{Terminal, Verbosity},
};

#[derive(Debug, clap::Args)]
pub(super) struct EvalArgs {
    /// The tasks as YAML, CSV or JSON Lines: `task`, `expected_agent` (null: no agent), and optionally `command`.
    #[arg(value_name = "CASES")]
    cases: PathBuf,
    /// Exit with 1 if a smaller share of the tasks has the expected agent.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    min_top1: Option<f64>,
    /// Route by these algorithms instead of the one of the agent file, and compare them (separated by commas).
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_algorithm)]
    algorithm: Vec<SelectionAlgorithm>,
    /// Ask the model that selects, if an algorithm asks one; the report has what that cost.
    #[arg(long)]
    live: bool,
}

pub(super) fn run(place: &PlaceArgs, args: &EvalArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let found = place.load(terminal)?;
    let (cases, load) = load_task_file(&args.cases);
    if load.has_errors() {
        let text = render::diagnostics(&load, &args.cases, DiagnosticFilter::Important, terminal.width());
        terminal.write_message(&text);
        return Err(Problem::config("").into());
    }
    let registry = &found.agents.registry;
    let mut unknown: Vec<&str> = cases
        .iter()
        .filter_map(|case| case.expected_agent.as_deref())
        .collect();
    unknown.retain(|name| registry.get(name).is_none());
    unknown.sort_unstable();
    unknown.dedup();
    if let Some(first) = unknown.first() {
        let problem = Problem::config(format!("`{first}` in `{}` is not an agent", args.cases.display()));
        return Err(problem
            .with_hint("`holodeck agents list` shows the agents")
            .into());
    }
    let reports = reports(place, args, &found, &cases)?;
    let least = args.min_top1;
    let missed = least.is_some_and(|least| reports.iter().any(|report| report.top1 < least));
    if place.json {
        terminal.write_indented_json(reports_json(&reports, missed))?;
    } else {
        found.warn(terminal);
        let shows_tasks = terminal.verbosity() >= Verbosity::Normal;
        let text = match reports.as_slice() {
            [report] => render::routing_report(report, shows_tasks),
            reports => render::routing_reports(reports, shows_tasks),
        };
        terminal.write_data(&text)?;
        if let Some(least) = least.filter(|_| missed) {
            terminal.write_message(&format!("top-1 is below {least}\n"));
        }
    }
    Ok(if missed {
        ExitCode::Failed
    } else {
        ExitCode::Passed
    })
}

/// One report for each algorithm; without any, for that of the agents. Nothing is asked before it is known that everything can
/// be.
fn reports(
    place: &PlaceArgs,
    args: &EvalArgs,
    found: &Found,
    cases: &[RoutingCase],
) -> Result<Vec<RoutingReport>, Failure> {
    let mut algorithms = args.algorithm.clone();
    if algorithms.is_empty() {
        algorithms.push(found.agents.config.algorithm);
    }
    let mut agents: Vec<LoadedAgents> = Vec::new();
    for algorithm in algorithms {
        if !agents.iter().any(|known| known.config.algorithm == algorithm) {
            agents.push(found.agents.with_algorithm(algorithm));
        }
    }
    let mut routings = Vec::new();
    for agents in &agents {
        let routing = found.routing(place, agents)?;
        if let Some(question) = routing.question_of_cases(cases) {
            if !args.live {
                return Err(place.refuse_question(&question, &args.words()).into());
            }
            routing.check().map_err(|error| place.subject().open(error))?;
        }
        routings.push(routing);
    }
    build_runtime()?.block_on(async {
        let mut reports = Vec::new();
        for routing in &routings {
            let report = routing.evaluate(cases).await;
            let closed = routing.close().await;
            reports.push(report.map_err(|error| Problem::execution(error.to_string()))?);
            closed.map_err(|error| Problem::execution(error.to_string()))?;
        }
        Ok(reports)
    })
}

impl EvalArgs {
    /// The words of the command after `agents`, for a hint.
    fn words(&self) -> String {
        let cases = format!("eval {}", self.cases.display());
        if self.algorithm.is_empty() {
            return cases;
        }
        let named = self.algorithm.iter().map(|algorithm| algorithm.as_str());
        format!("{cases} --algorithm {}", named.collect::<Vec<_>>().join(","))
    }
}

fn reports_json(reports: &[RoutingReport], missed: bool) -> Value {
    let mut value = match reports {
        [report] => json!(report),
        reports => json!({"algorithms": reports}),
    };
    if let Some(value) = value.as_object_mut() {
        value.insert("passed".to_owned(), json!(!missed));
    }
    value
}

fn parse_algorithm(text: &str) -> Result<SelectionAlgorithm, String> {
    let known = SelectionAlgorithm::ALL
        .iter()
        .find(|algorithm| algorithm.as_str() == text);
    known.copied().ok_or_else(|| {
        let names: Vec<&str> = SelectionAlgorithm::ALL
            .iter()
            .map(|algorithm| algorithm.as_str())
            .collect();
        format!("expected {}", names.join(" or "))
    })
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share: f64 = text
        .parse()
        .map_err(|_| "expected a number from 0 to 1".to_owned())?;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err("expected a number from 0 to 1".to_owned())
    }
}
