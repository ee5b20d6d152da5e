//! Checks the expectations about a turn, and about a conversation as a whole: tool calls, decisions about them, and its end.

use holodeck_backend_api::{Approval, DecidedBy, ToolResult};
use holodeck_eval::{
    ApprovalsOutcome, CalledTool, ToolExpectations, ToolsOutcome, check_approvals, check_tools,
};
use holodeck_model::{
    ArgMatchDetail, CallDecision, CallRefusal, CaseState, ConversationEnd, Evidence, ExecutionState,
    ExpectedApproval, Failure, FailureKind, OnMasked, SimulatedUser, TaskRoute, TestCase, ToolNames,
    events::StopReason,
};
use holodeck_runs::{Expectations, Grade, TurnGrade, UnitRecord, UserRecord, of_conversation};
use holodeck_turn::TurnRecord;

use super::Graders;

/// The field of a test that names forbidden tools.
const FORBIDDEN: &str = "forbidden_tools";

/// Whether a failure is about an expectation of tool calls.
fn is_about_tools(failure: &Failure) -> bool {
    let fields = ["expected_tools", "expected_tools_order", FORBIDDEN];
    let is_known = |field: &str| fields.contains(&field);
    // Older journals do not record the field.
    failure.kind == FailureKind::Expectation && failure.field.as_deref().is_none_or(is_known)
}

/// The expectations about the tool calls of a turn or of a conversation.
pub(super) struct ToolCheck<'a> {
    pub(super) expected: Expectations<'a>,
    pub(super) names: &'a ToolNames,
    /// The grade that was computed before the record was masked.
    pub(super) recorded: Option<&'a TurnGrade>,
    /// Whether arguments are masked.
    pub(super) is_masked: bool,
    /// Why a part of the answer, in which a call could have been, is missing.
    pub(super) truncation: Option<&'a StopReason>,
    /// Whether the calls were not reported: nothing is known about them.
    pub(super) unreported: bool,
}

/// The result of the expectations about tools.
#[derive(Default)]
pub(super) struct ToolsResult {
    pub(super) matched: Option<bool>,
    /// Whether the result cannot be known: masking hides it, or a part of the answer is missing.
    pub(super) unknown: bool,
    pub(super) details: Vec<ArgMatchDetail>,
    pub(super) failures: Vec<Failure>,
}

impl ToolCheck<'_> {
    /// Checks the calls. That a forbidden tool was not called is known only of an answer without a missing part.
    pub(super) fn check(&self, calls: &[CalledTool<'_>]) -> ToolsResult {
        if self.unreported {
            return self.without_evidence();
        }
        let mut result = self.check_calls(calls);
        let is_forbidden = |failure: &Failure| failure.field.as_deref() == Some(FORBIDDEN);
        if let Some(reason) = self.truncation
            && !self.expected.forbidden_tools.is_empty()
            && !result.failures.iter().any(is_forbidden)
        {
            let note = reason.truncation_note();
            result.matched = result.matched.filter(|matched| !matched);
            result.unknown = true;
            result.failures.push(Failure {
                kind: FailureKind::Checks,
                ..Failure::of_field(
                    FORBIDDEN,
                    format!("{note}: the missing part could contain a call of a forbidden tool"),
                )
            });
        }
        result
    }

    /// Each expectation is an error: an agent that reports no calls may have made any.
    fn without_evidence(&self) -> ToolsResult {
        let expected = self.expected.expected_tools.map(|_| "expected_tools");
        let forbidden = (!self.expected.forbidden_tools.is_empty()).then_some(FORBIDDEN);
        let failures: Vec<Failure> = [expected, forbidden]
            .into_iter()
            .flatten()
            .map(|field| Failure {
                kind: FailureKind::Checks,
                ..Failure::of_field(field, Evidence::ToolCalls.missing())
            })
            .collect();
        ToolsResult {
            unknown: !failures.is_empty(),
            failures,
            ..ToolsResult::default()
        }
    }

    fn check_calls(&self, calls: &[CalledTool<'_>]) -> ToolsResult {
        let expected = ToolExpectations {
            expected: self.expected.expected_tools.unwrap_or_default(),
            order: self.expected.expected_tools_order,
            forbidden: self.expected.forbidden_tools,
            names: Some(self.names),
        };
        if self.is_masked {
            let recorded = self.recorded.filter(|grade| {
                grade.tool_rules == self.expected.tool_digest() && grade.tools_matched.is_some()
            });
            if let Some(grade) = recorded {
                return ToolsResult {
                    matched: grade.tools_matched,
                    unknown: false,
                    details: grade.arg_match_details.clone(),
                    failures: grade
                        .failures
                        .iter()
                        .filter(|failure| is_about_tools(failure))
                        .cloned()
                        .collect(),
                };
            }
            let expects_arguments = expected.expected.iter().any(|tool| !tool.args.is_empty());
            if expects_arguments {
                let text = masked_error(self.recorded, "arguments were");
                return ToolsResult {
                    unknown: true,
                    failures: vec![Failure {
                        kind: FailureKind::Checks,
                        ..Failure::of_field("expected_tools", text)
                    }],
                    ..ToolsResult::default()
                };
            }
        }
        let ToolsOutcome {
            matched,
            details,
            failures,
            ..
        } = check_tools(&expected, calls);
        ToolsResult {
            matched,
            unknown: false,
            details,
            failures,
        }
    }
}

/// Why a check of a masked text has no verdict.
pub(super) fn masked_error(recorded: Option<&TurnGrade>, what: &str) -> String {
    if recorded.is_some() {
        format!("the stored {what} masked, so a new or changed check cannot be computed; run the case again")
    } else {
        format!("the recorded {what} masked, so the check cannot be computed; run the case with `--live`")
    }
}

/// Compares the decisions about the calls of these turns with the expectations.
pub(super) fn approvals<'a>(
    expected: &[ExpectedApproval],
    turns: impl IntoIterator<Item = &'a TurnRecord>,
    names: &ToolNames,
) -> ApprovalsOutcome {
    if expected.is_empty() {
        return ApprovalsOutcome::default();
    }
    let calls: Vec<CalledTool<'a>> = turns.into_iter().flat_map(decided_calls).collect();
    check_approvals(expected, &calls, Some(names))
}

