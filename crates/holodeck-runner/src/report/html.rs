use std::{fmt, io::Write};

use holodeck_model::{
    CaseState, MetricResult, NotRun, ReportHead, ReportSummary, TestResult, ToolInvocation,
};

use super::{PlannedResult, ReportError, RunView, explain, words, words::Tone};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The page may load nothing and run nothing but its own style and script, told by their hashes (a test keeps them
/// right): whatever a model answered, a reader's browser does nothing about it.
const POLICY: &str = "default-src 'none'; style-src 'sha256-c90JPMBsQVW9jrAVIBf+Vc9Dl5IuqV++mLa/1X84uVI='; script-src 'sha256-PjSojheonuxDTOLe2FF3TQ0b1K1KvldvaPUsM5+N4J8='; \
                      base-uri 'none'; form-action 'none'";

/// A page with ten thousand cases must still open.
const TEXT_CHARS: usize = 20_000;

/// One self-contained page.
pub(super) fn report(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let head = view.head;
    top(head, out)?;
    averages(&head.summary, out)?;
    controls(&head.summary, out)?;
    writeln!(out, "<main>")?;
    for planned in view.planned() {
        match planned? {
            PlannedResult::Finished(result) => case(&result, out)?,
            PlannedResult::NotRun(case) => not_run(&case, out)?,
        }
    }
    writeln!(out, "</main>")?;
    writeln!(
        out,
        "<footer>{} · run {} · {} · holodeck {}</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>",
        Escaped(&head.agent_config_path),
        Escaped(&head.run_id),
        Escaped(&head.timestamp),
        Escaped(&head.holodeck_version),
    )?;
    Ok(())
}

fn top(head: &ReportHead, out: &mut dyn Write) -> std::io::Result<()> {
    let name = Escaped(&head.agent_name);
    let verdict = words::verdict(head);
    let summary = &head.summary;
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{name}: {verdict}</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    )?;
    writeln!(
        out,
        "<header>\n<h1>{name}: <span class=\"{}\">{verdict}</span></h1>",
        class_of_run(head)
    )?;
    writeln!(
        out,
        "<p>{}: {} · {}</p>",
        words::count(words::planned(summary), "case"),
        words::states(summary),
        words::pass_rate(summary)
    )?;
    let spent = words::spent(summary);
    if !spent.is_empty() {
        writeln!(out, "<p class=\"dim\">{}</p>", Escaped(&spent))?;
    }
    if let Some(because) = &head.ended_because {
        writeln!(out, "<p class=\"replayed\">{}</p>", Escaped(because))?;
    }
    for line in head.provenance().into_iter().chain(words::truncated(summary)) {
        writeln!(out, "<p class=\"replayed\">{}</p>", Escaped(&line))?;
    }
    for warning in &head.warnings {
        writeln!(out, "<p class=\"replayed\">warning: {}</p>", Escaped(warning))?;
    }
    writeln!(out, "</header>")
}

fn class_of_run(head: &ReportHead) -> &'static str {
    match words::tone(head) {
        Tone::Good => "passed",
        Tone::Bad => "failed",
        Tone::Doubtful => "error",
    }
}

fn averages(summary: &ReportSummary, out: &mut dyn Write) -> std::io::Result<()> {
    if summary.average_scores.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<table>\n<tr><th>metric</th><th>average</th><th>cases</th></tr>"
    )?;
    for (metric, average) in &summary.average_scores {
        let cases = summary.metrics_evaluated.get(metric).copied().unwrap_or_default();
        writeln!(
            out,
            "<tr><td>{}</td><td class=\"number\">{average:.2}</td><td class=\"number\">{cases}</td></tr>",
            Escaped(metric)
        )?;
    }
    writeln!(out, "</table>")
}

