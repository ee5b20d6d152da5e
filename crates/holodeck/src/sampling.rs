//! Questions of MCP servers to the agent's own model.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{HistoryItem, Role, StopReason, ToolCx, TurnRequest};
use holodeck_mcp_bridge::{SampledMessage, SamplingAnswer, SamplingHost, SamplingRequest};
use holodeck_model::{Env, LoadedAgent};

use crate::{Answers, asker::Asker};

/// The agent's model, for servers that may ask it.
pub(crate) struct AgentModel {
    agent: LoadedAgent,
    env: Env,
    answers: Answers,
}

impl AgentModel {
    pub(crate) fn of(agent: &LoadedAgent, env: &Env, answers: &Answers) -> Arc<Self> {
        Arc::new(Self {
            agent: agent.for_one_question(agent.config.model.clone()),
            env: env.clone(),
            answers: answers.clone(),
        })
    }

    /// The agent for one question: what the server wants lies over what the YAML says, but for more tokens.
    fn asked(&self, request: &SamplingRequest) -> LoadedAgent {
        let mut model = self.agent.config.model.clone();
        let wanted = request.max_tokens.max(1);
        model.max_tokens = Some(model.max_tokens.map_or(wanted, |most| most.min(wanted)));
        model.temperature = request.temperature.map(exact).or(model.temperature);
        let mut agent = self.agent.for_one_question(model);
        agent.instructions.text = request.system_prompt.clone().unwrap_or_default();
        agent
    }
}

#[async_trait]
impl SamplingHost for AgentModel {
    async fn sample(&self, request: SamplingRequest, cx: ToolCx) -> Result<SamplingAnswer, String> {
        let agent = self.asked(&request);
        let name = agent.config.model.name.clone();
        let (history, question) = question(request.messages)?;
        tracing::debug!(server = request.server, "an MCP server asks the agent's model");
        let answer = Asker::new(agent, &self.env, &self.answers)
            .ask(history, question, &cx)
            .await
            .map_err(|error| format!("the agent's model did not answer: {error}"))?;
        let (text, ended) = cut(answer.text, &request.stop_sequences);
        let stop_reason = match (ended, answer.stop_reason) {
            (Ended::AtSequence, _) | (_, Some(StopReason::StopSequence)) => Some("stopSequence"),
            (_, Some(StopReason::MaxTokens)) => Some("maxTokens"),
            (_, Some(StopReason::EndTurn)) => Some("endTurn"),
            _ => None,
        };
        Ok(SamplingAnswer {
            text,
            model: answer.model.unwrap_or(name),
            stop_reason: stop_reason.map(str::to_owned),
        })
    }
}

/// The last message as what is said now, those before it as the conversation so far.
fn question(mut messages: Vec<SampledMessage>) -> Result<(Vec<HistoryItem>, TurnRequest), String> {
    let last = messages.pop().filter(|last| last.role == Role::User);
    let last = last.ok_or("the last message must be the user's")?;
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
enum Ended {
    ByItself,
    AtSequence,
}

/// The text up to the first of `sequences`: not every provider takes as many as a server may send.
fn cut(mut text: String, sequences: &[String]) -> (String, Ended) {
    let found = sequences
        .iter()
        .filter(|sequence| !sequence.is_empty())
        .filter_map(|sequence| text.find(sequence.as_str()));
    match found.min() {
        Some(end) => {
            text.truncate(end);
            (text, Ended::AtSequence)
        }
        None => (text, Ended::ByItself),
    }
}

/// As the server wrote it: 0.7 and not 0.699999988.
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
        let (history, asked) = question(vec![
            message(Role::User, "hi"),
            message(Role::Assistant, "ho"),
            message(Role::User, "well?"),
        ])
        .unwrap();
        assert_eq!(asked.message, "well?");
        assert_eq!(history, [HistoryItem::user("hi"), HistoryItem::assistant("ho")]);
        for wrong in [Vec::new(), vec![message(Role::Assistant, "ho")]] {
            assert!(question(wrong).unwrap_err().contains("the user's"));
        }
    }

    #[test]
    fn an_answer_ends_where_the_server_wants_it() {
        let stop = ["###".to_owned(), String::new(), "end".to_owned()];
        for (text, expected) in [("a end ### b", "a "), ("nothing", "nothing"), ("###", "")] {
            assert_eq!(cut(text.to_owned(), &stop).0, expected);
        }
        assert_eq!(exact(0.7).to_string(), "0.7");
    }
}
