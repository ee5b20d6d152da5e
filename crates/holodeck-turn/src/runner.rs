use std::time::Duration;

use holodeck_backend_api::{
    BackendError, BackendEvent, EventStream, ExecutionResult, StopReason, ToolUsage, TurnRequest, total_usage,
};
use holodeck_model::{ExecutionState, Failure, FailureKind, FileInput};
use tokio_util::sync::CancellationToken;

use crate::{Driven, FileReader, Prices, Question, TurnRecord, describe_error, drive};

/// Runs turns of one agent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TurnRunner {
    /// Reads the files of questions.
    pub files: FileReader,
    /// What tokens cost.
    pub prices: Prices,
    /// The model as the YAML names it.
    pub model: String,
    /// The longest a turn may take.
    pub timeout: Option<Duration>,
    /// What set it, as in `` `execution.llm_timeout` ``.
    pub timeout_source: String,
}

/// What is asked in a turn.
#[derive(Clone, Copy, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers fill it in as a literal with `..Default::default()`"
)]
pub struct TurnInput<'a> {
    /// The question.
    pub input: &'a str,
    /// The files that go with it.
    pub files: &'a [FileInput],
    /// What asks, for instance a test case.
    pub unit: Option<&'a str>,
}

/// How a turn ended.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum TurnEnd {
    /// By itself, well or badly.
    Ended {
        /// What happened.
        record: Box<TurnRecord>,
        /// Why it could not be ended, if it could not.
        error: Option<BackendError>,
    },
    /// Because the caller cancelled it.
    Stopped,
}

