//! An agent of another `holodeck serve`, asked over its simple chat: a service whose requests and answers are known.

use std::sync::OnceLock;

use async_stream::stream;
use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, TurnRequest};
use holodeck_http::{Headers, HttpClient, HttpUrl, Verb};
use holodeck_model::{HolodeckTarget, HttpTarget, Location};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use crate::{
    asker::{Asker, Pieces},
    conversation::State,
    http::HttpAsker,
    template::Question,
};

/// Another server.
pub(crate) struct ServedAsker {
    config: HolodeckTarget,
    client: HttpClient,
    at: Option<Location>,
    /// The first message of a conversation, and those after it, which name the server's session.
    askers: OnceLock<(HttpAsker, HttpAsker)>,
}

impl ServedAsker {
    pub(crate) fn new(
        config: &HolodeckTarget,
        client: HttpClient,
        at: Option<Location>,
    ) -> Result<Self, BackendError> {
        let asker = Self {
            config: config.clone(),
            client,
            at,
            askers: OnceLock::new(),
        };
        if let Some(agent) = &config.agent {
            let askers = asker.askers_of(agent)?;
            let _first = asker.askers.set(askers);
        }
        Ok(asker)
    }

    fn askers_of(&self, agent: &str) -> Result<(HttpAsker, HttpAsker), BackendError> {
        let url = self.base()?.join("agent").join(agent).join("chat");
        let asker = |body: Value| {
            let target = json!({
                "url": url.exposed(),
                "body": body,
                "response": {"text": "$.content", "tool_calls": "$.tool_calls[*]", "session": "$.session_id",
                    "usage": {"path": "$.tokens_used", "optional": true}},
            });
            let mut target: HttpTarget = serde_json::from_value(target)
                .map_err(|error| BackendError::config(format!("`target`: {error}")))?;
            target.headers.clone_from(&self.config.headers);
            HttpAsker::new(&target, self.client.clone(), self.at.clone())
        };
        Ok((
            asker(json!({"message": "{{ input }}"}))?,
            asker(json!({"message": "{{ input }}", "session_id": "{{ session_id }}"}))?,
        ))
    }

    fn base(&self) -> Result<HttpUrl, BackendError> {
        HttpUrl::parse(&self.config.url)
            .map_err(|error| BackendError::config(format!("`target.url`: {error}")))
    }

    /// The only agent of the server.
    async fn only_agent(&self) -> Result<String, BackendError> {
        let url = self.base()?.join("health/agent");
        let failed = |problem: String| {
            BackendError::init(format!("the agents of {url} are not known: {problem}"))
                .with_hint("`target.agent` names one")
        };
        let mut headers = Headers::new();
        for (name, value) in &self.config.headers {
            headers
                .insert_secret(name, &value.expose_secret().into())
                .map_err(|error| failed(error.to_string()))?;
        }
        let exchange = self.client.exchange(Verb::Get, &url, &headers, None).await;
        let exchange = exchange.map_err(|error| failed(error.to_string()))?;
        if !exchange.is_success() {
            return Err(failed(exchange.refusal().await.to_string()));
        }
        let bytes = exchange
            .bytes()
            .await
            .map_err(|error| failed(error.to_string()))?;
        let list: Value = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
        let agents = list
            .get("agents")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        match agents.as_slice() {
            [agent] => agent
                .get("name")
                .and_then(Value::as_str)
                .map(str::to_owned)
                .ok_or_else(|| failed("it has no name".to_owned())),
            several => Err(failed(format!("it has {} agents", several.len()))),
        }
    }

    async fn ready(&self) -> Result<&(HttpAsker, HttpAsker), BackendError> {
        if let Some(askers) = self.askers.get() {
            return Ok(askers);
        }
        let agent = self.only_agent().await?;
        let askers = self.askers_of(&agent)?;
        Ok(self.askers.get_or_init(|| askers))
    }
}

impl Asker for ServedAsker {
    fn ask<'a>(&'a self, state: &'a mut State, question: Question, request: &TurnRequest) -> Pieces<'a> {
        let request = TurnRequest::new(request.message.clone());
        stream! {
            let (first, later) = match self.ready().await {
                Ok(askers) => askers,
                Err(error) => {
                    yield Err(error);
                    return;
                }
            };
            let asker = if state.is_named { later } else { first };
            let mut pieces = asker.ask(state, question, &request);
            while let Some(piece) = pieces.next().await {
                yield piece;
            }
        }
        .boxed()
    }

    fn sends_history(&self) -> bool {
        false
    }

    fn names_session(&self) -> bool {
        true
    }
}