/// The calls of a turn, nested agents included, with what was decided about each.
fn decided_calls(turn: &TurnRecord) -> Vec<CalledTool<'_>> {
    let nested = turn.trajectory.nested_calls();
    let calls = turn.result.calls().chain(nested).map(|(call, result)| {
        let approval = turn
            .trajectory
            .approvals()
            .find(|approval| approval.call_id == call.call_id);
        let mut called = CalledTool::with_result(call, result);
        called.decision = decision(result, approval);
        called
    });
    calls.collect()
}

/// The decision about a call. A call of an agent that decides by itself has no recorded decision; it was allowed if
/// its tool ran.
fn decision(result: Option<&ToolResult>, approval: Option<&Approval>) -> Option<CallDecision> {
    let refused = result.and_then(|result| result.details.refused);
    let never_a_tool = matches!(
        refused,
        Some(CallRefusal::Unknown | CallRefusal::InvalidArguments)
    );
    match approval {
        Some(approval) if matches!(approval.by, DecidedBy::Person | DecidedBy::NonInteractive) => {
            Some(CallDecision::Asked)
        }
        Some(approval) if !approval.decision.is_approved() => Some(CallDecision::Denied),
        _ if never_a_tool => None,
        _ if refused.is_some() => Some(CallDecision::Denied),
        Some(_) => Some(CallDecision::Allowed),
        None => result.map(|_| CallDecision::Allowed),
    }
}

impl Graders {
    /// The verdict on the conversation with a simulated user as a whole; `None` without one.
    pub(super) fn conclude_conversation(
        &self,
        unit: &UnitRecord,
        case: &TestCase,
        recorded: Option<&Grade>,
    ) -> Option<TurnGrade> {
        let (user, expected) = of_conversation(case)?;
        let Some(played) = &unit.user else {
            return Some(TurnGrade::bare(CaseState::Error));
        };
        // After an error, what is missing could still have come.
        let is_complete = played.ended.is_some() && unit.execution() == ExecutionState::Completed;
        let expected = if is_complete {
            expected
        } else {
            Expectations {
                expected_tools: None,
                expected_approvals: &[],
                ..expected
            }
        };
        let check = ToolCheck {
            expected,
            names: &self.names,
            recorded: recorded.and_then(|grade| grade.conversation.as_deref()),
            is_masked: unit.turns.iter().any(|turn| !turn.redacted.arguments.is_empty()),
            truncation: unit.turns.iter().find_map(TurnRecord::truncation),
            unreported: unit
                .turns
                .iter()
                .any(|turn| turn.result.lacks(Evidence::ToolCalls)),
        };
        let calls: Vec<CalledTool<'_>> = unit
            .turns
            .iter()
            .flat_map(|turn| turn.result.calls())
            .map(|(call, result)| CalledTool::with_result(call, result))
            .collect();
        let tools = check.check(&calls);
        let approvals = approvals(expected.expected_approvals, &unit.turns, &self.names);
        let end = check_end(user, played, unit.turns.len()).filter(|_| is_complete);
        let mut hidden = self.hidden_from_user(user, unit);
        hidden.retain(|_| end.is_some() && played.ended != Some(ConversationEnd::StopWhen));
        let end = end.filter(|_| hidden.is_empty());
        let verdicts = [
            tools.matched,
            approvals.matched(),
            end.as_ref().map(Result::is_ok),
        ];
        let state = if verdicts.contains(&Some(false)) {
            CaseState::Failed
        } else if tools.unknown
            || !hidden.is_empty()
            || !is_complete && unit.execution() != ExecutionState::AgentFailed
        {
            CaseState::Error
        } else if verdicts.contains(&Some(true)) {
            CaseState::Passed
        } else {
            CaseState::Unchecked
        };
        let mut failures = tools.failures;
        failures.extend(approvals.failures);
        failures.extend(end.and_then(Result::err));
        if !hidden.is_empty() {
            let text = format!(
                "whether the conversation ended as it must is not known: {} held a secret and was masked before the \
                 simulated user read it; with `evaluations.on_masked: accept` its decision counts",
                hidden.join(", ")
            );
            failures.push(Failure {
                kind: FailureKind::Checks,
                ..Failure::of_field("user", text)
            });
        }
        Some(TurnGrade {
            tools_matched: tools.matched,
            arg_match_details: tools.details,
            approvals: approvals.details,
            failures,
            tool_rules: check.expected.tool_digest(),
            ..TurnGrade::bare(state)
        })
    }
}

