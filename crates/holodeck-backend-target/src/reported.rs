//! Reads what targets report in the usual forms: calls, results, passages, tokens. What has none of the forms is an error.

use holodeck_backend_api::{TokenUsage, ToolCall};
use holodeck_model::json_kind;
use serde_json::Value;

use crate::parts::{ReportedCall, ReportedResult};

/// A value as text: a text as it is, everything else as JSON.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // The usual form of an error.
        Value::Object(fields) => match fields.get("message") {
            Some(Value::String(text)) => text.clone(),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

fn field<'a>(value: &'a Value, names: &[&str]) -> Option<&'a Value> {
    let found = names.iter().find_map(|name| value.get(name));
    found.filter(|value| !value.is_null())
}

/// A tool call: `{name, arguments, id, result}` or OpenAI's `{id, function: {name, arguments}}`. Arguments may be a text
/// that is JSON.
pub(crate) fn call(value: &Value) -> Result<ReportedCall, String> {
    if !value.is_object() {
        return Err(format!(
            "a call is {} and not an object with `name` and `arguments`",
            json_kind(value)
        ));
    }
    let inner = value
        .get("function")
        .filter(|inner| inner.is_object())
        .unwrap_or(value);
    let name = field(inner, &["name", "tool", "tool_name", "toolName"]);
    let name = name
        .and_then(Value::as_str)
        .filter(|name| !name.trim().is_empty());
    let name = name.ok_or("a call has no `name` that is a text")?;
    let arguments = field(inner, &["arguments", "args", "input", "parameters"]);
    let arguments = match arguments {
        None => Value::Object(serde_json::Map::new()),
        Some(Value::String(text)) if text.trim().is_empty() => Value::Object(serde_json::Map::new()),
        Some(Value::String(text)) => serde_json::from_str(text)
            .map_err(|_not_json| format!("the arguments of `{name}` are no JSON"))?,
        Some(other) => other.clone(),
    };
    if !arguments.is_object() {
        return Err(format!(
            "the arguments of `{name}` are {} and not an object",
            json_kind(&arguments)
        ));
    }
    let id = field(value, &["id", "call_id", "tool_call_id", "toolCallId"]).and_then(Value::as_str);
    let result = field(value, &["result", "output", "tool_result"]).map(|output| ReportedResult {
        call_id: id.map(str::to_owned),
        text: text(output),
        is_error: flag(value, &["is_error", "isError"]),
    });
    Ok(ReportedCall {
        call: ToolCall {
            name: name.to_owned(),
            arguments,
            call_id: id.unwrap_or_default().to_owned(),
            provider_fields: None,
        },
        has_id: id.is_some(),
        result,
    })
}

fn flag(value: &Value, names: &[&str]) -> bool {
    field(value, names).and_then(Value::as_bool).unwrap_or_default()
}

