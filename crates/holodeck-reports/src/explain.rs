//! Explains in plain words why a case did not pass, for the terminal and all report formats.

use std::borrow::Cow;

use holodeck_eval::UNFIT_VERDICT;
use holodeck_model::{CaseState, Failure, FailureKind, MetricResult};

use crate::{Difference, format};
use holodeck_runs::{CaseReport, TurnReport};

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

impl<'a> Explanation<'a> {
    /// `None` without a reason.
    fn new(turn: Option<usize>, reasons: Vec<Reason>, difference: Option<Difference<'a>>) -> Option<Self> {
        (!reasons.is_empty()).then_some(Self {
            turn,
            reasons,
            difference,
        })
    }
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The metric or expectation; empty if the text is sufficient.
    pub what: String,
    /// The reason; may have several lines.
    pub text: String,
    /// The next step, if one is known.
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

/// Explains why a case did not pass, for the terminal and for reports. Empty for a pass.
pub fn explain(case: &CaseReport) -> Vec<Explanation<'_>> {
    if case.state() == CaseState::Passed {
        return Vec::new();
    }
    let decided_by_score = case.grade.score_failure.iter();
    let own = case.unit.own_failures().chain(decided_by_score);
    let mut own: Vec<Reason> = own.map(Reason::of_failure).collect();
    let mut all = Vec::new();
    if let Some(trials) = case.trials.as_deref() {
        let text = format!(
            "{}; shown: trial {}",
            format::trials(trials),
            trials.shown.saturating_add(1)
        );
        all.extend(Explanation::new(None, vec![Reason::new("trials", text)], None));
    }
    for turn in case.turns() {
        if turn.number.is_some() {
            all.extend(Explanation::new(None, std::mem::take(&mut own), None));
            if turn.grade.state == CaseState::Passed {
                continue;
            }
        }
        let mut reasons = std::mem::take(&mut own);
        reasons.extend(reasons_of(&turn));
        all.extend(Explanation::new(turn.number, reasons, difference(&turn)));
    }
    if let Some(conversation) = &case.grade.conversation {
        own.extend(conversation.failures.iter().map(Reason::of_failure));
        own.extend(conversation.metrics.iter().filter_map(metric_reason));
    }
    all.extend(Explanation::new(None, own, None));
    if all.is_empty() && case.state() == CaseState::Unchecked {
        all.extend(Explanation::new(
            None,
            vec![Reason::new("", "checks nothing")],
            None,
        ));
    }
    all
}

/// All reasons in one line.
pub fn explain_in_a_line(case: &CaseReport) -> String {
    let mut reasons = Vec::new();
    for explanation in explain(case) {
        for reason in &explanation.reasons {
            let line = match explanation.turn {
                Some(turn) => format!("turn {turn}: {}", reason.line()),
                None => reason.line(),
            };
            // A message of a server may have several lines.
            let parts: Vec<_> = line
                .lines()
                .map(collapse_whitespace)
                .filter(|part| !part.is_empty())
                .collect();
            reasons.push(parts.join(" · "));
        }
    }
    reasons.join("; ")
}

pub(crate) fn collapse_whitespace(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn reasons_of(turn: &TurnReport<'_>) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = turn.failures().map(Reason::of_failure).collect();
    let mut failures = turn.failures();
    let explained = failures.any(|failure| failure.kind == FailureKind::Expectation);
    if turn.grade.tools_matched == Some(false) && !explained {
        let text = format!("not met ({})", describe_calls(turn));
        reasons.push(Reason::new("expected_tools", text));
    }
    reasons.extend(turn.grade.metrics.iter().filter_map(metric_reason));
    reasons
}

/// The expected and the actual answer, if a metric that compares them failed; otherwise the expected texts of a failed
/// metric.
fn difference<'a>(turn: &TurnReport<'a>) -> Option<Difference<'a>> {
    let actual = turn.answer()?;
    let mut of_value = None;
    for (place, metric) in turn.grade.metrics.iter().enumerate() {
        let name = metric.metric_name.as_str();
        if metric.passed != Some(false) || !compares(name) {
            continue;
        }
        let is_part = is_part(name);
        let Some(values) = turn.expected.values_of(place, name) else {
            let expected = Cow::Borrowed(turn.expected.ground_truth.as_deref()?);
            return (expected != actual).then_some(Difference {
                expected,
                is_part,
                actual,
            });
        };
        let missing = |value: &&String| !is_part || !actual.contains(value.as_str());
        let mut texts: Vec<&str> = values.iter().filter(missing).map(String::as_str).collect();
        if texts.is_empty() {
            texts = values.iter().map(String::as_str).collect();
        }
        if !texts.is_empty() {
            of_value.get_or_insert(Difference {
                expected: Cow::Owned(texts.join("\n")),
                is_part,
                actual,
            });
        }
    }
    of_value
}

