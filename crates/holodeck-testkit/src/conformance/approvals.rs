//! Conformance checks of approvals: who decides, and which events show it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::FutureExt as _;
use holodeck_backend_api::{
    Approval, ApprovalAsk, ApprovalDecision, Approver, BackendEvent, DecidedBy, Outcome as TurnOutcome,
    Ruling, ToolCall, TurnRequest,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Check, ModelMove, Outcome, Scenario, Subject, holds,
    observed::{ObservedTurn, equipped, observe},
    same,
    scenario::call,
};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("a person approves a call", |s| approved(s).boxed()),
    ("a person changes the arguments of a call", |s| changed(s).boxed()),
    ("a person rejects a call", |s| rejected(s).boxed()),
    ("a person ends the turn", |s| terminated(s).boxed()),
    ("a rule decides without asking", |s| by_rule(s).boxed()),
];

/// Returns scripted decisions and records the questions.
struct Decides {
    by: DecidedBy,
    decisions: Mutex<VecDeque<ApprovalDecision>>,
    asked: Mutex<Vec<ApprovalAsk>>,
}

impl Decides {
    fn next(&self, ask: &ApprovalAsk) -> ApprovalDecision {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push(ask.clone());
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        let unexpected = || ApprovalDecision::reject("asked more often than there are calls");
        decisions.pop_front().unwrap_or_else(unexpected)
    }
}

#[async_trait]
impl Approver for Decides {
    fn decide(&self, ask: &ApprovalAsk) -> Option<Ruling> {
        (self.by != DecidedBy::Person).then(|| Ruling::new(self.next(ask), self.by))
    }

    async fn ask(&self, ask: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
        self.next(ask)
    }
}

/// A turn whose model calls `echo` with `the model's` and then answers, under these decisions.
struct Decided {
    observed: ObservedTurn,
    called: Vec<ToolCall>,
    asked: Vec<ApprovalAsk>,
}

async fn decide(subject: &dyn Subject, by: DecidedBy, decision: &ApprovalDecision) -> Decided {
    let moves = [
        ModelMove::Call(vec![call("c1", "echo", "the model's")]),
        ModelMove::say("done"),
    ];
    let scenario = Scenario {
        asks: true,
        ..Scenario::of(moves)
    };
    let (prepared, tools) = equipped(subject, scenario).await;
    let approver = Arc::new(Decides {
        by,
        decisions: Mutex::new([decision.clone()].into()),
        asked: Mutex::default(),
    });
    let request = TurnRequest {
        approver: Some(Arc::clone(&approver) as Arc<dyn Approver>),
        ..TurnRequest::new("go")
    };
    let observed = observe(prepared.backend.start(request)).await;
    let asked = approver
        .asked
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    Decided {
        observed,
        called: tools.called(),
        asked,
    }
}

/// The expected events: the question to a person and its answer, with the clock stopped, then the result.
const ASKED: [&str; 5] = ["paused", "asked", "answered", "resumed", "tool result"];

impl Decided {
    /// The kinds of events from the call on, without the end of the message, which may come later.
    fn kinds(&self) -> Vec<&'static str> {
        let kinds = self.observed.events.iter().filter_map(|event| match event {
            BackendEvent::ToolCall(_) => Some("tool call"),
            BackendEvent::Paused => Some("paused"),
            BackendEvent::Resumed => Some("resumed"),
            BackendEvent::ApprovalAsked(_) => Some("asked"),
            BackendEvent::ApprovalAnswered { .. } => Some("answered"),
            BackendEvent::ApprovalDecided(_) => Some("decided"),
            BackendEvent::ToolResult(_) => Some("tool result"),
            _ => None,
        });
        kinds.skip_while(|kind| *kind != "tool call").skip(1).collect()
    }

    fn approvals(&self) -> Vec<Approval> {
        let approvals = self.observed.events.iter().filter_map(BackendEvent::approval);
        approvals.collect()
    }

    /// The question contains the call as the model made it, and the events contain the decision.
    fn about_the_call(&self, by: DecidedBy, decision: &ApprovalDecision) -> Outcome {
        let expected = call("c1", "echo", "the model's");
        let [ask] = &self.asked[..] else {
            return Err(format!("the approver was asked {:?}", self.asked));
        };
        same("the call", ask.call_id.as_str(), "c1")?;
        same("the tool", ask.tool_name.as_str(), "echo")?;
        same("the arguments", &ask.arguments, &expected.arguments)?;
        let approval = Approval {
            call_id: "c1".to_owned(),
            decision: decision.clone(),
            by,
            basis: None,
        };
        same("the decisions", self.approvals(), [approval])
    }
}

