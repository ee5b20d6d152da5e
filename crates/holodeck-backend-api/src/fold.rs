//! Folds the events of a turn into its result. The only place that does, so that live, recorded and replayed turns
//! agree.

use std::time::Duration;

use crate::{
    BackendError, BackendEvent, EventStream, ExecutionResult, Outcome, StopFamily, StopReason, TokenUsage,
    ToolCall, ToolResult, event_stream::next,
};

/// Folds [`BackendEvent`]s into the [`ExecutionResult`]. No other code does this.
#[derive(Debug)]
pub struct ResultFold {
    result: ExecutionResult,
    /// Text of the model message being written; the final answer is the last message's text.
    message: String,
    thinking: String,
    message_open: bool,
    /// The last message reached a limit of tokens; if another follows at once, the service let the model continue it.
    was_cut: bool,
}

impl Default for ResultFold {
    fn default() -> Self {
        Self {
            result: ExecutionResult::unasked(),
            message: String::new(),
            thinking: String::new(),
            message_open: false,
            was_cut: false,
        }
    }
}

impl ResultFold {
    /// An empty fold.
    pub fn new() -> Self {
        Self::default()
    }

    /// Processes one event. `End` is ignored because it contains the result of this fold.
    pub fn observe(&mut self, event: &BackendEvent) {
        match event {
            BackendEvent::Thinking { text } => {
                self.open_message();
                self.thinking.push_str(text);
            }
            BackendEvent::Text { text } => {
                self.open_message();
                self.message.push_str(text);
            }
            BackendEvent::ToolCall(call) => {
                self.open_message();
                self.result.tool_calls.push(ToolCall {
                    provider_fields: None,
                    ..call.clone()
                });
            }
            BackendEvent::ToolResult(result) => {
                self.was_cut = false;
                self.result.tool_results.push(result.clone());
            }
            BackendEvent::Usage(usage) | BackendEvent::OtherUsage { usage, .. } => self.add_usage(usage),
            BackendEvent::Cost { usd } => *self.result.cost_usd.get_or_insert(0.0) += usd,
            BackendEvent::TurnEnd {
                stop_reason, model, ..
            } => {
                self.result.truncated_by = stop_reason.truncation().cloned();
                self.result.finish_reason = Some(stop_reason.clone());
                self.open_message();
                self.message_open = false;
                self.was_cut = stop_reason.family() == StopFamily::Truncated;
                self.result.num_turns += 1;
                if model.is_some() {
                    self.result.model.clone_from(model);
                }
            }
            BackendEvent::Passages(passages) => {
                self.result
                    .passages
                    .get_or_insert_default()
                    .extend(passages.iter().cloned());
            }
            BackendEvent::Unreported(parts) => self.result.unreported.clone_from(parts),
            BackendEvent::StructuredOutput(value) => self.result.structured_output = Some(value.clone()),
            BackendEvent::NumberOdds(odds) => self.result.number_odds.clone_from(odds),
            BackendEvent::Executed(execution) => self.result.execution = Some(execution.clone()),
            BackendEvent::Replayed { latency, .. } => {
                *self.result.recorded_latency.get_or_insert(Duration::ZERO) += *latency;
            }
            BackendEvent::ThinkingEnd { .. }
            | BackendEvent::ApprovalDecided(_)
            | BackendEvent::ApprovalAsked(_)
            | BackendEvent::ApprovalAnswered { .. }
            | BackendEvent::SessionStarted { .. }
            | BackendEvent::Nested { .. }
            | BackendEvent::Paused
            | BackendEvent::Resumed
            | BackendEvent::Retrying { .. }
            | BackendEvent::Notice { .. }
            | BackendEvent::LimitLifted
            | BackendEvent::End(_) => {}
        }
    }

    /// The result so far, with `outcome`.
    pub fn finish(mut self, outcome: Outcome) -> ExecutionResult {
        self.result.response = match &self.result.structured_output {
            // The same text from every backend, independent of the model's whitespace or text around the object.
            Some(value) => value.to_string(),
            None => self.message,
        };
        if !self.thinking.is_empty() {
            self.result.thinking = Some(self.thinking);
        }
        self.result.outcome = outcome;
        self.result
    }

    /// The result with the outcome that the answer implies: a refusal, a provider's failure, an empty answer, or
    /// completed (R22).
    pub fn finish_answered(mut self, stop_reason: &StopReason) -> ExecutionResult {
        if let Some(reason) = stop_reason.truncation() {
            self.result.truncated_by = Some(reason.clone());
        }
        self.result.finish_reason = Some(stop_reason.clone());
        let outcome = match stop_reason.family() {
            StopFamily::Refusal => Outcome::Refused,
            StopFamily::Failure => Outcome::Failed {
                reason: format!("the provider did not complete its answer (finish_reason `{stop_reason}`)"),
            },
            _ if self.message.trim().is_empty() && self.result.structured_output.is_none() => {
                Outcome::EmptyResponse
            }
            _ => Outcome::Completed,
        };
        self.finish(outcome)
    }

    /// The result of a turn that could not be completed: everything received so far, with the contract's text for
    /// the error (R22).
    pub fn finish_failed(self, error: &BackendError) -> ExecutionResult {
        let outcome = match error {
            BackendError::Timeout { .. } => Outcome::TimedOut,
            BackendError::Terminated { .. } => Outcome::SubprocessTerminated,
            BackendError::Tool { name, reason } => Outcome::ToolFailed {
                name: name.clone(),
                reason: Some(reason.clone()),
            },
            other => Outcome::Failed {
                reason: other.to_string(),
            },
        };
        self.finish(outcome)
    }

    /// Tokens so far.
    pub fn token_usage(&self) -> Option<&TokenUsage> {
        self.result.token_usage.as_ref()
    }

