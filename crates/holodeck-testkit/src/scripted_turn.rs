//! Builds the events of one scripted turn, including failures and calls of real tools.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_stream::stream;
use futures::{Stream, StreamExt as _, stream::FuturesUnordered};
use holodeck_backend_api::{
    Approval, ApprovalAsk, ApprovalDecision, Approver, BackendError, BackendEvent, CallDetails, CallRefusal,
    ExecutionResult, Outcome, Passage, ResultFold, StopReason, TokenUsage, ToolCall, ToolCx, ToolError,
    ToolHost, ToolKind, ToolOutput, ToolResult,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::Gate;

/// A scripted turn.
#[derive(Clone, Debug)]
pub struct ScriptedTurn {
    steps: Vec<Step>,
    end: End,
}

#[derive(Clone, Debug)]
enum Step {
    Wait(Duration),
    Behind(Gate),
    Emit(BackendEvent),
    /// Calls tools of the host, all at the same time.
    Call(Vec<ToolCall>),
}

#[derive(Clone, Debug)]
enum End {
    Answered(StopReason),
    Outcome(Outcome),
    Error(BackendError),
    Hang,
}

impl ScriptedTurn {
    /// An answer of text, with usage.
    pub fn text(text: &str) -> Self {
        Self::nothing().and_text(text).and_usage(TokenUsage::new(10, 5))
    }

    /// An empty turn, to build on.
    pub fn nothing() -> Self {
        Self {
            steps: Vec::new(),
            end: End::Answered(StopReason::EndTurn),
        }
    }

    /// A turn that ignores cancellation.
    pub fn failing(error: BackendError) -> Self {
        Self::nothing().and_fail(error)
    }

    /// A turn that never ends.
    pub fn hanging() -> Self {
        Self::nothing().and_hang()
    }

    /// Adds a piece of text.
    pub fn and_text(self, text: &str) -> Self {
        self.and_event(BackendEvent::Text {
            text: text.to_owned(),
        })
    }

    /// Adds a piece of reasoning.
    pub fn and_thinking(self, text: &str) -> Self {
        self.and_event(BackendEvent::Thinking {
            text: text.to_owned(),
        })
    }

    /// Adds tokens.
    pub fn and_usage(self, usage: TokenUsage) -> Self {
        self.and_event(BackendEvent::Usage(usage))
    }

    /// Adds a tool call and its result, without a tool.
    pub fn and_called(self, name: &str, arguments: Value, result: &str) -> Self {
        self.and_called_with(name, arguments, result, CallDetails::default())
    }

    /// Adds a call of a retrieval tool and its result, without a tool.
    pub fn and_retrieved(self, name: &str, arguments: Value, passages: &[&str]) -> Self {
        let details = CallDetails {
            kind: Some(ToolKind::Retrieval),
            passages: passages.iter().copied().map(Passage::of).collect(),
            ..CallDetails::default()
        };
        self.and_called_with(name, arguments, &passages.join("\n"), details)
    }

    fn and_called_with(self, name: &str, arguments: Value, result: &str, details: CallDetails) -> Self {
        let call_id = format!("call_{}", self.steps.len());
        let result = ToolResult {
            call_id: call_id.clone(),
            name: name.to_owned(),
            result: result.to_owned(),
            is_error: false,
            duration_ms: None,
            details,
        };
        let call = ToolCall {
            name: name.to_owned(),
            arguments,
            call_id,
            provider_fields: None,
        };
        self.and_event(BackendEvent::ToolCall(call))
            .and_event(turn_end(StopReason::ToolUse))
            .and_event(BackendEvent::ToolResult(result))
    }

    /// Calls tools of the host, all at the same time, which ends the model message.
    pub fn and_call(mut self, calls: Vec<ToolCall>) -> Self {
        self.steps.push(Step::Call(calls));
        self
    }

    /// Adds any event.
    pub fn and_event(mut self, event: BackendEvent) -> Self {
        self.steps.push(Step::Emit(event));
        self
    }

    /// Waits at this point.
    pub fn and_wait(mut self, time: Duration) -> Self {
        self.steps.push(Step::Wait(time));
        self
    }

    /// Waits at this point until `gate` is open.
    pub fn and_wait_for(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Behind(gate.clone()));
        self
    }

    /// Ends with this outcome.
    pub fn and_end(self, outcome: Outcome) -> Self {
        self.end(End::Outcome(outcome))
    }

    /// Ends the answer with this stop reason.
    pub fn and_stop(self, reason: StopReason) -> Self {
        self.end(End::Answered(reason))
    }

    /// Ends with this error.
    pub fn and_fail(self, error: BackendError) -> Self {
        self.end(End::Error(error))
    }

    /// Never ends.
    pub fn and_hang(self) -> Self {
        self.end(End::Hang)
    }

    fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    pub(crate) fn events(
        self,
        tools: Arc<dyn ToolHost>,
        approver: Option<Arc<dyn Approver>>,
        cancel: CancellationToken,
    ) -> impl Stream<Item = Result<BackendEvent, BackendError>> + Send {
        stream! {
            let mut fold = ResultFold::new();
            for step in self.steps {
                let mut events = Vec::new();
                let mut failed = None;
                match step {
                    Step::Wait(time) => tokio::time::sleep(time).await,
                    Step::Behind(gate) => gate.opened().await,
                    Step::Emit(event) => events.push(event),
                    Step::Call(calls) => {
                        let called = calls.iter().cloned().map(BackendEvent::ToolCall);
                        for event in called.chain([turn_end(StopReason::ToolUse)]) {
                            fold.observe(&event);
                            yield Ok(event);
                        }
                        let mut decisions = HashMap::new();
                        let mut questions = Vec::new();
                        for call in &calls {
                            let Some(approver) = &approver else { break };
                            let ask = ApprovalAsk::about(call);
                            if let Some(ruling) = approver.decide(&ask) {
                                let decided = Approval::ruled(&ask, &ruling);
                                yield Ok(BackendEvent::ApprovalDecided(decided));
                                decisions.insert(call.call_id.clone(), ruling.decision);
                                continue;
                            }
                            questions.push(ask);
                        }
                        let count = questions.len();
                        if count > 0 {
                            yield Ok(BackendEvent::Paused);
                        }
                        let mut asked = FuturesUnordered::new();
                        for (index, mut ask) in questions.into_iter().enumerate() {
                            let Some(approver) = &approver else { break };
                            ask.is_followed = index + 1 < count;
                            yield Ok(BackendEvent::ApprovalAsked(Box::new(ask.clone())));
                            let cancel = &cancel;
                            asked.push(async move { (ask.call_id.clone(), approver.ask(&ask, cancel).await) });
                        }
                        while let Some((call_id, decision)) = asked.next().await {
                            let answered = decision.clone();
                            yield Ok(BackendEvent::ApprovalAnswered { call_id: call_id.clone(), decision: answered });
                            let is_last = matches!(decision, ApprovalDecision::Terminate { .. });
                            decisions.insert(call_id, decision);
                            if is_last {
                                break;
                            }
                        }
                        if count > 0 {
                            yield Ok(BackendEvent::Resumed);
                        }
                        let terminated = decisions.values().find_map(|decision| match decision {
                            ApprovalDecision::Terminate { reason } => Some(reason.clone()),
                            _ => None,
                        });
                        if let Some(reason) = terminated {
                            let outcome = Outcome::Terminated { reason };
                            yield Ok(BackendEvent::End(Box::new(fold.finish(outcome))));
                            return;
                        }
                        drop(asked);
                        for (call, output) in call_all(&*tools, calls, &decisions).await {
                            if let Err(error) = &output {
                                failed = Some(Outcome::ToolFailed {
                                    name: call.name.clone(),
                                    reason: Some(error.reason()),
                                });
                            }
                            events.push(tool_result(call, output));
                        }
                    }
                }
                for event in events {
                    fold.observe(&event);
                    yield Ok(event);
                }
                if let Some(outcome) = failed {
                    yield Ok(BackendEvent::End(Box::new(fold.finish(outcome))));
                    return;
                }
            }
            let result: ExecutionResult = match self.end {
                End::Hang => std::future::pending().await,
                End::Error(error) => {
                    yield Err(error);
                    return;
                }
                End::Outcome(outcome) => fold.finish(outcome),
                End::Answered(reason) => {
                    let end = turn_end(reason.clone());
                    fold.observe(&end);
                    yield Ok(end);
                    fold.finish_answered(&reason)
                }
            };
            yield Ok(BackendEvent::End(Box::new(result)));
        }
    }
}

