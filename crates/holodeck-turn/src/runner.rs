//! Runs one turn with its files, time limit and cost, and distinguishes a cancelled turn from a failed one.

use std::{borrow::Cow, pin::Pin, sync::Arc, time::Duration};

use holodeck_backend_api::{
    BackendError, BackendEvent, EventStream, ExecutionResult, Redactions, ToolUsage, TurnRequest, total_usage,
};
use holodeck_model::{
    CommandRequest, Evidence, ExecutionState, Failure, FailureKind, FileInput, JsonMap, without_digests,
    without_digests_in,
};
use tokio_util::sync::CancellationToken;

use crate::{
    FileReader, FinishedTurn, Prices, Question, TurnRecord, drive,
    record::{describe_error, describe_outcome, state_of},
};

/// Runs turns of one agent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TurnRunner {
    /// Reads the files attached to questions.
    pub files: FileReader,
    /// Token prices.
    pub prices: Prices,
    /// The model as the YAML names it.
    pub model: String,
    /// Time limit of a turn.
    pub timeout: Option<Duration>,
    /// The setting that defines the time limit, such as `` `execution.llm_timeout` ``.
    pub timeout_source: String,
}

/// The input of a turn.
#[derive(Clone, Copy, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers construct it as a literal with `..Default::default()`"
)]
pub struct TurnInput<'a> {
    /// The question.
    pub input: &'a str,
    /// The files attached to the question.
    pub files: &'a [FileInput],
    /// The values of the test case that the request contains beside the question.
    pub vars: Option<&'a JsonMap>,
    /// The unit that the turn belongs to, such as a test case.
    pub unit: Option<&'a str>,
    /// Which trial of its test case the turn belongs to, from 0.
    pub trial: u32,
    /// The command that the question names, for an agent with `routing:`.
    pub command: Option<&'a str>,
    /// The specialist that answers, without a selection.
    pub agent: Option<&'a str>,
    /// A time limit for this turn in place of the runner's, and the setting that defines it.
    pub limit: Option<(Duration, &'a str)>,
}

/// How a turn ended.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "a turn either ended or was stopped")]
pub enum TurnEnd {
    /// The turn ended, successfully or not.
    Ended {
        /// The record of the turn.
        record: Box<TurnRecord>,
        /// Why the turn could not be completed, if it failed.
        error: Option<BackendError>,
    },
    /// The caller cancelled the turn.
    Stopped,
}

