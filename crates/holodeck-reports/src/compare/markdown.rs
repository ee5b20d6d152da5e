//! A comparison as a comment on a pull request: short, with the texts of changed cases collapsed.

use std::io::{self, Write};

use super::{
    CaseSide, Change, ChangeKind, Comparison, GateResult, describe_metric, describe_run, describe_side,
    describe_verdicts, headline,
};
use crate::markdown::{fenced, html, inline};

/// A comment is limited to 65,536 characters.
const MAX_DETAILS: usize = 20;
const MAX_LISTED: usize = 100;

/// Writes a comparison for a pull request.
pub fn write_comparison_markdown(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let gate = &comparison.gate;
    let mark = match gate.result {
        GateResult::Passed => "✅",
        GateResult::Failed => "❌",
        GateResult::NotComparable => "⚠️",
    };
    let agent = inline(&comparison.after.agent_name);
    writeln!(out, "## {mark} {agent}: comparison {}\n", gate.result.describe())?;
    writeln!(out, "**{}**\n", inline(&headline(comparison)))?;
    for reason in &gate.reasons {
        writeln!(out, "- ❗ {}", inline(&reason.text))?;
    }
    for note in &comparison.notes {
        writeln!(out, "- {}", inline(note))?;
    }
    if !gate.reasons.is_empty() || !comparison.notes.is_empty() {
        writeln!(out)?;
    }
    tests(comparison, out)?;
    changes(comparison, out)?;
    unpaired("Missing", &comparison.missing, out)?;
    unpaired("New", &comparison.added, out)?;
    writeln!(
        out,
        "<sub>A: {}<br>B: {}<br>holodeck {}</sub>",
        html(&describe_run(&comparison.before)),
        html(&describe_run(&comparison.after)),
        env!("CARGO_PKG_VERSION")
    )
}

fn tests(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "| what | A → B |\n|---|---|")?;
    let lines = describe_verdicts(&comparison.verdicts, comparison.alpha);
    let lines: Vec<String> = lines.iter().map(|line| inline(line)).collect();
    writeln!(out, "| verdicts | {} |", lines.join("<br>"))?;
    for metric in &comparison.metrics {
        writeln!(
            out,
            "| {} | {} |",
            inline(&metric.metric),
            inline(&describe_metric(metric))
        )?;
    }
    writeln!(out)
}

fn changes(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    if comparison.changes.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "### Changed cases\n\n| case | change | before | now |\n|---|---|---|---|"
    )?;
    for change in comparison.changes.iter().take(MAX_LISTED) {
        writeln!(
            out,
            "| {} | {} | {} | {} |",
            inline(&change.case),
            change.kind.title(),
            inline(&describe_side(&change.before)),
            inline(&describe_side(&change.after)),
        )?;
    }
    writeln!(out)?;
    let more = comparison.changes.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        writeln!(out, "… and {more} more\n")?;
    }
    for change in comparison.changes.iter().take(MAX_DETAILS) {
        details(change, out)?;
    }
    Ok(())
}

/// One changed case, collapsed.
fn details(change: &Change, out: &mut dyn Write) -> io::Result<()> {
    let renamed = change.renamed_from.as_ref();
    let renamed = renamed.map_or_else(String::new, |name| format!(", before: {name}"));
    writeln!(
        out,
        "<details><summary>{} ({}{})</summary>\n",
        html(&change.case),
        kind(change.kind),
        html(&renamed)
    )?;
    if let Some(question) = change
        .after
        .texts
        .question
        .as_ref()
        .or(change.before.texts.question.as_ref())
    {
        writeln!(out, "Question:\n")?;
        fenced("text", question, out)?;
    }
    for difference in &change.differences {
        writeln!(out, "- changed: {}", inline(difference))?;
    }
    side("A", &change.before, out)?;
    side("B", &change.after, out)?;
    writeln!(out, "\n</details>\n")
}

fn kind(kind: ChangeKind) -> &'static str {
    kind.title()
}

fn side(name: &str, side: &CaseSide, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{name}: {}", inline(&describe_side(side)))?;
    if let Some(reason) = &side.texts.reason {
        writeln!(out, "\n- {}", inline(reason))?;
    }
    if let Some(answer) = &side.texts.answer {
        writeln!(out)?;
        fenced("text", answer, out)?;
    }
    Ok(())
}

fn unpaired(title: &str, cases: &[super::UnpairedCase], out: &mut dyn Write) -> io::Result<()> {
    if cases.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<details><summary>{title} cases ({})</summary>\n",
        cases.len()
    )?;
    for case in cases.iter().take(MAX_LISTED) {
        writeln!(out, "- {} ({})", inline(&case.case), case.state)?;
    }
    let more = cases.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        writeln!(out, "- … and {more} more")?;
    }
    writeln!(out, "\n</details>\n")
}
