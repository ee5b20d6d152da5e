//! JSON as a readable outline. The parser refuses more than 128 levels of nesting.

use serde_json::Value;

use crate::{ConvertOptions, Document, Format, Limit, Problem};

/// Indentation grows with nesting.
const MOST_TEXT: usize = 64 * 1024 * 1024;

pub(super) fn convert(bytes: &[u8], options: &ConvertOptions) -> Result<Document, Problem> {
    let (text, notes) = super::decode(bytes, options)?;
    let value = parse(&text, Format::Json, "")?;
    let mut out = String::new();
    match &value {
        // Each element is its own record.
        Value::Array(records) => {
            for record in records {
                write_record(&mut out, record)?;
            }
        }
        value => write_record(&mut out, value)?,
    }
    let title = value.get("title").and_then(Value::as_str).map(str::to_owned);
    Ok(Document {
        title,
        ..super::plain(out, notes)
    })
}

pub(super) fn convert_lines(bytes: &[u8], options: &ConvertOptions) -> Result<Document, Problem> {
    let (text, notes) = super::decode(bytes, options)?;
    let mut out = String::new();
    for (number, line) in text.lines().enumerate() {
        if !line.trim().is_empty() {
            let value = parse(line, Format::JsonLines, &format!("line {}: ", number + 1))?;
            write_record(&mut out, &value)?;
        }
    }
    Ok(super::plain(out, notes))
}

fn parse(text: &str, format: Format, place: &str) -> Result<Value, Problem> {
    serde_json::from_str(text).map_err(|error| Problem::Broken {
        format,
        reason: format!("{place}{error}"),
    })
}

/// Records are paragraphs.
fn write_record(out: &mut String, value: &Value) -> Result<(), Problem> {
    if !out.is_empty() {
        out.push('\n');
    }
    write(out, value, 0)
}

fn write(out: &mut String, value: &Value, depth: usize) -> Result<(), Problem> {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                item(out, Some(name), value, depth)?;
            }
        }
        Value::Array(values) => {
            for value in values {
                item(out, None, value, depth)?;
            }
        }
        scalar => {
            scalar_text(out, scalar, depth);
            out.push('\n');
        }
    }
    Ok(())
}

fn item(out: &mut String, name: Option<&str>, value: &Value, depth: usize) -> Result<(), Problem> {
    if out.len() > MOST_TEXT {
        return Err(Limit::Output(MOST_TEXT as u64).into());
    }
    indent(out, depth);
    out.push('-');
    if let Some(name) = name {
        out.push(' ');
        out.push_str(name);
        out.push(':');
    }
    let empty = match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(values) => values.is_empty(),
        _ => false,
    };
    if empty {
        out.push_str(" (empty)\n");
    } else if value.is_object() || value.is_array() {
        out.push('\n');
        write(out, value, depth + 1)?;
    } else {
        out.push(' ');
        scalar_text(out, value, depth + 1);
        out.push('\n');
    }
    Ok(())
}

fn scalar_text(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::String(text) => {
            for (number, line) in text.lines().enumerate() {
                if number > 0 {
                    out.push('\n');
                    indent(out, depth);
                }
                out.push_str(line);
            }
        }
        other => out.push_str(&other.to_string()),
    }
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(bytes: &[u8]) -> Result<Document, Problem> {
        super::convert(bytes, &ConvertOptions::default())
    }

    fn convert_lines(bytes: &[u8]) -> Result<Document, Problem> {
        super::convert_lines(bytes, &ConvertOptions::default())
    }

    #[test]
    fn an_object_is_an_outline() {
        let json = r#"{"title": "Order", "id": 7, "lines": [{"sku": "a-1", "count": 2}, {"sku": "b-2", "note": "two\nlines"}],
            "tags": ["x", "y"], "none": null, "nothing": [], "paid": true}"#;
        let document = convert(json.as_bytes()).unwrap();
        insta::assert_snapshot!(document.text, @r"
        - title: Order
        - id: 7
        - lines:
          -
            - sku: a-1
            - count: 2
          -
            - sku: b-2
            - note: two
              lines
        - tags:
          - x
          - y
        - none: null
        - nothing: (empty)
        - paid: true
        ");
        assert_eq!(document.title.as_deref(), Some("Order"));
    }

    #[test]
    fn records_are_paragraphs() {
        let records = "- a: 1\n\n- a: 2\n";
        assert_eq!(convert(br#"[{"a": 1}, {"a": 2}]"#).unwrap().text, records);
        assert_eq!(
            convert_lines(b"{\"a\": 1}\n\n{\"a\": 2}\n").unwrap().text,
            records
        );
    }

    #[test]
    fn an_error_has_the_line() {
        let problem = convert_lines(b"{\"a\": 1}\n{\"a\": }\n").unwrap_err();
        assert_eq!(
            problem.to_string(),
            "damaged, or not JSON Lines: line 2: expected value at line 1 column 7"
        );
        let deep = "[".repeat(100_000);
        let problem = convert(deep.as_bytes()).unwrap_err();
        assert!(problem.to_string().contains("recursion limit"), "{problem}");
    }
}
