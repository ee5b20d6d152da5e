use holodeck_model::{CaseState, MetricResult, TestResult, TurnResult};
use similar::{ChangeTag, TextDiff};

use super::words;

/// Longer answers are cut before they are compared: a difference is for eyes.
const COMPARED_CHARS: usize = 4_000;

/// Why a case, or a turn of it, did not pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation<'a> {
    /// The turn, from 1; absent for a case as a whole.
    pub turn: Option<usize>,
    /// Every reason.
    pub reasons: Vec<Reason>,
    /// Expected and actual answer, when they were compared.
    pub difference: Option<Difference<'a>>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The metric or expectation; empty when the text says it all.
    pub what: String,
    /// In words; may have more than one line.
    pub text: String,
    /// The next action, where one is known.
    pub hint: Option<String>,
}

impl Reason {
    fn new(what: &str, text: impl Into<String>) -> Self {
        Self {
            what: what.to_owned(),
            text: text.into(),
            hint: None,
        }
    }

    /// Both parts in one line.
    pub fn line(&self) -> String {
        match self.what.as_str() {
            "" => self.text.clone(),
            what => format!("{what}: {}", self.text),
        }
    }
}

/// An answer that is not the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// What the YAML expects.
    pub expected: &'a str,
    /// What the agent said.
    pub actual: &'a str,
}

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    /// `-` only expected, `+` only said, a blank for both.
    pub sign: char,
    /// The line.
    pub text: String,
}

impl Difference<'_> {
    /// Line by line, what is expected before what was said.
    pub fn lines(&self) -> Vec<DiffLine> {
        let texts = [self.expected, self.actual].map(|text| {
            let text = words::clip(text.trim_end(), COMPARED_CHARS);
            words::printable(&text).into_owned()
        });
        let [expected, actual] = &texts;
        if actual.is_empty() {
            let lines = expected.lines().map(|line| DiffLine {
                sign: '-',
                text: line.to_owned(),
            });
            let nothing = DiffLine {
                sign: '+',
                text: "(empty answer)".to_owned(),
            };
            return lines.chain([nothing]).collect();
        }
        TextDiff::from_lines(expected.as_str(), actual.as_str())
            .iter_all_changes()
            .map(|change| DiffLine {
                sign: match change.tag() {
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                    ChangeTag::Equal => ' ',
                },
                text: change.to_string_lossy().trim_end_matches(['\n', '\r']).to_owned(),
            })
            .collect()
    }
}

/// Why a case is not a pass: all that people need to see, in the terminal and in reports. Empty for a pass.
pub fn explain(result: &TestResult) -> Vec<Explanation<'_>> {
    if result.state == CaseState::Passed {
        return Vec::new();
    }
    let mut all = Vec::new();
    let turns = result.turns.as_deref().unwrap_or_default();
    let case = Scope::of_case(result, !turns.is_empty()).explain();
    all.extend(case);
    for turn in turns {
        if turn.state != CaseState::Passed {
            all.extend(Scope::of_turn(turn).explain());
        }
    }
    if all.is_empty() && result.state == CaseState::Unchecked {
        all.push(Explanation {
            turn: None,
            reasons: vec![Reason::new("", "checks nothing")],
            difference: None,
        });
    }
    all
}

/// All reasons in one line.
pub fn explain_in_a_line(result: &TestResult) -> String {
    let mut reasons = Vec::new();
    for explanation in explain(result) {
        for reason in &explanation.reasons {
            let line = match explanation.turn {
                Some(turn) => format!("turn {turn}: {}", reason.line()),
                None => reason.line(),
            };
            // One reason is one line, whatever a server put into its message.
            let parts: Vec<_> = line
                .lines()
                .map(blanks_alike)
                .filter(|part| !part.is_empty())
                .collect();
            reasons.push(parts.join(", "));
        }
    }
    reasons.join("; ")
}

fn blanks_alike(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a case and a turn have in common.
struct Scope<'a> {
    turn: Option<usize>,
    errors: Vec<&'a str>,
    execution_errors: &'a [String],
    tools_matched: Option<bool>,
    tool_calls: &'a [String],
    metrics: &'a [MetricResult],
    ground_truth: Option<&'a str>,
    response: Option<&'a str>,
}

