//! What a test expects of the agent's tool calls.

mod arguments;

use holodeck_model::{ArgMatchDetail, ExpectedTool, ToolOrder};
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

/// Holds the calls an agent made, in order, against what is expected.
///
/// One call may meet several expectations, unless the order matters. Calls beyond the expected ones are free.
pub fn check_tools(expectations: &ToolExpectations<'_>, calls: &[CalledTool<'_>]) -> ToolsOutcome {
    let ToolExpectations {
        expected,
        order,
        forbidden,
    } = *expectations;
    if expected.is_empty() && forbidden.is_empty() {
        return ToolsOutcome::default();
    }
    let mut outcome = ToolsOutcome::default();
    let mut not_called = Vec::new();
    for tool in expected {
        let found = Found::new(tool, calls);
        if tool.is_simple() {
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
        outcome.errors.extend(out_of_order(expected, calls));
    }
    for name in forbidden {
        let places: Vec<String> = (1..)
            .zip(calls)
            .filter(|(_, call)| is_named(name, call.name))
            .map(|(at, call)| format!("{} (call {at})", call.name))
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

/// Whether a called name is the expected one. Beside the name itself: with a prefix that ends in `_`
/// (`mcp__shop__lookup`), or as the search tool of a knowledge base (`kb_search`), which is how 0.7.1 names its tools.
fn is_named(expected: &str, called: &str) -> bool {
    let prefixed = || {
        called
            .strip_suffix(expected)
            .is_some_and(|prefix| prefix.ends_with('_'))
    };
    let searched = || {
        called
            .strip_suffix("_search")
            .is_some_and(|called| called.ends_with(expected))
    };
    called == expected || prefixed() || searched()
}

/// The calls that meet one expectation.
struct Found<'a> {
    tool: &'a ExpectedTool,
    /// Whether any call has the name.
    named: bool,
    /// Places of the calls that meet the expectation.
    matching: Vec<usize>,
    /// Why the last call that has the name does not.
    mismatch: Option<String>,
}

impl<'a> Found<'a> {
    fn new(tool: &'a ExpectedTool, calls: &[CalledTool<'_>]) -> Self {
        let mut found = Self {
            tool,
            named: false,
            matching: Vec::new(),
            mismatch: None,
        };
        let named = named(tool, calls);
        for (index, call) in calls.iter().enumerate() {
            if !named(call.name) {
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
        self.matching.len() >= wanted(self.tool)
    }

    fn unmet_reason(&self) -> Option<String> {
        if self.is_met() {
            return None;
        }
        let name = &self.tool.name;
        Some(match &self.mismatch {
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

/// Which called names count as this tool: the name itself if it was called, else what [`is_named`] accepts.
fn named<'a>(tool: &'a ExpectedTool, calls: &[CalledTool<'_>]) -> impl Fn(&str) -> bool + use<'a> {
    let exact = calls.iter().any(|call| call.name == tool.name);
    move |called| {
        if exact {
            called == tool.name
        } else {
            is_named(&tool.name, called)
        }
    }
}

fn wanted(tool: &ExpectedTool) -> usize {
    usize::try_from(tool.count.max(1)).unwrap_or(usize::MAX)
}

/// The line that tells where the order breaks, if it does. Taking the first call that fits each time leaves the most
/// room for the rest.
fn out_of_order(expected: &[ExpectedTool], calls: &[CalledTool<'_>]) -> Option<String> {
    let mut next = 0;
    for tool in expected {
        let named = named(tool, calls);
        for _ in 0..wanted(tool) {
            let fits = |call: &CalledTool<'_>| {
                named(call.name) && arguments::mismatch(&tool.args, call.arguments).is_none()
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
    format!(
        "called: {}",
        calls.iter().map(|call| call.name).collect::<Vec<_>>().join(", ")
    )
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
