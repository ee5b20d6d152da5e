//! The JUnit XML report for CI servers. A case without a verdict must never appear as passed.

use std::{collections::HashSet, fmt, io::Write};

use holodeck_model::{CaseState, NotRun, ReportHead};

use crate::{PlannedResult, ReportError, RunView, explain, explain_in_a_line, format};
use holodeck_runs::CaseReport;

/// Limits each text, so that answers do not fill the CI page.
const TEXT_CHARS: usize = 10_000;

/// Writes a report for CI servers: a failed or flaky case is a `failure`, a case without a verdict an `error`, an unchecked case
/// or one that was not run is `skipped`.
pub(super) fn report(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let head = view.head;
    let summary = &head.summary;
    let name = Escaped(&head.agent_name);
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\"",
        summary.total_tests + summary.not_run,
        summary.failed,
        summary.errors,
        summary.unchecked + summary.not_run,
        seconds(summary.total_duration_ms),
    );
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites name=\"{name}\" {counts}>")?;
    writeln!(
        out,
        "  <testsuite name=\"{name}\" {counts} timestamp=\"{}\">",
        Escaped(&head.timestamp)
    )?;
    properties(head, out)?;
    let mut names = Names::default();
    for planned in view.planned() {
        match planned? {
            PlannedResult::Finished(finished) => {
                case(&finished, &names.unique(&finished.label()), head, out)?;
            }
            PlannedResult::NotRun(case) => {
                not_run(&case, &names.unique(&case.label()), head, out)?;
            }
        }
    }
    let early = (head.ended != "completed").then(|| format::verdict(head));
    let warnings = head.warnings.iter().map(|warning| format!("warning: {warning}"));
    let notes: Vec<String> = early
        .into_iter()
        .chain(head.provenance())
        .chain(format::missing_votes(&head.summary))
        .chain(warnings)
        .collect();
    if !notes.is_empty() {
        writeln!(out, "    <system-out>{}</system-out>", Text(&notes.join("\n")))?;
    }
    writeln!(out, "  </testsuite>\n</testsuites>")?;
    Ok(())
}

fn properties(head: &ReportHead, out: &mut dyn Write) -> std::io::Result<()> {
    let summary = &head.summary;
    let mut properties = vec![
        ("run_id", head.run_id.clone()),
        ("agent_config_path", head.agent_config_path.clone()),
        ("holodeck_version", head.holodeck_version.clone()),
        ("ended", head.ended.clone()),
    ];
    if let Some(because) = &head.ended_because {
        properties.push(("ended_because", because.clone()));
    }
    if let Some(replayed) = &head.replayed {
        properties.push(("replayed", replayed.describe()));
    }
    if let Some(run) = &head.regraded_from {
        properties.push(("regraded_from", run.clone()));
    }
    if summary.truncated > 0 {
        properties.push(("truncated", summary.truncated.to_string()));
        properties.extend(format::truncated(summary).map(|note| ("truncated_because", note)));
    }
    if let Some(usage) = &summary.token_usage {
        properties.push(("total_tokens", usage.total_tokens.to_string()));
    }
    if let Some(cost) = summary.cost_usd {
        properties.push(("cost_usd", format!("{cost:.6}")));
    }
    writeln!(out, "    <properties>")?;
    for (name, value) in properties {
        let value = Escaped(&value);
        writeln!(out, "      <property name=\"{name}\" value=\"{value}\"/>")?;
    }
    for (metric, average) in &summary.average_scores {
        writeln!(
            out,
            "      <property name=\"average.{}\" value=\"{average:.6}\"/>",
            Escaped(metric)
        )?;
    }
    writeln!(out, "    </properties>")
}

/// The names in a report. A CI server keeps only one of several cases with the same name, so the second gets `#2`.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        let mut number = 1;
        while !self.0.insert(unique.clone()) {
            number += 1;
            unique = format!("{name} #{number}");
        }
        unique
    }
}

fn case(case: &CaseReport, name: &str, head: &ReportHead, out: &mut dyn Write) -> std::io::Result<()> {
    write!(
        out,
        "    <testcase name=\"{}\" classname=\"{}\" time=\"{}\"",
        Escaped(name),
        Escaped(&head.agent_name),
        seconds(case.elapsed_ms()),
    )?;
    if case.state() == CaseState::Passed {
        let truncated = format::truncations(case);
        let trials = case.trials.as_deref().map(format::trials);
        let ended = format::conversation_end(case);
        let remarks = trials.into_iter().chain(format::executors(case));
        let remarks = remarks
            .chain(format::file_notes(case))
            .chain(truncated)
            .chain(ended);
        let remarks = remarks
            .chain(format::missing_votes_on(case))
            .chain(failed_calls(case));
        let remarks: Vec<String> = remarks.collect();
        if remarks.is_empty() {
            return writeln!(out, "/>");
        }
        writeln!(out, ">")?;
        writeln!(
            out,
            "      <system-out>{}</system-out>",
            Text(&remarks.join("\n"))
        )?;
        return writeln!(out, "    </testcase>");
    }
    let message = explain_in_a_line(case);
    let message = Escaped(&message);
    writeln!(out, ">")?;
    let element = match case.state() {
        CaseState::Unchecked => {
            writeln!(out, "      <skipped message=\"{message}\"/>")?;
            return writeln!(out, "    </testcase>");
        }
        CaseState::Failed | CaseState::Flaky => "failure",
        CaseState::Error | CaseState::Passed => "error",
    };
    let kind = format::state(case.state());
    let body = body(case);
    let body = Text(&body);
    writeln!(
        out,
        "      <{element} type=\"{kind}\" message=\"{message}\">{body}</{element}>"
    )?;
    writeln!(out, "    </testcase>")
}

