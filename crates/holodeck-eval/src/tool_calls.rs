//! What a test expects of the agent's tool calls.

mod arguments;

use holodeck_model::{ArgMatchDetail, ExpectedTool, ToolNames, ToolOrder};
use serde_json::Value;

use crate::CalledTool;

/// The expectations of a case or turn.
#[derive(Clone, Copy, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the runner fills it in as a literal from a case or a turn"
)]
pub struct ToolExpectations<'a> {
    /// Tools that must be called; an empty list expects nothing.
    pub expected: &'a [ExpectedTool],
    /// Whether they must be called in the order of the list.
    pub order: ToolOrder,
    /// Tools that must not be called.
    pub forbidden: &'a [String],
    /// What their names refer to; without it a name is that of the call.
    pub names: Option<&'a ToolNames>,
}

/// How the expectations fared.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolsOutcome {
    /// Whether all were met; absent when there are none.
    pub matched: Option<bool>,
    /// One for each expectation about arguments or a count.
    pub details: Vec<ArgMatchDetail>,
    /// What was not met, a line each.
    pub errors: Vec<String>,
}

/// Compares the calls an agent made, in order, with what is expected.
///
/// Only a call whose tool ran meets an expectation, whatever came of it; of a forbidden tool every attempt counts. One
/// call may meet several expectations, unless the order matters. Calls beyond the expected ones are free.
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
        let found = Found::new(tool, calls, names);
        if tool.is_simple() && found.ambiguous.is_empty() {
            if !found.is_met() {
                not_called.push(tool.name.as_str());
            }
            continue;
        }
        let reason = found.unmet_reason();
        if let Some(reason) = &reason {
            outcome
                .errors
                .push(format!("expected {}: {reason}", written(tool)));
        }
        if tool.is_simple() {
            continue;
        }
        outcome.details.push(ArgMatchDetail {
            expected_tool: tool.name.clone(),
            args_asserted: asserted(tool),
            matched_call_index: match (&reason, found.matching.first()) {
                (None, Some(&index)) => i64::try_from(index).unwrap_or(-1),
                _ => -1,
            },
            unmatched_reason: reason,
        });
    }
    if !not_called.is_empty() {
        let line = format!(
            "expected tool(s) not called: {}; {}",
            not_called.join(", "),
            called(calls)
        );
        outcome.errors.insert(0, line);
    }
    if order == ToolOrder::Strict && outcome.errors.is_empty() {
        outcome.errors.extend(out_of_order(expected, calls, names));
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
            outcome
                .errors
                .push(format!("forbidden tool called: {}", places.join(", ")));
        }
    }
    outcome.matched = Some(outcome.errors.is_empty());
    outcome
}

/// Whether a name of the test refers to the called tool.
fn refers(names: Option<&ToolNames>, written: &str, called: &str) -> bool {
    let tool = names.and_then(|names| Some((names, names.identify(called)?)));
    tool.map_or(written == called, |(names, tool)| names.refers(written, &tool))
}

/// The calls that meet one expectation.
struct Found<'a> {
    tool: &'a ExpectedTool,
    /// Whether a tool of this name ran.
    named: bool,
    /// The tools that the name may mean, if it does not say which.
    ambiguous: Vec<String>,
    /// Places of the calls that meet the expectation.
    matching: Vec<usize>,
    /// Why the last call that has the name does not.
    mismatch: Option<String>,
}

impl<'a> Found<'a> {
    fn new(tool: &'a ExpectedTool, calls: &[CalledTool<'_>], names: Option<&ToolNames>) -> Self {
        let called = calls.iter().map(|call| call.name);
        let mut found = Self {
            tool,
            named: false,
            ambiguous: names.map_or_else(Vec::new, |names| names.ambiguous(&tool.name, &called)),
            matching: Vec::new(),
            mismatch: None,
        };
        for (index, call) in calls.iter().enumerate() {
            if call.refused.is_some() || !refers(names, &tool.name, call.name) {
                continue;
            }
            found.named = true;
            match arguments::mismatch(&tool.args, call.arguments) {
                None => found.matching.push(index),
                reason => found.mismatch = reason,
            }
        }
        found
    }

    fn is_met(&self) -> bool {
        self.ambiguous.is_empty() && self.matching.len() >= wanted(self.tool)
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
            _ if !self.named => format!("no call to '{name}' found"),
            Some(reason) if self.matching.is_empty() => reason.clone(),
            _ => format!(
                "expected {} matching call(s), got {}",
                self.tool.count,
                self.matching.len()
            ),
        })
    }
}

fn wanted(tool: &ExpectedTool) -> usize {
    usize::try_from(tool.count.max(1)).unwrap_or(usize::MAX)
}

/// The line that tells where the order breaks, if it does. Taking the first call that fits each time leaves the most
/// room for the rest.
fn out_of_order(
    expected: &[ExpectedTool],
    calls: &[CalledTool<'_>],
    names: Option<&ToolNames>,
) -> Option<String> {
    let mut next = 0;
    for tool in expected {
        for _ in 0..wanted(tool) {
            let fits = |call: &CalledTool<'_>| {
                call.refused.is_none()
                    && refers(names, &tool.name, call.name)
                    && arguments::mismatch(&tool.args, call.arguments).is_none()
            };
            let Some(step) = calls.get(next..)?.iter().position(fits) else {
                let order: Vec<&str> = expected.iter().map(|tool| tool.name.as_str()).collect();
                return Some(format!(
                    "expected tools in the order {}: '{}' came too early; {}",
                    order.join(", "),
                    tool.name,
                    called(calls)
                ));
            };
            next += step + 1;
        }
    }
    None
}

fn called(calls: &[CalledTool<'_>]) -> String {
    if calls.is_empty() {
        return "no tool was called".to_owned();
    }
    let called = calls.iter().map(|call| match call.refused {
        Some(refused) => format!("{} ({})", call.name, refused.as_str()),
        None if call.failed => format!("{} (failed)", call.name),
        None => call.name.to_owned(),
    });
    format!("called: {}", called.collect::<Vec<_>>().join(", "))
}

/// The expectation in one line: `lookup(id=7, price>9) ×2`.
fn written(tool: &ExpectedTool) -> String {
    let args: Vec<String> = tool
        .args
        .iter()
        .map(|(name, matcher)| arguments::written(name, matcher))
        .collect();
    let times = if tool.count > 1 {
        format!(" ×{}", tool.count)
    } else {
        String::new()
    };
    format!("{}({}){times}", tool.name, args.join(", "))
}

fn asserted(tool: &ExpectedTool) -> Value {
    Value::Object(
        tool.args
            .iter()
            .map(|(name, matcher)| (name.clone(), matcher.to_value()))
            .collect(),
    )
}

#[cfg(test)]
mod tests;
