//! Checks that the Claude Code CLI is installed in a usable version.

use holodeck_model::Env;
use holodeck_yaml::LoadedAgent;

use crate::{Check, ClaudeCli, ClaudeCliSearch, check::unless_replayed};

const SUBJECT: &str = "claude";

/// Checks the Claude Code CLI; also returns it if it was found.
pub(crate) async fn check(agent: &LoadedAgent, env: &Env) -> (Check, Option<ClaudeCli>) {
    match ClaudeCliSearch::for_agent(agent, env).find().await {
        Ok(cli) => {
            let found = format!("Claude Code {} at `{}`", cli.version, cli.path.display());
            (Check::ok(SUBJECT, found), Some(cli))
        }
        Err(error) => (Check::problem(SUBJECT, unless_replayed(agent, *error)), None),
    }
}
