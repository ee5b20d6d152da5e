//! `holodeck quality`: quality loops that are stored.

use clap::Subcommand;
use holodeck::{
    EXECUTION_FIELD, LOOP_STEP,
    events::{EventStore, StoredEvent},
    model::{MinImprovement, StopOn, events::EventBody, printable},
    orchestrator::{LoopReplay, LoopReport, LoopRules, LoopStep, replay},
    runs::ExitCode,
};
use serde_json::{Value, json};

use super::{
    build_runtime,
    sessions::{StoreArgs, open_existing},
};
use crate::{
    failure::{Failure, Problem},
    render,
    terminal::Terminal,
};

/// Flags of `holodeck quality`.
#[derive(Debug, clap::Args)]
pub(crate) struct QualityArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    place: StoreArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Decide a stored quality loop again, perhaps with other rules; nothing is asked or scored.
    Replay(ReplayArgs),
}

#[derive(Debug, clap::Args)]
struct ReplayArgs {
    /// The id of the run, its beginning, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// The score that is good enough, 0–100.
    #[arg(long, value_name = "POINTS")]
    threshold: Option<f64>,
    /// Score at most N answers.
    #[arg(long, value_name = "N")]
    max_iterations: Option<u32>,
    /// How many points the score must rise by with each iteration.
    #[arg(long, value_name = "POINTS")]
    min_improvement: Option<f64>,
    /// How many iterations in a row may improve too little.
    #[arg(long, value_name = "N")]
    patience: Option<u32>,
    /// Do not stop on `stagnation` or `oscillation`.
    #[arg(long)]
    only_limits: bool,
}

impl ReplayArgs {
    fn apply(&self, rules: LoopRules) -> LoopRules {
        LoopRules {
            threshold: self.threshold.unwrap_or(rules.threshold),
            max_iterations: self.max_iterations.unwrap_or(rules.max_iterations),
            min_improvement: self
                .min_improvement
                .map_or(rules.min_improvement, MinImprovement::Points),
            patience: self.patience.unwrap_or(rules.patience),
            stop_on: if self.only_limits {
                Vec::<StopOn>::new()
            } else {
                rules.stop_on
            },
            ..rules
        }
    }
}

pub(crate) fn run(args: &QualityArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let Action::Replay(flags) = &args.action;
    build_runtime()?.block_on(async {
        let store = open_existing(&args.place).await?;
        let store = store.ok_or_else(|| {
            Problem::config(format!("no runs of {} are stored", args.place.agent.display())).with_hint(
                "`holodeck run` stores those of agents with `quality_loop`; `--agent` names the agent file",
            )
        })?;
        let (run_id, stored) = find(&*store, &flags.run).await?;
        let invalid = |error: holodeck::orchestrator::InvalidRule| Problem::config(error.to_string());
        let recorded = stored.recorded().map_err(invalid)?;
        let rules = flags.apply(stored.rules.clone());
        let is_same = rules == stored.rules;
        let replayed = replay(rules, &stored.steps).map_err(invalid)?;
        if args.place.json {
            let recorded = json!({
                "ended": stored.report.is_some(),
                "termination_reason": recorded.termination_reason,
                "iteration_count": recorded.iterations.len(),
                "returned": recorded.returned,
                "rules": stored.rules,
            });
            terminal.write_indented_json(json!({
                "run_id": run_id,
                "recorded": recorded,
                "replayed": replayed,
            }))?;
        } else {
            terminal.write_data(&render::loop_replay(
                &recorded,
                &replayed,
                stored.report.is_some(),
            ))?;
        }
        let reproduces = stored.report.as_ref().is_none_or(|report| {
            replayed.termination_reason == Some(report.termination_reason)
                && replayed.returned == report.returned
        });
        if is_same && !reproduces {
            return Err(Problem::new(
                ExitCode::Failed,
                "the stored steps do not lead to the stored decision",
            )
            .with_hint("the record was changed, or another version of HoloDeck decides differently")
            .into());
        }
        Ok(ExitCode::Passed)
    })
}

/// The loop of a run as it is stored.
struct StoredLoop {
    rules: LoopRules,
    steps: Vec<LoopStep>,
    /// Of a loop that ended: the process of the others was killed, or they still run.
    report: Option<LoopReport>,
}

