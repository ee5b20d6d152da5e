//! Compares the agent's tool calls with the expectations of a test.

mod approvals;
mod arguments;

use holodeck_model::{ArgMatchDetail, ExpectedTool, Failure, ToolNames, ToolOrder};
use serde_json::Value;

use crate::CalledTool;

pub use approvals::{ApprovalsOutcome, check_approvals};

/// The expectations of a case or turn.
#[derive(Clone, Copy, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the runner fills it in as a literal from a case or a turn"
)]
pub struct ToolExpectations<'a> {
    /// Tools that must be called; may be empty.
    pub expected: &'a [ExpectedTool],
    /// Whether they must be called in the order of the list.
    pub order: ToolOrder,
    /// Tools that must not be called.
    pub forbidden: &'a [String],
    /// Resolves the names; without it, a name must equal that of the call.
    pub names: Option<&'a ToolNames>,
}

/// The result of the expectations.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolsOutcome {
    /// Whether all were met; absent if there are none.
    pub matched: Option<bool>,
    /// Details of each expectation about arguments or a count.
    pub details: Vec<ArgMatchDetail>,
    /// The unmet expectations, each with its field.
    pub failures: Vec<Failure>,
}

/// Compares the calls of an agent, in order, with the expectations.
///
/// Only a call whose tool ran meets an expectation, even if the tool failed; of a forbidden tool, every attempt counts.
/// One call may meet several expectations, unless the order matters. Additional calls are allowed.
pub fn check_tools(expectations: &ToolExpectations<'_>, calls: &[CalledTool<'_>]) -> ToolsOutcome {
    let ToolExpectations {
        expected,
        order,
        forbidden,
        names,
    } = *expectations;
    if expected.is_empty() && forbidden.is_empty() {
        return ToolsOutcome::default();
    }
    let mut outcome = ToolsOutcome::default();
    let mut not_called = Vec::new();
    for tool in expected {
        let matches = CallMatches::new(tool, calls, names);
        if tool.is_simple() && matches.ambiguous.is_empty() {
            if !matches.is_met() {
                not_called.push(tool.name.as_str());
            }
            continue;
        }
        let reason = matches.unmet_reason();
        if let Some(reason) = &reason {
            outcome
                .failures
                .push(unmet(format!("{}: {reason}", describe(tool))));
        }
        if tool.is_simple() {
            continue;
        }
        outcome.details.push(ArgMatchDetail {
            expected_tool: tool.name.clone(),
            args_asserted: expected_arguments(tool),
            matched_call_index: match (&reason, matches.indices.first()) {
                (None, Some(&index)) => i64::try_from(index).unwrap_or(-1),
                _ => -1,
            },
            unmatched_reason: reason,
        });
    }
    if !not_called.is_empty() {
        let text = format!("not called: {}; {}", not_called.join(", "), list_calls(calls));
        outcome.failures.insert(0, unmet(text));
    }
    if order == ToolOrder::Strict && outcome.failures.is_empty() {
        outcome.failures.extend(out_of_order(expected, calls, names));
    }
    for name in forbidden {
        let places: Vec<String> = (1..)
            .zip(calls)
            .filter(|(_, call)| refers(names, name, call.name))
            .map(|(at, call)| match call.refused {
                Some(refused) => format!("{} (call {at}, {})", call.name, refused.as_str()),
                None => format!("{} (call {at})", call.name),
            })
            .collect();
        if !places.is_empty() {
            let text = format!("called: {}", places.join(", "));
            outcome.failures.push(Failure::of_field("forbidden_tools", text));
        }
    }
    outcome.matched = Some(outcome.failures.is_empty());
    outcome
}

fn unmet(text: String) -> Failure {
    Failure::of_field("expected_tools", text)
}

/// Whether a name of the test refers to the called tool.
fn refers(names: Option<&ToolNames>, name: &str, called: &str) -> bool {
    let tool = names.and_then(|names| Some((names, names.identify(called)?)));
    tool.map_or(name == called, |(names, tool)| names.refers(name, &tool))
}

