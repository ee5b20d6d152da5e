//! A case on the page: why it did not pass, then its turns with input, expectations, answer and tool calls.

use std::borrow::Cow;

use askama::Template;
use holodeck_model::{MetricResult, NotRun};
use serde_json::Value;

use crate::{DiffLine, DiffSide, Difference, Reason, ReportError, explain, format};
use holodeck_runs::{CallReport, CaseReport, Expected, TurnGrade, TurnReport};

/// Limits each text, so that a page with ten thousand cases still opens.
const TEXT_CHARS: usize = 20_000;

/// Longer names are cut where a case is one line.
const LABEL_CHARS: usize = 200;

#[derive(Template)]
#[template(path = "case.html")]
pub(crate) struct Case<'a> {
    number: usize,
    /// The page of the case alone.
    href: Option<String>,
    class: &'static str,
    state: Cow<'static, str>,
    label: String,
    open: bool,
    facts: Vec<String>,
    reasons: Vec<CaseReason>,
    turns: Vec<Turn<'a>>,
    /// Every trial of a case that ran several times.
    trials: Vec<Trial<'a>>,
    /// The expectations about a conversation as a whole.
    tools: Vec<ExpectedTools>,
    /// The metrics of a conversation as a whole.
    metrics: Vec<Metric<'a>>,
    notes: Vec<String>,
}

struct CaseReason {
    turn: Option<usize>,
    what: String,
    text: String,
    hint: Option<String>,
}

#[derive(Default)]
struct Turn<'a> {
    number: Option<usize>,
    class: &'static str,
    state: &'static str,
    question: Cow<'a, str>,
    panes: Vec<Pane<'a>>,
    /// The whole answer, if only its beginning was compared.
    whole: Option<Cow<'a, str>>,
    tools: Vec<ExpectedTools>,
    calls: Vec<Call<'a>>,
    metrics: Vec<Metric<'a>>,
}

/// One of the texts shown side by side.
struct Pane<'a> {
    title: &'static str,
    runs: Vec<Run<'a>>,
}

/// Lines of a pane with their CSS classes; unchanged lines are hidden behind a note with their number.
struct Run<'a> {
    hidden: Option<String>,
    lines: Vec<(&'static str, Cow<'a, str>)>,
}

struct Trial<'a> {
    number: u32,
    class: &'static str,
    state: &'static str,
    time: String,
    is_shown: bool,
    problems: Vec<String>,
    /// Absent for one that passed, except the first.
    answer: Option<Cow<'a, str>>,
    scores: Vec<(Cow<'a, str>, String)>,
}

struct ExpectedTools {
    name: &'static str,
    text: String,
    class: &'static str,
    state: &'static str,
}

struct Call<'a> {
    name: &'a str,
    line: String,
    time: String,
    failed: bool,
    arguments: String,
    result: Cow<'a, str>,
}

struct Metric<'a> {
    name: &'a str,
    score: String,
    needs: String,
    class: &'static str,
    verdict: &'static str,
    why: Option<&'a str>,
}

impl<'a> Case<'a> {
    /// The case on a page of its own.
    pub(crate) fn alone(case: &'a CaseReport) -> Self {
        // Its page has a part for trials.
        Self {
            trials: Vec::new(),
            ..Self::new(case, true, None)
        }
    }

    pub(super) fn new(case: &'a CaseReport, open: bool, href: Option<String>) -> Self {
        let explanations = explain(case);
        let difference = |turn: &TurnReport<'_>| {
            let mut of_turn = explanations.iter().filter(|other| other.turn == turn.number);
            of_turn.find_map(|explanation| explanation.difference.as_ref())
        };
        let turns = case.turns().map(|turn| Turn::new(&turn, difference(&turn)));
        let mut turns: Vec<Turn<'a>> = turns.collect();
        if turns.is_empty() {
            turns.push(Turn {
                question: clip(&case.input),
                ..Turn::default()
            });
        }
        let usage = case.spent().tokens;
        let tokens = usage.map(|usage| format::count_tokens(usage.total_tokens));
        let failed_calls = case.calls().filter(|call| call.error().is_some()).count();
        let calls =
            (failed_calls > 0).then(|| format!("{} failed", format::count(failed_calls, "tool call")));
        let facts = [
            calls,
            Some(format::duration(case.elapsed_ms())),
            tokens,
            case.spent().cost_usd.map(format::cost),
        ];
        Self {
            number: case.index + 1,
            href,
            class: format::class(case.state()),
            state: format::case_state(case),
            label: case.label(),
            open,
            facts: facts.into_iter().flatten().collect(),
            reasons: explanations
                .into_iter()
                .flat_map(|explanation| {
                    let turn = explanation.turn;
                    let reasons = explanation.reasons.into_iter();
                    reasons.map(move |Reason { what, text, hint }| CaseReason {
                        turn,
                        what,
                        text,
                        hint,
                    })
                })
                .collect(),
            turns,
            trials: trials(case),
            tools: conversation_tools(case),
            metrics: case.conversation_metrics().iter().map(Metric::new).collect(),
            notes: format::notes(case),
        }
    }

    /// Its number in the file, from 1.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The class of its state.
    pub(super) fn class(&self) -> &'static str {
        self.class
    }

    /// `12 refund policy: failed, 1.2 s, 812 tokens`.
    pub(super) fn line(&self) -> String {
        let facts: Vec<&str> = std::iter::once(self.state.as_ref())
            .chain(self.facts.iter().map(String::as_str))
            .collect();
        let label = format::one_line(&self.label, LABEL_CHARS);
        format!("{} {label}: {}", self.number, facts.join(", "))
    }

    pub(super) fn not_run(case: &NotRun) -> Self {
        Self {
            number: case.index + 1,
            href: None,
            class: "skipped",
            state: "not run".into(),
            label: case.label(),
            open: false,
            facts: Vec::new(),
            reasons: vec![CaseReason {
                turn: None,
                what: String::new(),
                text: case.reason.clone(),
                hint: None,
            }],
            turns: Vec::new(),
            trials: Vec::new(),
            tools: Vec::new(),
            metrics: Vec::new(),
            notes: Vec::new(),
        }
    }
}