/// The result of a call: a text, or `{call_id, result, is_error}`.
pub(crate) fn result(value: &Value) -> Result<ReportedResult, String> {
    let id = field(
        value,
        &["call_id", "tool_call_id", "toolCallId", "tool_use_id", "id"],
    )
    .and_then(Value::as_str);
    let output = match value {
        Value::Object(_) => field(value, &["result", "output", "content", "text"])
            .ok_or("a result has neither `result`, `output` nor `content`")?,
        Value::String(_) => value,
        other => {
            return Err(format!(
                "a result is {} and not a text or an object",
                json_kind(other)
            ));
        }
    };
    Ok(ReportedResult {
        call_id: id.map(str::to_owned),
        text: match output {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
        is_error: flag(value, &["is_error", "isError"]),
    })
}

/// A passage: a text, or an object with `text`, `content` or `page_content`.
pub(crate) fn passage(value: &Value) -> Result<String, String> {
    let found = match value {
        Value::String(text) => Some(text.as_str()),
        Value::Object(_) => field(value, &["text", "content", "page_content"]).and_then(Value::as_str),
        _ => None,
    };
    let found = found.map(str::to_owned);
    found.ok_or_else(|| format!("a passage is {} and not a text", json_kind(value)))
}

/// Tokens, by the names of the usual services.
pub(crate) fn usage(value: &Value) -> Result<TokenUsage, String> {
    if !value.is_object() {
        return Err(format!(
            "the usage is {} and not an object with the tokens",
            json_kind(value)
        ));
    }
    let count = |names: &[&str]| {
        let Some(found) = field(value, names) else {
            return Ok(None);
        };
        let name = names.first().copied().unwrap_or_default();
        let whole = found.as_u64();
        whole
            .map(Some)
            .ok_or_else(|| format!("`{name}` is {found} and not a number of tokens"))
    };
    let prompt = count(&["prompt_tokens", "input_tokens", "promptTokens", "inputTokens"])?;
    let completion = count(&[
        "completion_tokens",
        "output_tokens",
        "completionTokens",
        "outputTokens",
    ])?;
    let total = count(&["total_tokens", "totalTokens", "total"])?;
    match (prompt, completion, total) {
        (Some(prompt), Some(completion), total) => {
            let mut usage = TokenUsage::new(prompt, completion);
            usage.total_tokens = total.unwrap_or(usage.total_tokens);
            Ok(usage)
        }
        (None, None, Some(total)) => {
            let mut usage = TokenUsage::new(0, 0);
            usage.total_tokens = total;
            Ok(usage)
        }
        _ => Err(
            "the usage has neither `prompt_tokens` with `completion_tokens` nor `total_tokens`".to_owned(),
        ),
    }
}

/// A cost in US dollars.
pub(crate) fn cost(value: &Value) -> Result<f64, String> {
    let number = value.as_f64().filter(|cost| cost.is_finite() && *cost >= 0.0);
    number.ok_or_else(|| format!("the cost is {value} and not a number from 0"))
}

/// A word, such as the reason for the end of an answer.
pub(crate) fn word(value: &Value) -> Result<String, String> {
    let word = value.as_str().map(str::trim).filter(|word| !word.is_empty());
    word.map(str::to_owned)
        .ok_or_else(|| format!("it is {} and not a word", json_kind(value)))
}

/// An id: a text or a number.
pub(crate) fn id(value: &Value) -> Result<String, String> {
    match value {
        Value::String(id) if !id.is_empty() => Ok(id.clone()),
        Value::Number(id) => Ok(id.to_string()),
        other => Err(format!("it is {} and not an id", json_kind(other))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_read_in_the_usual_forms() {
        let expected = json!({"id": 7});
        for (form, id) in [
            (json!({"name": "look_up", "arguments": {"id": 7}}), None),
            (
                json!({"tool": "look_up", "args": {"id": 7}, "call_id": "c9"}),
                Some("c9"),
            ),
            (
                json!({"id": "c8", "type": "function", "function": {"name": "look_up", "arguments": "{\"id\": 7}"}}),
                Some("c8"),
            ),
        ] {
            let read = call(&form).unwrap();
            assert_eq!(
                (read.call.name.as_str(), &read.call.arguments),
                ("look_up", &expected),
                "{form}"
            );
            assert_eq!(id, read.has_id.then_some(read.call.call_id.as_str()), "{form}");
        }
        assert_eq!(call(&json!({"name": "f"})).unwrap().call.arguments, json!({}));
    }

    #[test]
    fn what_has_no_known_form_is_an_error() {
        for wrong in [
            json!(null),
            json!("f"),
            json!(3),
            json!([]),
            json!({}),
            json!({"name": 3}),
            json!({"name": "f", "arguments": "x"}),
            json!({"name": "f", "arguments": [1]}),
        ] {
            assert!(call(&wrong).is_err(), "{wrong}");
        }
        for wrong in [json!(null), json!(3), json!([]), json!({}), json!({"text": 3})] {
            assert!(passage(&wrong).is_err(), "{wrong}");
        }
        for wrong in [
            json!("3"),
            json!({}),
            json!({"prompt_tokens": 3}),
            json!({"prompt_tokens": -1, "completion_tokens": 2}),
            json!({"total_tokens": "9"}),
        ] {
            assert!(usage(&wrong).is_err(), "{wrong}");
        }
        for wrong in [json!("3"), json!(-0.1), json!({})] {
            assert!(cost(&wrong).is_err(), "{wrong}");
        }
    }
}