/// Hidden until the script runs: without it they would do nothing.
fn controls(summary: &ReportSummary, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "<form hidden>")?;
    let states = [
        (CaseState::Failed, summary.failed),
        (CaseState::Error, summary.errors),
        (CaseState::Unchecked, summary.unchecked),
        (CaseState::Passed, summary.passed),
    ];
    let states = states.map(|(state, count)| (words::state(state), count));
    let not_run = (summary.not_run > 0).then_some(("skipped", summary.not_run));
    for (state, count) in states.into_iter().chain(not_run) {
        writeln!(
            out,
            "<label class=\"{state}\"><input type=\"checkbox\" name=\"{state}\" checked> {count} {state}</label>"
        )?;
    }
    writeln!(
        out,
        "<input type=\"search\" name=\"words\" placeholder=\"Search\" aria-label=\"Search\"> <output></output>\n</form>"
    )
}

fn case(result: &TestResult, out: &mut dyn Write) -> std::io::Result<()> {
    let state = words::state(result.state);
    let open = if matches!(result.state, CaseState::Failed | CaseState::Error) {
        " open"
    } else {
        ""
    };
    let tokens = result
        .token_usage
        .map(|usage| format!("{} tokens", words::tokens(usage.total_tokens)));
    writeln!(
        out,
        "<details data-state=\"{state}\"{open}><summary><span class=\"{state}\">{}</span><b>{}</b>\
         <span class=\"dim\">{}</span><span class=\"dim\">{}</span><span class=\"dim\">{}</span></summary><div>",
        words::case_state(result),
        Escaped(&result.label()),
        words::duration(result.execution_time_ms),
        tokens.unwrap_or_default(),
        result.cost_usd.map(words::cost).unwrap_or_default(),
    )?;
    reasons(result, out)?;
    for note in words::notes(result) {
        writeln!(out, "<p class=\"dim\">{}</p>", Escaped(&note))?;
    }
    if let Some(turns) = &result.turns {
        for turn in turns {
            let title = format!("Turn {}", turn.turn_index + 1);
            exchange(&title, &turn.input, turn.response.as_deref(), out)?;
            tools(&turn.tool_invocations, out)?;
            metrics(&turn.metric_results, out)?;
        }
    } else {
        let answer = result.agent_response.as_deref();
        exchange("Question", &result.test_input, answer, out)?;
        tools(&result.tool_invocations, out)?;
        metrics(&result.metric_results, out)?;
    }
    writeln!(out, "</div></details>")
}

fn not_run(case: &NotRun, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "<details data-state=\"skipped\"><summary><span class=\"skipped\">not run</span><b>{}</b></summary><div>\
         <p>{}</p></div></details>",
        Escaped(&case.label()),
        Escaped(&case.reason)
    )
}

fn reasons(result: &TestResult, out: &mut dyn Write) -> std::io::Result<()> {
    for explanation in explain(result) {
        let turn = explanation
            .turn
            .map_or_else(String::new, |turn| format!("turn {turn}: "));
        writeln!(out, "<ul>")?;
        for reason in &explanation.reasons {
            writeln!(out, "<li>{turn}{}</li>", Escaped(&reason.line()))?;
        }
        writeln!(out, "</ul>")?;
        if let Some(difference) = &explanation.difference {
            write!(out, "<pre>")?;
            for line in difference.lines() {
                let text = format!("{} {}", line.sign, line.text);
                let text = Escaped(&text);
                match line.sign {
                    '-' => write!(out, "<del>{text}</del>")?,
                    '+' => write!(out, "<ins>{text}</ins>")?,
                    _ => writeln!(out, "{text}")?,
                }
            }
            writeln!(out, "</pre>")?;
        }
    }
    Ok(())
}

fn exchange(title: &str, question: &str, answer: Option<&str>, out: &mut dyn Write) -> std::io::Result<()> {
    let question = words::clip(question, TEXT_CHARS);
    writeln!(out, "<h3>{title}</h3>\n<pre>{}</pre>", Escaped(&question))?;
    match answer {
        Some(answer) => {
            let answer = words::clip(answer, TEXT_CHARS);
            writeln!(out, "<h3>Answer</h3>\n<pre>{}</pre>", Escaped(&answer))
        }
        None => writeln!(out, "<p class=\"dim\">no answer</p>"),
    }
}