fn trials(case: &CaseReport) -> Vec<Trial<'_>> {
    let Some(trials) = case.trials.as_deref() else {
        return Vec::new();
    };
    let shown = trials.shown;
    let trials = trials.results.iter().map(|trial| Trial {
        number: trial.trial.saturating_add(1),
        class: format::class(trial.state),
        state: format::state(trial.state),
        time: format::duration(trial.execution_time_ms),
        is_shown: trial.trial == shown,
        problems: trial.errors.clone(),
        answer: trial.agent_response.as_deref().map(clip),
        scores: trial
            .metric_results
            .iter()
            .map(|metric| (metric.label(), format::metric_score(metric).0))
            .collect(),
    });
    trials.collect()
}

/// A turn outside of a case.
#[derive(Template)]
#[template(source = "{% include \"turn.html\" %}", ext = "html")]
struct Alone<'a> {
    turn: Turn<'a>,
}

/// A turn as a case shows it, with another state than a verdict.
pub(crate) fn turn_alone(
    turn: &TurnReport<'_>,
    class: &'static str,
    state: &'static str,
) -> Result<String, ReportError> {
    let turn = Turn {
        class,
        state,
        ..Turn::new(turn, None)
    };
    let mut html = Vec::new();
    Template::write_into(&Alone { turn }, &mut html)?;
    Ok(String::from_utf8_lossy(&html).into_owned())
}

impl<'a> Turn<'a> {
    fn new(turn: &TurnReport<'a>, difference: Option<&Difference<'_>>) -> Self {
        let is_clipped = difference.is_some_and(Difference::is_clipped);
        Self {
            number: turn.number,
            class: format::class(turn.grade.state),
            state: format::state(turn.grade.state),
            question: clip(&turn.record.input),
            panes: panes(turn, difference),
            whole: turn.answer().filter(|_| is_clipped).map(clip),
            tools: expected_tools(turn.expected, turn.grade),
            calls: turn.calls().map(Call::new).collect(),
            metrics: turn.grade.metrics.iter().map(Metric::new).collect(),
        }
    }
}

/// The expected text and the answer, with the lines that differ.
fn panes<'a>(turn: &TurnReport<'a>, difference: Option<&Difference<'_>>) -> Vec<Pane<'a>> {
    let plain = |title, text: Cow<'a, str>| Pane {
        title,
        runs: vec![Run {
            hidden: None,
            lines: vec![("", text)],
        }],
    };
    let ground_truth = turn.expected.ground_truth.as_deref().map(clip);
    let Some(difference) = difference else {
        let answer = turn.answer().map_or("(no answer)".into(), clip);
        let expected = ground_truth.map(|text| plain("Expected", text));
        return expected.into_iter().chain([plain("Answer", answer)]).collect();
    };
    let side = |title, without| Pane {
        title,
        runs: side_runs(difference, without),
    };
    let (title, also) = if difference.is_part {
        (
            "Expected to contain",
            ground_truth.filter(|text| *text != difference.expected),
        )
    } else {
        ("Expected", None)
    };
    let sides = [side(title, DiffSide::Got), side("Got", DiffSide::Expected)];
    sides
        .into_iter()
        .chain(also.map(|text| plain("Expected", text)))
        .collect()
}