impl TurnRunner {
    /// Runs a turn to its end. `start` passes the request to a backend or a session. A turn counts as stopped only if
    /// `cancel` fired; any other cancellation that the backend reports is an error of the turn.
    pub async fn run<'s>(
        &self,
        turn: TurnInput<'_>,
        cancel: &CancellationToken,
        start: impl FnOnce(TurnRequest) -> EventStream<'s>,
        mut on_event: impl FnMut(&BackendEvent),
    ) -> TurnEnd {
        let (mut request, files) = match self.prepare_request(turn, cancel).await {
            Ok(prepared) => prepared,
            Err(_record) if cancel.is_cancelled() => return TurnEnd::Stopped,
            Err(record) => {
                return TurnEnd::Ended { record, error: None };
            }
        };
        let own_limit = (self.timeout, self.timeout_source.as_str());
        let (timeout, source) = turn
            .limit
            .map_or(own_limit, |(limit, source)| (Some(limit), source));
        request.command = CommandRequest {
            name: turn.command.map(ToOwned::to_owned),
            task: (!turn.files.is_empty()).then(|| turn.input.to_owned()),
            agent: turn.agent.map(ToOwned::to_owned),
        };
        request.vars = turn.vars.cloned().unwrap_or_default();
        request.unit = turn.unit.map(ToOwned::to_owned);
        request.trial = turn.trial;
        request.cancel = cancel.clone();
        let spending = request.spending.clone();
        let traceparent = Arc::clone(&request.traceparent);
        let mut truncated_by = None;
        let mut redacted = Redactions::default();
        let finished = drive(start(request), timeout, |event| {
            match event {
                BackendEvent::TurnEnd { stop_reason, .. } => {
                    truncated_by = stop_reason.truncation().cloned();
                }
                BackendEvent::Replayed {
                    redacted: message, ..
                } => redacted.add_message(message.clone()),
                _ => {}
            }
            on_event(event);
        })
        .await;
        if finished.error.is_some() && cancel.is_cancelled() {
            return TurnEnd::Stopped;
        }
        let FinishedTurn {
            mut result,
            mut trajectory,
            error,
            elapsed,
        } = finished;
        redacted.complete(&mut result);
        result.truncated_by = result.truncated_by.or(truncated_by);
        if result.recorded_latency.is_some() {
            // The recorded turn was stored without digests.
            trajectory.edit(remove_digests, without_digests_in);
        }
        let state = match &error {
            Some(_) => ExecutionState::Error,
            None => state_of(&result),
        };
        let failure = match &error {
            Some(error) => Some(describe_error(error, source)),
            None => describe_outcome(&result.outcome),
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
            latency_ms: (!result.lacks(Evidence::Latency)).then(|| millis(latency)),
            truncated: result.truncated_by.is_some(),
            trajectory,
            failures: failure.into_iter().collect(),
            redacted,
            result,
            traceparent: traceparent.get().cloned(),
        };
        TurnEnd::Ended {
            record: Box::new(record),
            error,
        }
    }

    /// Adds to the result of a turn what its tools used, and its cost.
    pub fn add_totals(&self, result: &mut ExecutionResult, by_tools: &[ToolUsage]) {
        result.cost_usd = self.cost(result, by_tools);
        result.token_usage = total_usage(result.token_usage, result.num_turns, by_tools);
    }

    /// Returns the request and how its files were processed, or the record of a turn whose files could not be read.
    pub async fn prepare_request(
        &self,
        turn: TurnInput<'_>,
        cancel: &CancellationToken,
    ) -> Result<(TurnRequest, Vec<serde_json::Value>), Box<TurnRecord>> {
        if turn.files.is_empty() {
            return Ok((TurnRequest::new(turn.input), Vec::new()));
        }
        // Boxed, because most turns have no files, and every turn in flight would have room for reading them.
        let question: Pin<Box<dyn Future<Output = Question> + Send + '_>> =
            Box::pin(self.files.build_question(turn.input, turn.files, cancel));
        let Question {
            message,
            images,
            processed,
            problems,
        } = question.await;
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

    /// The cost of a turn with the model calls of its tools, each at the price of its own model.
    fn cost(&self, result: &ExecutionResult, by_tools: &[ToolUsage]) -> Option<f64> {
        let executor = result.execution.as_deref();
        let model = executor.and_then(|execution| execution.model.as_ref());
        let own = ToolUsage {
            model: model.unwrap_or(&self.model).clone(),
            answered_by: result.model.clone(),
            usage: result.token_usage,
            cost_usd: result.cost_usd,
        };
        // If none of the agent's own calls was answered, only the calls of its tools have a cost.
        let own = (own.usage.is_some() || result.num_turns > 0 || by_tools.is_empty()).then_some(&own);
        let mut total = 0.0;
        for call in own.into_iter().chain(by_tools) {
            let by_list = || {
                let usage = call.usage.as_ref()?;
                let by_name = self.prices.cost(&call.model, usage);
                by_name.or_else(|| self.prices.cost(call.answered_by.as_deref()?, usage))
            };
            total += call.cost_usd.or_else(by_list)?;
        }
        Some(total)
    }
}

fn remove_digests(text: &mut String) {
    if let Cow::Owned(plain) = without_digests(text) {
        *text = plain;
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use holodeck_backend_api::StopReason;
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

    fn failing_stream(error: BackendError) -> EventStream<'static> {
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
        runner()
            .run(input, cancel, |_| failing_stream(error), |_| {})
            .await
    }

    #[tokio::test]
    async fn a_turn_that_was_cancelled_elsewhere_is_an_error() {
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
    async fn a_turn_is_stopped_only_by_its_own_token() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        for error in [BackendError::Cancelled, BackendError::ended_early()] {
            assert!(matches!(run(error, &cancel).await, TurnEnd::Stopped));
        }
        // The turn completed before the token was checked.
        let done = |_| -> EventStream<'static> {
            Box::pin(futures::stream::iter([Ok(BackendEvent::End(Box::default()))]))
        };
        let end = runner().run(TurnInput::default(), &cancel, done, |_| {}).await;
        assert!(matches!(end, TurnEnd::Ended { error: None, .. }));
    }

    #[tokio::test]
    async fn only_the_last_message_makes_an_answer_truncated() {
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