fn not_run(case: &NotRun, name: &str, head: &ReportHead, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "    <testcase name=\"{}\" classname=\"{}\" time=\"0.000\">\n      <skipped message=\"{}\"/>\n    </testcase>",
        Escaped(name),
        Escaped(&head.agent_name),
        Escaped(&case.reason),
    )
}

/// Reasons, difference, question and answer as plain text.
fn body(case: &CaseReport) -> String {
    let mut lines = Vec::new();
    for explanation in explain(case) {
        let turn = explanation
            .turn
            .map_or_else(String::new, |turn| format!("turn {turn}: "));
        for reason in &explanation.reasons {
            lines.push(format!("{turn}{}", reason.line()));
        }
        if let Some(difference) = &explanation.difference {
            for line in difference.lines() {
                lines.push(line.labelled());
            }
        }
    }
    lines.extend(format::executors(case));
    lines.extend(format::file_notes(case));
    lines.extend(format::truncations(case));
    if let Some(conversation) = format::conversation(case) {
        let conversation = format::clip(&conversation, TEXT_CHARS);
        lines.push(format!("\nconversation:\n{conversation}"));
    } else {
        lines.push(format!(
            "\nquestion:\n{}",
            format::clip(&case.question(), TEXT_CHARS)
        ));
        if let Some(response) = case.answer() {
            lines.push(format!("\nanswer:\n{}", format::clip(response, TEXT_CHARS)));
        }
    }
    for call in case.calls() {
        lines.push(format!("\ntool call {}", format::call(&call)));
    }
    lines.join("\n")
}

/// The failed tool calls, which a verdict may not show.
fn failed_calls(case: &CaseReport) -> impl Iterator<Item = String> {
    let failed = case.calls().filter(|call| call.error().is_some());
    failed.map(|call| format!("tool call {}", format::call(&call)))
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

/// A text in an attribute, where a plain line break would be read as a space.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0, f, |c| match c {
            '\n' => Some("&#10;"),
            '\t' => Some("&#9;"),
            '"' => Some("&quot;"),
            _ => None,
        })
    }
}

/// A text in an element.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0, f, |_| None)
    }
}

/// Escapes `text` for XML. Characters that XML 1.0 cannot represent are replaced.
fn escape(
    text: &str,
    f: &mut fmt::Formatter<'_>,
    more: impl Fn(char) -> Option<&'static str>,
) -> fmt::Result {
    for c in format::printable(text).chars() {
        match c {
            '&' => f.write_str("&amp;")?,
            '<' => f.write_str("&lt;")?,
            '>' => f.write_str("&gt;")?,
            other => match more(other) {
                Some(reference) => f.write_str(reference)?,
                None => fmt::Write::write_char(f, other)?,
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Format, samples};

    #[test]
    fn a_report() {
        insta::assert_snapshot!(samples::report(
            Format::Junit,
            &samples::cases(),
            Some(samples::replayed())
        ));
    }

    #[test]
    fn nothing_breaks_out_of_its_place() {
        let report = samples::report(Format::Junit, &[samples::hostile()], None);
        samples::assert_well_formed(&report);
        let allowed = |c: char| !c.is_control() || c == '\n';
        assert!(
            report
                .chars()
                .all(|c| allowed(c) && !matches!(c, '\u{fffe}' | '\u{ffff}'))
        );
        insta::assert_snapshot!(report);
    }

    #[test]
    fn every_report_is_well_formed() {
        samples::assert_well_formed(&samples::report(Format::Junit, &[], None));
        samples::assert_well_formed(&samples::report(
            Format::Junit,
            &samples::cases(),
            Some(samples::replayed()),
        ));
    }

    #[test]
    fn a_failed_tool_call_of_a_passed_case_is_shown() {
        let report = samples::report(Format::Junit, &[samples::passed_with_failed_call()], None);
        samples::assert_well_formed(&report);
        assert!(
            report.contains(
                "tool call search_docs {\"query\":\"order #12\"}: failed: connection refused (12 ms)"
            )
        );
    }

    #[test]
    fn a_stopped_run_lists_what_was_not_run() {
        insta::assert_snapshot!(samples::stopped_report(Format::Junit, &[samples::passed()]));
    }
}
