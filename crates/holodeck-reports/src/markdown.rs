//! The Markdown report for a comment on a pull request, within the size that GitHub accepts. Texts of the model must
//! not be able to break the layout or notify people.

use std::{borrow::Cow, io::Write};

use holodeck_model::ReportHead;

use crate::{
    DiffLine, PlannedResult, ReportError, RunView, explain, explain_in_a_line, format, format::Tone,
};
use holodeck_runs::CaseReport;

/// A comment on a pull request is limited to 65,536 characters. Failures have the first claim on them.
const REPORT_CHARS: usize = 60_000;
/// The part of them for titles and heads of tables.
const TITLE_CHARS: usize = 1_000;
/// The part of them for the table of failures, so that some are shown in full below.
const TABLE_CHARS: usize = 20_000;
/// The part of them for warnings and averages.
const HEAD_CHARS: usize = 10_000;
/// One answer must not use up everything.
const TEXT_CHARS: usize = 2_000;
const REASON_CHARS: usize = 300;

/// The characters that are left of a limit.
struct Room(usize);

impl Room {
    /// Takes the characters of a text, if there are enough.
    fn fits(&mut self, text: &str) -> bool {
        let rest = self.0.checked_sub(text.chars().count());
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// A part of it, which is taken out of it.
    fn part(&mut self, most: usize) -> Self {
        let part = most.min(self.0);
        self.0 -= part;
        Self(part)
    }
}

/// Blocks of a list, of which those are written that fit, and the number of the others.
struct Blocks {
    room: Room,
    left_out: usize,
}

impl Blocks {
    fn new(room: Room) -> Self {
        Self { room, left_out: 0 }
    }

    fn write(&mut self, block: &str, out: &mut dyn Write) -> std::io::Result<()> {
        if !self.room.fits(block) {
            self.left_out += 1;
            return Ok(());
        }
        out.write_all(block.as_bytes())
    }

