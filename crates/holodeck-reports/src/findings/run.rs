//! The findings of a run: about the run itself, the cases that did not pass, and those without a verdict.

use std::io::Write;

use holodeck_model::{CaseState, NotRun, ReportHead, Severity};
use holodeck_runs::CaseReport;

use super::{Finding, FindingForm, FindingPlace, FindingSubject, Rule, write_findings};
use crate::{PlannedResult, ReportError, RunView, explain, format};

/// Limits the question in a finding.
const QUESTION_CHARS: usize = 300;

/// Writes the findings of a run: first those about the run, then failures, then cases without a verdict.
pub(crate) fn report(form: FindingForm, view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let head = view.head;
    let file = view
        .places
        .as_ref()
        .map_or(&head.agent_config_path, |places| &places.agent);
    let subject = FindingSubject {
        name: &head.agent_name,
        file,
        verdict: format!("{}: {}", format::verdict(head), format::totals(&head.summary)),
        is_complete: head.ended == "completed" && head.summary.not_run == 0,
    };
    let of_cases = [Severity::Error, Severity::Warning]
        .into_iter()
        .flat_map(|severity| {
            let found = view.planned().map(move |planned| Ok(of_planned(view, &planned?)));
            found.filter_map(move |found| match found {
                Ok(found) => found.filter(|found| found.severity == severity).map(Ok),
                Err(error) => Some(Err(error)),
            })
        });
    write_findings(
        form,
        &subject,
        of_run(head).into_iter().map(Ok).chain(of_cases),
        out,
    )
}

/// Facts about the run as a whole.
fn of_run(head: &ReportHead) -> Vec<Finding> {
    let finding = |rule: Rule, severity, message: String| Finding {
        key: match rule.id.as_ref() {
            // There may be several.
            "run-note" | "run-warning" => format!("{:?} {message}", head.combination),
            _ => format!("{:?}", head.combination),
        },
        rule,
        severity,
        title: format!("{}: {}", head.agent_name, format::verdict(head)),
        message,
        place: None,
    };
    let mut found = Vec::new();
    if format::early(head).is_some() || head.summary.not_run > 0 {
        let because = head.ended_because.as_deref();
        let message = format!(
            "the run is not complete: {}{}",
            format::totals(&head.summary),
            because.map_or_else(String::new, |because| format!("\n{because}"))
        );
        let rule = rule("run-not-complete", "The run did not check every case of its plan");
        found.push(finding(rule, Severity::Error, message));
    }
    if head.summary.passed + head.summary.failed + head.summary.errors == 0 {
        let rule = rule("nothing-checked", "The run checked nothing");
        found.push(finding(rule, Severity::Warning, "nothing checked".to_owned()));
    }
    let warnings = head.warnings.iter().cloned();
    for warning in warnings
        .chain(format::missing_votes(&head.summary))
        .chain(format::truncated(&head.summary))
    {
        let rule = rule("run-warning", "A reason to doubt the verdicts of the run");
        found.push(finding(rule, Severity::Warning, warning));
    }
    for note in head.provenance() {
        let rule = rule("run-note", "How the run came about");
        found.push(finding(rule, Severity::Note, note));
    }
    found
}

fn rule(id: &'static str, about: &'static str) -> Rule {
    Rule {
        id: id.into(),
        about: about.into(),
    }
}

/// Absent for a pass.
fn of_planned(view: &RunView<'_>, planned: &PlannedResult) -> Option<Finding> {
    let (index, label) = match planned {
        PlannedResult::Finished(case) => (case.index, case.label()),
        PlannedResult::NotRun(case) => (case.index, case.label()),
    };
    let (rule, severity, message, key) = match planned {
        PlannedResult::Finished(case) => {
            let (rule, severity) = of_state(case.state())?;
            (rule, severity, message(case), case.unit.case.id.to_string())
        }
        PlannedResult::NotRun(NotRun { reason, .. }) => (
            rule("not-run", "A planned case has no result"),
            Severity::Warning,
            reason.clone(),
            format!("{index} {label}"),
        ),
    };
    let combination = view.head.combination.as_ref();
    let combination = combination.map_or_else(String::new, |values| format!(" ({values})"));
    let place = match &view.places {
        Some(places) => (places.of_case)(index).unwrap_or_else(|| FindingPlace {
            path: places.agent.clone(),
            position: None,
        }),
        None => FindingPlace {
            path: view.head.agent_config_path.clone(),
            position: None,
        },
    };
    let state = match planned {
        PlannedResult::Finished(case) => format::case_state(case).into_owned(),
        PlannedResult::NotRun(_) => "not run".to_owned(),
    };
    Some(Finding {
        rule,
        severity,
        title: format!("{label}: {state}{combination}"),
        message,
        place: Some(place),
        key: format!("{key}{combination}"),
    })
}

fn of_state(state: CaseState) -> Option<(Rule, Severity)> {
    Some(match state {
        CaseState::Passed => return None,
        CaseState::Failed => (
            rule("failed", "The answer did not pass its checks"),
            Severity::Error,
        ),
        CaseState::Flaky => (
            rule("flaky", "Too few trials passed their checks"),
            Severity::Error,
        ),
        CaseState::Error => (rule("error", "The case has no verdict"), Severity::Error),
        CaseState::Unchecked => (rule("unchecked", "The case checks nothing"), Severity::Warning),
    })
}

/// The reasons with their hints, the difference and the question.
fn message(case: &CaseReport) -> String {
    let mut lines = Vec::new();
    for explanation in explain(case) {
        let turn = explanation.turn.map(|turn| format!("turn {turn}: "));
        for reason in &explanation.reasons {
            lines.push(format!(
                "{}{}",
                turn.as_deref().unwrap_or_default(),
                reason.line()
            ));
            lines.extend(reason.hint.iter().map(|hint| format!("hint: {hint}")));
        }
        if let Some(difference) = &explanation.difference {
            let difference = difference.lines();
            lines.extend(
                difference
                    .iter()
                    .map(|line| format::clip(&line.labelled(), QUESTION_CHARS).into_owned()),
            );
        }
    }
    lines.push(format!(
        "question  {}",
        format::one_line(&case.question(), QUESTION_CHARS)
    ));
    lines.join("\n")
}
