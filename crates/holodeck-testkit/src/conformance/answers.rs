//! Conformance checks of answers: streaming, usage, refusals, structured output and concurrency.

use futures::FutureExt as _;
use holodeck_backend_api::{BackendEvent, HistoryItem, Outcome as TurnOutcome, TokenUsage};
use serde_json::json;

use super::{
    Check, ModelMove, Outcome, Scenario, Subject, holds,
    observed::{ask, plain},
    same,
};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("an answer is streamed and folded", |s| streamed(s).boxed()),
    ("initialize and teardown can be repeated", |s| {
        lifecycle(s).boxed()
    }),
    ("context reaches the model before the message", |s| {
        context(s).boxed()
    }),
    ("missing usage stays missing", |s| missing_usage(s).boxed()),
    ("a refusal is an outcome", |s| refusal(s).boxed()),
    ("an empty answer is an error", |s| empty(s).boxed()),
    ("a structured answer is validated", |s| structured(s).boxed()),
    ("turns of one backend run at the same time", |s| {
        concurrent(s).boxed()
    }),
];

async fn streamed(subject: &dyn Subject) -> Outcome {
    let usage = TokenUsage::new(7, 3);
    let say = ModelMove::Say {
        reasoning: Some("hm"),
        pieces: vec!["30 ", "days"],
        usage: Some(usage),
    };
    let prepared = plain(subject, Scenario::of([say])).await;
    let observed = ask(&*prepared.backend, "how long?").await;
    let result = observed.result()?;
    same("the text of the events", observed.text(), "30 days")?;
    same("the response", result.response.as_str(), "30 days")?;
    same("the thinking", result.thinking.as_deref(), Some("hm"))?;
    same("the outcome", &result.outcome, &TurnOutcome::Completed)?;
    same("the number of turns", result.num_turns, 1_u32)?;
    same("the usage", result.token_usage, Some(usage))?;
    holds("the answer comes in one piece", {
        let pieces = observed.events.iter();
        let pieces = pieces.filter(|event| matches!(event, BackendEvent::Text { .. }));
        pieces.count() > 1
    })?;
    let order = ["thinking", "text", "usage", "turn end", "end"];
    same("the order of events", observed.kinds(), order)?;
    observed.folds()
}

async fn lifecycle(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::say("hi")])).await;
    let backend = prepared.backend;
    let say = |error: holodeck_backend_api::BackendError| error.to_string();
    backend.initialize().await.map_err(say)?;
    backend.initialize().await.map_err(say)?;
    let result = backend.invoke_once("hello", &[]).await.map_err(say)?;
    same("the response", result.response.as_str(), "hi")?;
    backend.teardown().await.map_err(say)?;
    backend.teardown().await.map_err(say)
}

async fn context(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::Repeat])).await;
    let before = [HistoryItem::user("one"), HistoryItem::assistant("uno")];
    let result = prepared.backend.invoke_once("two", &before).await;
    same(
        "what the model saw",
        result.map_err(|error| error.to_string())?.response,
        "one | uno | two",
    )
}

async fn missing_usage(subject: &dyn Subject) -> Outcome {
    let say = ModelMove::Say {
        reasoning: None,
        pieces: vec!["hi"],
        usage: None,
    };
    let prepared = plain(subject, Scenario::of([say])).await;
    let observed = ask(&*prepared.backend, "hello").await;
    same("the usage", observed.result()?.token_usage, None::<TokenUsage>)
}

async fn refusal(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::Refuse("I can't do that")])).await;
    let observed = ask(&*prepared.backend, "do it").await;
    let result = observed.result()?;
    same("the outcome", &result.outcome, &TurnOutcome::Refused)?;
    same("the response", result.response.as_str(), "I can't do that")?;
    observed.folds()
}

async fn empty(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::SayNothing])).await;
    let observed = ask(&*prepared.backend, "hello").await;
    let result = observed.result()?;
    same(
        "the reason",
        result.error_reason().as_deref(),
        Some("empty response"),
    )?;
    observed.folds()
}

async fn structured(subject: &dyn Subject) -> Outcome {
    let scenario = Scenario {
        response_format: Some(json!({
            "type": "object",
            "properties": {"days": {"type": "integer"}},
            "required": ["days"],
            "additionalProperties": false,
        })),
        ..Scenario::of([ModelMove::say("{\"days\": 30}")])
    };
    let prepared = plain(subject, scenario).await;
    let observed = ask(&*prepared.backend, "how long?").await;
    let result = observed.result()?;
    let value = json!({"days": 30});
    same(
        "the structured output",
        result.structured_output.as_ref(),
        Some(&value),
    )?;
    let response = serde_json::from_str::<serde_json::Value>(&result.response);
    same("the response", response.ok(), Some(value))?;
    observed.folds()
}

async fn concurrent(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::Repeat, ModelMove::Repeat])).await;
    let (one, two) = futures::join!(ask(&*prepared.backend, "one"), ask(&*prepared.backend, "two"));
    same("the first answer", one.result()?.response.as_str(), "one")?;
    same("the second answer", two.result()?.response.as_str(), "two")
}
