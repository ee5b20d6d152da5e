//! The expectations of the file about a turn and about a conversation as a whole, and the identity of their rules.
//!
//! It must not check an answer.

use holodeck_model::{
    CheckReads, Digest, ExpectedApproval, ExpectedTool, JsonMap, MetricConfig, SimulatedUser, TestCase,
    ToolOrder,
};
use serde_json::{Value, json};

/// The expectations about one turn: of a case without turns, or of a turn of a conversation; or about a whole
/// conversation.
#[derive(Clone, Copy, Default)]
pub struct Expectations<'a> {
    /// The expected answer.
    pub ground_truth: Option<&'a str>,
    /// Tools that must be called.
    pub expected_tools: Option<&'a [ExpectedTool]>,
    /// In which order.
    pub expected_tools_order: ToolOrder,
    /// Tools that must not be called.
    pub forbidden_tools: &'a [String],
    /// The passages that metrics read instead of retrieved ones.
    pub retrieval_context: Option<&'a [String]>,
    /// Its own checks; if empty, those of the agent apply.
    pub evaluations: &'a [MetricConfig],
    /// The configuration that code graders receive unchanged.
    pub turn_config: Option<&'a JsonMap>,
    /// The `vars` of the case, which code graders receive.
    pub vars: Option<&'a JsonMap>,
    /// Whether the score of the case decides, instead of the verdicts of its metrics.
    pub by_score: bool,
    /// The expected decisions about calls.
    pub expected_approvals: &'a [ExpectedApproval],
    /// The expected specialist agent.
    #[allow(clippy::option_option, reason = "absent, none and a name differ")]
    pub expected_agent: Option<Option<&'a str>>,
    /// Whether there is no answer that metrics could measure.
    pub only_selection: bool,
}

/// The expectations about each turn of a case; one item for a case without turns.
pub fn of_turns(case: &TestCase) -> Vec<Expectations<'_>> {
    let mut turns = answers_of_turns(case);
    for turn in &mut turns {
        turn.vars = case.vars.as_ref();
        turn.by_score = case.min_score.is_some();
    }
    if let Some(first) = turns.first_mut() {
        first.expected_agent = case.expected_agent.as_ref().map(Option::as_deref);
        first.only_selection = case.checks_only_selection();
    }
    turns
}

/// The expectations about the answer of each turn.
fn answers_of_turns(case: &TestCase) -> Vec<Expectations<'_>> {
    if case.user.is_some() {
        // The questions are not known in advance, so nothing is expected of single answers except the metrics.
        return vec![Expectations {
            evaluations: &case.evaluations,
            ..Expectations::default()
        }];
    }
    if case.turns.is_empty() {
        return vec![Expectations {
            ground_truth: case.ground_truth.as_deref(),
            retrieval_context: case.retrieval_context.as_deref(),
            evaluations: &case.evaluations,
            ..of_tools(case)
        }];
    }
    case.turns
        .iter()
        .map(|turn| Expectations {
            ground_truth: turn.ground_truth.as_deref(),
            expected_tools: turn.expected_tools.as_deref(),
            expected_tools_order: turn.expected_tools_order,
            forbidden_tools: &turn.forbidden_tools,
            retrieval_context: turn.retrieval_context.as_deref(),
            turn_config: turn.turn_config.as_ref(),
            expected_approvals: &turn.expected_approvals,
            evaluations: if turn.evaluations.is_empty() {
                &case.evaluations
            } else {
                &turn.evaluations
            },
            ..Expectations::default()
        })
        .collect()
}

/// The expectations of a case itself about tool calls.
fn of_tools(case: &TestCase) -> Expectations<'_> {
    Expectations {
        expected_tools: case.expected_tools.as_deref(),
        expected_tools_order: case.expected_tools_order,
        forbidden_tools: &case.forbidden_tools,
        expected_approvals: &case.expected_approvals,
        ..Expectations::default()
    }
}

/// The expectations about each of the first `turns` turns of a case. A simulated user writes any number of them.
pub fn expectations(case: &TestCase, turns: usize) -> Vec<Expectations<'_>> {
    let expected = of_turns(case);
    match expected.as_slice() {
        [each] if case.user.is_some() => vec![*each; turns],
        _ => expected,
    }
}

/// The expectations about the conversation with a simulated user as a whole; `None` without one.
pub fn of_conversation(case: &TestCase) -> Option<(&SimulatedUser, Expectations<'_>)> {
    Some((case.user.as_deref()?, of_tools(case)))
}

impl<'a> Expectations<'a> {
    /// The texts that its checks may read.
    pub fn reads(self, goal: Option<&'a str>, conversation: bool) -> CheckReads<'a> {
        CheckReads {
            ground_truth: self.ground_truth,
            retrieval_context: self.retrieval_context,
            turn_config: self.turn_config,
            vars: self.vars,
            goal,
            conversation,
        }
    }

    /// The rules about tools.
    fn tool_rules(&self) -> Vec<(&'static str, Value)> {
        let tools = self.expected_tools.filter(|tools| !tools.is_empty());
        let order = tools.filter(|_| self.expected_tools_order != ToolOrder::default());
        let forbidden = Some(self.forbidden_tools).filter(|tools| !tools.is_empty());
        let rules = [
            ("expected_tools", tools.map(|tools| json!(tools))),
            (
                "expected_tools_order",
                order.map(|_| json!(self.expected_tools_order)),
            ),
            ("forbidden_tools", forbidden.map(|tools| json!(tools))),
        ];
        let rules = rules.into_iter().filter_map(|(name, rule)| Some((name, rule?)));
        rules.collect()
    }

    /// The digest of the rules about tools, by which a verdict on masked arguments is found again; `None` without rules.
    pub fn tool_digest(&self) -> Option<Digest> {
        let rules = self.tool_rules();
        (!rules.is_empty()).then(|| Digest::of(&json!(rules)))
    }

    /// All rules beside its metrics.
    pub fn rules(&self) -> Vec<(&'static str, Value)> {
        let mut rules = self.tool_rules();
        if !self.expected_approvals.is_empty() {
            rules.push(("expected_approvals", json!(self.expected_approvals)));
        }
        if let Some(agent) = self.expected_agent {
            // No agent is an expectation too.
            rules.push(("expected_agent", json!([agent])));
        }
        rules
    }
}
