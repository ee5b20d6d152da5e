//! Which specialist would answer a question, without asking anything: every gate but those of the machine.

use std::sync::Arc;

use holodeck_backend_api::{Occasion, TurnRequest};
use holodeck_model::{Env, ResolvedAgent, RouteFuture, SideEffectGate, TaskRouter};
use holodeck_orchestrator::ExecuteOptions;
use holodeck_otel_bridge::Telemetry;
use holodeck_yaml::{LoadedAgent, Places};

use super::{
    Choice, RoutedAgent, RoutedError, RoutedOptions,
    account::{record_of_attempt, record_of_nothing},
    executor::context,
    open::Parts,
};
use crate::{agent::secrets::redactor, commands::agents::selection_folder};

/// Said where routes are checked without asking: these gates are not looked at.
const OPEN_GATES: &str = "`expected_agent` of cases that check nothing else asks no model: the gates of this machine (the \
                          CLI, or endpoint and credential; variables) count as open";

/// A router, if one is needed, and remarks about it.
type RouterWithNotes = (Option<Arc<dyn TaskRouter>>, Vec<String>);

/// Routes the questions of planned cases that check nothing but their agent, and remarks about it.
pub(crate) fn task_router(
    agent: &Arc<ResolvedAgent>,
    env: &Env,
    planned: &[usize],
) -> Result<RouterWithNotes, RoutedError> {
    let cases = &agent.config.test_cases;
    let mut planned = planned.iter().filter_map(|index| cases.get(*index));
    if !planned.any(|case| agent.config.needs_no_model(&case)) {
        return Ok((None, Vec::new()));
    }
    let loaded = LoadedAgent {
        agent: Arc::clone(agent),
        places: Places::default(),
    };
    let options = RoutedOptions {
        folder: Some(selection_folder(agent)),
        ..RoutedOptions::default()
    };
    let parts = Parts {
        occasion: (Occasion::Test, SideEffectGate::Closed),
        open: None,
        answers: None,
        redactor: redactor(agent, env),
        telemetry: Telemetry::off(),
        asks: false,
    };
    let routed = RoutedAgent::of_parts(loaded, env, &options, &[], parts)?;
    let mut notes = vec![OPEN_GATES.to_owned()];
    notes.extend(routed.variants.unusable_files());
    Ok((Some(Arc::new(routed)), notes))
}

impl TaskRouter for RoutedAgent {
    fn route<'a>(&'a self, task: &'a str, command: Option<&'a str>) -> RouteFuture<'a> {
        let mut request = TurnRequest::new(task);
        request.command.name = command.map(str::to_owned);
        Box::pin(async move {
            let options = ExecuteOptions::default();
            let context = context(&request, self.variants.folder.clone());
            let record = match self.choose(command.is_some(), &options) {
                choice @ Choice::Itself(_) => self.record_of_itself(choice, &context.command.name),
                Choice::Facade => match self.sdk() {
                    Some(sdk) => record_of_attempt(&context, &sdk.explain(&context, &options).await),
                    None => record_of_nothing(&context),
                },
            };
            record.route()
        })
    }
}