fn text(call: &ToolCall) -> Option<&Value> {
    call.arguments.get("text")
}

async fn approved(subject: &dyn Subject) -> Outcome {
    let decision = ApprovalDecision::approve();
    let turn = decide(subject, DecidedBy::Person, &decision).await;
    same("the order of events", turn.kinds(), ASKED)?;
    turn.about_the_call(DecidedBy::Person, &decision)?;
    let ran: Vec<_> = turn.called.iter().map(text).collect();
    same("what ran", ran, [Some(&json!("the model's"))])?;
    same("the response", turn.observed.result()?.response.as_str(), "done")
}

async fn changed(subject: &dyn Subject) -> Outcome {
    let decision = ApprovalDecision::Approve {
        arguments: Some(json!({"text": "the person's"})),
    };
    let turn = decide(subject, DecidedBy::Person, &decision).await;
    turn.about_the_call(DecidedBy::Person, &decision)?;
    let ran: Vec<_> = turn.called.iter().map(text).collect();
    same("what ran", ran, [Some(&json!("the person's"))])?;
    let result = turn.observed.result()?;
    let recorded: Vec<_> = result.tool_calls.iter().map(text).collect();
    same("the model's call", recorded, [Some(&json!("the model's"))])?;
    let results = result.tool_results.iter();
    let results: Vec<_> = results
        .map(|result| (result.result.as_str(), result.is_error))
        .collect();
    same("the result", results, [("the person's", false)])
}

async fn rejected(subject: &dyn Subject) -> Outcome {
    let decision = ApprovalDecision::reject("not today");
    let turn = decide(subject, DecidedBy::Person, &decision).await;
    same("the order of events", turn.kinds(), ASKED)?;
    turn.about_the_call(DecidedBy::Person, &decision)?;
    holds("the call ran", turn.called.is_empty())?;
    let result = turn.observed.result()?;
    let results = result.tool_results.iter();
    let results: Vec<_> = results
        .map(|result| (result.result.as_str(), result.is_error))
        .collect();
    same("the result", results, [("not today", true)])?;
    same("the outcome", &result.outcome, &TurnOutcome::Completed)?;
    same("the response", result.response.as_str(), "done")
}

async fn terminated(subject: &dyn Subject) -> Outcome {
    let reason = "this goes too far".to_owned();
    let decision = ApprovalDecision::Terminate {
        reason: reason.clone(),
    };
    let turn = decide(subject, DecidedBy::Person, &decision).await;
    turn.about_the_call(DecidedBy::Person, &decision)?;
    holds("the call ran", turn.called.is_empty())?;
    let result = turn.observed.result()?;
    same(
        "the outcome",
        &result.outcome,
        &TurnOutcome::Terminated { reason },
    )?;
    holds("it is not the agent's failure", result.outcome.is_agent_failure())?;
    same(
        "the stored reason",
        result.error_reason().as_deref(),
        Some("terminated by approval: this goes too far"),
    )
}

async fn by_rule(subject: &dyn Subject) -> Outcome {
    for (decision, runs) in [
        (ApprovalDecision::approve(), true),
        (ApprovalDecision::reject("a rule says no"), false),
    ] {
        let turn = decide(subject, DecidedBy::Rule, &decision).await;
        same("the order of events", turn.kinds(), ["decided", "tool result"])?;
        turn.about_the_call(DecidedBy::Rule, &decision)?;
        same("whether the call ran", !turn.called.is_empty(), runs)?;
        same("the response", turn.observed.result()?.response.as_str(), "done")?;
    }
    Ok(())
}