/// Whether a metric compares the answer with an expected text.
fn compares(metric: &str) -> bool {
    !matches!(
        metric,
        "latency" | "cost" | "json_valid" | "json_schema" | "regex" | "starts_with"
    )
}

/// Whether a metric searches for the expected text in the answer.
fn is_part(metric: &str) -> bool {
    matches!(metric, "contains" | "contains_all" | "contains_any" | "icontains")
}

pub(crate) fn metric_reason(metric: &MetricResult) -> Option<Reason> {
    let text = match (metric.passed, &metric.error, metric.score) {
        (_, Some(error), _) => match no_verdict(error) {
            Some(why) => format!("no verdict: {why}"),
            None => format!("could not be computed: {error}"),
        },
        (Some(false), None, Some(score)) => match format::score(score, metric.threshold) {
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
    let hint = metric
        .error
        .as_ref()
        .filter(|error| error.contains(UNFIT_VERDICT));
    Some(Reason {
        hint: hint.map(|_| UNFIT_HINT.to_owned()),
        ..Reason::new(&metric.label(), text)
    })
}

const UNFIT_HINT: &str =
    "a small model may not keep to the form of a verdict: set another judge with `evaluations.model`";

/// Why a judge gave no verdict, without the name of the metric, which is shown beside it.
fn no_verdict(error: &str) -> Option<&str> {
    let (_, rest) = error.strip_prefix('`')?.split_once("` ")?;
    // Earlier versions stored the second form.
    rest.strip_prefix("has no verdict: ")
        .or_else(|| rest.strip_prefix("was not judged: "))
}

fn describe_calls(turn: &TurnReport<'_>) -> String {
    let names: Vec<_> = turn.calls().map(|call| format!("`{}`", call.call.name)).collect();
    if names.is_empty() {
        return "no tool was called".to_owned();
    }
    format!("called: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{DiffLine, samples};

    #[test]
    fn a_pass_needs_no_explanation_and_an_unchecked_case_has_one() {
        assert!(explain(&samples::passed()).is_empty());
        assert_eq!(explain_in_a_line(&samples::unchecked()), "checks nothing");
    }

    #[test]
    fn a_failure_shows_tools_scores_and_the_difference() {
        let failed = samples::failed();
        let [case] = &explain(&failed)[..] else { panic!() };
        assert_eq!(
            explain_in_a_line(&failed),
            "expected_tools: not called: get_order; called: search_docs; rougeL: 0.31, needs 0.40; \
             contains: the answer does not contain \"30 days\""
        );
        assert_eq!(
            case.difference.as_ref().unwrap().expected,
            "Your order #12 is in transit"
        );
    }

    #[test]
    fn what_should_be_contained_is_compared() {
        let mut case = samples::failed();
        case.grade.turns[0].metrics.remove(0);
        case.expected.values = vec![(
            0,
            "contains".to_owned(),
            vec!["order #12".to_owned(), "30 days".to_owned()],
        )];
        let [explanation] = &explain(&case)[..] else {
            panic!()
        };
        let difference = explanation.difference.as_ref().unwrap();
        assert!(difference.is_part);
        let lines = difference.lines();
        assert_eq!(
            lines.iter().map(DiffLine::labelled).collect::<Vec<_>>(),
            ["expected  30 days", "got       I could not find order #12"]
        );
        // A text that must not be in the answer is not an expected text.
        case.expected.values = vec![(0, "contains".to_owned(), Vec::new())];
        assert_eq!(explain(&case)[0].difference, None);
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
        let mut case = samples::timed_out();
        let down = Failure {
            hint: Some("start it".to_owned()),
            ..Failure::new(
                FailureKind::Provider,
                "the model endpoint did not answer\n  http://x: refused",
            )
        };
        case.unit.turns[0].failures = vec![
            down,
            // The field is not derived from the text.
            Failure::new(FailureKind::Provider, "expected a cheaper model"),
            Failure::of_field("forbidden_tools", "called: delete_order (call 2)"),
        ];
        let [explanation] = &explain(&case)[..] else {
            panic!()
        };
        assert_eq!(explanation.reasons[0].hint.as_deref(), Some("start it"));
        assert_eq!(
            explain_in_a_line(&case),
            "the model endpoint did not answer · http://x: refused; expected a cheaper model; \
             forbidden_tools: called: delete_order (call 2)"
        );
    }

    #[test]
    fn unmet_tools_without_a_failure_are_explained() {
        let mut case = samples::failed();
        case.grade.turns[0].failures.clear();
        case.grade.turns[0].metrics.clear();
        assert_eq!(
            explain_in_a_line(&case),
            "expected_tools: not met (called: `search_docs`)"
        );
        case.unit.turns[0].result.tool_calls.clear();
        assert_eq!(
            explain_in_a_line(&case),
            "expected_tools: not met (no tool was called)"
        );
    }
}