    /// The room that is left.
    fn end(self) -> usize {
        self.room.0
    }
}

/// Writes a comment for a pull request: the verdict, what did not pass and why, and the rest collapsed.
pub(super) fn report(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let foot = foot(view.head);
    let mut room = Room((REPORT_CHARS - TITLE_CHARS).saturating_sub(foot.chars().count()));
    headline(view.head, &mut room, out)?;
    averages(view.head, &mut room, out)?;
    let summary = &view.head.summary;
    if summary.failed + summary.errors > 0 {
        table_of_failures(view, &mut room, out)?;
        let mut blocks = Blocks::new(room);
        for case in view.cases() {
            let case = case?;
            if case.is_failure() {
                blocks.write(&details(&case)?, out)?;
            }
        }
        if blocks.left_out > 0 {
            let more = blocks.left_out;
            writeln!(
                out,
                "… and {more} more that did not pass; another format of report has them"
            )?;
        }
        room = Room(blocks.end());
        writeln!(out)?;
    }
    all_cases(view, room, out)?;
    out.write_all(foot.as_bytes())?;
    Ok(())
}

fn foot(head: &ReportHead) -> String {
    format!(
        "<sub>{} · run {} · {} · holodeck {}</sub>\n",
        inline(&head.agent_config_path),
        inline(&head.run_id),
        inline(&head.timestamp),
        inline(&head.holodeck_version),
    )
}

fn headline(head: &ReportHead, room: &mut Room, out: &mut dyn Write) -> std::io::Result<()> {
    let summary = &head.summary;
    let provenance = head.provenance().into_iter().map(|line| inline(&line));
    let loops = format::loops(summary).map(|loops| inline(&loops));
    let doubts = format::doubts(summary).map(|doubt| format!("⚠️ {}", inline(&doubt)));
    let lines: Vec<String> = [
        format!(
            "## {} {}: {}",
            mark(head),
            inline(&head.agent_name),
            format::verdict(head)
        ),
        format!("**{}**", format::totals(summary)),
    ]
    .into_iter()
    .chain(provenance)
    .chain(loops)
    .chain(doubts)
    .collect();
    // These say which run it is, and are never left out.
    let text = lines.join("\n\n") + "\n\n";
    room.0 = room.0.saturating_sub(text.chars().count());
    out.write_all(text.as_bytes())?;
    let mut blocks = Blocks::new(room.part(HEAD_CHARS));
    for warning in &head.warnings {
        let warning = format::clip(warning, TEXT_CHARS);
        blocks.write(&format!("⚠️ {}\n\n", inline(&warning)), out)?;
    }
    if blocks.left_out > 0 {
        writeln!(
            out,
            "⚠️ … and {}\n",
            format::count(blocks.left_out, "more warning")
        )?;
    }
    room.0 += blocks.end();
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

fn averages(head: &ReportHead, room: &mut Room, out: &mut dyn Write) -> std::io::Result<()> {
    let summary = &head.summary;
    if summary.average_scores.is_empty() {
        return Ok(());
    }
    writeln!(out, "| metric | average | cases |\n|---|--:|--:|")?;
    let mut blocks = Blocks::new(room.part(HEAD_CHARS));
    for (metric, average) in &summary.average_scores {
        let cases = summary.metrics_evaluated.get(metric).copied().unwrap_or_default();
        blocks.write(&format!("| {} | {average:.2} | {cases} |\n", inline(metric)), out)?;
    }
    if blocks.left_out > 0 {
        writeln!(out, "| … and {} more | | |", blocks.left_out)?;
    }
    room.0 += blocks.end();
    writeln!(out)
}

fn table_of_failures(view: &RunView<'_>, room: &mut Room, out: &mut dyn Write) -> Result<(), ReportError> {
    writeln!(out, "### Did not pass\n\n| case | state | why |\n|---|---|---|")?;
    let mut blocks = Blocks::new(room.part(TABLE_CHARS));
    for case in view.cases() {
        let case = case?;
        if case.is_failure() {
            let why = explain_in_a_line(&case);
            let row = format!(
                "| {} | {} | {} |\n",
                inline(&format::clip(&case.label(), REASON_CHARS)),
                format::state(case.state()),
                inline(&format::clip(&why, REASON_CHARS))
            );
            blocks.write(&row, out)?;
        }
    }
    if blocks.left_out > 0 {
        writeln!(out, "| … and {} more | | |", blocks.left_out)?;
    }
    room.0 += blocks.end();
    writeln!(out)?;
    Ok(())
}

/// One case, collapsed.
fn details(case: &CaseReport) -> std::io::Result<String> {
    let mut text = Vec::new();
    let out = &mut text;
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
    writeln!(out, "\n</details>")?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn all_cases(view: &RunView<'_>, room: Room, out: &mut dyn Write) -> Result<(), ReportError> {
    let total = format::planned(&view.head.summary);
    if total == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "<details><summary>Every case ({total})</summary>\n\n| case | state | time | tokens | cost | scores, failed tool calls |\n|---|---|--:|--:|--:|---|"
    )?;
    let mut blocks = Blocks::new(room);
    for planned in view.planned() {
        let case = match planned? {
            PlannedResult::Finished(case) => case,
            PlannedResult::NotRun(missing) => {
                let (label, reason) = (
                    inline(&missing.label()),
                    format::clip(&missing.reason, REASON_CHARS).into_owned(),
                );
                let row = format!("| {label} | not run | | | | {} |\n", inline(&reason));
                blocks.write(&row, out)?;
                continue;
            }
        };
        let tokens = case
            .spent()
            .tokens
            .map(|usage| format::tokens(usage.total_tokens));
        let row = format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            inline(&case.label()),
            format::case_state(&case),
            format::duration(case.elapsed_ms()),
            tokens.unwrap_or_default(),
            case.spent().cost_usd.map(format::cost).unwrap_or_default(),
            inline(&format::clip(&remarks(&case), TEXT_CHARS)),
        );
        blocks.write(&row, out)?;
    }
    if blocks.left_out > 0 {
        writeln!(out, "| … and {} more | | | | | |", blocks.left_out)?;
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
    fn a_report_has_an_end_however_much_failed_and_counts_what_it_leaves_out() {
        for (count, answer) in [(300, 10), (40, 3_000), (3_000, 10)] {
            let mut cases = vec![samples::passed()];
            for number in 0..count {
                let mut case = samples::failed();
                case.name = Some(format!("case {number}"));
                case.index = number + 1;
                case.unit.turns[0].result.response = "🙂`".repeat(answer);
                cases.push(case);
            }
            let report = samples::report(Format::Markdown, &cases, None);
            let length = report.chars().count();
            assert!((20_000..=REPORT_CHARS).contains(&length), "{length}");
            let (before, after) = report.split_once("<details>").unwrap();
            let shown = before.matches("\n| case ").count() - 1;
            let more = before.split("| … and ").nth(1).map_or(0, |rest| {
                let number = rest.split(' ').next().unwrap();
                number.parse::<usize>().unwrap()
            });
            assert_eq!(shown + more, count);
            assert!(shown > 20, "{before}");
            assert!(after.contains("more that did not pass; another format of report has them"));
            assert_eq!(
                report.matches("<details>").count(),
                report.matches("</details>").count()
            );
        }
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
