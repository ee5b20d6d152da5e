//! The expectations of the file about a case, as reports show them and the journal keeps them with a verdict: secrets are
//! masked.

use holodeck_model::{
    ExpectedApproval, ExpectedTool, MetricConfig, OneOrMany, Redactor, ResolvedAgent, TestCase,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::expectations::{Expectations, expectations, of_conversation};

/// The expectations of the file about a case and about each of its turns, with secrets masked, as the journal keeps them with
/// the verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CaseExpected {
    /// The tags of the case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// About the case.
    #[serde(default)]
    pub case: Expected,
    /// About each turn of a conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Expected>,
}

/// The expectations of the file about a case, or about a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// The expected answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ground_truth: Option<String>,
    /// Tools that must be called, as written in the YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Value>,
    /// Tools that must not be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden_tools: Vec<String>,
    /// The expected decisions about tool calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ExpectedApproval>,
    /// Enabled metrics that compare the answer with texts of their own: place, name and texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(usize, String, Vec<String>)>,
}

impl CaseExpected {
    /// The expectations about a case of the agent, of which this many turns ran.
    pub fn of(agent: &ResolvedAgent, case: &TestCase, turns: usize, redactor: &Redactor) -> Self {
        let shared = agent.config.evaluations.as_ref();
        let shared = shared.map_or(&[][..], |evaluations| &evaluations.metrics);
        let of_turns = expectations(case, turns).into_iter();
        let mut of_turns: Vec<Expected> = of_turns
            .map(|expected| Expected::new(expected, shared, redactor))
            .collect();
        let expected = if let Some((_, expected)) = of_conversation(case) {
            Expected::new(expected, &[], redactor)
        } else if case.turns.is_empty() {
            of_turns.pop().unwrap_or_default()
        } else {
            Expected {
                ground_truth: case.ground_truth.as_deref().map(|text| mask(text, redactor)),
                tools: tools_to_value(case.expected_tools.as_deref(), redactor),
                ..Expected::default()
            }
        };
        Self {
            tags: case.tags.iter().map(|tag| mask(tag, redactor)).collect(),
            case: expected,
            turns: of_turns,
        }
    }
}

impl Expected {
    fn new(expected: Expectations<'_>, shared: &[MetricConfig], redactor: &Redactor) -> Self {
        let configs = match expected.evaluations {
            [] => shared,
            own => own,
        };
        let enabled = configs.iter().filter(|config| config.enabled()).enumerate();
        let values = enabled.filter_map(|(place, config)| {
            let MetricConfig::Standard(metric) = config else {
                return None;
            };
            let texts = match metric.value.as_ref() {
                // A text that must not be in the answer is not an expected text.
                _ if metric.negate => Vec::new(),
                None => return None,
                Some(OneOrMany::One(text)) => vec![mask(text, redactor)],
                Some(OneOrMany::Many(texts)) => texts.iter().map(|text| mask(text, redactor)).collect(),
            };
            Some((place, metric.metric.as_str().to_owned(), texts))
        });
        Self {
            ground_truth: expected.ground_truth.map(|text| mask(text, redactor)),
            tools: tools_to_value(expected.expected_tools, redactor),
            forbidden_tools: expected.forbidden_tools.to_vec(),
            approvals: expected.expected_approvals.to_vec(),
            values: values.collect(),
        }
    }

    /// The metric's own texts that it compares the answer with.
    pub fn values_of(&self, place: usize, metric: &str) -> Option<&[String]> {
        let mut values = self.values.iter();
        let value = values.find(|(other, name, _)| *other == place && name == metric);
        value.map(|(_, _, texts)| texts.as_slice())
    }
}

fn tools_to_value(tools: Option<&[ExpectedTool]>, redactor: &Redactor) -> Option<Value> {
    let mut tools = serde_json::to_value(tools?).ok()?;
    redactor.mask_value(&mut tools);
    Some(tools)
}

fn mask(text: &str, redactor: &Redactor) -> String {
    redactor.text(text).into_owned()
}
