//! Agents, backends and turns for tests against a scripted server.

use std::{path::Path, sync::Arc, time::Duration};

use holodeck_backend_api::{
    AgentBackend, AnswerFormat, BackendError, BackendEvent, ExecutionResult, ModelCalls, NoTools, ToolHost,
    TurnRequest,
};
use holodeck_backend_openai::{DriverOptions, Endpoint, HttpModelCalls, OpenAiBackend};
use holodeck_http::{HttpClient, HttpOptions, RetryPolicy};
use holodeck_model::{Env, MemoryFiles, ModelConfig};
use holodeck_testkit::{ModelServer, ScriptedModel};
use holodeck_validators::SchemaFormat;
use holodeck_yaml::{LoadedAgent, load_agent};

/// An agent with this `model:` block (its lines, indented by two) and further blocks.
pub(crate) fn agent(model: &str, rest: &str) -> LoadedAgent {
    let yaml = format!("name: test\nmodel:\n{model}\ninstructions:\n  inline: be brief\n{rest}");
    let files = MemoryFiles::new().with("agent.yaml", yaml);
    let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
    load.agent.unwrap_or_else(|| panic!("{:#?}", load.diagnostics))
}

/// An agent whose model `m` is served by `server`.
pub(crate) fn agent_of(server: &ModelServer, rest: &str) -> LoadedAgent {
    agent(&model_of(server), rest)
}

pub(crate) fn model_of(server: &ModelServer) -> String {
    format!("  provider: openai\n  name: m\n  endpoint: {}", server.url())
}

/// The driver of `agent`, with retries that do not wait.
pub(crate) fn calls(agent: &LoadedAgent, env: &Env) -> Result<HttpModelCalls, BackendError> {
    calls_through(HttpClient::new(&HttpOptions::default()).unwrap(), agent, env)
}

/// The same through a client of others; a client takes long to make.
pub(crate) fn calls_through(
    client: HttpClient,
    agent: &LoadedAgent,
    env: &Env,
) -> Result<HttpModelCalls, BackendError> {
    let options = DriverOptions {
        retry: RetryPolicy {
            first_wait: Duration::ZERO,
            ..RetryPolicy::default()
        },
        ..DriverOptions::of_agent(agent, model(agent))
    };
    Ok(HttpModelCalls::new(
        client,
        Endpoint::resolve(
            model(agent),
            "model",
            agent.locate("model.endpoint").as_ref(),
            env,
        )?,
        options,
    ))
}

/// The agent's model.
pub(crate) fn model(agent: &LoadedAgent) -> &ModelConfig {
    agent.config.model.as_ref().unwrap()
}

/// The format that the agent's answers must match.
pub(crate) fn format(agent: &LoadedAgent) -> Option<Arc<dyn AnswerFormat>> {
    let schema = agent.response_format.as_ref()?;
    Some(Arc::new(SchemaFormat::new(schema).unwrap()))
}

pub(crate) fn backend(agent: &LoadedAgent) -> OpenAiBackend {
    equipped(agent, Arc::new(NoTools))
}

pub(crate) fn equipped(agent: &LoadedAgent, tools: Arc<dyn ToolHost>) -> OpenAiBackend {
    let calls = calls(agent, &Env::empty()).unwrap();
    OpenAiBackend::new(agent, model(agent), format(agent), tools, Arc::new(calls))
        .with_locations(|field| agent.locate(field))
}

/// The backend of an agent whose model is scripted.
pub(crate) fn scripted(rest: &str, model: &Arc<ScriptedModel>, tools: Arc<dyn ToolHost>) -> OpenAiBackend {
    let agent = agent("  provider: ollama\n  name: m", rest);
    OpenAiBackend::new(
        &agent,
        agent.config.model.as_ref().unwrap(),
        format(&agent),
        tools,
        Arc::clone(model) as Arc<dyn ModelCalls>,
    )
}

pub(crate) async fn ask(backend: &dyn AgentBackend, message: &str) -> Result<ExecutionResult, BackendError> {
    backend.invoke_once(message, &[]).await
}

/// Runs a turn; returns its events and its error.
pub(crate) async fn run_turn(backend: &dyn AgentBackend) -> (Vec<BackendEvent>, Option<BackendError>) {
    use futures::StreamExt as _;

    let mut stream = backend.start(TurnRequest::new("hello"));
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

pub(crate) fn notices(events: &[BackendEvent]) -> Vec<&str> {
    let notices = events.iter().filter_map(|event| match event {
        BackendEvent::Notice { message } => Some(message.as_str()),
        _ => None,
    });
    notices.collect()
}

pub(crate) fn text(events: &[BackendEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        BackendEvent::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Replaces the server's address, whose port varies, in a message.
pub(crate) fn stable(message: &impl ToString, server: &ModelServer) -> String {
    message.to_string().replace(&server.url(), "http://server")
}
