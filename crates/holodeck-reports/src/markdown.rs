//! The Markdown report for a comment on a pull request, within the size that GitHub accepts. Texts of the model must
//! not be able to break the layout or notify people.

use std::{borrow::Cow, io::Write};

use holodeck_model::ReportHead;

use crate::{
    DiffLine, PlannedResult, ReportError, RunView, explain, explain_in_a_line, format, format::Tone,
};
use holodeck_runs::CaseReport;

/// A comment on a pull request is limited to 65,536 characters, which one answer must not use up.
const TEXT_CHARS: usize = 2_000;
const REASON_CHARS: usize = 300;

/// Writes a comment for a pull request: the verdict, what did not pass and why, and the rest collapsed.
pub(super) fn report(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    headline(view.head, out)?;
    averages(view.head, out)?;
    let summary = &view.head.summary;
    if summary.failed + summary.errors > 0 {
        table_of_failures(view, out)?;
        for case in view.cases() {
            let case = case?;
            if case.is_failure() {
                details(&case, out)?;
            }
        }
        writeln!(out)?;
    }
    all_cases(view, out)?;
    writeln!(
        out,
        "<sub>{} · run {} · {} · holodeck {}</sub>",
        inline(&view.head.agent_config_path),
        inline(&view.head.run_id),
        inline(&view.head.timestamp),
        inline(&view.head.holodeck_version),
    )?;
    Ok(())
}

fn headline(head: &ReportHead, out: &mut dyn Write) -> std::io::Result<()> {
    let summary = &head.summary;
    writeln!(
        out,
        "## {} {}: {}\n",
        mark(head),
        inline(&head.agent_name),
        format::verdict(head)
    )?;
    writeln!(out, "**{}**\n", format::totals(summary))?;
    for line in head.provenance() {
        writeln!(out, "{}\n", inline(&line))?;
    }
    if let Some(loops) = format::loops(summary) {
        writeln!(out, "{}\n", inline(&loops))?;
    }
    for doubt in format::doubts(summary) {
        writeln!(out, "⚠️ {}\n", inline(&doubt))?;
    }
    for warning in &head.warnings {
        writeln!(out, "⚠️ {}\n", inline(warning))?;
    }
    let usage = format::usage(summary);
    if !usage.is_empty() {
        writeln!(out, "{}\n", inline(&usage))?;
    }
    Ok(())
}

fn mark(head: &ReportHead) -> &'static str {
    match format::tone(head) {
        Tone::Good => "✅",
        Tone::Bad => "❌",
        Tone::Doubtful => "⚠️",
    }
}

fn averages(head: &ReportHead, out: &mut dyn Write) -> std::io::Result<()> {
    let summary = &head.summary;
    if summary.average_scores.is_empty() {
        return Ok(());
    }
    writeln!(out, "| metric | average | cases |\n|---|--:|--:|")?;
    for (metric, average) in &summary.average_scores {
        let cases = summary.metrics_evaluated.get(metric).copied().unwrap_or_default();
        writeln!(out, "| {} | {average:.2} | {cases} |", inline(metric))?;
    }
    writeln!(out)
}

fn table_of_failures(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    writeln!(out, "### Did not pass\n\n| case | state | why |\n|---|---|---|")?;
    for case in view.cases() {
        let case = case?;
        if case.is_failure() {
            let why = explain_in_a_line(&case);
            writeln!(
                out,
                "| {} | {} | {} |",
                inline(&case.label()),
                format::state(case.state()),
                inline(&format::clip(&why, REASON_CHARS))
            )?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// One case, collapsed.
fn details(case: &CaseReport, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "<details><summary>{} ({}, {})</summary>\n",
        html(&case.label()),
        format::case_state(case),
        format::duration(case.elapsed_ms())
    )?;
    for explanation in explain(case) {
        let turn = explanation
            .turn
            .map_or_else(String::new, |turn| format!("turn {turn}: "));
        for reason in &explanation.reasons {
            let line = reason.line();
            writeln!(out, "- {turn}{}", inline(&format::clip(&line, TEXT_CHARS)))?;
        }
        if let Some(difference) = &explanation.difference {
            let lines: Vec<_> = difference.lines().iter().map(DiffLine::labelled).collect();
            writeln!(out)?;
            fenced("text", &lines.join("\n"), out)?;
        }
    }
    if let Some(executors) = format::executors(case) {
        writeln!(out, "- {}", inline(&executors))?;
    }
    for note in format::file_notes(case) {
        writeln!(out, "- {}", inline(&format::clip(&note, TEXT_CHARS)))?;
    }
    if let Some(conversation) = format::conversation(case) {
        writeln!(out, "\nConversation:\n")?;
        fenced("text", &conversation, out)?;
    } else {
        writeln!(out, "\nQuestion:\n")?;
        fenced("text", &case.question(), out)?;
        if let Some(response) = case.answer() {
            writeln!(out, "\nAnswer:\n")?;
            fenced("text", response, out)?;
        }
    }
    let mut calls = case.calls().peekable();
    if calls.peek().is_some() {
        writeln!(out, "\nTool calls:\n")?;
    }
    for call in calls {
        writeln!(out, "- {}", inline(&format::call(&call)))?;
    }
    writeln!(out, "\n</details>")
}

fn all_cases(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let total = format::planned(&view.head.summary);
    if total == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "<details><summary>Every case ({total})</summary>\n\n| case | state | time | tokens | cost | scores, failed tool calls |\n|---|---|--:|--:|--:|---|"
    )?;
    for planned in view.planned() {
        let case = match planned? {
            PlannedResult::Finished(case) => case,
            PlannedResult::NotRun(missing) => {
                let (label, reason) = (
                    inline(&missing.label()),
                    format::clip(&missing.reason, REASON_CHARS).into_owned(),
                );
                writeln!(out, "| {label} | not run | | | | {} |", inline(&reason))?;
                continue;
            }
        };
        let tokens = case
            .spent()
            .tokens
            .map(|usage| format::tokens(usage.total_tokens));
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            inline(&case.label()),
            format::case_state(&case),
            format::duration(case.elapsed_ms()),
            tokens.unwrap_or_default(),
            case.spent().cost_usd.map(format::cost).unwrap_or_default(),
            inline(&remarks(&case)),
        )?;
    }
    writeln!(out, "\n</details>\n")?;
    Ok(())
}

