//! Formats numbers and texts for people, equally in the terminal and in every report.

use std::{borrow::Cow, fmt::Write as _};

pub use holodeck_model::printable;
use holodeck_model::{
    CaseState, MetricResult, ReportHead, ReportSummary,
    events::{StopFamily, StopReason},
};

use holodeck_runs::{CallReport, CaseReport, Trials};

/// The name of a case's state.
pub fn state(state: CaseState) -> &'static str {
    match state {
        CaseState::Passed => "passed",
        CaseState::Failed => "failed",
        CaseState::Error => "error",
        CaseState::Unchecked => "unchecked",
        CaseState::Flaky => "flaky",
    }
}

/// The state for a colour: a flaky case has failed.
pub(super) fn class(state: CaseState) -> &'static str {
    if state.is_failed() {
        "failed"
    } else {
        self::state(state)
    }
}

/// The trials of a case: `8/10 passed, 1 error, 10 needed, 95 % interval 0.49–0.94`. The first numbers count only trials
/// with a verdict.
pub fn trials(trials: &Trials) -> String {
    let errors = if trials.errors == 1 { "error" } else { "errors" };
    let others = [(trials.errors, errors), (trials.unchecked, "unchecked")];
    let others = others.into_iter().filter(|(number, _)| *number > 0);
    let mut parts = vec![format!("{}/{} passed", trials.passed, trials.counted())];
    parts.extend(others.map(|(number, word)| format!("{number} {word}")));
    parts.push(format!("{} needed", trials.min_passes));
    if let Some(interval) = trials.interval() {
        parts.push(format!("95 % interval {:.2}–{:.2}", interval.low, interval.high));
    }
    parts.join(", ")
}

/// The notes on answers of which a part is missing or may be, one for each reason.
pub fn truncations(case: &CaseReport) -> impl Iterator<Item = String> {
    let reasons = case.truncations().into_iter().map(StopReason::from);
    reasons.map(|reason| reason.truncation_note())
}

/// The name of a case's state, with its passed trials and a mark for a truncated answer.
pub fn case_state(case: &CaseReport) -> Cow<'static, str> {
    let state = state(case.state());
    let trials = case.trials.as_deref();
    let passed = trials.map(|trials| format!(" {}/{}", trials.passed, trials.counted()));
    match (passed, case.is_truncated()) {
        (None, false) => state.into(),
        (passed, true) => format!("{state}{}, truncated", passed.unwrap_or_default()).into(),
        (Some(passed), false) => format!("{state}{passed}").into(),
    }
}

/// Notes beside the verdict of a case: a truncated or masked answer, and the model that answered.
pub fn notes(case: &CaseReport) -> Vec<String> {
    let truncated = truncations(case);
    let redacted = case
        .is_redacted()
        .then(|| "secrets were masked in the answer".to_owned());
    let model = case.model().map(|model| format!("answered by {model}"));
    let trials = case.trials.as_deref().map(describe_trials);
    let notes = trials
        .into_iter()
        .chain(executors(case))
        .chain(file_notes(case))
        .chain(truncated)
        .chain(redacted);
    let ended = conversation_end(case);
    notes
        .chain(model)
        .chain(ended)
        .chain(missing_votes_on(case))
        .collect()
}

/// The notes on the files of a case, such as a guessed charset, each once.
pub fn file_notes(case: &CaseReport) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for note in case.turns().flat_map(|turn| turn.record.file_notes()) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// Which executor answered: `executor: reviewer (sdk, confidence 0.55)`, of several turns each that differs from the one
/// before. `None` for an agent without `routing:`.
pub fn executors(case: &CaseReport) -> Option<String> {
    let mut parts: Vec<(usize, String)> = Vec::new();
    for turn in case.turns() {
        let Some(executor) = turn.record.result.execution.as_deref() else {
            continue;
        };
        let text = executor.describe();
        if parts.last().is_none_or(|(_, last)| *last != text) {
            parts.push((turn.number.unwrap_or(1), text));
        }
    }
    match parts.as_slice() {
        [] => None,
        [(_, only)] => Some(format!("executor: {only}")),
        parts => {
            let parts: Vec<String> = parts
                .iter()
                .map(|(turn, text)| format!("from turn {turn} {text}"))
                .collect();
            Some(format!("executor: {}", parts.join(", ")))
        }
    }
}

/// How a conversation with a simulated user ended: `ended by gave_up after 3 turns; the user wrote: Forget it.`.
pub fn conversation_end(case: &CaseReport) -> Option<String> {
    let user = case.unit.user.as_ref()?;
    let turns = count(case.unit.turns.len(), "turn");
    let closing = user.closing.as_deref();
    let closing = closing.map_or_else(String::new, |closing| format!("; the user wrote: {closing}"));
    Some(format!("ended by {} after {turns}{closing}", user.ended_by()))
}

