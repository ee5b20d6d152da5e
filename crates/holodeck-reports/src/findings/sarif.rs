//! Findings as SARIF 2.1.0, for code scanning and editors.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _, io::Write};

use holodeck_model::Severity;
use serde_json::{Value, json};

use super::{Finding, FindingPlace, FindingSubject, Fingerprints};
use crate::ReportError;

/// Writes a log of one run. The rules are known after the results, so the tool comes last.
pub(super) fn write(
    subject: &FindingSubject<'_>,
    findings: impl Iterator<Item = Result<Finding, ReportError>>,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let mut fingerprints = Fingerprints::default();
    let mut rules: BTreeMap<Cow<'static, str>, Cow<'static, str>> = BTreeMap::new();
    writeln!(
        out,
        "{{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",\"version\":\"2.1.0\",\"runs\":[{{"
    )?;
    let id = format!("holodeck/{}/", subject.name);
    writeln!(out, "\"automationDetails\":{},", json!({ "id": id }))?;
    // It says whether the absence of a result means anything.
    let invocation = json!({
        "executionSuccessful": subject.is_complete,
        "toolExecutionNotifications": [{
            "level": if subject.is_complete { "note" } else { "error" },
            "message": { "text": subject.verdict },
        }],
    });
    write!(
        out,
        "\"invocations\":[{invocation}],\n\"columnKind\":\"unicodeCodePoints\",\n\"results\":["
    )?;
    let mut separator = "\n";
    for finding in findings {
        let finding = finding?;
        let fingerprint = fingerprints.of(subject, &finding);
        let result = result(subject, &finding, &fingerprint);
        write!(out, "{separator}{result}")?;
        separator = ",\n";
        rules.entry(finding.rule.id).or_insert(finding.rule.about);
    }
    let rules: Vec<Value> = rules
        .into_iter()
        .map(|(id, about)| json!({ "id": id, "shortDescription": { "text": about } }))
        .collect();
    let driver = json!({
        "name": "holodeck",
        "version": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    writeln!(out, "],\n\"tool\":{{\"driver\":{driver}}}}}]}}")?;
    Ok(())
}

fn result(subject: &FindingSubject<'_>, finding: &Finding, fingerprint: &str) -> Value {
    let whole_file = FindingPlace {
        path: subject.file.to_owned(),
        position: None,
    };
    let FindingPlace { path, position } = finding.place.as_ref().unwrap_or(&whole_file);
    let mut physical = json!({ "artifactLocation": { "uri": uri(path) } });
    if let (Some((line, column)), Some(object)) = (position, physical.as_object_mut()) {
        object.insert(
            "region".to_owned(),
            json!({ "startLine": line, "startColumn": column }),
        );
    }
    json!({
        "ruleId": finding.rule.id,
        "level": match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        },
        "message": { "text": format!("{}: {}", finding.title(), finding.text()) },
        "locations": [{ "physicalLocation": physical }],
        "partialFingerprints": { "holodeck/v1": fingerprint },
    })
}

/// The path as a URI reference: every byte that means something in one is escaped.
fn uri(path: &str) -> String {
    let (mut uri, path) = match path.strip_prefix('/') {
        Some(_) => ("file://".to_owned(), path),
        None => (String::new(), path.strip_prefix("./").unwrap_or(path)),
    };
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            // A string can always be written to.
            other => drop(write!(uri, "%{other:02X}")),
        }
    }
    uri
}
