//! Answers requests from a server.
#![allow(
    deprecated,
    reason = "sampling, roots and logging are on their way out of the protocol; servers of today use them"
)]

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use holodeck_backend_api::Role;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability,
    Implementation, ListRootsResult, LoggingLevel, LoggingMessageNotificationParam, ProtocolVersion, Root,
    RootsCapabilities, SamplingCapability, SamplingMessage, SamplingMessageContentBlock,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::{Map, Value};

use super::Server;
use crate::client::content::Parts;
use crate::client::sampler::Sampler;
use crate::client::{Elicitation, ElicitationAnswer, ElicitationHost, SampledMessage, SamplingRequest};

/// The protocol's code for "rejected by the user".
const REJECTED: ErrorCode = ErrorCode(-1);

/// The client side of one server.
#[derive(Clone)]
pub(crate) struct Handler {
    /// Its name in the YAML.
    pub(crate) server_name: String,
    pub(crate) server: Weak<Server>,
    pub(crate) sampling: Option<Arc<Sampler>>,
    pub(crate) elicitation: Option<Arc<dyn ElicitationHost>>,
    pub(crate) roots: Vec<PathBuf>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let mut elicitation = ElicitationCapability::default();
        elicitation.form = Some(FormElicitationCapability::default());
        capabilities.elicitation = Some(elicitation);
        capabilities.sampling = self.sampling.is_some().then(SamplingCapability::default);
        // Some servers grant access to roots, whatever the YAML allows.
        capabilities.roots = (!self.roots.is_empty()).then(RootsCapabilities::default);
        let us = Implementation::new("holodeck", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, us).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(sampler) = &self.sampling else {
            let refusal = "this server may not ask a model: its tool in the agent's file does not set \
                           `sampling: allow`";
            return Err(ErrorData::new(REJECTED, refusal, None));
        };
        let request = SamplingRequest {
            server: self.server_name.clone(),
            system_prompt: params.system_prompt,
            messages: params.messages.iter().map(sampled).collect(),
            max_tokens: params.max_tokens,
            temperature: params.temperature,
            stop_sequences: params.stop_sequences.unwrap_or_default(),
        };
        let answer = sampler.sample(request).await;
        let answer = answer.map_err(|reason| ErrorData::new(REJECTED, reason, None))?;
        let result = CreateMessageResult::new(SamplingMessage::assistant_text(answer.text), answer.model);
        Ok(match answer.stop_reason {
            Some(reason) => result.with_stop_reason(reason),
            None => result,
        })
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let urls = self
            .roots
            .iter()
            .filter_map(|root| url::Url::from_file_path(root).ok());
        Ok(ListRootsResult::new(
            urls.map(|url| Root::new(url.as_str())).collect(),
        ))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || {
            tracing::info!(
                server = self.server_name,
                "declined a question of an MCP server to the person"
            );
            Ok(ElicitResult::new(ElicitationAction::Decline))
        };
        let call = self.server.upgrade().and_then(|server| server.only_call());
        let over = call.as_ref().map(|call| call.over.clone()).unwrap_or_default();
        let of_call = call.and_then(|call| call.person);
        let Some(host) = self.elicitation.clone().or(of_call) else {
            return declined();
        };
        let ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } = request
        else {
            return declined();
        };
        let schema = serde_json::to_value(requested_schema).unwrap_or_default();
        let question = Elicitation {
            server: self.server_name.clone(),
            message,
            schema: schema.clone(),
        };
        let answer = over.run_until_cancelled(host.elicit(question)).await;
        Ok(match answer.unwrap_or(ElicitationAnswer::Cancel) {
            ElicitationAnswer::Accept(answer) => {
                let answer = with_defaults(answer, &schema);
                if !has_required(&answer, &schema) {
                    return declined();
                }
                ElicitResult::new(ElicitationAction::Accept).with_content(answer)
            }
            ElicitationAnswer::Decline => ElicitResult::new(ElicitationAction::Decline),
            ElicitationAnswer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let server = &self.server_name;
        let text = match &params.data {
            Value::String(text) => text.clone(),
            data => data.to_string(),
        };
        match params.level {
            LoggingLevel::Debug => tracing::trace!(server, "{text}"),
            LoggingLevel::Info | LoggingLevel::Notice => tracing::debug!(server, "{text}"),
            _ => tracing::info!(server, level = ?params.level, "{text}"),
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.refresh();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.refresh();
    }
}

impl Handler {
    /// In its own task: the connection that announces the change must also deliver the answer.
    fn refresh(&self) {
        if let Some(server) = self.server.upgrade() {
            server.refresh_later();
        }
    }
}

fn sampled(message: &SamplingMessage) -> SampledMessage {
    let mut parts = Parts::default();
    for block in message.content.iter().cloned() {
        match block {
            SamplingMessageContentBlock::Text(text) => parts.add(rmcp::model::ContentBlock::Text(text)),
            SamplingMessageContentBlock::Image(image) => parts.add(rmcp::model::ContentBlock::Image(image)),
            SamplingMessageContentBlock::Audio(audio) => parts.add(rmcp::model::ContentBlock::Audio(audio)),
            _ => parts.add(rmcp::model::ContentBlock::text("[a tool call or its result]")),
        }
    }
    let (text, images) = parts.into_text_and_images();
    SampledMessage {
        role: match message.role {
            rmcp::model::Role::User => Role::User,
            rmcp::model::Role::Assistant => Role::Assistant,
        },
        text,
        images,
    }
}

/// Fills in the schema's defaults for missing fields.
fn with_defaults(answer: Value, schema: &Value) -> Value {
    let Value::Object(mut answer) = answer else {
        return answer;
    };
    let no_fields = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object);
    for (name, field) in fields.unwrap_or(&no_fields) {
        if let Some(default) = field.get("default")
            && answer.get(name).is_none_or(Value::is_null)
        {
            answer.insert(name.clone(), default.clone());
        }
    }
    Value::Object(answer)
}

/// Whether an answer has each field that the schema requires.
fn has_required(answer: &Value, schema: &Value) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    let mut names = required.into_iter().flatten().filter_map(Value::as_str);
    names.all(|name| answer.get(name).is_some_and(|value| !value.is_null()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_answer_leaves_out_has_its_default() {
        let schema = json!({ "type": "object", "properties": {
            "name": { "type": "string", "default": "Ada" },
            "age": { "type": "integer", "default": 36 },
            "town": { "type": "string" },
        }});
        assert_eq!(
            with_defaults(json!({ "age": 1 }), &schema),
            json!({ "age": 1, "name": "Ada" })
        );
        assert_eq!(with_defaults(json!([1]), &schema), json!([1]));
    }

    #[test]
    fn an_answer_has_what_the_schema_requires() {
        let schema =
            json!({ "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } });
        assert!(has_required(&json!({ "name": "Ada" }), &schema));
        assert!(!has_required(&json!({ "name": null }), &schema));
        assert!(!has_required(&json!({}), &schema));
    }
}