    /// Tool results so far.
    pub fn tool_results(&self) -> &[ToolResult] {
        &self.result.tool_results
    }

    fn open_message(&mut self) {
        if !self.message_open {
            self.message_open = true;
            if !std::mem::take(&mut self.was_cut) {
                self.message.clear();
            }
            self.result.number_odds.clear();
        }
    }

    fn add_usage(&mut self, usage: &TokenUsage) {
        match &mut self.result.token_usage {
            Some(total) => *total += *usage,
            none => *none = Some(*usage),
        }
    }
}

/// A turn that could not be completed, with the content received before the error.
#[derive(Debug)]
pub struct FailedTurn {
    /// The reason.
    pub error: BackendError,
    /// Everything received before the error.
    pub partial: Box<ExecutionResult>,
}

/// Runs a turn's stream to its end.
pub async fn collect(mut stream: EventStream<'_>) -> Result<ExecutionResult, FailedTurn> {
    let mut fold = ResultFold::new();
    loop {
        let failure = match next(&mut stream).await {
            Some(Ok(BackendEvent::End(result))) => return Ok(*result),
            Some(Ok(event)) => {
                fold.observe(&event);
                continue;
            }
            Some(Err(error)) => error,
            None => BackendError::no_result(),
        };
        let partial = Box::new(fold.finish_failed(&failure));
        return Err(FailedTurn {
            error: failure,
            partial,
        });
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::ToolCall;

    fn text(text: &str) -> BackendEvent {
        BackendEvent::Text {
            text: text.to_owned(),
        }
    }

    fn turn_end(stop_reason: StopReason) -> BackendEvent {
        BackendEvent::TurnEnd {
            stop_reason,
            message_id: None,
            model: Some("m".to_owned()),
        }
    }

    fn usage(prompt: u64, completion: u64) -> BackendEvent {
        BackendEvent::Usage(TokenUsage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: prompt + completion,
            ..TokenUsage::default()
        })
    }

    fn fold(events: &[BackendEvent]) -> ResultFold {
        let mut fold = ResultFold::new();
        for event in events {
            fold.observe(event);
        }
        fold
    }

    #[test]
    fn the_answer_is_the_last_messages_text_and_tokens_add_up() {
        let call = ToolCall {
            name: "f".to_owned(),
            arguments: json!({}),
            call_id: "c1".to_owned(),
            provider_fields: None,
        };
        let result = fold(&[
            text("let me look"),
            BackendEvent::ToolCall(call.clone()),
            usage(10, 2),
            turn_end(StopReason::ToolUse),
            text("30 "),
            text("days"),
            usage(20, 3),
            turn_end(StopReason::EndTurn),
        ])
        .finish_answered(&StopReason::EndTurn);
        assert_eq!(result.response, "30 days");
        assert_eq!(result.tool_calls, [call]);
        assert_eq!(result.num_turns, 2);
        assert_eq!(result.token_usage.unwrap().total_tokens, 35);
        assert_eq!(result.outcome, Outcome::Completed);
    }

    #[test]
    fn a_final_message_without_text_is_not_the_one_before_it() {
        let result = fold(&[
            text("thinking aloud"),
            turn_end(StopReason::ToolUse),
            turn_end(StopReason::EndTurn),
        ])
        .finish_answered(&StopReason::EndTurn);
        assert_eq!(result.response, "");
        assert_eq!(result.outcome, Outcome::EmptyResponse);
    }

    #[test]
    fn an_answer_that_was_continued_after_its_limit_is_whole() {
        let text = |text: &str| BackendEvent::Text {
            text: text.to_owned(),
        };
        let end = |stop_reason| BackendEvent::TurnEnd {
            stop_reason,
            message_id: None,
            model: None,
        };
        let mut fold = ResultFold::new();
        for event in [
            text("not "),
            end(StopReason::EndTurn),
            text("one "),
            end(StopReason::MaxTokens),
            text("two "),
            end(StopReason::MaxTokens),
            text("three"),
            end(StopReason::EndTurn),
        ] {
            fold.observe(&event);
        }
        let result = fold.finish(Outcome::Completed);
        assert_eq!(
            (result.response.as_str(), result.truncated_by),
            ("one two three", None)
        );
    }

    #[test]
    fn a_structured_answer_is_its_compact_json_text() {
        for (written, response) in [
            ("{ \"n\": 1 }", "{\"n\":1}"),
            ("```json\n{\"n\": 1}\n```", "{\"n\":1}"),
        ] {
            let events = [
                text(written),
                turn_end(StopReason::EndTurn),
                BackendEvent::StructuredOutput(json!({"n": 1})),
            ];
            let result = fold(&events).finish_answered(&StopReason::EndTurn);
            assert_eq!(result.response, response);
        }
    }

    #[test]
    fn missing_usage_stays_missing() {
        let result = fold(&[text("hi"), turn_end(StopReason::EndTurn)]).finish_answered(&StopReason::EndTurn);
        assert_eq!(result.token_usage, None);
    }

    #[tokio::test]
    async fn a_broken_stream_keeps_its_text() {
        let stream: EventStream<'_> = Box::pin(futures::stream::iter([
            Ok(text("half an ans")),
            Err(BackendError::ended_early()),
        ]));
        let failed = collect(stream).await.unwrap_err();
        assert_eq!(failed.partial.response, "half an ans");
        assert_eq!(failed.partial.error_reason().unwrap(), "the stream ended early");
    }

    #[tokio::test]
    async fn a_stream_without_an_end_is_an_error() {
        let failed = collect(Box::pin(futures::stream::iter([Ok(text("x"))])))
            .await
            .unwrap_err();
        assert!(matches!(failed.error, BackendError::Protocol { .. }));
    }
}