fn side_runs<'a>(difference: &Difference<'_>, without: DiffSide) -> Vec<Run<'a>> {
    let runs = difference.runs().into_iter().map(|(unchanged, lines)| {
        let hidden = unchanged.then(|| format!("{} unchanged lines", lines.len()));
        let lines = lines.into_iter().filter(|line| line.side != without);
        let lines = lines.map(|DiffLine { side, text }| (side.label(), text.into()));
        Run {
            hidden,
            lines: lines.collect(),
        }
    });
    runs.filter(|run| !run.lines.is_empty()).collect()
}

fn conversation_tools(case: &CaseReport) -> Vec<ExpectedTools> {
    let conversation = case
        .grade
        .conversation
        .as_deref()
        .filter(|_| case.unit.user.is_some());
    conversation.map_or_else(Vec::new, |grade| expected_tools(&case.expected, grade))
}

fn expected_tools(expected: &Expected, grade: &TurnGrade) -> Vec<ExpectedTools> {
    let tools = expected.tools.iter().filter_map(Value::as_array).flatten();
    let expected_tools: Vec<String> = tools.map(format_tool).collect();
    let (class, state) = verdict(grade.tools_matched);
    let fields = grade
        .failures
        .iter()
        .filter_map(|failure| failure.field.as_deref());
    let unmet: Vec<&str> = fields.filter(|field| field.contains("_tools")).collect();
    let lists = [
        ("Expected", expected_tools),
        ("Forbidden", expected.forbidden_tools.clone()),
    ];
    let lists = lists.into_iter().filter(|(_, tools)| !tools.is_empty());
    let fields = lists.map(|(name, tools)| {
        let field = format!("{}_tools", name.to_lowercase());
        // Older journals do not record the field; then neither list counts as met.
        let is_met = !unmet.is_empty() && !unmet.iter().any(|other| other.starts_with(&field));
        ExpectedTools {
            name,
            text: tools.join(", "),
            class: if is_met { "passed" } else { class },
            state: if is_met { "met" } else { state },
        }
    });
    // Without details, as of a turn without an answer, the decisions were not compared.
    let approvals = expected.approvals.iter().enumerate().map(|(place, approval)| {
        let detail = grade.approvals.get(place);
        let (class, state) = verdict(detail.map(|detail| detail.met));
        let got = detail.map(|detail| match detail.got.as_slice() {
            [] => ", got no call".to_owned(),
            got => format!(", got {}", got.join(", ")),
        });
        ExpectedTools {
            name: "Decision",
            text: format!(
                "{}: expected {}{}",
                approval.tool,
                approval.decision.as_str(),
                got.unwrap_or_default()
            ),
            class,
            state,
        }
    });
    fields.chain(approvals).collect()
}

fn verdict(met: Option<bool>) -> (&'static str, &'static str) {
    match met {
        Some(true) => ("passed", "met"),
        Some(false) => ("failed", "not met"),
        None => ("unchecked", ""),
    }
}

/// `lookup` or `lookup {"id":7} ×2`.
fn format_tool(tool: &Value) -> String {
    let Some(fields) = tool.as_object() else {
        return tool.as_str().unwrap_or_default().to_owned();
    };
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
    let arguments = fields
        .get("args")
        .filter(|args| args.as_object().is_some_and(|args| !args.is_empty()));
    let arguments = arguments.map_or_else(String::new, |args| format!(" {args}"));
    let times = fields
        .get("count")
        .and_then(Value::as_u64)
        .filter(|count| *count > 1);
    let times = times.map_or_else(String::new, |count| format!(" ×{count}"));
    format!("{name}{arguments}{times}")
}

impl<'a> Call<'a> {
    fn new(call: CallReport<'a>) -> Self {
        let arguments = &call.call.arguments;
        let pretty = serde_json::to_string_pretty(arguments).unwrap_or_else(|_| arguments.to_string());
        let result = call.error().or(call.result.map(|result| result.result.as_str()));
        Self {
            name: &call.call.name,
            line: format::one_line(&arguments.to_string(), 200),
            time: call.duration_ms().map(format::duration).unwrap_or_default(),
            failed: call.error().is_some(),
            arguments: format::clip(&pretty, TEXT_CHARS).into_owned(),
            result: clip(result.unwrap_or_default()),
        }
    }
}

impl<'a> Metric<'a> {
    fn new(metric: &'a MetricResult) -> Self {
        let (class, verdict) = format::metric_state(metric);
        let (score, needs) = format::metric_score(metric);
        // The reasons of the case already explain a failed metric.
        let is_reason = metric.passed == Some(false) || metric.error.is_some();
        Self {
            name: &metric.metric_name,
            score,
            needs: needs.map_or_else(String::new, |needs| format!("needs {needs}")),
            class,
            verdict,
            why: metric.reasoning.as_deref().filter(|_| !is_reason),
        }
    }
}

fn clip(text: &str) -> Cow<'_, str> {
    format::clip(text, TEXT_CHARS)
}
