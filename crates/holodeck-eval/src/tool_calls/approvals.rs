//! Compares the decisions about the agent's tool calls with the expectations of a test.

use holodeck_model::{ApprovalDetail, ExpectedApproval, Failure, ToolNames};

use super::refers;
use crate::CalledTool;

/// The result of the expectations about decisions.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ApprovalsOutcome {
    /// One for each expectation.
    pub details: Vec<ApprovalDetail>,
    /// The unmet expectations.
    pub failures: Vec<Failure>,
}

impl ApprovalsOutcome {
    /// Whether all were met; `None` if there are none.
    pub fn matched(&self) -> Option<bool> {
        (!self.details.is_empty()).then(|| self.details.iter().all(|detail| detail.met))
    }
}

/// Compares the decisions about calls, in order, with the expectations. Each expectation needs one call of its tool with
/// that decision; calls with other decisions are free.
pub fn check_approvals(
    expected: &[ExpectedApproval],
    calls: &[CalledTool<'_>],
    names: Option<&ToolNames>,
) -> ApprovalsOutcome {
    let mut outcome = ApprovalsOutcome::default();
    for approval in expected {
        let ExpectedApproval { tool, decision } = approval;
        let ambiguous = super::ambiguous(names, tool, calls);
        let own: Vec<&CalledTool<'_>> = calls
            .iter()
            .filter(|call| refers(names, tool, call.name))
            .collect();
        let got: Vec<String> = own
            .iter()
            .map(|call| describe_decision(call).to_owned())
            .collect();
        let met = ambiguous.is_empty() && own.iter().any(|call| call.decision == Some(*decision));
        if !met {
            let expected = decision.as_str();
            let text = if ambiguous.is_empty() {
                format!("{tool}: expected {expected}, got {}", summarize(&got))
            } else {
                format!(
                    "{tool}: expected {expected}, but that is the name of several tools: {}",
                    ambiguous.join(", ")
                )
            };
            outcome
                .failures
                .push(Failure::of_field("expected_approvals", text));
        }
        outcome.details.push(ApprovalDetail {
            tool: tool.clone(),
            expected: *decision,
            got,
            met,
        });
    }
    outcome
}

/// Describes the decision about a call, or why there is none.
fn describe_decision(call: &CalledTool<'_>) -> &'static str {
    match (call.decision, call.refused) {
        (Some(decision), _) => decision.as_str(),
        (None, Some(refused)) => refused.as_str(),
        (None, None) => "no decision",
    }
}

/// Each decision once, with the number of calls: `allowed (2 calls), denied`.
fn summarize(got: &[String]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for decision in got {
        match counts.iter_mut().find(|(other, _)| *other == decision.as_str()) {
            Some((_, count)) => *count += 1,
            None => counts.push((decision, 1)),
        }
    }
    if counts.is_empty() {
        return "no call".to_owned();
    }
    let parts = counts.into_iter().map(|(decision, count)| match count {
        1 => decision.to_owned(),
        count => format!("{decision} ({count} calls)"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use holodeck_model::{CallDecision, CallRefusal, DeclaredTool, ToolKind};
    use serde_json::json;

    use super::*;

    fn expected(tool: &str, decision: CallDecision) -> ExpectedApproval {
        ExpectedApproval {
            tool: tool.to_owned(),
            decision,
        }
    }

    fn lines(expected: &[ExpectedApproval], calls: &[(&str, Option<CallDecision>)]) -> Vec<String> {
        let arguments = json!({});
        let names = ToolNames::from_declared(
            true,
            [
                DeclaredTool::Tool("docs", ToolKind::Retrieval),
                DeclaredTool::Tool("pay", ToolKind::Function),
                DeclaredTool::Server("shop", ToolKind::Mcp),
                DeclaredTool::Server("bank", ToolKind::Mcp),
            ],
        );
        let calls: Vec<CalledTool<'_>> = calls
            .iter()
            .map(|(name, decision)| {
                let mut call = CalledTool::new(name, &arguments);
                call.decision = *decision;
                call.refused = decision.is_none().then_some(CallRefusal::Unknown);
                call
            })
            .collect();
        let outcome = check_approvals(expected, &calls, Some(&names));
        assert_eq!(outcome.matched(), Some(outcome.failures.is_empty()));
        outcome.failures.iter().map(Failure::line).collect()
    }

    #[test]
    fn one_call_with_the_decision_is_enough() {
        let calls = [
            ("pay", Some(CallDecision::Allowed)),
            ("pay", Some(CallDecision::Denied)),
        ];
        for decision in [CallDecision::Allowed, CallDecision::Denied] {
            assert_eq!(lines(&[expected("pay", decision)], &calls), [""; 0]);
        }
        assert_eq!(
            lines(&[expected("pay", CallDecision::Asked)], &calls),
            ["expected_approvals: pay: expected asked, got allowed, denied"]
        );
        assert_eq!(check_approvals(&[], &[], None).matched(), None);
    }

    #[test]
    fn every_name_of_a_tool_refers_to_its_calls_and_no_other_does() {
        let shown = [
            ("docs_search", Some(CallDecision::Denied)),
            ("mcp__shop__pay", Some(CallDecision::Asked)),
            ("mcp__holodeck_tools__pay", Some(CallDecision::Allowed)),
        ];
        for (tool, decision) in [
            ("docs", CallDecision::Denied),
            ("docs_search", CallDecision::Denied),
            ("mcp__holodeck_tools__docs_search", CallDecision::Denied),
            ("shop", CallDecision::Asked),
            ("shop__pay", CallDecision::Asked),
            ("pay", CallDecision::Allowed),
        ] {
            assert_eq!(lines(&[expected(tool, decision)], &shown), [""; 0], "{tool}");
        }
        // The bare name belongs to the declared tool.
        assert_eq!(
            lines(&[expected("pay", CallDecision::Asked)], &shown),
            ["expected_approvals: pay: expected asked, got allowed"]
        );
        assert_eq!(
            lines(&[expected("doc", CallDecision::Denied)], &shown),
            ["expected_approvals: doc: expected denied, got no call"]
        );
    }

    #[test]
    fn a_call_without_a_decision_meets_nothing() {
        let calls = [("pay", None), ("pay", None), ("pay", Some(CallDecision::Denied))];
        assert_eq!(
            lines(&[expected("pay", CallDecision::Allowed)], &calls),
            ["expected_approvals: pay: expected allowed, got no such tool (2 calls), denied"]
        );
    }

    #[test]
    fn a_name_of_several_tools_meets_nothing() {
        let calls = [
            ("mcp__shop__refund", Some(CallDecision::Denied)),
            ("mcp__bank__refund", Some(CallDecision::Allowed)),
        ];
        assert_eq!(
            lines(&[expected("refund", CallDecision::Denied)], &calls),
            [
                "expected_approvals: refund: expected denied, but that is the name of several tools: \
                 mcp__bank__refund, mcp__shop__refund"
            ]
        );
    }
}
