//! A minimal live request to an agent's model, with which `holodeck doctor` checks that the endpoint, the key and the
//! model work.

use std::sync::Arc;

use holodeck_backend_api::{BackendError, ExecutionResult, Outcome};
use holodeck_model::{ClaudeConfig, Env};
use holodeck_yaml::LoadedAgent;

use crate::{AskError, OpenError, Specialist, agent::ask::ask};

/// Token limit of the answer, if the backend supports one.
const MAX_TOKENS: u32 = 16;

/// Makes one short request to an agent's model, without the agent's instructions, tools and fallbacks.
pub async fn ask_briefly(agent: LoadedAgent, env: &Env) -> Result<ExecutionResult, AskError> {
    let Some(mut model) = agent.config.model.clone() else {
        let error = BackendError::config("a target has no model that could be asked briefly");
        return Err(OpenError::from(error).into());
    };
    model.max_tokens = Some(model.max_tokens.map_or(MAX_TOKENS, |max| max.min(MAX_TOKENS)));
    let brief = Specialist {
        model,
        instructions: "Answer in one word.".to_owned(),
        response_format: None,
    };
    let mut brief = brief.of(&agent);
    brief.config.openai = None;
    let own = agent.config.claude.as_ref();
    brief.config.claude = own.map(|own| ClaudeConfig {
        cli_path: own.cli_path.clone(),
        working_directory: own.working_directory.clone(),
        ..ClaudeConfig::default()
    });
    let agent = LoadedAgent {
        agent: Arc::new(brief),
        ..agent
    };
    let mut result = ask(agent, env, "Are you there?", |_| {}).await?;
    if result.truncated_by.is_some() && result.outcome == Outcome::EmptyResponse {
        // A reasoning model needs more tokens before it writes text.
        result.outcome = Outcome::Completed;
    }
    Ok(result)
}