impl<'a> Scope<'a> {
    /// Of a case with turns, only what no turn tells: its metrics are means, its errors copies.
    fn of_case(result: &'a TestResult, has_turns: bool) -> Self {
        let own = |error: &&String| !(has_turns && error.starts_with("turn "));
        Self {
            turn: None,
            errors: result.errors.iter().filter(own).map(String::as_str).collect(),
            execution_errors: &result.execution_errors,
            tools_matched: result.tools_matched.filter(|_| !has_turns),
            tool_calls: &result.tool_calls,
            metrics: if has_turns { &[] } else { &result.metric_results },
            ground_truth: result.ground_truth.as_deref(),
            response: result.agent_response.as_deref(),
        }
    }

    fn of_turn(turn: &'a TurnResult) -> Self {
        Self {
            turn: Some(turn.turn_index + 1),
            errors: turn.errors.iter().map(String::as_str).collect(),
            execution_errors: &turn.execution_errors,
            tools_matched: turn.tools_matched,
            tool_calls: &turn.tool_calls,
            metrics: &turn.metric_results,
            ground_truth: turn.ground_truth.as_deref(),
            response: turn.response.as_deref(),
        }
    }

    fn explain(&self) -> Option<Explanation<'a>> {
        let unmet_tools = self.tools_matched == Some(false);
        let mut told = false;
        let mut reasons = Vec::new();
        for error in &self.errors {
            let graded = unmet_tools && !self.execution_errors.iter().any(|own| own == error);
            let tools = about_tools(error).filter(|_| graded);
            told |= tools.is_some();
            reasons.push(tools.unwrap_or_else(|| split(error)));
        }
        if unmet_tools && !told {
            let text = format!("not met ({})", called(self.tool_calls));
            reasons.push(Reason::new("expected_tools", text));
        }
        reasons.extend(self.metrics.iter().filter_map(of_metric));
        if reasons.is_empty() {
            return None;
        }
        Some(Explanation {
            turn: self.turn,
            reasons,
            difference: self.difference(),
        })
    }

    fn difference(&self) -> Option<Difference<'a>> {
        let missed = |metric: &MetricResult| metric.passed == Some(false) && compares(&metric.metric_name);
        let difference = Difference {
            expected: self.ground_truth?,
            actual: self.response?,
        };
        (self.metrics.iter().any(missed) && difference.expected != difference.actual).then_some(difference)
    }
}

/// Metrics that hold the answer against something else than the expected answer.
fn compares(metric: &str) -> bool {
    !matches!(
        metric,
        "latency" | "cost" | "json_valid" | "json_schema" | "regex" | "starts_with"
    )
}

/// How what grading says about tools begins, and the field it is about.
const ABOUT_TOOLS: [(&str, &str); 4] = [
    ("expected tool(s) ", "expected_tools"),
    ("expected tools in the order ", "expected_tools_order"),
    ("forbidden tool ", "forbidden_tools"),
    ("expected ", "expected_tools"),
];

/// A text that ends with the next action tells it apart.
fn split(error: &str) -> Reason {
    match error.split_once("\n\nhint: ") {
        Some((text, hint)) => Reason {
            hint: Some(hint.trim_end().to_owned()),
            ..Reason::new("", text)
        },
        None => Reason::new("", error),
    }
}

/// What grading says about tools, by field.
fn about_tools(error: &str) -> Option<Reason> {
    ABOUT_TOOLS
        .iter()
        .find_map(|(beginning, what)| Some(Reason::new(what, error.strip_prefix(beginning)?)))
}

fn of_metric(metric: &MetricResult) -> Option<Reason> {
    let text = match (metric.passed, &metric.error, metric.score) {
        (_, Some(error), _) => format!("could not be computed: {error}"),
        (Some(false), None, Some(score)) => match words::score(score, metric.threshold) {
            (score, Some(threshold)) => {
                let reasoning = metric.reasoning.as_deref();
                let reasoning = reasoning.map_or_else(String::new, |reasoning| format!(": {reasoning}"));
                format!("{score}, needs {threshold}{reasoning}")
            }
            (_, None) => metric.reasoning.clone().unwrap_or_else(|| "not met".to_owned()),
        },
        (Some(false), None, None) => metric
            .reasoning
            .clone()
            .unwrap_or_else(|| "could not be computed".to_owned()),
        _ => return None,
    };
    Some(Reason::new(&metric.metric_name, text))
}

