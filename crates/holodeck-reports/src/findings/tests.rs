//! Tests of the list of findings in each form: nothing breaks out of its place, and what is not known has a row.

use std::sync::LazyLock;

use holodeck_model::{Code, Diagnostic, Location, Span};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

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
        "::error file=a%2Cb%3Ac%25\\u{d}.yaml,line=6,col=3,title=HD0101::100 %25 wrong:%0Aa, b%0Ahint: remove it\n\
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
        assert!(!path.is_empty() && !path.starts_with(['/', '.']), "{path}");
        assert!(issue["location"]["lines"]["begin"].as_u64().unwrap() > 0);
    }
    issues.len()
}

/// The schema of SARIF 2.1.0, and what only its text requires, each with its section.
fn check_sarif(report: &str) -> usize {
    let log: Value = serde_json::from_str(report).unwrap();
    assert_eq!(sarif_fault(&log), None, "{report}");
    let [run] = log["runs"].as_array().unwrap().as_slice() else {
        panic!("{log}")
    };
    assert_eq!(run["tool"]["driver"]["name"], "holodeck");
    // 3.19.23
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let ids: HashSet<&str> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), rules.len());
    let mut fingerprints = HashSet::new();
    let results = run["results"].as_array().unwrap();
    for result in results {
        assert!(ids.contains(result["ruleId"].as_str().unwrap()), "{result}");
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
            .as_str()
            .unwrap();
        // RFC 3986, 2.
        assert!(
            uri.chars()
                .all(|c| c.is_ascii_graphic() && !"<>\"{}|\\^`".contains(c)),
            "{uri}"
        );
        let fingerprint = &result["partialFingerprints"]["holodeck/v1"];
        assert!(fingerprints.insert(fingerprint.as_str().unwrap()), "{result}");
    }
    results.len()
}

/// The first fault by the schema, which `cargo xtask services` installs.
fn sarif_fault(log: &Value) -> Option<String> {
    static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.smoke/schemas/sarif.json");
        let schema = std::fs::read_to_string(path);
        let schema =
            schema.unwrap_or_else(|error| panic!("{path}: {error}; `cargo xtask services` installs it"));
        // The pattern of languages has a bracket too many, which makes it no expression.
        assert!(schema.contains("{2}]?$"));
        let schema: Value = serde_json::from_str(&schema.replace("{2}]?$", "{2}$")).unwrap();
        let options = jsonschema::options().should_validate_formats(true);
        options.build(&schema).unwrap()
    });
    let fault = SCHEMA.iter_errors(log).next();
    fault.map(|fault| format!("{}: {fault}", fault.instance_path()))
}

#[test]
fn the_schema_of_sarif_refuses_what_its_text_does() {
    let sound = written(FindingForm::Sarif, vec![unknown_field("b.yaml", 7)]);
    let sound: Value = serde_json::from_str(&sound).unwrap();
    assert_eq!(sarif_fault(&sound), None);
    for (pointer, wrong) in [
        ("/version", json!("2.0.0")),
        ("/runs/0/tool/driver/name", Value::Null),
        ("/runs/0/columnKind", json!("bytes")),
        ("/runs/0/invocations/0/executionSuccessful", json!("yes")),
        ("/runs/0/results/0/level", json!("fatal")),
        ("/runs/0/results/0/message", json!({})),
        (
            "/runs/0/results/0/locations/0/physicalLocation/region/startLine",
            json!(0),
        ),
        ("/runs/0/results/0/partialFingerprints/holodeck~1v1", json!(["x"])),
        ("/runs/0/results/0/locations/0", json!({"place": 1})),
    ] {
        let mut log = sound.clone();
        *log.pointer_mut(pointer).unwrap() = wrong;
        assert_ne!(sarif_fault(&log), None, "{pointer}");
    }
}

/// Texts that mean something in one of the forms, or in what shows them.
const HOSTILE: [&str; 12] = [
    "plain",
    "100 % of 5%0A, or %25",
    "a: b, c::d",
    "::error::forged\n::stop-commands::x",
    "\r\n::warning file=x::forged",
    "##[group]forged\n##vso[task.complete result=Succeeded;]",
    "</script><script>alert(1)</script> [x](javascript:1)",
    "\u{1b}[2J\u{7}\u{0}\u{9b}31m",
    "\u{202e}reversed\u{2066}\u{200b}\u{feff}",
    "\"},{\"x\":\"\\",
    "ü 🦀 {0} {{a}} 日本",
    "\n\n  \n",
];

