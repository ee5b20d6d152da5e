//! Tests of the list of findings in each form: nothing breaks out of its place, and what is not known has a row.

use holodeck_model::{Code, Diagnostic, Location, Span};
use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;
use crate::{Format, samples};

const FORMS: [Format; 3] = [Format::Github, Format::Gitlab, Format::Sarif];

fn written(form: FindingForm, findings: Vec<Finding>) -> String {
    let subject = FindingSubject {
        name: "desk",
        file: "agents/d e.yaml",
        verdict: "2 errors".to_owned(),
        is_complete: true,
    };
    let mut out = Vec::new();
    write_findings(form, &subject, findings.into_iter().map(Ok), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn unknown_field(path: &str, line: usize) -> Finding {
    let place = Location {
        path: std::path::Path::new(path).into(),
        line,
        column: 3,
        span: Span::default(),
    };
    let diagnostic = Diagnostic::error(Code::UnknownField, "100 % wrong:\r\na, b")
        .at(place)
        .with_help("remove it");
    Finding::of_diagnostic(&diagnostic, |path| path.display().to_string())
}

#[test]
fn a_failed_a_broken_and_an_unchecked_case() {
    for format in FORMS {
        let report = samples::report(format, &samples::cases(), Some(samples::replayed()));
        insta::assert_snapshot!(format.as_str(), report);
    }
}

#[test]
fn a_stopped_run_is_an_error_in_every_form_and_what_was_not_run_has_a_row() {
    for format in FORMS {
        let report = samples::stopped_report(format, &[samples::passed()]);
        assert!(report.contains("not run: token budget used up"), "{report}");
        assert!(report.contains("#10"), "{report}");
        let says = match format {
            Format::Github => {
                "::error title=customer-support%3A stopped by its budget::the run is not complete"
            }
            Format::Gitlab => "\"severity\":\"major\"",
            _ => "\"executionSuccessful\":false",
        };
        assert!(report.contains(says), "{report}");
    }
}

#[test]
fn a_pass_has_no_row_but_a_verdict() {
    let [github, gitlab, sarif] = FORMS.map(|format| samples::report(format, &[samples::passed()], None));
    assert_eq!(github.lines().count(), 1, "{github}");
    assert!(
        github.starts_with("::notice title=holodeck customer-support::passed"),
        "{github}"
    );
    assert_eq!(gitlab, "[]\n");
    let sarif: Value = serde_json::from_str(&sarif).unwrap();
    assert_eq!(sarif["runs"][0]["results"], serde_json::json!([]));
}

#[test]
fn an_annotation_stays_on_its_line_and_in_its_property() {
    let lines = written(FindingForm::Github, vec![unknown_field("a,b:c%\r.yaml", 6)]);
    assert_eq!(
        lines,
        "::error file=a%2Cb%3Ac%25%0D.yaml,line=6,col=3,title=HD0101::100 %25 wrong:%0Aa, b%0Ahint: remove it\n\
         ::notice title=holodeck desk::2 errors\n"
    );
    let hostile = samples::report(Format::Github, &[samples::hostile()], None);
    for line in hostile.lines() {
        assert!(line.starts_with("::"), "{line}");
        assert_eq!(line.chars().find(|c| c.is_control()), None, "{line}");
    }
    // The failure, and the verdict.
    assert_eq!(hostile.lines().count(), 2, "{hostile}");
}

#[test]
fn a_finding_is_one_concise_line() {
    let mut without_place = unknown_field("x", 1);
    without_place.place = None;
    assert_eq!(
        written(
            FindingForm::Concise,
            vec![unknown_field("a.yaml", 6), without_place]
        ),
        "a.yaml:6:3: error[HD0101]: 100 % wrong:; a, b; hint: remove it\n\
         agents/d e.yaml: error[HD0101]: 100 % wrong:; a, b; hint: remove it\n2 errors\n"
    );
}

/// The requirements of GitLab's documentation of code quality reports.
fn check_gitlab(report: &str) -> usize {
    let report: Value = serde_json::from_str(report).unwrap();
    let issues = report.as_array().unwrap();
    let mut fingerprints = HashSet::new();
    for issue in issues {
        assert!(!issue["description"].as_str().unwrap().is_empty());
        assert!(issue["check_name"].as_str().unwrap().starts_with("holodeck/"));
        assert!(
            fingerprints.insert(issue["fingerprint"].as_str().unwrap()),
            "{issue}"
        );
        let severity = issue["severity"].as_str().unwrap();
        assert!(["info", "minor", "major", "critical", "blocker"].contains(&severity));
        let path = issue["location"]["path"].as_str().unwrap();
        assert!(!path.is_empty() && !path.starts_with("./"), "{path}");
        assert!(issue["location"]["lines"]["begin"].as_u64().unwrap() > 0);
    }
    issues.len()
}

/// The requirements of SARIF 2.1.0 for the properties that are written, each with its section.
fn check_sarif(report: &str) -> usize {
    let keys = |value: &Value, known: &[&str]| {
        for key in value.as_object().unwrap().keys() {
            assert!(known.contains(&key.as_str()), "{key}");
        }
    };
    let log: Value = serde_json::from_str(report).unwrap();
    // 3.13
    keys(&log, &["$schema", "version", "runs"]);
    assert_eq!(log["version"], "2.1.0");
    let [run] = log["runs"].as_array().unwrap().as_slice() else {
        panic!("{log}")
    };
    // 3.14
    keys(
        run,
        &[
            "automationDetails",
            "invocations",
            "columnKind",
            "results",
            "tool",
        ],
    );
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    // 3.18 and 3.19
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "holodeck");
    let rules: HashSet<&str> = driver["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["id"].as_str().unwrap())
        .collect();
    assert_eq!(rules.len(), driver["rules"].as_array().unwrap().len());
    // 3.20
    for invocation in run["invocations"].as_array().unwrap() {
        assert!(invocation["executionSuccessful"].is_boolean());
        keys(invocation, &["executionSuccessful", "toolExecutionNotifications"]);
        for notification in invocation["toolExecutionNotifications"].as_array().unwrap() {
            assert!(!notification["message"]["text"].as_str().unwrap().is_empty());
        }
    }
    // 3.27
    let results = run["results"].as_array().unwrap();
    for result in results {
        keys(
            result,
            &["ruleId", "level", "message", "locations", "partialFingerprints"],
        );
        assert!(rules.contains(result["ruleId"].as_str().unwrap()), "{result}");
        let level = result["level"].as_str().unwrap();
        assert!(["none", "note", "warning", "error"].contains(&level));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        for location in result["locations"].as_array().unwrap() {
            let physical = &location["physicalLocation"];
            let uri = physical["artifactLocation"]["uri"].as_str().unwrap();
            assert!(
                uri.chars()
                    .all(|c| c.is_ascii_graphic() && !"<>\"{}|\\^`".contains(c)),
                "{uri}"
            );
            if let Some(region) = physical.get("region") {
                assert!(region["startLine"].as_u64().unwrap() > 0);
                assert!(region["startColumn"].as_u64().unwrap() > 0);
            }
        }
        assert!(result["partialFingerprints"]["holodeck/v1"].is_string());
    }
    results.len()
}

#[test]
fn the_files_have_what_the_tools_require() {
    let cases = [
        samples::failed(),
        samples::failed(),
        samples::hostile(),
        samples::timed_out(),
        samples::unchecked(),
        samples::passed(),
    ];
    // Two equal failures are two rows; the replay and a warning of the run have one each.
    for (report, check) in [
        (Format::Gitlab, check_gitlab as fn(&str) -> usize),
        (Format::Sarif, check_sarif),
    ] {
        assert_eq!(
            check(&samples::report(report, &cases, Some(samples::replayed()))),
            7
        );
        // Five cases without a pass, two that were not run, and the run that is not complete.
        assert_eq!(check(&samples::stopped_report(report, &cases)), 8);
    }
    let findings = || vec![unknown_field("ü {b}.yaml", 6), unknown_field("./b.yaml", 7)];
    assert_eq!(check_gitlab(&written(FindingForm::Gitlab, findings())), 2);
    assert_eq!(check_sarif(&written(FindingForm::Sarif, findings())), 2);
}

#[test]
fn a_finding_is_recognised_in_the_next_run_wherever_it_moved_and_another_one_is_not() {
    let fingerprint = |finding: Finding| {
        let report = written(FindingForm::Gitlab, vec![finding]);
        let report: Value = serde_json::from_str(&report).unwrap();
        report[0]["fingerprint"].as_str().unwrap().to_owned()
    };
    let one = fingerprint(unknown_field("a.yaml", 6));
    assert_eq!(one, fingerprint(unknown_field("a.yaml", 60)));
    assert_ne!(one, fingerprint(unknown_field("b.yaml", 6)));
}
