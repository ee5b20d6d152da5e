//! Tests of the HTML report: safe against hostile texts, self-contained, and with failures first.

use pretty_assertions::assert_eq;

use super::*;
use crate::{Format, samples};
use holodeck_runs::CaseReport;

/// The page without its style and script, so that changes of these do not affect snapshots.
fn body(page: &str) -> String {
    page.replace(STYLE, "…")
        .replace(SCRIPT, "…")
        .replace(&policy().replace('\'', "&#39;"), "…")
}

fn page(cases: &[CaseReport]) -> String {
    body(&samples::report(Format::Html, cases, None))
}

#[test]
fn a_report() {
    let page = samples::report(Format::Html, &samples::cases(), Some(samples::replayed()));
    insta::assert_snapshot!(body(&page));
}

#[test]
fn nothing_breaks_out_of_its_place() {
    let page = page(&[samples::hostile()]);
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("</script").count(), 1);
    assert_eq!(page.matches("</style").count(), 1);
    insta::assert_snapshot!(page);
}

#[test]
fn the_page_loads_no_external_resource() {
    let page = samples::report(Format::Html, &samples::cases(), None);
    for forbidden in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert_eq!(
        page.matches("href=").count(),
        page.matches("href=\"#case-").count() + page.matches("href=\"#content\"").count()
    );
    // The policy forbids inline styles.
    assert!(!page.contains("style=\""));
}

/// The value of a variable of a part of the style.
fn colour(part: &str, name: &str) -> [u8; 3] {
    let (_, rest) = part.split_once(&format!("--{name}: #")).unwrap();
    let digits = rest.get(..6).unwrap();
    [0, 2, 4].map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
}

