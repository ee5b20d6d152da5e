//! The part of an error answer that is kept and shown.

use serde_json::Value;

const SHOWN: usize = 300;

/// The start of an answer as text, without secrets and control characters.
pub(crate) fn text<'a>(bytes: &[u8], secrets: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    for secret in secrets.filter(|secret| secret.len() >= 4) {
        if text.contains(secret) {
            text = text.replace(secret, "[redacted]");
        }
    }
    text.retain(|c| !c.is_control() || c == '\n' || c == '\t');
    text
}

/// Whether an answer is a web page, whatever its content type says.
pub(crate) fn is_html(text: &str) -> bool {
    let start: String = text
        .trim_start_matches('\u{feff}')
        .trim_start()
        .chars()
        .take(14)
        .collect();
    let start = start.to_ascii_lowercase();
    ["<!doctype html", "<html", "<head", "<body"]
        .iter()
        .any(|tag| start.starts_with(tag))
}

/// `: <the gist of an answer>` on one line; empty if there is none.
pub(crate) fn summary(body: &str) -> String {
    let gist = gist(body);
    let line = gist.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return String::new();
    }
    let mut shown: String = line.chars().take(SHOWN).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    format!(": {shown}")
}

fn gist(body: &str) -> String {
    if is_html(body) {
        return match title(body) {
            Some(title) => format!("an HTML page titled `{title}`"),
            None => "an HTML page".to_owned(),
        };
    }
    serde_json::from_str::<Value>(body)
        .ok()
        .and_then(|value| message(&value))
        .unwrap_or_else(|| body.to_owned())
}

/// The message in the usual formats of JSON errors.
fn message(value: &Value) -> Option<String> {
    let error = value.get("error");
    [
        error.and_then(|error| error.get("message")),
        error,
        value.get("message"),
        value.get("detail"),
    ]
    .into_iter()
    .flatten()
    .find_map(Value::as_str)
    .map(str::to_owned)
}

fn title(html: &str) -> Option<String> {
    let lower = html.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower.get(start..)?.find('>')? + 1;
    let end = start + lower.get(start..)?.find("</title")?;
    let title = html.get(start..end)?.trim();
    (!title.is_empty()).then(|| title.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gist_of_usual_answers() {
        for (body, expected) in [
            (r#"{"error":{"message":"bad model","code":"x"}}"#, ": bad model"),
            (r#"{"error":"model 'x' not found"}"#, ": model 'x' not found"),
            (r#"{"message":"gone"}"#, ": gone"),
            (r#"{"odd":1}"#, r#": {"odd":1}"#),
            (
                "<!DOCTYPE html><html><title>502\nBad</title>",
                ": an HTML page titled `502 Bad`",
            ),
            ("  <html>", ": an HTML page"),
            ("plain\n\ntext", ": plain text"),
            ("", ""),
        ] {
            assert_eq!(summary(body), expected);
        }
        assert!(summary(&"é".repeat(1000)).ends_with("é…"));
    }

    #[test]
    fn echoed_secrets_and_escapes_are_cut() {
        let shown = text(
            b"key sk-12345 is \x1b[31mwrong\xff",
            ["sk-12345", "key"].into_iter(),
        );
        assert_eq!(shown, "key [redacted] is [31mwrong\u{fffd}");
    }
}
