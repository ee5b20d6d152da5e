//! Targets of tests, the backends over them, and the answers of scripted services.

use holodeck_backend_api::AgentBackend as _;
use holodeck_backend_api::{BackendError, BackendEvent, ExecutionResult, FailedTurn, TurnRequest, collect};
use holodeck_backend_target::{TargetBackend, TargetSetup};
use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{HttpTarget, TargetConfig};
use holodeck_testkit::{EndpointServer, Reply};
use serde_json::{Value, json};

/// An HTTP target with these fields.
pub(crate) fn http(fields: Value) -> TargetConfig {
    TargetConfig::Http(serde_json::from_value::<HttpTarget>(fields).unwrap())
}

#[allow(
    clippy::disallowed_methods,
    reason = "the interpreters are on the path of this process"
)]
pub(crate) fn setup() -> TargetSetup {
    TargetSetup {
        client: HttpClient::new(&HttpOptions::default()).unwrap(),
        folder: std::env::temp_dir(),
        env: std::env::vars().filter(|(name, _)| name == "PATH").collect(),
        answers: std::sync::Arc::default(),
        at: None,
    }
}

pub(crate) fn backend(target: &TargetConfig) -> TargetBackend {
    TargetBackend::new(target, setup()).unwrap()
}

/// The target that most tests ask: `{"q": …}` in, `{"answer": …}` out.
pub(crate) fn plain(server: &EndpointServer) -> TargetConfig {
    http(json!({
        "url": server.url(),
        "body": {"q": "{{ input }}"},
        "response": {"text": "$.answer"},
    }))
}

pub(crate) async fn ask(target: &TargetConfig, message: &str) -> Result<ExecutionResult, BackendError> {
    failed(target, message).await.map_err(|failed| failed.error)
}

pub(crate) async fn failed(target: &TargetConfig, message: &str) -> Result<ExecutionResult, FailedTurn> {
    let backend = backend(target);
    collect(backend.start(TurnRequest::new(message))).await
}

pub(crate) async fn events(target: &TargetConfig, message: &str) -> Vec<BackendEvent> {
    use futures::StreamExt as _;
    let backend = backend(target);
    backend
        .start(TurnRequest::new(message))
        .map(Result::unwrap)
        .collect()
        .await
}

/// An answer as JSON.
pub(crate) fn json_reply(body: &Value) -> Reply {
    Reply::raw(200, "application/json", body.to_string())
}