async fn call_all(
    tools: &dyn ToolHost,
    calls: Vec<ToolCall>,
    decisions: &HashMap<String, ApprovalDecision>,
) -> Vec<(ToolCall, Result<ToolOutput, ToolError>)> {
    let outputs = calls.iter().map(|call| async move {
        match decisions.get(&call.call_id) {
            Some(ApprovalDecision::Reject { reason }) => {
                Ok(ToolOutput::refused(CallRefusal::Rejected, reason.clone()))
            }
            Some(ApprovalDecision::Approve {
                arguments: Some(arguments),
            }) => {
                let arguments = arguments.clone();
                let call = ToolCall {
                    arguments,
                    ..call.clone()
                };
                tools.call(&call, ToolCx::default()).await
            }
            _ => tools.call(call, ToolCx::default()).await,
        }
    });
    let outputs = futures::future::join_all(outputs).await;
    let outputs = outputs.into_iter().map(|output| match output {
        Err(error @ ToolError::TimedOut { .. }) => Ok(ToolOutput::error(error.to_string())),
        other => other,
    });
    calls.into_iter().zip(outputs).collect()
}

fn tool_result(call: ToolCall, output: Result<ToolOutput, ToolError>) -> BackendEvent {
    let output = output.unwrap_or_else(|error| ToolOutput::error(error.to_string()));
    BackendEvent::ToolResult(ToolResult {
        call_id: call.call_id,
        name: call.name,
        result: output.text,
        is_error: output.is_error,
        duration_ms: None,
        details: output.details,
    })
}

fn turn_end(stop_reason: StopReason) -> BackendEvent {
    BackendEvent::TurnEnd {
        stop_reason,
        message_id: None,
        model: Some("scripted-1".to_owned()),
    }
}