fn called(tools: &[String]) -> String {
    if tools.is_empty() {
        return "no tool was called".to_owned();
    }
    let names: Vec<_> = tools.iter().map(|name| format!("`{name}`")).collect();
    format!("called: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::report::samples;

    #[test]
    fn a_pass_needs_no_explanation_and_an_unchecked_case_has_one() {
        assert!(explain(&samples::passed()).is_empty());
        assert_eq!(explain_in_a_line(&samples::unchecked()), "checks nothing");
    }

    #[test]
    fn a_failure_tells_tools_scores_and_the_difference() {
        let failed = samples::failed();
        let [case] = &explain(&failed)[..] else { panic!() };
        assert_eq!(
            explain_in_a_line(&failed),
            "expected_tools: not called: get_order; called: search_docs; rougeL: 0.31, needs 0.40; \
             contains: the answer does not contain \"30 days\""
        );
        assert_eq!(case.difference.unwrap().expected, "Your order #12 is in transit");
    }

    #[test]
    fn lines_in_common_are_shown_once() {
        let lines = |expected, actual| -> Vec<String> {
            let difference = Difference { expected, actual };
            let lines = difference.lines().into_iter();
            lines.map(|line| format!("{}{}", line.sign, line.text)).collect()
        };
        assert_eq!(lines("a\nb\n", "a\nc"), [" a", "-b", "+c"]);
        assert_eq!(lines("b", ""), ["-b", "+(empty answer)"]);
        assert_eq!(lines("b", "\u{1b}[31mb"), ["-b", "+\\u{1b}[31mb"]);
    }

    #[test]
    fn a_conversation_is_explained_turn_by_turn() {
        assert_eq!(
            explain_in_a_line(&samples::conversation()),
            "turn 2: equality: expected `7`, got `8`; turn 3: not run: the turns before it could not be ended"
        );
    }

    #[test]
    fn the_next_action_is_told_apart() {
        let mut result = samples::timed_out();
        result.errors =
            vec!["the model endpoint did not answer\n  http://x: refused\n\nhint: start it".to_owned()];
        let [case] = &explain(&result)[..] else { panic!() };
        let [reason] = &case.reasons[..] else { panic!() };
        assert_eq!(reason.hint.as_deref(), Some("start it"));
        assert_eq!(
            explain_in_a_line(&result),
            "the model endpoint did not answer, http://x: refused"
        );
    }

    #[test]
    fn what_is_about_tools_names_the_field() {
        let mut result = samples::failed();
        result.metric_results.clear();
        result.execution_errors = vec!["expected a cheaper model".to_owned()];
        result.errors = vec![
            "expected a cheaper model".to_owned(),
            "expected lookup(id=7): arg 'id' mismatch: expected 7, got 8".to_owned(),
            "expected tools in the order a, b: 'b' came too early; called: b, a".to_owned(),
            "forbidden tool called: delete_order (call 2)".to_owned(),
        ];
        assert_eq!(
            explain_in_a_line(&result),
            "expected a cheaper model; expected_tools: lookup(id=7): arg 'id' mismatch: expected 7, got 8; \
             expected_tools_order: a, b: 'b' came too early; called: b, a; \
             forbidden_tools: called: delete_order (call 2)"
        );
    }

    #[test]
    fn unmet_tools_without_a_word_are_still_told() {
        let mut result = samples::failed();
        result.errors.clear();
        result.metric_results.clear();
        assert_eq!(
            explain_in_a_line(&result),
            "expected_tools: not met (called: `search_docs`)"
        );
        result.tool_calls.clear();
        assert_eq!(
            explain_in_a_line(&result),
            "expected_tools: not met (no tool was called)"
        );
    }
}