/// The called tools to which a name of the test may refer, if there are several.
fn ambiguous(names: Option<&ToolNames>, name: &str, calls: &[CalledTool<'_>]) -> Vec<String> {
    let called = calls.iter().flat_map(|call| {
        let namesakes = call.namesakes.iter().map(String::as_str);
        std::iter::once(call.name).chain(namesakes)
    });
    names.map_or_else(Vec::new, |names| names.ambiguous(name, &called))
}

/// The calls that match one expectation.
struct CallMatches<'a> {
    tool: &'a ExpectedTool,
    /// Whether a tool with this name ran.
    tool_ran: bool,
    /// The tools to which the name may refer, if there are several.
    ambiguous: Vec<String>,
    /// Indices of the calls that match.
    indices: Vec<usize>,
    /// Why the last other call with this name does not match.
    mismatch: Option<String>,
}

impl<'a> CallMatches<'a> {
    fn new(tool: &'a ExpectedTool, calls: &[CalledTool<'_>], names: Option<&ToolNames>) -> Self {
        let mut matches = Self {
            tool,
            tool_ran: false,
            ambiguous: ambiguous(names, &tool.name, calls),
            indices: Vec::new(),
            mismatch: None,
        };
        for (index, call) in calls.iter().enumerate() {
            if call.refused.is_some() || !refers(names, &tool.name, call.name) {
                continue;
            }
            matches.tool_ran = true;
            match arguments::mismatch(&tool.args, call.arguments) {
                None => matches.indices.push(index),
                reason => matches.mismatch = reason,
            }
        }
        matches
    }

    fn is_met(&self) -> bool {
        self.ambiguous.is_empty() && self.indices.len() >= required_count(self.tool)
    }

    fn unmet_reason(&self) -> Option<String> {
        if self.is_met() {
            return None;
        }
        let name = &self.tool.name;
        Some(match &self.mismatch {
            _ if !self.ambiguous.is_empty() => {
                format!(
                    "'{name}' is the name of several tools: {}",
                    self.ambiguous.join(", ")
                )
            }
            _ if !self.tool_ran => format!("no call to '{name}' found"),
            Some(reason) if self.indices.is_empty() => reason.clone(),
            _ => format!(
                "expected {} matching call(s), got {}",
                self.tool.count,
                self.indices.len()
            ),
        })
    }
}

fn required_count(tool: &ExpectedTool) -> usize {
    usize::try_from(tool.count.max(1)).unwrap_or(usize::MAX)
}

/// The first violation of the order, if any. Each expectation takes the first matching call, which leaves the most
/// calls for the rest.
fn out_of_order(
    expected: &[ExpectedTool],
    calls: &[CalledTool<'_>],
    names: Option<&ToolNames>,
) -> Option<Failure> {
    let mut next = 0;
    for tool in expected {
        for _ in 0..required_count(tool) {
            let matches = |call: &CalledTool<'_>| {
                call.refused.is_none()
                    && refers(names, &tool.name, call.name)
                    && arguments::mismatch(&tool.args, call.arguments).is_none()
            };
            let Some(step) = calls.get(next..)?.iter().position(matches) else {
                let order: Vec<&str> = expected.iter().map(|tool| tool.name.as_str()).collect();
                let text = format!(
                    "{}: '{}' came too early; {}",
                    order.join(", "),
                    tool.name,
                    list_calls(calls)
                );
                return Some(Failure::of_field("expected_tools_order", text));
            };
            next += step + 1;
        }
    }
    None
}

fn list_calls(calls: &[CalledTool<'_>]) -> String {
    if calls.is_empty() {
        return "no tool was called".to_owned();
    }
    let calls = calls.iter().map(|call| match call.refused {
        Some(refused) => format!("{} ({})", call.name, refused.as_str()),
        None if call.failed => format!("{} (failed)", call.name),
        None => call.name.to_owned(),
    });
    format!("called: {}", calls.collect::<Vec<_>>().join(", "))
}

/// The expectation in one line: `lookup(id=7, price>9) ×2`.
fn describe(tool: &ExpectedTool) -> String {
    let args: Vec<String> = tool
        .args
        .iter()
        .map(|(name, matcher)| arguments::describe_argument(name, matcher))
        .collect();
    let times = if tool.count > 1 {
        format!(" ×{}", tool.count)
    } else {
        String::new()
    };
    format!("{}({}){times}", tool.name, args.join(", "))
}

fn expected_arguments(tool: &ExpectedTool) -> Value {
    Value::Object(
        tool.args
            .iter()
            .map(|(name, matcher)| (name.clone(), matcher.to_value()))
            .collect(),
    )
}

#[cfg(test)]
mod tests;