fn tools(calls: &[ToolInvocation], out: &mut dyn Write) -> std::io::Result<()> {
    for call in calls {
        let args = call.args.to_string();
        let failed = if call.error.is_some() { " (failed)" } else { "" };
        let result = match &call.result {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let result = words::clip(&result, TEXT_CHARS);
        writeln!(
            out,
            "<h3>Tool {} {}{failed}</h3>\n<pre>{}</pre>",
            Escaped(&call.name),
            Escaped(&words::clip(&args, TEXT_CHARS)),
            Escaped(&result)
        )?;
    }
    Ok(())
}

fn metrics(metrics: &[MetricResult], out: &mut dyn Write) -> std::io::Result<()> {
    if metrics.is_empty() {
        return Ok(());
    }
    writeln!(out, "<table>")?;
    for metric in metrics {
        let (class, verdict) = match (metric.passed, &metric.error) {
            (_, Some(_)) => ("error", "error"),
            (Some(true), None) => ("passed", "passed"),
            (Some(false), None) => ("failed", "failed"),
            (None, None) => ("unchecked", "not gated"),
        };
        let (score, needs) = metric.score.map_or_else(
            || ("–".to_owned(), None),
            |score| words::score(score, metric.threshold),
        );
        let needs = needs.map_or_else(String::new, |needs| format!("needs {needs}"));
        let why = metric.error.as_deref().or(metric.reasoning.as_deref());
        writeln!(
            out,
            "<tr><td>{}</td><td class=\"number\">{score}</td><td class=\"dim\">{needs}</td>\
             <td class=\"{class}\">{verdict}</td><td class=\"dim\">{}</td></tr>",
            Escaped(&metric.metric_name),
            Escaped(why.unwrap_or_default())
        )?;
    }
    writeln!(out, "</table>")
}

/// Text for HTML, in an element or a quoted attribute.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in words::printable(self.0).chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => fmt::Write::write_char(f, other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::{Format, report::samples};

    /// The page without its fixed style and script, which change for other reasons than a report does.
    fn body(page: &str) -> String {
        page.replace(STYLE, "…").replace(SCRIPT, "…")
    }

    #[test]
    fn a_report() {
        let page = samples::report(Format::Html, &samples::cases(), Some(samples::replayed()));
        insta::assert_snapshot!(body(&page));
    }

    #[test]
    fn nothing_breaks_out_of_its_place() {
        let page = body(&samples::report(Format::Html, &[samples::hostile()], None));
        assert!(!page.contains("<img"));
        assert_eq!(page.matches("</script").count(), 1);
        assert_eq!(page.matches("</style").count(), 1);
        insta::assert_snapshot!(page);
    }

    #[test]
    fn the_page_asks_for_nothing_from_outside() {
        let page = samples::report(Format::Html, &samples::cases(), None);
        for forbidden in ["http://", "https://", "src=", "href=", "@import", "url("] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn the_policy_names_the_style_and_the_script_that_are_there() {
        for (directive, text) in [("style-src", STYLE), ("script-src", SCRIPT)] {
            let hash = base64(&Sha256::digest(text));
            let wanted = format!("{directive} 'sha256-{hash}'");
            assert!(POLICY.contains(&wanted), "POLICY needs {wanted}");
        }
    }

    #[test]
    fn tags_are_closed_in_order() {
        for cases in [samples::cases(), vec![samples::hostile()], vec![]] {
            let page = samples::report(Format::Html, &cases, Some(samples::replayed()));
            let body = body(&page);
            let body = body.replace("<!DOCTYPE html>\n", "");
            samples::assert_balanced(&body, &["meta", "input"]);
        }
    }

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let mut group = [0; 3];
            group[..chunk.len()].copy_from_slice(chunk);
            let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
            for place in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
                text.push(if place > chunk.len() {
                    '='
                } else {
                    char::from(digit)
                });
            }
        }
        text
    }

    #[test]
    fn a15_a_stopped_run_lists_what_was_not_run() {
        insta::assert_snapshot!(body(&samples::stopped_report(Format::Html, &[samples::passed()])));
    }
}