/// The scores of a case and its failed tool calls, which its verdict may not show.
fn remarks(case: &CaseReport) -> String {
    let metrics = case.metrics();
    let scores = metrics.iter().filter_map(|metric| {
        let score = metric.score?;
        Some(format!("{} {}", metric.label(), format::score(score, None).0))
    });
    let failed = case.calls().filter(|call| call.error().is_some());
    let failed = failed.map(|call| format!("{} {}", call.call.name, format::call_result(&call)));
    let executors = format::executors(case);
    scores
        .chain(failed)
        .chain(executors)
        .chain(format::file_notes(case))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A code block whose fence is longer than any in the text, so that the text cannot end it.
pub(crate) fn fenced(language: &str, text: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let clipped = format::clip(text, TEXT_CHARS);
    let text = format::printable(&clipped);
    let mut longest = 0;
    let mut current = 0;
    for c in text.chars() {
        current = if c == '`' { current + 1 } else { 0 };
        longest = longest.max(current);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    writeln!(out, "{fence}{language}\n{text}\n{fence}")
}

/// One line of text for a paragraph, a list or a table cell. Code in backquotes stays code; `@name` notifies no user.
pub(crate) fn inline(text: &str) -> String {
    let text = format::printable(text);
    // Only paired single backquotes are certainly code; other code spans could end at an unexpected place.
    let paired = !text.contains("``") && text.matches('`').count().is_multiple_of(2);
    let mut in_code = false;
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '`' if paired => {
                in_code = !in_code;
                safe.push(c);
            }
            '\n' | '\t' => safe.push(' '),
            '|' => safe.push_str("\\|"),
            other if in_code => safe.push(other),
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '@' => safe.push_str("@<!-- -->"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' => {
                safe.push('\\');
                safe.push(c);
            }
            other => safe.push(other),
        }
    }
    safe
}

/// One line of text inside an HTML element.
pub(crate) fn html(text: &str) -> Cow<'_, str> {
    let text = format::printable(text);
    if !text.contains(['&', '<', '>', '\n', '@']) {
        return text;
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\n' => safe.push(' '),
            '@' => safe.push_str("@<!-- -->"),
            other => safe.push(other),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{Format, samples};

    #[test]
    fn a_report() {
        insta::assert_snapshot!(samples::report(
            Format::Markdown,
            &samples::cases(),
            Some(samples::replayed())
        ));
    }

    #[test]
    fn a_report_of_passes_is_short() {
        insta::assert_snapshot!(samples::report(Format::Markdown, &[samples::passed()], None));
    }

    #[test]
    fn nothing_breaks_out_of_its_place() {
        insta::assert_snapshot!(samples::report(Format::Markdown, &[samples::hostile()], None));
    }

    #[test]
    fn code_stays_code_and_the_rest_is_inert() {
        assert_eq!(inline("`a_b` was not *called*"), "`a_b` was not \\*called\\*");
        assert_eq!(inline("`a|b` <b> @team"), "`a\\|b` &lt;b&gt; @<!-- -->team");
        assert_eq!(inline("an odd ` one_"), "an odd \\` one\\_");
        assert_eq!(inline("`<b> ```"), "\\`&lt;b&gt; \\`\\`\\`");
    }

    #[test]
    fn a_failed_tool_call_of_a_passed_case_is_shown() {
        let report = samples::report(Format::Markdown, &[samples::passed_with_failed_call()], None);
        assert!(
            report.contains("search\\_docs failed: connection refused (12 ms) |"),
            "{report}"
        );
    }

    #[test]
    fn a_stopped_run_lists_what_was_not_run() {
        insta::assert_snapshot!(samples::stopped_report(Format::Markdown, &[samples::passed()]));
    }
}
