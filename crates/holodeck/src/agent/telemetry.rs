//! Starts the export of traces that `observability` enables, and adds the results of metrics to it.
//!
//! A failed export is a warning and must not change a verdict.

use std::{io, sync::Arc, time::Duration};

use holodeck_backend_api::Occasion;
use holodeck_http::HttpOptions;
use holodeck_model::{Env, Redactor, ResolvedAgent, env, recorded_trial_name};
use holodeck_otel_bridge::{Evaluation, Telemetry, TelemetryOptions};
use holodeck_runner::{RunEvent, RunSink};
use holodeck_runs::{Grade, TurnGrade, UnitRecord};
use holodeck_turn::TurnRecord;
use holodeck_yaml::Load;

/// Time limit for the last export.
const FLUSH: Duration = Duration::from_secs(2);

/// Starts what the agent's `observability` enables. A replayed run exports nothing because it calls no model.
pub(crate) fn start(
    agent: &ResolvedAgent,
    occasion: Occasion,
    env: &Env,
    replayed: bool,
    redactor: Arc<Redactor>,
) -> Telemetry {
    if replayed {
        return Telemetry::off();
    }
    let run = match occasion {
        Occasion::Test => "holodeck test",
        Occasion::Run => "holodeck run",
        Occasion::Chat => "holodeck chat",
        Occasion::Serve => "holodeck serve",
    };
    Telemetry::start(agent, &options(run, None, env, redactor))
}

/// The same for grading the answers of the run `regraded` again.
pub(crate) fn start_regrade(
    agent: &ResolvedAgent,
    regraded: String,
    env: &Env,
    redactor: Arc<Redactor>,
) -> Telemetry {
    Telemetry::start(
        agent,
        &options("holodeck test regrade", Some(regraded), env, redactor),
    )
}

fn options(run: &str, regraded: Option<String>, env: &Env, redactor: Arc<Redactor>) -> TelemetryOptions {
    TelemetryOptions {
        http: HttpOptions::from_variables(|name| env.get(name).map(str::to_owned)),
        env: env.clone(),
        console: || Box::new(io::stderr()),
        run: run.to_owned(),
        redactor,
        parent: env.non_blank(env::TRACEPARENT).map(str::to_owned),
        regraded,
    }
}

/// Ends the export. A problem is a warning: it changes no verdict.
pub(crate) async fn finish(telemetry: &Telemetry) {
    if let Some(warning) = telemetry.shutdown(FLUSH).await {
        tracing::warn!("{warning}");
    }
}

/// Passes the events of a run on, and exports the results of its metrics.
pub(crate) struct TracedRun<'a> {
    pub(crate) telemetry: Telemetry,
    /// Whether the answers are those of an earlier run.
    pub(crate) regrades: bool,
    pub(crate) sink: &'a mut dyn RunSink,
}

impl RunSink for TracedRun<'_> {
    fn on(&mut self, event: &RunEvent) {
        self.sink.on(event);
    }

    fn graded(&mut self, unit: &UnitRecord, grade: &Grade) {
        self.sink.graded(unit, grade);
        if !self.telemetry.is_on() {
            return;
        }
        let traced = |turn: &TurnRecord| turn.traceparent.clone();
        let turns = unit.turns.iter().zip(&grade.turns);
        let turns = turns.map(|(turn, grade)| (traced(turn), grade));
        // Each turn has a trace of its own, so a conversation belongs to that of its last turn.
        let last = unit.turns.iter().rev().find_map(traced);
        let conversation = grade.conversation.as_deref().map(|grade| (last, grade));
        for (turn, grade) in turns.chain(conversation) {
            let results: Vec<Evaluation<'_>> = evaluations(grade).collect();
            match turn {
                turn if self.regrades => {
                    self.telemetry
                        .evaluated_again(&unit_name(unit), turn.as_deref(), &results);
                }
                Some(turn) => self.telemetry.evaluated(&turn, &results),
                None => {}
            }
        }
    }
}

/// The name of a trial in telemetry, as its turns have it.
fn unit_name(unit: &UnitRecord) -> String {
    let case = unit.name.clone();
    recorded_trial_name(case.unwrap_or_else(|| unit.key.case.to_string()), unit.key.trial)
}

fn evaluations(grade: &TurnGrade) -> impl Iterator<Item = Evaluation<'_>> {
    let metrics = grade.metrics.iter().filter(|metric| !metric.skipped);
    metrics.map(|metric| Evaluation {
        name: &metric.metric_name,
        score: metric.score,
        passed: metric.passed,
        explanation: metric.reasoning.as_deref(),
        error: metric.error.as_deref(),
    })
}

/// Adds warnings about settings of `observability` that cannot work or have no effect.
pub(crate) fn check(load: &mut Load, env: &Env) {
    let Some(agent) = &load.agent else { return };
    let mut found = holodeck_otel_bridge::check(agent, env);
    for diagnostic in &mut found {
        let place = diagnostic
            .pointer
            .as_deref()
            .and_then(|pointer| agent.locate(pointer));
        diagnostic.primary = place.or_else(|| agent.locate("observability"));
    }
    load.diagnostics.extend(found);
}
