//! The part of an error answer that is kept and shown.

mod spelled;

use serde_json::Value;

use self::spelled::Spelled;

const SHOWN: usize = 300;

/// The start of an answer as text, without secrets and control characters. If it is cut at its end, the part of a secret there
/// is left out, too.
pub(crate) fn text(bytes: &[u8], secrets: &[&str], is_cut: bool) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    text.retain(|c| !c.is_control() || c == '\n' || c == '\t');
    let mut rest = text.as_str();
    if is_cut {
        rest = rest.trim_end_matches(char::REPLACEMENT_CHARACTER);
    }
    let secrets = secrets.iter().filter(|secret| secret.len() >= 4);
    let mut clean = String::with_capacity(rest.len());
    while let Some(c) = rest.chars().next() {
        let found: Vec<Spelled> = secrets
            .clone()
            .filter_map(|secret| spelled::find(rest, secret))
            .collect();
        if is_cut && found.contains(&Spelled::Cut) {
            break;
        }
        let lengths = found.iter().filter_map(|spelled| match spelled {
            Spelled::Whole(length) => Some(*length),
            Spelled::Cut => None,
        });
        let length = if let Some(length) = lengths.max() {
            clean.push_str("***");
            length
        } else {
            clean.push(c);
            c.len_utf8()
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    clean
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
        let shown = text(b"key sk-12345 is \x1b[31mwrong\xff", &["sk-12345", "key"], false);
        assert_eq!(shown, "key *** is [31mwrong\u{fffd}");
    }

    #[test]
    fn a_secret_is_not_shown_however_it_is_escaped_and_wherever_it_is_cut() {
        let secret = "Zk8d/f0Gh+iJ\\kL\"mé🎉NoPq";
        for spelled in [
            secret,
            r#"Zk8d\/f0Gh\u002BiJ\\kL\"mé🎉NoPq"#,
            r"Zk8d/f0Gh\u002biJ\\kL\u0022m\u00e9\ud83c\udf89NoPq",
            r#"\u005ak8d\u002Ff0Gh+iJ\u005CkL\"m\u00E9\uD83C\uDF89NoPq"#,
            r#"Zk8d\\\/f0Gh\\u002BiJ\\\\kL\\\"m\\u00e9\\ud83c\\udf89NoPq"#,
        ] {
            let whole = format!("a Zk8x {spelled} b");
            assert_eq!(
                text(whole.as_bytes(), &[secret, "Zk8d/f0G"], false),
                "a Zk8x *** b"
            );
            for length in 0..spelled.len() {
                let cut = format!("a {spelled}");
                let cut = cut.as_bytes().get(..2 + length).unwrap();
                assert_eq!(text(cut, &[secret], true), "a ", "{spelled} {length}");
            }
        }
        // A text that is not cut ends as it came.
        assert_eq!(text(b"it is Zk", &[secret], false), "it is Zk");
        assert_eq!(text(br"a\nope b", &["nopeb", "nope b"], false), r"a\***");
    }
}
