//! How a command was routed, and what its loop did.

use std::fmt::Write as _;

use super::loop_report;
use holodeck::{
    PlannedQuestion, RoutedPlan,
    model::ExecutorKind,
    orchestrator::{AttemptDetails, Execution, GateResult, GateState, SelectedBy, Selection},
    reports::format,
};

/// Columns of a name at the beginning of a line.
const WIDTH: usize = 10;

/// An execution for `--explain`.
pub(crate) fn execution(execution: &Execution, command: &str) -> String {
    let mut text = match &execution.attempt {
        Some(details) => attempt(details, command),
        None => String::new(),
    };
    text.push_str(&observed(execution));
    if let Some(mode) = execution.mode.filter(|mode| *mode != ExecutorKind::Sdk) {
        line(&mut text, "executed", &format!("by {}", mode.as_str()));
    }
    text
}

/// The executors that failed before another one was asked, and the evidence that was expected and is missing.
pub(crate) fn observed(execution: &Execution) -> String {
    let mut text = String::new();
    for failed in &execution.failed {
        let who = format!("{} (`{}`): {}", failed.mode.as_str(), failed.name, failed.reason);
        line(&mut text, "failed", &format::one_line(&who, 400));
        if !failed.side_effects.is_empty() {
            let tools = format!("`{}`", failed.side_effects.join("`, `"));
            line(&mut text, "changed", &format!("perhaps something, by {tools}"));
        }
    }
    for issue in &execution.missing {
        line(&mut text, "missing", &issue.to_string());
    }
    format::printable(&text).into_owned()
}

/// An attempt for `--explain`: the decision with the parts of the score, the gates, and the loop.
pub(crate) fn attempt(details: &AttemptDetails, command: &str) -> String {
    let mut text = String::new();
    let attempt = &details.attempt;
    let mut decision = format!("{command} → {}", attempt.routing_decision.as_str());
    if let Some(agent) = &attempt.agent_used {
        let _ = write!(
            decision,
            " (agent `{agent}`, confidence {:.2})",
            attempt.confidence
        );
    }
    line(&mut text, "routing", &decision);
    if let Some(selection) = &details.selection {
        let parts = selection
            .breakdown
            .parts()
            .into_iter()
            .filter(|(_, score)| *score != 0.0);
        let parts: Vec<String> = parts.map(|(name, score)| format!("{name} {score:.2}")).collect();
        if !parts.is_empty() {
            line(&mut text, "", &format!("  {}", parts.join(" · ")));
        } else if matches!(selection.selected_by, SelectedBy::Command | SelectedBy::Model) {
            line(&mut text, "", &format!("  {}", selection.reason));
        }
    }
    if let Some(problem) = details.selection.as_ref().and_then(fallback) {
        line(&mut text, "", &format!("  {problem}"));
    }
    line(&mut text, "gates", &gates(&details.gates));
    let is_refused = details.gates.iter().any(|gate| gate.state == GateState::Refused);
    if let Some(reason) = attempt.fallback_reason.as_deref().filter(|_| !is_refused) {
        line(&mut text, "failed", reason);
    }
    if !details.side_effects.is_empty() {
        let tools = format!("`{}`", details.side_effects.join("`, `"));
        line(&mut text, "changed", &format!("perhaps something, by {tools}"));
    }
    if let Some(report) = &details.report {
        text.push_str(&loop_report(report));
    }
    format::printable(&text).into_owned()
}

/// Says that the words of a task selected, because the answer of the model was not usable.
pub(crate) fn fallback(selection: &Selection) -> Option<String> {
    let note = selection.asked.as_ref()?.fallback()?;
    Some(format::one_line(&note, 400))
}

fn gates(gates: &[GateResult]) -> String {
    let gates = gates.iter().map(|gate| {
        let name = gate.gate.as_str();
        let reason = gate.reason.as_deref().unwrap_or_default();
        match gate.state {
            GateState::Passed => format!("{name} ✓"),
            GateState::Forced => format!("{name} forced ({reason})"),
            GateState::Refused => format!("{name} ✗ ({reason})"),
        }
    });
    gates.collect::<Vec<_>>().join(" · ")
}

/// The question on which a plan depends.
fn planned_question(planned: &PlannedQuestion, command: &str) -> String {
    let mut text = String::new();
    let question = &planned.question;
    let asks = format!(
        "{command} → asks `{}` which of {} fits; nothing was asked",
        question.model,
        format::count(question.agents, "agent")
    );
    line(&mut text, "routing", &asks);
    line(&mut text, "gates", &gates(&planned.gates));
    line(&mut text, "executor", "that of the answer");
    let tokens = format::count_tokens(planned.usage.total_tokens);
    let cost = planned
        .cost_usd
        .map_or_else(|| "no price known".to_owned(), |cost| format!("${cost:.4}"));
    line(
        &mut text,
        "estimate",
        &format!("{tokens} · {cost} for the question alone"),
    );
    text
}

/// A plan for `--dry-run`.
pub(crate) fn routing_plan(plan: &RoutedPlan, command: &str) -> String {
    if let Some(question) = &plan.question {
        return format::printable(&planned_question(question, command)).into_owned();
    }
    let mut text = plan
        .sdk
        .as_ref()
        .map(|details| attempt(details, command))
        .unwrap_or_default();
    let executor = match (plan.executor, &plan.skill) {
        (Some(ExecutorKind::Skills), Some(skill)) => format!("skills (`{skill}`)"),
        (Some(kind), _) => kind.as_str().to_owned(),
        (None, _) => "nothing".to_owned(),
    };
    line(&mut text, "executor", &executor);
    if let Some(model) = &plan.model {
        line(&mut text, "model", model);
        let tools = if plan.tools.is_empty() {
            "none".to_owned()
        } else {
            plan.tools.join(", ")
        };
        line(&mut text, "tools", &tools);
    }
    if let Some(usage) = plan.usage {
        let cost = match plan.cost_usd {
            Some(cost) => format!("${cost:.4}"),
            None => "no price known".to_owned(),
        };
        let tokens = format::count_tokens(usage.total_tokens);
        line(
            &mut text,
            "estimate",
            &format!("{tokens} · {cost} for one turn without tool calls"),
        );
    }
    format::printable(&text).into_owned()
}

fn line(text: &mut String, name: &str, content: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:WIDTH$}{content}");
}