/// The messages of a conversation with a simulated user, and how it ended; `None` for other cases.
pub fn conversation(case: &CaseReport) -> Option<String> {
    let ended = conversation_end(case)?;
    // A message cannot look like another one.
    let own = |message: &str| message.replace('\n', "\n  ");
    let mut text = String::new();
    for turn in case.turns() {
        let answer = turn.answer().unwrap_or("(no answer)");
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "user: {}\nagent: {}\n",
            own(&turn.record.input),
            own(answer)
        );
    }
    text.push_str(&ended);
    Some(text)
}

/// Its trials, and which of them is shown.
fn describe_trials(trials: &Trials) -> String {
    let shown = trials.shown + 1;
    format!("trials: {}; shown is trial {shown}", self::trials(trials))
}

/// A tool call in one line: `search_docs {"query":"refund"}: 3 passages (12 ms)`.
pub fn call(call: &CallReport<'_>) -> String {
    let arguments = one_line(&call.call.arguments.to_string(), CALL_CHARS);
    format!("{} {arguments}: {}", call.call.name, call_result(call))
}

/// The result of a tool call and its duration, in one line: `failed: connection refused (12 ms)`.
pub fn call_result(call: &CallReport<'_>) -> String {
    let text = match (call.error(), call.result) {
        (Some(error), _) => format!("failed: {}", one_line(error, CALL_CHARS)),
        (None, Some(result)) if result.result.trim().is_empty() => "(empty)".to_owned(),
        (None, Some(result)) => one_line(&result.result, CALL_CHARS),
        (None, None) => String::new(),
    };
    match call.duration_ms() {
        Some(millis) => format!("{text} ({})", duration(millis)),
        None => text,
    }
}

/// Limits arguments and results of tool calls, which only accompany the answer.
const CALL_CHARS: usize = 100;

/// At most `limit` characters on one line.
pub fn one_line(text: &str, limit: usize) -> String {
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.len() > 4 * limit {
            break;
        }
    }
    match words.char_indices().nth(limit) {
        None => words,
        Some((end, _)) => format!("{}…", words.split_at(end).0),
    }
}

/// The number of truncated answers, if any.
pub fn truncated(summary: &ReportSummary) -> Option<String> {
    if summary.truncated == 0 {
        return None;
    }
    let answers = count(summary.truncated, "answer");
    let reasons = summary.truncated_by.keys().cloned().map(StopReason::from);
    let reasons = reasons.filter(|reason| *reason != StopReason::MaxTokens);
    let reasons: Vec<String> = reasons
        .map(|reason| match reason.family() {
            StopFamily::Unknown => format!("`{reason}` (unknown)"),
            _ => format!("`{reason}`"),
        })
        .collect();
    Some(if reasons.is_empty() {
        format!("{answers} truncated at max_tokens")
    } else {
        format!("{answers} truncated, finish_reason {}", reasons.join(", "))
    })
}

/// The reasons that make the verdicts of a run less certain: truncated answers, and judges that gave no vote.
pub fn doubts(summary: &ReportSummary) -> impl Iterator<Item = String> {
    truncated(summary).into_iter().chain(missing_votes(summary))
}

/// The judges without a vote: ``judge `b` gave no vote in 2 verdicts``.
pub fn missing_votes(summary: &ReportSummary) -> impl Iterator<Item = String> {
    let missing = summary.missing_votes.iter();
    missing.map(|(judge, number)| format!("judge `{judge}` gave no vote in {}", count(*number, "verdict")))
}

/// The judges without a vote on a case, with the reasons.
pub fn missing_votes_on(case: &CaseReport) -> impl Iterator<Item = String> {
    let missing = case.missing_votes().into_iter();
    missing.map(|(metric, vote)| {
        format!(
            "judge {} (`{}`) gave no vote on `{metric}`: {}",
            vote.number, vote.judge, vote.reason
        )
    })
}

/// The gain of the quality loops: `quality loop: 4 cases, +12.3 points on average for $0.04 (1230.0 points per
/// dollar)`.
pub fn loops(summary: &ReportSummary) -> Option<String> {
    let totals = summary.loops?;
    let cases = count(totals.cases, "case");
    let mean = totals.points / totals.cases as f64;
    let mut text = format!("quality loop: {cases}, {mean:+.1} points on average");
    match totals.cost_usd {
        Some(spent) if spent > 0.0 => {
            let per_dollar = totals.points / spent;
            // Writing to a string cannot fail.
            let _ = write!(text, " for {} ({per_dollar:.1} points per dollar)", cost(spent));
        }
        Some(_) => text.push_str(" at no cost"),
        None => text.push_str("; their cost is not known"),
    }
    Some(text)
}

