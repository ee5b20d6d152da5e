//! Numbers and texts as people read them, the same in the terminal and in every report.

use std::{borrow::Cow, fmt::Write as _};

pub use holodeck_model::printable;
use holodeck_model::{CaseState, ReportHead, ReportSummary};

/// What became of a case.
pub fn state(state: CaseState) -> &'static str {
    match state {
        CaseState::Passed => "passed",
        CaseState::Failed => "failed",
        CaseState::Error => "error",
        CaseState::Unchecked => "unchecked",
    }
}

/// What became of a run, in the order of the exit codes.
pub fn verdict(head: &ReportHead) -> &'static str {
    let summary = &head.summary;
    match head.ended.as_str() {
        "interrupted" => "interrupted",
        "terminated" => "terminated",
        "budget" => "stopped by its budget",
        _ if summary.failed > 0 => "failed",
        _ if summary.errors > 0 => "error",
        "stopped" => "stopped",
        _ if summary.passed == 0 => "nothing checked",
        _ => "passed",
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

/// Tokens without the word: `812`, `9.4k`, `3.1M`.
pub fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// US dollars: two digits after the point, or two that say something: `$12.30`, `$0.045`, `$0.0021`.
pub fn cost(usd: f64) -> String {
    if usd >= 1.0 || usd == 0.0 {
        return format!("${usd:.2}");
    }
    let mut decimals = 2;
    let mut smallest = 0.1;
    while usd < smallest && decimals < 8 {
        decimals += 1;
        smallest /= 10.0;
    }
    format!("${usd:.decimals$}")
}

/// A score, and the threshold it missed, with as many digits as tell them apart.
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

/// `9 passed, 1 failed, 1 error, 1 unchecked`, without what there is none of.
pub fn states(summary: &ReportSummary) -> String {
    let errors = if summary.errors == 1 { "error" } else { "errors" };
    let parts = [
        (summary.passed, "passed"),
        (summary.failed, "failed"),
        (summary.errors, errors),
        (summary.unchecked, "unchecked"),
    ];
    let parts: Vec<_> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    if parts.is_empty() {
        "none finished".to_owned()
    } else {
        parts.join(", ")
    }
}

/// `82 % of 11 checked`. Never rounded up to 100 or down to 0: those two words are promises.
pub fn pass_rate(summary: &ReportSummary) -> String {
    let checked = summary.total_tests.saturating_sub(summary.unchecked);
    match summary.pass_rate {
        None => "nothing was checked".to_owned(),
        Some(rate) => {
            let rounded = rate.round();
            let told = if rounded >= 100.0 && summary.passed < checked {
                99.0
            } else if rounded <= 0.0 && summary.passed > 0 {
                1.0
            } else {
                rounded
            };
            format!("{told:.0} % of {checked} checked")
        }
    }
}

/// `14.2k tokens (11.0k in, 3.2k out) · $0.045`, as far as it is known; empty when nothing is.
pub fn spent(summary: &ReportSummary) -> String {
    let mut parts = Vec::new();
    if let Some(usage) = &summary.token_usage {
        let mut text = format!(
            "{} tokens ({} in, {} out)",
            tokens(usage.total_tokens),
            tokens(usage.prompt_tokens),
            tokens(usage.completion_tokens)
        );
        if summary.usage_missing > 0 {
            // Writing to a String can't fail.
            let _ = write!(text, ", unknown for {}", count(summary.usage_missing, "case"));
        }
        parts.push(text);
    }
    if let Some(usd) = summary.cost_usd {
        parts.push(cost(usd));
    }
    parts.join(" · ")
}

/// At most `limit` characters of `text`, and how much is left out.
pub fn clip(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        None => Cow::Borrowed(text),
        Some((end, _)) => {
            let (kept, rest) = text.split_at(end);
            Cow::Owned(format!("{kept}\n… {} more characters", rest.chars().count()))
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn numbers_keep_what_matters() {
        assert_eq!(duration(340), "340 ms");
        assert_eq!(duration(1_234), "1.2 s");
        assert_eq!(duration(60_000), "60.0 s");
        assert_eq!(duration(125_000), "2 min 5 s");
        assert_eq!(tokens(812), "812");
        assert_eq!(tokens(9_400), "9.4k");
        assert_eq!(cost(0.0021), "$0.0021");
        assert_eq!(cost(0.045), "$0.045");
        assert_eq!(cost(0.31), "$0.31");
        assert_eq!(cost(12.3), "$12.30");
        assert_eq!(cost(0.0), "$0.00");
    }

    #[test]
    fn a_missed_threshold_never_looks_met() {
        assert_eq!(
            score(0.31, Some(0.4)),
            ("0.31".to_owned(), Some("0.40".to_owned()))
        );
        assert_eq!(
            score(0.3999, Some(0.4)),
            ("0.3999".to_owned(), Some("0.4000".to_owned()))
        );
        assert_eq!(score(0.4, Some(0.4)).0, "0.40");
    }

    #[test]
    fn texts_are_made_short() {
        assert_eq!(clip("äöü", 3), "äöü");
        assert_eq!(clip("äöü", 2), "äö\n… 1 more characters");
    }

    #[test]
    fn all_and_none_are_never_rounded_to() {
        let summary = |passed, failed| ReportSummary {
            total_tests: passed + failed,
            passed,
            failed,
            pass_rate: Some(passed as f64 * 100.0 / (passed + failed) as f64),
            ..ReportSummary::default()
        };
        assert_eq!(pass_rate(&summary(999, 1)), "99 % of 1000 checked");
        assert_eq!(pass_rate(&summary(1, 999)), "1 % of 1000 checked");
        assert_eq!(pass_rate(&summary(9, 2)), "82 % of 11 checked");
        assert_eq!(pass_rate(&ReportSummary::default()), "nothing was checked");
        assert_eq!(states(&summary(9, 2)), "9 passed, 2 failed");
    }
}