impl StoredLoop {
    /// The loop as it was decided when it ran.
    fn recorded(&self) -> Result<LoopReplay, holodeck::orchestrator::InvalidRule> {
        let mut recorded = replay(self.rules.clone(), &self.steps)?;
        if let Some(report) = &self.report {
            recorded.termination_reason = Some(report.termination_reason);
            recorded.returned = report.returned;
            for (shown, record) in recorded.iterations.iter_mut().zip(&report.iterations) {
                shown.score = record.output_quality;
                shown.score_invalid = record.score_invalid;
            }
        }
        Ok(recorded)
    }

    /// The loop that these events of a run tell about, in their order.
    fn of(events: &[&StoredEvent]) -> Result<Option<Self>, Failure> {
        let unreadable =
            |error: serde_json::Error| Problem::execution(format!("the stored loop can't be read: {error}"));
        let ends = events
            .iter()
            .rev()
            .map(|stored| loop_of(stored.event().extra.get(EXECUTION_FIELD)));
        for report in ends {
            if let Some(report) = report? {
                return Ok(Some(Self {
                    rules: report.rules.clone(),
                    steps: report.steps.clone(),
                    report: Some(report),
                }));
            }
        }
        let mut stored: Option<Self> = None;
        for event in events {
            let event = event.event();
            if !matches!(&event.body, EventBody::Unknown { kind } if kind == LOOP_STEP) {
                continue;
            }
            let field = |name: &str| event.extra.get(name).cloned().unwrap_or_default();
            let step = serde_json::from_value(field("step")).map_err(unreadable)?;
            match &mut stored {
                Some(stored) => stored.steps.push(step),
                None => {
                    stored = Some(Self {
                        rules: serde_json::from_value(field("rules")).map_err(unreadable)?,
                        steps: vec![step],
                        report: None,
                    });
                }
            }
        }
        Ok(stored)
    }
}

/// The loop of a run, by its id, the beginning of it, or `last`.
async fn find(store: &dyn EventStore, named: &str) -> Result<(String, StoredLoop), Failure> {
    let failed = |error: holodeck::events::StoreError| Problem::execution(error.to_string());
    let sessions = match store.run(named).await.map_err(failed)? {
        Some(run) => store
            .session(&run.session_id)
            .await
            .map_err(failed)?
            .into_iter()
            .collect(),
        None => store.sessions(None).await.map_err(failed)?,
    };
    let mut found: Vec<(String, StoredLoop)> = Vec::new();
    let mut has_run = false;
    for session in sessions {
        let events = store
            .read_after(&session.session_id, None)
            .await
            .map_err(failed)?;
        let mut runs: Vec<(&str, Vec<&StoredEvent>)> = Vec::new();
        for stored in &events {
            let Some(run_id) = stored.event().meta.run_id.as_deref() else {
                continue;
            };
            if named != "last" && !run_id.starts_with(named) {
                continue;
            }
            has_run = true;
            match runs.iter_mut().find(|(id, _)| *id == run_id) {
                Some((_, events)) => events.push(stored),
                None => runs.push((run_id, vec![stored])),
            }
        }
        // The latest run first.
        for (run_id, events) in runs.into_iter().rev() {
            if let Some(stored) = StoredLoop::of(&events)? {
                found.push((run_id.to_owned(), stored));
            }
        }
        if named == "last" && !found.is_empty() {
            found.truncate(1);
            break;
        }
    }
    match (found.len(), found.pop()) {
        (1, Some(only)) => Ok(only),
        (0, _) if has_run && named != "last" => {
            Err(Problem::config(format!("run `{}` has no quality loop", printable(named))).into())
        }
        (0, _) => Err(Problem::config(format!(
            "there is no run `{}` with a quality loop",
            printable(named)
        ))
        .with_hint("`holodeck run -v` prints the id of a run")
        .into()),
        (_, last) => {
            let mut ids: Vec<String> = found.into_iter().chain(last).map(|(run_id, _)| run_id).collect();
            ids.sort();
            Err(Problem::config(format!("`{}` may mean {}", printable(named), ids.join(" or "))).into())
        }
    }
}

fn loop_of(execution: Option<&Value>) -> Result<Option<LoopReport>, Failure> {
    let report = execution.and_then(|execution| execution.get("details")?.get("loop"));
    match report {
        None | Some(Value::Null) => Ok(None),
        Some(report) => serde_json::from_value(report.clone())
            .map(Some)
            .map_err(|error| Problem::execution(format!("the stored loop can't be read: {error}")).into()),
    }
}