/// Every planned case, with or without a result.
pub fn planned(summary: &ReportSummary) -> usize {
    summary.total_tests + summary.not_run
}

/// How good a run is, for a colour or a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there are three colours")]
pub enum Tone {
    /// Every planned case passed.
    Good,
    /// A case failed.
    Bad,
    /// No case failed, but not every case is known to pass.
    Doubtful,
}

/// The class of a run in a page.
pub(super) fn tone_class(head: &ReportHead) -> &'static str {
    match tone(head) {
        Tone::Good => "passed",
        Tone::Bad => "failed",
        Tone::Doubtful => "error",
    }
}

/// How good a run is.
pub fn tone(head: &ReportHead) -> Tone {
    let early = early(head).is_some();
    match result(&head.summary) {
        "failed" => Tone::Bad,
        "passed" if !early && head.summary.not_run == 0 => Tone::Good,
        _ => Tone::Doubtful,
    }
}

/// The verdict on a run: an early end first, then the result of its cases.
pub fn verdict(head: &ReportHead) -> String {
    let result = result(&head.summary);
    match early(head) {
        None => result.to_owned(),
        Some(early) if matches!(result, "failed" | "error") => format!("{early}, {result}"),
        Some(early) => early.to_owned(),
    }
}

/// How a run ended before its plan was completed, if it did.
pub fn early(head: &ReportHead) -> Option<&'static str> {
    match head.ended.as_str() {
        "completed" => None,
        "interrupted" => Some("interrupted"),
        "terminated" => Some("terminated"),
        "budget" => Some("stopped by its budget"),
        "unenforceable" => Some("stopped: a budget cannot be enforced"),
        "incomplete" => Some("incomplete"),
        "running" => Some("running"),
        _ => Some("stopped early"),
    }
}

fn result(summary: &ReportSummary) -> &'static str {
    if summary.failed > 0 {
        "failed"
    } else if summary.errors > 0 {
        "error"
    } else if summary.passed == 0 {
        "nothing checked"
    } else {
        "passed"
    }
}

/// A time: `340 ms`, `1.2 s`, `2 min 5 s`.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..120_000 => format!("{:.1} s", millis as f64 / 1e3),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// The time now, RFC 3339.
pub fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// `3 Feb 2026, 14:05 UTC`; a text that is not a time as it is.
pub fn date(at: &str) -> String {
    at.parse::<jiff::Timestamp>().map_or_else(
        |_| at.to_owned(),
        |at| at.strftime("%-d %b %Y, %H:%M UTC").to_string(),
    )
}

/// Tokens without the word: `812`, `9.4k`, `3.1M`.
pub fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// `1 token`, `812 tokens`, `9.4k tokens`.
pub fn count_tokens(count: u64) -> String {
    format!("{} token{}", tokens(count), if count == 1 { "" } else { "s" })
}

/// US dollars with two decimals, or two significant digits for small amounts: `$12.30`, `$0.045`, `$0.0021`. Negligible
/// amounts are `<$0.0001`.
pub fn cost(usd: f64) -> String {
    if usd >= 1.0 || usd == 0.0 {
        return format!("${usd:.2}");
    }
    if usd < 0.0001 {
        return "<$0.0001".to_owned();
    }
    let mut decimals = 2;
    let mut smallest = 0.1;
    while usd < smallest {
        decimals += 1;
        smallest /= 10.0;
    }
    format!("${usd:.decimals$}")
}

/// Whether a metric passed, as a class of a page and as a word.
pub(crate) fn metric_state(metric: &MetricResult) -> (&'static str, &'static str) {
    match (metric.passed, &metric.error) {
        (_, Some(_)) => ("error", "error"),
        (Some(true), None) => ("passed", "passed"),
        (Some(false), None) => ("failed", "failed"),
        (None, None) if metric.skipped => ("unchecked", SKIPPED),
        (None, None) => ("unchecked", "not gated"),
    }
}

/// The score of a metric and the one that it needs; `–` without a score.
pub(crate) fn metric_score(metric: &MetricResult) -> (String, Option<String>) {
    metric
        .score
        .map_or_else(|| ("–".to_owned(), None), |found| score(found, metric.threshold))
}

/// A score and the threshold it missed, with enough digits to distinguish them.
pub fn score(score: f64, threshold: Option<f64>) -> (String, Option<String>) {
    let Some(threshold) = threshold else {
        return (format!("{score:.2}"), None);
    };
    let with = |decimals: usize| (format!("{score:.decimals$}"), format!("{threshold:.decimals$}"));
    let mut texts = with(2);
    for decimals in 3..=9 {
        if texts.0 != texts.1 {
            break;
        }
        let finer = with(decimals);
        if finer.0 != finer.1 {
            texts = finer;
        }
    }
    (texts.0, Some(texts.1))
}