impl TurnRunner {
    /// Runs a turn to its end. `start` hands the request to a backend or a session. A turn counts as stopped only if
    /// `cancel` fired; an end that the caller did not ask for is a result, whatever the backend calls it.
    pub async fn run<'s>(
        &self,
        turn: TurnInput<'_>,
        cancel: &CancellationToken,
        start: impl FnOnce(TurnRequest) -> EventStream<'s>,
        mut on_event: impl FnMut(&BackendEvent),
    ) -> TurnEnd {
        let (mut request, files) = match self.request(turn, cancel).await {
            Ok(asked) => asked,
            Err(_unread) if cancel.is_cancelled() => return TurnEnd::Stopped,
            Err(unread) => {
                return TurnEnd::Ended {
                    record: unread,
                    error: None,
                };
            }
        };
        request.unit = turn.unit.map(ToOwned::to_owned);
        request.cancel = cancel.clone();
        let spending = request.spending.clone();
        let mut truncated = false;
        let mut approvals = Vec::new();
        let driven = drive(start(request), self.timeout, |event| {
            if let BackendEvent::TurnEnd { stop_reason, .. } = event {
                truncated = *stop_reason == StopReason::MaxTokens;
            }
            approvals.extend(event.approval());
            on_event(event);
        })
        .await;
        if driven.error.is_some() && cancel.is_cancelled() {
            return TurnEnd::Stopped;
        }
        let Driven {
            result,
            error,
            elapsed,
        } = driven;
        let state = match &error {
            Some(_) => ExecutionState::Error,
            None if result.outcome.is_agent_failure() => ExecutionState::AgentFailed,
            None if result.is_error() => ExecutionState::Error,
            None => ExecutionState::Completed,
        };
        let failure = match &error {
            Some(error) => Some(describe_error(error, &self.timeout_source)),
            None => result
                .error_reason()
                .map(|reason| Failure::new(FailureKind::Agent, reason)),
        };
        let by_tools = spending.take();
        let latency = elapsed + result.recorded_latency.unwrap_or_default();
        let record = TurnRecord {
            input: turn.input.to_owned(),
            files,
            state,
            usage: total_usage(result.token_usage, result.num_turns, &by_tools),
            cost_usd: self.cost(&result, &by_tools),
            elapsed_ms: millis(elapsed),
            latency_ms: Some(millis(latency)),
            truncated,
            approvals,
            failures: failure.into_iter().collect(),
            redacted: crate::Redacted::default(),
            result,
        };
        TurnEnd::Ended {
            record: Box::new(record),
            error,
        }
    }

    /// The request with its files and what became of them; or the record of a turn whose files could not be read.
    async fn request(
        &self,
        turn: TurnInput<'_>,
        cancel: &CancellationToken,
    ) -> Result<(TurnRequest, Vec<serde_json::Value>), Box<TurnRecord>> {
        if turn.files.is_empty() {
            return Ok((TurnRequest::new(turn.input), Vec::new()));
        }
        let Question {
            message,
            images,
            processed,
            problems,
        } = self.files.question(turn.input, turn.files, cancel).await;
        if problems.is_empty() && !cancel.is_cancelled() {
            let mut request = TurnRequest::new(message);
            request.images = images;
            return Ok((request, processed));
        }
        let failure = |problem| Failure::new(FailureKind::Files, problem);
        Err(Box::new(TurnRecord {
            input: turn.input.to_owned(),
            files: processed,
            state: ExecutionState::Error,
            failures: problems.into_iter().map(failure).collect(),
            ..TurnRecord::default()
        }))
    }

    /// What a turn cost, with what its tools asked models; each by the price of its own model.
    fn cost(&self, result: &ExecutionResult, by_tools: &[ToolUsage]) -> Option<f64> {
        let own = ToolUsage {
            model: self.model.clone(),
            answered_by: result.model.clone(),
            usage: result.token_usage,
        };
        // Without a call of its own that came to an answer there is nothing to pay.
        let own = (own.usage.is_some() || result.num_turns > 0 || by_tools.is_empty()).then_some(&own);
        let mut total = 0.0;
        for spent in own.into_iter().chain(by_tools) {
            let usage = spent.usage.as_ref()?;
            total += self
                .prices
                .cost(&spent.model, usage)
                .or_else(|| self.prices.cost(spent.answered_by.as_deref()?, usage))?;
        }
        Some(total)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use holodeck_documents::{Converter, Isolation};
    use pretty_assertions::assert_eq;

    use super::*;

    fn runner() -> TurnRunner {
        TurnRunner {
            files: FileReader::new(Converter::new(Isolation::None), Duration::from_mins(1)),
            prices: Prices::embedded(),
            model: "gpt-4o".to_owned(),
            timeout: None,
            timeout_source: "`--timeout`".to_owned(),
        }
    }

    fn ends(error: BackendError) -> EventStream<'static> {
        let text = BackendEvent::Text {
            text: "half".to_owned(),
        };
        Box::pin(futures::stream::iter([Ok(text), Err(error)]))
    }

    async fn run(error: BackendError, cancel: &CancellationToken) -> TurnEnd {
        let input = TurnInput {
            input: "q",
            ..TurnInput::default()
        };
        runner().run(input, cancel, |_| ends(error), |_| {}).await
    }

    #[tokio::test]
    async fn a01_a_turn_that_somebody_else_cancelled_is_an_error() {
        let end = run(BackendError::Cancelled, &CancellationToken::new()).await;
        let TurnEnd::Ended { record, error } = end else {
            panic!("{end:?}")
        };
        assert!(matches!(error, Some(BackendError::Cancelled)));
        assert_eq!(record.state, ExecutionState::Error);
        assert_eq!(record.failures[0].kind, FailureKind::Cancelled);
        assert_eq!(record.answer(), Some("half"));
    }

    #[tokio::test]
    async fn a01_a_turn_is_stopped_only_by_its_own_token() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        for error in [BackendError::Cancelled, BackendError::ended_early()] {
            assert!(matches!(run(error, &cancel).await, TurnEnd::Stopped));
        }
        // It was faster than the token.
        let done = |_| -> EventStream<'static> {
            Box::pin(futures::stream::iter([Ok(BackendEvent::End(Box::default()))]))
        };
        let end = runner().run(TurnInput::default(), &cancel, done, |_| {}).await;
        assert!(matches!(end, TurnEnd::Ended { error: None, .. }));
    }

    #[tokio::test]
    async fn a11_only_the_last_message_makes_an_answer_truncated() {
        let message = |reason: StopReason| {
            Ok(BackendEvent::TurnEnd {
                stop_reason: reason,
                message_id: None,
                model: None,
            })
        };
        for (first, last, truncated) in [
            (StopReason::ToolUse, StopReason::MaxTokens, true),
            (StopReason::MaxTokens, StopReason::EndTurn, false),
        ] {
            let events = vec![
                message(first),
                message(last),
                Ok(BackendEvent::End(Box::default())),
            ];
            let start = |_| -> EventStream<'static> { Box::pin(futures::stream::iter(events)) };
            let cancel = CancellationToken::new();
            let end = runner().run(TurnInput::default(), &cancel, start, |_| {}).await;
            let TurnEnd::Ended { record, .. } = end else {
                panic!("{end:?}")
            };
            assert_eq!(record.truncated, truncated);
        }
    }
}
