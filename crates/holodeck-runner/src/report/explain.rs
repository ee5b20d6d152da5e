use holodeck_model::{CaseState, Failure, FailureKind, MetricResult, TestResult, TurnResult};
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

    fn of_failure(failure: &Failure) -> Self {
        Self {
            hint: failure.hint.clone(),
            ..Self::new(failure.field.as_deref().unwrap_or_default(), failure.text.clone())
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
    all.extend(Scope::of_case(result, !turns.is_empty()).explain());
    for turn in turns {
        if turn.state != CaseState::Passed {
            all.extend(Scope::of_turn(turn, &result.failures).explain());
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
    failures: Vec<&'a Failure>,
    tools_matched: Option<bool>,
    tool_calls: &'a [String],
    metrics: &'a [MetricResult],
    ground_truth: Option<&'a str>,
    response: Option<&'a str>,
}

impl<'a> Scope<'a> {
    /// Of a case with turns, only what belongs to no turn: its metrics are means.
    fn of_case(result: &'a TestResult, has_turns: bool) -> Self {
        Self {
            turn: None,
            failures: of(&result.failures, None),
            tools_matched: result.tools_matched.filter(|_| !has_turns),
            tool_calls: &result.tool_calls,
            metrics: if has_turns { &[] } else { &result.metric_results },
            ground_truth: result.ground_truth.as_deref(),
            response: result.agent_response.as_deref(),
        }
    }

    fn of_turn(turn: &'a TurnResult, failures: &'a [Failure]) -> Self {
        let number = Some(turn.turn_index + 1);
        Self {
            turn: number,
            failures: of(failures, number),
            tools_matched: turn.tools_matched,
            tool_calls: &turn.tool_calls,
            metrics: &turn.metric_results,
            ground_truth: turn.ground_truth.as_deref(),
            response: turn.response.as_deref(),
        }
    }

    fn explain(&self) -> Option<Explanation<'a>> {
        let mut reasons: Vec<Reason> = self.failures.iter().copied().map(Reason::of_failure).collect();
        let explained = self
            .failures
            .iter()
            .any(|failure| failure.kind == FailureKind::Expectation);
        if self.tools_matched == Some(false) && !explained {
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

/// The failures of this turn; of `None`, those of no turn.
fn of(failures: &[Failure], turn: Option<usize>) -> Vec<&Failure> {
    failures.iter().filter(|failure| failure.turn == turn).collect()
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
            "turn 2: equality: expected `7`, got `8`; turn 3: skipped because an earlier turn failed"
        );
    }

    #[test]
    fn a_failure_names_its_field_and_its_hint() {
        let mut result = samples::timed_out();
        let message = "the model endpoint did not answer\n  http://x: refused\n\nhint: start it";
        result.failures = vec![
            Failure::with_hint(FailureKind::Provider, message.to_owned()),
            // No field is guessed from a text.
            Failure::new(FailureKind::Provider, "expected a cheaper model"),
            Failure::of_field("forbidden_tools", "called: delete_order (call 2)"),
        ];
        let [case] = &explain(&result)[..] else { panic!() };
        assert_eq!(case.reasons[0].hint.as_deref(), Some("start it"));
        assert_eq!(
            explain_in_a_line(&result),
            "the model endpoint did not answer, http://x: refused; expected a cheaper model; \
             forbidden_tools: called: delete_order (call 2)"
        );
    }

    #[test]
    fn unmet_tools_without_a_failure_are_explained() {
        let mut result = samples::failed();
        result.failures.clear();
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
