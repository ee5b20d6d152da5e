//! The checks of an agent's indexes for `holodeck doctor`: whether each exists and is up to date. Builds nothing.

use holodeck_model::{Code, Diagnostic, Env, Severity};
use holodeck_validators::{Check, CheckState};
use holodeck_yaml::LoadedAgent;

use super::{Indexes, StatusState};
use crate::{
    AnswerSource, Answers,
    agent::{backends::BackendSelector, unsupported::refuse_unsupported_tool},
};

/// Checks whether the indexes of an agent exist and are up to date. A warning can be resolved before a run.
pub(crate) async fn checks(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let Ok(answers) = Answers::open(&AnswerSource::Live, None, agent, env) else {
        return Vec::new();
    };
    let mut checks = Vec::new();
    for index in Indexes::of_agent(agent, &BackendSelector::new(env.clone(), answers)).iter() {
        if refuse_unsupported_tool(agent, index.position).is_err() {
            continue;
        }
        let subject = format!("index `{}`", index.name());
        let status = index.status().await;
        let (state, help) = match status.state {
            StatusState::Ready => (CheckState::Ok, None),
            StatusState::NotBuilt | StatusState::Stale => {
                let help =
                    "`holodeck index build` builds it now; otherwise, the next test or run builds it first";
                (CheckState::Warning, Some(help.to_owned()))
            }
            // A replay does not need it.
            StatusState::Unusable if agent.execution.replay.value.is_some() => (CheckState::Warning, None),
            StatusState::Unusable => (CheckState::Missing, None),
        };
        let (found, hint) = (status.found, status.hint);
        let diagnostic = (state != CheckState::Ok).then(|| {
            let severity = if state == CheckState::Warning {
                Severity::Warning
            } else {
                Severity::Error
            };
            let place = agent.locate(&format!("tools.{}.source", index.position));
            let mut diagnostic = Diagnostic::new(Code::UnusableIndex, severity, found.as_str()).at(place);
            diagnostic.help = hint.or(help);
            diagnostic
        });
        checks.push(Check {
            subject,
            state,
            found,
            diagnostic,
        });
    }
    checks
}
