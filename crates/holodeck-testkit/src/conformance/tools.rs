//! Conformance checks of tool calls: parallel, failing, slow, unknown and too many.

use futures::FutureExt as _;
use holodeck_backend_api::{CallRefusal, Outcome as TurnOutcome, SideEffects, TokenUsage, ToolKind};

use crate::scripted_tools::SEARCH;

use super::{
    Check, ModelMove, Outcome, Scenario, Subject, holds,
    observed::{ask, equipped},
    same,
    scenario::call,
};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("a tool is called and its result goes back", |s| one(s).boxed()),
    (
        "a tool has one name in every event, whatever the wire calls it",
        |s| search(s).boxed(),
    ),
    ("parallel calls run at the same time", |s| parallel(s).boxed()),
    ("a failing tool does not end the turn", |s| failing(s).boxed()),
    ("an unknown tool does not end the turn", |s| unknown(s).boxed()),
    ("a tool that is too slow does not end the turn", |s| {
        slow(s).boxed()
    }),
    ("a tool that can't be run ends the turn", |s| missing(s).boxed()),
    ("model calls are limited", |s| max_turns(s).boxed()),
];

async fn one(subject: &dyn Subject) -> Outcome {
    let moves = [ModelMove::call("echo"), ModelMove::say("done")];
    let (prepared, tools) = equipped(subject, Scenario::of(moves)).await;
    let observed = ask(&*prepared.backend, "go").await;
    let result = observed.result()?;
    let expected = [call("c1", "echo", "x")];
    same("what the host ran", tools.called(), expected.as_slice())?;
    same(
        "the tool calls",
        result.tool_calls.as_slice(),
        expected.as_slice(),
    )?;
    let results = result.tool_results.iter();
    let results: Vec<_> = results
        .map(|result| (result.call_id.as_str(), result.result.as_str(), result.is_error))
        .collect();
    same("the tool results", results, [("c1", "x", false)])?;
    same("the response", result.response.as_str(), "done")?;
    same("the number of turns", result.num_turns, 2_u32)?;
    let mut usage = TokenUsage::new(10, 5);
    usage += TokenUsage::new(10, 5);
    holds(
        "the usage is not that of both model calls, or of the one that reported it",
        result.token_usage == Some(usage) || result.token_usage == Some(TokenUsage::new(10, 5)),
    )?;
    let position = |kind| observed.kinds().iter().position(|own| *own == kind);
    holds(
        "the tool result does not follow the message that asked for it",
        position("tool call") < position("turn end") && position("turn end") < position("tool result"),
    )?;
    observed.folds()
}

async fn parallel(subject: &dyn Subject) -> Outcome {
    let calls = vec![call("c1", "pair", "first"), call("c2", "pair", "second")];
    let moves = [ModelMove::Call(calls), ModelMove::say("done")];
    let (prepared, _) = equipped(subject, Scenario::of(moves)).await;
    let observed = ask(&*prepared.backend, "go").await;
    let results = observed.results().into_iter();
    let mut results: Vec<_> = results
        .map(|result| (result.call_id.as_str(), result.result.as_str()))
        .collect();
    // They are emitted as they arrive.
    results.sort_unstable();
    same("the results", results, [("c1", "first"), ("c2", "second")])?;
    same("the response", observed.result()?.response.as_str(), "done")?;
    observed.folds()
}

async fn failing(subject: &dyn Subject) -> Outcome {
    turn_continues(subject, "fails").await
}

async fn unknown(subject: &dyn Subject) -> Outcome {
    turn_continues(subject, "invented").await?;
    let (prepared, _) = equipped(
        subject,
        Scenario::of([ModelMove::call("invented"), ModelMove::say("x")]),
    )
    .await;
    let observed = ask(&*prepared.backend, "go").await;
    let refused = observed
        .results()
        .iter()
        .map(|result| result.details.refused)
        .collect::<Vec<_>>();
    same("why the call did not run", refused, [Some(CallRefusal::Unknown)])
}

/// The wire name of the tool differs from the shown one, and both from the declared one.
async fn search(subject: &dyn Subject) -> Outcome {
    let moves = [ModelMove::call(SEARCH), ModelMove::say("done")];
    let (prepared, tools) = equipped(subject, Scenario::of(moves)).await;
    let observed = ask(&*prepared.backend, "go").await;
    let result = observed.result()?;
    let expected = [call("c1", SEARCH, "x")];
    same("what the host ran", tools.called(), expected.as_slice())?;
    same(
        "the tool calls",
        result.tool_calls.as_slice(),
        expected.as_slice(),
    )?;
    let [answer] = result.tool_results.as_slice() else {
        return Err(format!("the tool results are {:?}", result.tool_results));
    };
    same("the name in the result", answer.name.as_str(), SEARCH)?;
    same("the kind", answer.details.kind, Some(ToolKind::Retrieval))?;
    same(
        "the side effects",
        answer.details.side_effects,
        Some(SideEffects::None),
    )?;
    same("why it did not run", answer.details.refused, None)?;
    let passages = answer
        .details
        .passages
        .iter()
        .map(|passage| passage.text.as_str());
    same("the passages", passages.collect::<Vec<_>>(), ["x", "second best"])?;
    observed.folds()
}

async fn slow(subject: &dyn Subject) -> Outcome {
    turn_continues(subject, "slow").await
}

async fn turn_continues(subject: &dyn Subject, tool: &str) -> Outcome {
    let moves = [ModelMove::call(tool), ModelMove::say("never mind")];
    let (prepared, _) = equipped(subject, Scenario::of(moves)).await;
    let observed = ask(&*prepared.backend, "go").await;
    let result = observed.result()?;
    let errors: Vec<_> = result.tool_results.iter().map(|result| result.is_error).collect();
    same("whether the tool failed", errors, [true])?;
    same("the outcome", &result.outcome, &TurnOutcome::Completed)?;
    same("the response", result.response.as_str(), "never mind")
}

async fn missing(subject: &dyn Subject) -> Outcome {
    let (prepared, _) = equipped(subject, Scenario::of([ModelMove::call("missing")])).await;
    let observed = ask(&*prepared.backend, "go").await;
    let result = observed.result()?;
    let reason = result.error_reason();
    same(
        "the reason",
        reason.as_deref(),
        Some("tool execution failed: missing"),
    )?;
    holds(
        "no result has the reason",
        result.tool_results.iter().any(|result| result.is_error),
    )?;
    observed.folds()
}

async fn max_turns(subject: &dyn Subject) -> Outcome {
    let again = |id: &str| ModelMove::Call(vec![call(id, "echo", "x")]);
    let scenario = Scenario {
        max_turns: Some(2),
        ..Scenario::of([again("c1"), again("c2")])
    };
    let (prepared, _) = equipped(subject, scenario).await;
    let observed = ask(&*prepared.backend, "go").await;
    let result = observed.result()?;
    let reason = result.error_reason();
    same("the reason", reason.as_deref(), Some("max_turns limit reached"))?;
    same("the number of turns", result.num_turns, 2_u32)?;
    observed.folds()
}