/// Names of files in the repository, with a directory to its outside, and elsewhere.
const PATHS: [&str; 7] = [
    "agent.yaml",
    "./d ir/ü#?%:,a.yaml",
    "a\r\nb\u{1b}[31m\u{202e}.yaml",
    "C:\\agents\\a.yaml",
    "/elsewhere/a b.yaml",
    "//host/share/a.yaml",
    "::error file=x::y",
];

/// Each hostile text in each place, with every severity; each finding twice.
fn generated() -> Vec<Finding> {
    let whole = |path: &&str| FindingPlace {
        path: (*path).to_owned(),
        position: None,
    };
    let exact = |path: &&str| FindingPlace {
        position: Some((3, 14)),
        ..whole(path)
    };
    let places: Vec<Option<FindingPlace>> = PATHS
        .iter()
        .flat_map(|path| [Some(whole(path)), Some(exact(path))])
        .chain([None])
        .collect();
    let mut findings = Vec::new();
    for text in HOSTILE {
        for place in &places {
            for severity in [Severity::Error, Severity::Warning, Severity::Note] {
                let finding = Finding {
                    rule: Rule {
                        id: "failed".into(),
                        about: "The answer did not pass".into(),
                    },
                    severity,
                    title: format!("case {text}"),
                    message: format!("expected {text}"),
                    place: place.clone(),
                    key: format!("{text} {place:?} {severity}"),
                };
                findings.extend([finding.clone(), finding]);
            }
        }
    }
    findings
}

#[test]
fn any_finding_is_sound_in_each_file() {
    let findings = generated();
    let count = findings.len();
    assert_eq!(check_sarif(&written(FindingForm::Sarif, findings.clone())), count);
    assert_eq!(check_gitlab(&written(FindingForm::Gitlab, findings)), count);
}

/// An annotation as the runner of GitHub Actions reads it: the first `::` after the command ends the properties, a comma ends
/// a property, and only then escapes are text.
fn read_annotation(line: &str) -> (&str, Vec<(String, String)>, String) {
    let (head, data) = line.strip_prefix("::").unwrap().split_once("::").unwrap();
    let (command, properties) = head.split_once(' ').unwrap();
    let data = data.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%");
    let value = |text: &str| {
        text.replace("%0D", "\r")
            .replace("%0A", "\n")
            .replace("%3A", ":")
            .replace("%2C", ",")
            .replace("%25", "%")
    };
    let properties = properties.split(',').map(|property| {
        let (name, text) = property.split_once('=').unwrap();
        (name.to_owned(), value(text))
    });
    (command, properties.collect(), data)
}

#[test]
fn any_finding_is_one_annotation_that_the_runner_reads_as_it_was() {
    let findings = generated();
    let lines = written(FindingForm::Github, findings.clone());
    let mut lines = lines.lines();
    for finding in findings {
        let line = lines.next().unwrap();
        assert_eq!(
            line.chars().find(|c| holodeck_model::is_hidden(*c)),
            None,
            "{line}"
        );
        let (command, properties, data) = read_annotation(line);
        let expected = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        assert_eq!(command, expected);
        assert_eq!(data, finding.text());
        let place = finding.place.clone();
        let mut expected = Vec::new();
        if let Some(FindingPlace { path, position }) = place {
            expected.push(("file".to_owned(), format::printable(&path).into_owned()));
            if let Some((line, column)) = position {
                expected.push(("line".to_owned(), line.to_string()));
                expected.push(("col".to_owned(), column.to_string()));
            }
        }
        expected.push(("title".to_owned(), finding.title()));
        assert_eq!(properties, expected, "{line}");
    }
    assert_eq!(lines.next(), Some("::notice title=holodeck desk::2 errors"));
    assert_eq!(lines.next(), None);
}

#[test]
fn any_finding_is_one_concise_line_that_nothing_controls() {
    let findings = generated();
    let count = findings.len();
    let lines = written(FindingForm::Concise, findings);
    for line in lines.lines() {
        assert_eq!(
            line.chars().find(|c| holodeck_model::is_hidden(*c)),
            None,
            "{line:?}"
        );
    }
    // The last one has the verdict.
    assert_eq!(lines.lines().count(), count + 1);
}

#[test]
fn a_file_elsewhere_is_named_in_the_text_where_only_the_repository_can_be() {
    let report = written(FindingForm::Gitlab, vec![unknown_field("/elsewhere/a.yaml", 6)]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report[0]["location"]["path"], "elsewhere/a.yaml");
    let text = report[0]["description"].as_str().unwrap();
    assert!(
        text.ends_with("(/elsewhere/a.yaml, outside of the repository)"),
        "{text}"
    );
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
