use std::{io, sync::Arc};

use holodeck_backend_api::Occasion;
use holodeck_http::HttpOptions;
use holodeck_model::{Env, Redactor, ResolvedAgent, env};
use holodeck_otel_bridge::{Evaluation, Telemetry, TelemetryOptions};
use holodeck_runner::{Grade, RunEvent, RunSink, TurnGrade, UnitRecord};
use holodeck_turn::TurnRecord;
use holodeck_yaml::Load;

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
    let options = TelemetryOptions {
        http: HttpOptions::from_variables(|name| env.get(name).map(str::to_owned)),
        console: || Box::new(io::stderr()),
        run: run.to_owned(),
        redactor,
        parent: env.non_blank(env::TRACEPARENT).map(str::to_owned),
    };
    Telemetry::start(agent, &options)
}

/// Passes the events of a run on, and exports the results of its metrics.
pub(crate) struct TracedRun<'a> {
    pub(crate) telemetry: Telemetry,
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
        let turns = turns.filter_map(|(turn, grade)| Some((traced(turn)?, grade)));
        // Each turn has a trace of its own, so a conversation belongs to that of its last turn.
        let last = unit.turns.iter().rev().find_map(traced);
        let conversation = last.zip(grade.conversation.as_deref());
        for (turn, grade) in turns.chain(conversation) {
            let results: Vec<Evaluation<'_>> = evaluations(grade).collect();
            self.telemetry.evaluated(&turn, &results);
        }
    }
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
pub(crate) fn check(load: &mut Load) {
    let Some(agent) = &load.agent else { return };
    let mut found = holodeck_otel_bridge::check(agent);
    for diagnostic in &mut found {
        let place = diagnostic
            .pointer
            .as_deref()
            .and_then(|pointer| agent.locate(pointer));
        diagnostic.primary = place.or_else(|| agent.locate("observability"));
    }
    load.diagnostics.extend(found);
}
