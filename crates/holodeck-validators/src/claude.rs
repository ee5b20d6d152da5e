use holodeck_model::{Diagnostic, Env, LoadedAgent, Severity};

use crate::{Check, ClaudeCli, ClaudeCliSearch};

const SUBJECT: &str = "claude";

/// The Claude Code CLI, and the CLI itself if there is one.
pub(crate) async fn check(agent: &LoadedAgent, env: &Env) -> (Check, Option<ClaudeCli>) {
    match ClaudeCliSearch::for_agent(agent, env).find().await {
        Ok(cli) => {
            let found = format!("Claude Code {} at `{}`", cli.version, cli.path.display());
            (Check::ok(SUBJECT, found), Some(cli))
        }
        Err(error) => (Check::problem(SUBJECT, unless_replayed(agent, *error)), None),
    }
}

/// A recording answers without model and CLI.
pub(crate) fn unless_replayed(agent: &LoadedAgent, error: Diagnostic) -> Diagnostic {
    if agent.execution.replay.value.is_none() {
        return error;
    }
    Diagnostic {
        severity: Severity::Warning,
        message: format!("{}; only the recording can answer", error.message),
        ..error
    }
}