impl Graders {
    /// The texts that were masked before a simulated user decided on them, unless that is accepted.
    fn hidden_from_user(&self, user: &SimulatedUser, unit: &UnitRecord) -> Vec<String> {
        if self.on_masked == OnMasked::Accept {
            return Vec::new();
        }
        let holds_secret = |text: &str| !self.redactor.find(text).is_empty();
        let goal = holds_secret(&user.goal).then(|| "the goal".to_owned());
        let persona = user.persona.as_deref().filter(|text| holds_secret(text));
        let persona = persona.map(|_| "the persona".to_owned());
        let turns = unit.turns.iter().enumerate().flat_map(|(place, turn)| {
            let masked = [
                (turn.redacted.input, "the message"),
                (turn.redacted.answer, "the answer"),
            ];
            let masked = masked.into_iter().filter(|(is_masked, _)| *is_masked);
            masked.map(move |(_, text)| format!("{text} in turn {}", place + 1))
        });
        goal.into_iter().chain(persona).chain(turns).collect()
    }
}

/// Whether a conversation ended as it must; `None` if its end decides nothing: an answer that met `stop_when` may be a
/// good or a bad one.
fn check_end(user: &SimulatedUser, played: &UserRecord, turns: usize) -> Option<Result<(), Failure>> {
    let ended = played.ended?;
    let (is_met, expected) = match &user.expected_end {
        Some(expected) => {
            let names: Vec<&str> = expected.iter().map(|end| end.as_str()).collect();
            (expected.contains(&ended), names.join(" or "))
        }
        None if ended == ConversationEnd::StopWhen => return None,
        None => {
            let goal = ConversationEnd::GoalReached;
            (ended == goal, goal.as_str().to_owned())
        }
    };
    if is_met {
        return Some(Ok(()));
    }
    let turns = holodeck_reports::format::count(turns, "turn");
    let closing = played.closing.as_deref();
    let closing = closing.map_or_else(String::new, |closing| format!("; the user wrote: {closing}"));
    let text = format!(
        "expected {expected}, got {} after {turns}{closing}",
        ended.as_str()
    );
    Some(Err(Failure::of_field("user", text)))
}

/// Whether the expected specialist agent was selected for the first question of a case; `None` if there is no selection.
/// The failure says what was expected and what was selected.
pub(super) fn check_agent(
    expected: Option<&str>,
    route: Option<&TaskRoute>,
) -> (Option<bool>, Option<Failure>) {
    let failure = |text: String| {
        let failure = Failure::new(FailureKind::Expectation, text);
        Some(Failure {
            field: Some("expected_agent".to_owned()),
            ..failure
        })
    };
    let Some(route) = route else {
        let text =
            "no specialist agent was selected when this case ran, so `expected_agent` cannot be checked";
        return (None, failure(text.to_owned()));
    };
    if let Some(reason) = route.unselected.as_ref().filter(|_| expected.is_none()) {
        let text = format!("that no agent fits cannot be checked: none was selected or declined ({reason})");
        return (None, failure(text));
    }
    if route.fits(expected) {
        return (Some(true), None);
    }
    let expected = expected.map_or_else(|| "no agent".to_owned(), |name| format!("agent `{name}`"));
    let got = match &route.agent {
        Some(name) if !route.by_default => format!("`{name}` with confidence {:.2}", route.confidence),
        Some(name) => format!("`{name}` as the default"),
        None => "no agent".to_owned(),
    };
    (
        Some(false),
        failure(match &route.refused {
            Some(refused) => format!("expected {expected}; {got} was selected and not routed: {refused}"),
            None => format!("expected {expected}, got {got} ({})", route.reason),
        }),
    )
}
