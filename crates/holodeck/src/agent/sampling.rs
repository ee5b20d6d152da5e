//! Sampling: requests of MCP servers to the agent's own model.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{HistoryItem, Role, StopFamily, StopReason, ToolCx, TurnRequest};
use holodeck_mcp_bridge::{SampledMessage, SamplingAnswer, SamplingHost, SamplingRequest};
use holodeck_model::{ModelConfig, ResolvedAgent};

use crate::agent::{
    asker::Asker,
    backends::{BackendSelector, Specialist},
};

/// The agent's model, for servers that may sample it.
pub(crate) struct AgentModel {
    model: ModelConfig,
    agent: ResolvedAgent,
    backends: BackendSelector,
}

impl AgentModel {
    /// The model of `agent`, if it has one.
    pub(crate) fn of(agent: &ResolvedAgent, backends: &BackendSelector) -> Option<Arc<Self>> {
        let model = agent.config.model.clone()?;
        Some(Arc::new(Self {
            agent: agent.for_one_question(model.clone()),
            model,
            backends: backends.clone(),
        }))
    }

    /// The specialist for one request. The server's settings override the YAML, but cannot raise the token limit.
    fn specialist(&self, request: &SamplingRequest) -> Specialist {
        let mut model = self.model.clone();
        let requested = request.max_tokens.max(1);
        model.max_tokens = Some(model.max_tokens.map_or(requested, |limit| limit.min(requested)));
        model.temperature = request.temperature.map(exact).or(model.temperature);
        Specialist {
            model,
            instructions: request.system_prompt.clone().unwrap_or_default(),
            response_format: None,
        }
    }
}

#[async_trait]
impl SamplingHost for AgentModel {
    async fn sample(&self, request: SamplingRequest, cx: ToolCx) -> Result<SamplingAnswer, String> {
        let specialist = self.specialist(&request);
        let name = specialist.model.name.clone();
        let (history, question) = split_question(request.messages)?;
        tracing::debug!(server = request.server, "an MCP server samples the agent's model");
        let answer = Asker::new(&self.agent, specialist, &self.backends)
            .ask(history, question, &cx)
            .await
            .map_err(|error| format!("the agent's model did not answer: {}", error.explanation().text()))?;
        let (text, ending) = cut(answer.text, &request.stop_sequences);
        let stop_reason = match (ending, answer.stop_reason) {
            (Ending::AtSequence, _) | (_, Some(StopReason::StopSequence)) => Some("stopSequence"),
            (_, Some(reason)) => match reason.family() {
                StopFamily::Truncated | StopFamily::Unknown => Some("maxTokens"),
                StopFamily::End => Some("endTurn"),
                StopFamily::Calls | StopFamily::Refusal | StopFamily::Failure => None,
            },
            (_, None) => None,
        };
        Ok(SamplingAnswer {
            text,
            model: answer.model.unwrap_or(name),
            stop_reason: stop_reason.map(str::to_owned),
        })
    }
}

/// The last message as the new turn, the messages before it as its history.
fn split_question(mut messages: Vec<SampledMessage>) -> Result<(Vec<HistoryItem>, TurnRequest), String> {
    let last = messages.pop().filter(|last| last.role == Role::User);
    let last = last.ok_or("the last message must be from the user")?;
    let history = messages.into_iter().map(|message| {
        let mut content = message.text;
        for _ in &message.images {
            content.push_str("\n[image]");
        }
        match message.role {
            Role::User => HistoryItem::user(content),
            Role::Assistant => HistoryItem::assistant(content),
        }
    });
    let request = TurnRequest {
        images: last.images,
        ..TurnRequest::new(last.text)
    };
    Ok((history.collect(), request))
}

#[derive(Clone, Copy)]
enum Ending {
    ByItself,
    AtSequence,
}

/// The text up to the first of `sequences`. Done here because providers accept fewer sequences than servers may send.
fn cut(mut text: String, sequences: &[String]) -> (String, Ending) {
    let positions = sequences
        .iter()
        .filter(|sequence| !sequence.is_empty())
        .filter_map(|sequence| text.find(sequence.as_str()));
    match positions.min() {
        Some(end) => {
            text.truncate(end);
            (text, Ending::AtSequence)
        }
        None => (text, Ending::ByItself),
    }
}

/// The number as the server wrote it: 0.7 and not 0.699999988.
fn exact(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn message(role: Role, text: &str) -> SampledMessage {
        SampledMessage {
            role,
            text: text.to_owned(),
            images: Vec::new(),
        }
    }

    #[test]
    fn a_conversation_ends_with_the_users_message() {
        let (history, request) = split_question(vec![
            message(Role::User, "hi"),
            message(Role::Assistant, "ho"),
            message(Role::User, "well?"),
        ])
        .unwrap();
        assert_eq!(request.message, "well?");
        assert_eq!(history, [HistoryItem::user("hi"), HistoryItem::assistant("ho")]);
        for wrong in [Vec::new(), vec![message(Role::Assistant, "ho")]] {
            assert!(split_question(wrong).unwrap_err().contains("from the user"));
        }
    }

    #[test]
    fn an_answer_ends_at_the_first_stop_sequence() {
        let stop = ["###".to_owned(), String::new(), "end".to_owned()];
        for (text, expected) in [("a end ### b", "a "), ("nothing", "nothing"), ("###", "")] {
            assert_eq!(cut(text.to_owned(), &stop).0, expected);
        }
        assert_eq!(exact(0.7).to_string(), "0.7");
    }
}
