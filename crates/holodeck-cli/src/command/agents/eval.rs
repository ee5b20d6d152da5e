//! `holodeck agents eval`: how well agents are selected.

use std::path::PathBuf;

use holodeck::{evaluate_routing, load_task_file, runs::ExitCode};
use serde_json::json;

use super::PlaceArgs;
use crate::{
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
    let report = evaluate_routing(&found.agents.selector(), cases);
    let missed = args.min_top1.is_some_and(|least| report.top1 < least);
    if place.json {
        let mut value = json!(report);
        if let Some(value) = value.as_object_mut() {
            value.insert("passed".to_owned(), json!(!missed));
        }
        terminal.write_indented_json(value)?;
    } else {
        found.warn(terminal);
        let shows_tasks = terminal.verbosity() >= Verbosity::Normal;
        terminal.write_data(&render::routing_report(&report, shows_tasks))?;
        if let Some(least) = args.min_top1.filter(|_| missed) {
            terminal.write_message(&format!("top-1 is below {least}\n"));
        }
    }
    Ok(if missed {
        ExitCode::Failed
    } else {
        ExitCode::Passed
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