/// The relative luminance as WCAG 2 defines it.
fn luminance(colour: [u8; 3]) -> f64 {
    let [red, green, blue] = colour.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

#[test]
fn every_badge_can_be_read_in_light_and_dark() {
    let parts: Vec<&str> = STYLE.split("@media (prefers-color-scheme: dark)").collect();
    assert_eq!(parts.len(), 2);
    for (theme, part) in ["light", "dark"].into_iter().zip(parts) {
        for state in ["passed", "failed", "error", "unchecked"] {
            let text = luminance(colour(part, state));
            let wash = luminance(colour(part, &format!("{state}-wash")));
            let contrast = (text.max(wash) + 0.05) / (text.min(wash) + 0.05);
            assert!(contrast >= 4.5, "{state}, {theme}: {contrast:.2}");
        }
    }
}

#[test]
fn tags_are_closed_in_order() {
    for cases in [samples::cases(), vec![samples::hostile()], vec![]] {
        let page = samples::report(Format::Html, &cases, Some(samples::replayed()));
        let body = body(&page).replace("<!DOCTYPE html>\n", "");
        samples::assert_balanced(&body, &["meta", "input"]);
    }
}

#[test]
fn a_stopped_run_lists_what_was_not_run() {
    insta::assert_snapshot!(body(&samples::stopped_report(Format::Html, &[samples::passed()])));
}

#[test]
fn the_top_shows_the_agent_the_date_and_the_result() {
    let page = page(&samples::cases());
    let (top, _) = page.split_once("<main ").unwrap();
    for wanted in [
        "customer-support",
        "21 Nov 2026, 20:11 UTC",
        "openai gpt-4o",
        "agent.yaml",
        "5 cases: 1 of 4 checked passed (25 %), 1 failed, 2 errors, 1 unchecked",
        "$0.0047",
    ] {
        assert!(top.contains(wanted), "{wanted} in {top}");
    }
}

#[test]
fn failures_are_above_the_figures_and_all_is_in_a_landmark() {
    let page = page(&samples::cases());
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(place("<h2>Did not pass</h2>") < place("<h2>Metrics</h2>"));
    assert!(place("<h2>Metrics</h2>") < place("<h2>Passed</h2>"));
    assert!(place("</header>\n<main ") < place("<form"));
    assert!(page.contains("</main>\n<footer>"), "{page}");
    assert!(!page.contains("<h4"));
}

#[test]
fn failures_come_first_and_passes_are_closed() {
    let page = page(&samples::cases());
    let states: Vec<&str> = page
        .split("<details class=\"case\"")
        .skip(1)
        .map(|case| {
            let (tag, _) = case.split_once('>').unwrap();
            let (_, state) = tag.split_once("data-state=\"").unwrap();
            state
        })
        .collect();
    assert_eq!(
        states,
        [
            "failed\" open",
            "error\" open",
            "error\" open",
            "unchecked\"",
            "passed\""
        ]
    );
}

#[test]
fn a_reason_is_shown_once_and_the_expected_text_beside_the_answer() {
    let page = page(&[samples::failed()]);
    assert_eq!(page.matches("does not contain &quot;30 days&quot;").count(), 1);
    assert_eq!(page.matches("<h3 class=\"part\">Expected</h3>").count(), 1);
    assert_eq!(page.matches("<h3 class=\"part\">Got</h3>").count(), 1);
    let passed = samples::passed();
    assert!(self::page(&[passed]).contains("<h3 class=\"part\">Expected</h3>"));
}

#[test]
fn expected_tools_that_were_called_are_shown_as_met() {
    let mut case = samples::passed();
    case.expected.tools =
        Some(serde_json::json!(["get_order", {"name": "pay", "args": {"id": 7}, "count": 2}]));
    case.expected.forbidden_tools = vec!["delete_order".to_owned()];
    case.grade.turns[0].tools_matched = Some(true);
    let page = page(&[case]);
    assert!(
        page.contains(
            "Expected <b>get_order, pay {&quot;id&quot;:7} ×2</b> <span class=\"passed\">met</span>"
        )
    );
    assert!(page.contains("Forbidden <b>delete_order</b> <span class=\"passed\">met</span>"));
}

#[test]
fn a_list_of_tools_is_met_only_where_another_was_not() {
    let mut case = samples::failed();
    case.expected.forbidden_tools = vec!["delete_order".to_owned()];
    let shown = page(&[case.clone()]);
    assert!(shown.contains("Expected <b>get_order</b> <span class=\"failed\">not met</span>"));
    assert!(shown.contains("Forbidden <b>delete_order</b> <span class=\"passed\">met</span>"));
    // Older journals do not record the field.
    case.grade.turns[0].failures[0].field = None;
    let shown = page(&[case]);
    assert!(!shown.contains(">met</span>"), "{shown}");
}

#[test]
fn a_failed_tool_call_of_a_passed_case_is_shown_with_result_and_time() {
    let page = page(&[samples::passed_with_failed_call()]);
    assert!(page.contains("1 tool call failed"), "{page}");
    assert!(page.contains("<span>12 ms</span>"), "{page}");
    assert!(page.contains(">connection refused</pre>"), "{page}");
}

#[test]
fn charts_show_every_score_and_the_extremes() {
    let cases: Vec<CaseReport> = (0..40)
        .map(|index| {
            let score = index as f64 / 39.0;
            let state = if score >= 0.5 {
                CaseState::Passed
            } else {
                CaseState::Failed
            };
            let mut case = samples::case(index, state, &[("rougeL", Some(score))]);
            case.unit.turns[0].elapsed_ms = 100 + index as u64;
            case
        })
        .collect();
    let mut charts = Charts::default();
    for case in &cases {
        charts.observe(case);
    }
    let (metrics, more) = charts.metrics();
    assert_eq!(more, 0);
    assert_eq!(metrics[0].about, "needs 0.50 · 20 passed · 20 failed");
    assert_eq!(metrics[0].average, "average 0.50");
    assert_eq!(metrics[0].threshold_x.as_deref(), Some("50"));
    assert_eq!(metrics[0].bars.len(), 20);
    let rankings = charts.rankings();
    assert_eq!(rankings.len(), 1, "no cost is known");
    let slowest: Vec<usize> = rankings[0].cases.iter().map(|case| case.number).collect();
    assert_eq!(slowest, [40, 39, 38, 37, 36]);
}

#[test]
fn a_large_page_has_a_line_for_each_further_case_and_its_texts_stay_texts() {
    let mut cases: Vec<CaseReport> = (0..MAX_SHOWN + 620).map(samples::varied).collect();
    let last = cases.len() - 1;
    cases[last].name = Some("</script><img src=x>".to_owned());
    cases[last].unit.turns[0].result.response = "</script><!-- <script>alert(1)</script>".to_owned();
    let page = page(&cases);
    assert_eq!(page.matches("<details class=\"case\"").count(), cases.len());
    let chunks: Vec<&str> = page.split("<details class=\"chunk\"").skip(1).collect();
    let (at_once, _) = page.split_once("<details class=\"chunk\"").unwrap();
    assert_eq!(at_once.matches("<details class=\"case\"").count(), MAX_SHOWN);
    let mut lines = 0;
    for chunk in &chunks {
        let (_, text) = chunk.split_once("<pre>").unwrap();
        let (text, rest) = text.split_once("</pre>").unwrap();
        let (_, html) = rest.split_once("<script type=\"text/plain\">").unwrap();
        let (html, _) = html.split_once("</script>").unwrap();
        let listed = text.lines().count();
        assert_eq!(html.matches("<details class=\"case\"").count(), listed);
        assert!(chunk.contains(&format!("data-count=\"{listed}\"")), "{chunk}");
        lines += listed;
    }
    assert_eq!(lines, 620);
    // One for each group, and that of the page.
    assert_eq!(page.matches("</script").count(), chunks.len() + 1);
    assert!(!page.contains("<img") && !page.contains("<!-- "));
}

/// Pages for `cargo xtask soak report`, which checks them in a browser.
#[test]
#[ignore = "writes pages for a browser; `cargo xtask soak report` runs it"]
fn pages_for_a_browser() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/report");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, count) in [("some", 24), ("many", 10_000)] {
        let cases: Vec<CaseReport> = (0..count).map(samples::varied).collect();
        let page = samples::report(Format::Html, &cases, Some(samples::replayed()));
        assert_eq!(page.matches("<details class=\"case\"").count(), count);
        std::fs::write(folder.join(format!("{name}.html")), page).unwrap();
    }
}