/// `1 case`, `2 cases`.
pub fn count(number: usize, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{s}")
}

/// `9 passed, 1 failed, 1 error, 1 unchecked`, without zero counts.
pub fn states(summary: &ReportSummary) -> Vec<String> {
    let passed = (summary.passed > 0).then(|| format!("{} passed", summary.passed));
    passed.into_iter().chain(not_passed(summary)).collect()
}

/// `1 failed, 1 error, 1 unchecked`: the states of the cases that did not pass, without zero counts.
pub fn not_passed(summary: &ReportSummary) -> impl Iterator<Item = String> {
    let errors = if summary.errors == 1 { "error" } else { "errors" };
    let failed = match summary.flaky {
        0 => "failed".to_owned(),
        flaky => format!("failed ({flaky} flaky)"),
    };
    let states = [
        (summary.failed, failed),
        (summary.errors, errors.to_owned()),
        (summary.unchecked, "unchecked".to_owned()),
        (summary.not_run, "not run".to_owned()),
    ];
    let states = states.into_iter().filter(|(number, _)| *number > 0);
    states.map(|(number, word)| format!("{number} {word}"))
}

/// `182 of 200 passed (91 %), 14 failed, 4 errors`. Unchecked cases do not count for the share. An incomplete run has
/// no share, because it would look like the share of all cases.
pub fn totals(summary: &ReportSummary) -> String {
    let checked = summary.total_tests.saturating_sub(summary.unchecked);
    let planned = planned(summary);
    let passed = match share(summary) {
        None if checked == 0 => "nothing was checked".to_owned(),
        None => format!("{} of {planned} passed", summary.passed),
        Some(share) if summary.unchecked > 0 => {
            format!("{} of {checked} checked passed ({share} %)", summary.passed)
        }
        Some(share) => format!("{} of {checked} passed ({share} %)", summary.passed),
    };
    let passed = if summary.unchecked > 0 || checked == 0 {
        format!("{}: {passed}", count(planned, "case"))
    } else {
        passed
    };
    let parts: Vec<String> = std::iter::once(passed).chain(not_passed(summary)).collect();
    parts.join(", ")
}

/// The share of checked cases that passed, in per cent. Never rounded up to 100 or down to 0, which must be exact.
pub fn share(summary: &ReportSummary) -> Option<u32> {
    let checked = summary.total_tests.saturating_sub(summary.unchecked);
    if summary.not_run > 0 || checked == 0 {
        return None;
    }
    let rounded = (200 * summary.passed + checked) / (2 * checked);
    let share = if summary.passed == checked {
        100
    } else {
        rounded.clamp(usize::from(summary.passed > 0), 99)
    };
    u32::try_from(share).ok()
}

/// The verdict of a metric with `when: gates_passed` that was not computed.
pub const SKIPPED: &str = "skipped: a gate before it was missed";

/// `14.2k tokens (11.0k in, 3.2k out) · $0.045`, as far as known; empty if nothing is known.
pub fn usage(summary: &ReportSummary) -> String {
    let mut parts = Vec::new();
    if let Some(usage) = &summary.token_usage {
        let mut text = format!(
            "{} ({} in, {} out)",
            count_tokens(usage.total_tokens),
            tokens(usage.prompt_tokens),
            tokens(usage.completion_tokens)
        );
        if summary.usage_missing > 0 {
            // Writing to a String cannot fail.
            let _ = write!(text, ", unknown for {}", count(summary.usage_missing, "case"));
        }
        parts.push(text);
    }
    if let Some(usd) = summary.cost_usd {
        parts.push(cost(usd));
    }
    let others = [
        ("judges", &summary.judge_usage, summary.judge_cost_usd),
        ("simulated users", &summary.user_usage, summary.user_cost_usd),
    ];
    for (who, usage, price) in others {
        let Some(usage) = usage else { continue };
        let price = price.map(cost);
        let price = price.map_or_else(String::new, |price| format!(" ({price})"));
        parts.push(format!("{who} {}{price}", count_tokens(usage.total_tokens)));
    }
    parts.join(" · ")
}

/// At most `limit` characters of `text`, and the number of omitted ones.
pub fn clip(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        None => Cow::Borrowed(text),
        Some((end, _)) => {
            let (start, rest) = text.split_at(end);
            Cow::Owned(format!("{start}\n… {} more characters", rest.chars().count()))
        }
    }
}

#[cfg(test)]
mod tests;
