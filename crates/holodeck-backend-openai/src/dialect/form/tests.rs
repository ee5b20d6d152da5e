//! Tests of what is tried after a refusal, in which order, and what is remembered.

use holodeck_backend_api::{BackendError, Explanation};
use holodeck_http::{HttpError, HttpUrl};
use pretty_assertions::assert_eq;

use super::*;
use crate::failure;

fn refusal(status: u16, text: &str, param: Option<&str>) -> Refusal {
    let error = BackendError::Provider {
        status: Some(status),
        code: None,
        explanation: Box::new(Explanation::new("an error").with_source(failure::Reported(text.to_owned()))),
        param: param.map(str::to_owned),
        retryable: false,
        retry_after: None,
    };
    Refusal::of_answer(&error).unwrap()
}

/// A refusal with this body.
fn bare(status: u16, text: &str, param: Option<&str>) -> Refusal {
    let body = match param {
        Some(param) => json!({"error": {"message": text, "param": param}}).to_string(),
        None => text.to_owned(),
    };
    Refusal::of_http(&HttpError::Status {
        url: HttpUrl::parse("http://localhost/v1").unwrap(),
        status,
        body,
        retry_after: None,
    })
    .unwrap()
}

fn body() -> Value {
    json!({
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": []},
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        "logprobs": true, "top_logprobs": 20, "max_tokens": 9,
    })
}

/// The changes that are tried one after another while the server gives the same answer.
fn tried(status: u16, text: &str, param: Option<&str>) -> Vec<Change> {
    let mut attempts = Learnt::default().attempts("m");
    let mut tried = Vec::new();
    while attempts.change(refusal(status, text, param), &body()) {
        assert_eq!(attempts.form.0.len(), 1, "only one part is left out at a time");
        tried.extend(attempts.form.0.iter().copied());
    }
    tried
}

#[test]
fn a_vague_refusal_makes_one_try_without_each_optional_part() {
    let optional = [
        Change::FormatInInstructions,
        Change::WithoutLogProbs,
        Change::WithoutProviderFields,
    ];
    for status in [400, 422, 500, 501] {
        assert_eq!(tried(status, "grammar went wrong", None), optional, "{status}");
    }
    for status in [200, 401, 403, 404, 408, 409, 413, 429, 502, 503] {
        assert_eq!(tried(status, "grammar went wrong", None), [], "{status}");
    }
}

#[test]
fn what_the_error_names_is_tried_first() {
    use Change::{
        FormatInInstructions, OtherLimit, Whole, WithoutLogProbs, WithoutProviderFields, WithoutStreamOptions,
    };
    for (text, param, first) in [
        (
            "'response_format.type' must be 'text'",
            None,
            FormatInInstructions,
        ),
        ("no", Some("response_format.json_schema"), FormatInInstructions),
        ("You may not request LogProbs", None, WithoutLogProbs),
        ("unknown field `reasoning_content`", None, WithoutProviderFields),
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'",
            None,
            OtherLimit,
        ),
        ("unrecognized", Some("max_tokens"), OtherLimit),
        ("stream_options is unknown", None, WithoutStreamOptions),
        ("no", Some("stream"), Whole),
        ("Cannot use tools with stream", None, Whole),
    ] {
        assert_eq!(tried(400, text, param).first(), Some(&first), "{text} {param:?}");
    }
    // A limit that is too large is no unknown limit.
    assert!(!tried(400, "max_tokens must be at most 4", Some("max_tokens")).contains(&OtherLimit));
}

#[test]
fn fields_of_the_transport_are_named_in_many_ways() {
    use Change::{OtherLimit, Whole, WithoutStreamOptions};
    for (text, param, first) in [
        (
            "Extra inputs are not permitted: stream_options",
            None,
            WithoutStreamOptions,
        ),
        ("no", Some("body.stream_options"), WithoutStreamOptions),
        ("no", Some("$.stream_options.include_usage"), WithoutStreamOptions),
        ("no", Some("/stream_options"), WithoutStreamOptions),
        (
            "`include_usage` is not a thing",
            Some("body"),
            WithoutStreamOptions,
        ),
        ("max_tokens: extra inputs are not permitted", None, OtherLimit),
        ("invalid field `max_tokens`", None, OtherLimit),
        ("unexpected keyword argument 'max_tokens'", None, OtherLimit),
        ("this model doesn't support max_tokens", None, OtherLimit),
        ("this field is not permitted", Some("body.max_tokens"), OtherLimit),
        ("no", Some("body.stream"), Whole),
    ] {
        for status in [400, 422] {
            assert_eq!(
                tried(status, text, param).first(),
                Some(&first),
                "{text} {param:?}"
            );
        }
    }
}

/// A request with no part that servers refuse in every wording.
fn plain_body() -> Value {
    json!({"messages": [{"role": "user", "content": "hi"}], "temperature": 0.2, "max_tokens": 9, "seed": 3})
}

#[test]
fn an_error_without_words_may_be_about_the_transport() {
    use Change::{OtherLimit, Whole, WithoutStreamOptions};
    let tried = |status, text: &str, param| {
        let mut attempts = Learnt::default().attempts("m");
        let mut tried = Vec::new();
        while attempts.change(bare(status, text, param), &plain_body()) {
            tried.extend(attempts.form.0.iter().copied());
        }
        tried
    };
    let all = [OtherLimit, WithoutStreamOptions, Whole];
    for text in [
        "",
        "{}",
        "Bad Request",
        r#"{"error": {"message": "Unprocessable Entity"}}"#,
    ] {
        assert_eq!(tried(400, text, None), all, "{text}");
        assert_eq!(tried(422, text, None), all, "{text}");
        for status in [200, 401, 403, 404, 408, 409, 413, 429, 500, 502, 503] {
            assert_eq!(tried(status, text, None), [], "{status} {text}");
        }
    }
    for text in [
        "",
        "Not Implemented",
        "<html><title>405 Method Not Allowed</title></html>",
    ] {
        assert_eq!(tried(405, text, None), [Whole], "{text}");
        assert_eq!(tried(501, text, None), [Whole], "{text}");
    }
    // Something is not known, and it is not said what.
    let extra = "Extra inputs are not permitted";
    assert_eq!(tried(422, extra, None), [OtherLimit, WithoutStreamOptions]);
    // What is named is what is wrong.
    for text in ["temperature is not supported", "`max_tokens` must be at most 4"] {
        assert_eq!(tried(400, text, None), [], "{text}");
    }
    for param in ["temperature", "body.temperature", "seed", "messages[0].name"] {
        assert_eq!(
            tried(422, "Extra inputs are not permitted", Some(param)),
            [],
            "{param}"
        );
        assert_eq!(tried(422, "", Some(param)), [], "{param}");
    }
    assert_eq!(tried(422, "grammar went wrong", None), []);
}

#[test]
fn errors_about_length_content_and_keys_are_no_refusals() {
    for text in [
        "This model's maximum context length is 10 tokens",
        "content_filter",
        "API key not valid. Please pass a valid API key.",
    ] {
        assert_eq!(tried(400, text, None), [], "{text}");
    }
}

#[test]
fn another_error_after_a_change_keeps_the_change() {
    let learnt = Learnt::default();
    let mut attempts = learnt.attempts("m");
    assert!(attempts.change(refusal(400, "response_format", None), &body()));
    assert!(attempts.change(refusal(400, "no logprobs", None), &body()));
    let both: BTreeSet<_> = [Change::FormatInInstructions, Change::WithoutLogProbs].into();
    assert_eq!(attempts.form.0, both);
    learnt.remember("m", &attempts.form);
    assert_eq!(learnt.attempts("m").form.0, both);
    assert_eq!(learnt.attempts("another").form, Form::default());
}

#[test]
fn a_form_changes_only_its_part() {
    let form = |change| Form([change].into());
    let sent = form(Change::FormatInInstructions).apply(&body()).into_owned();
    let mut expected = body();
    expected.as_object_mut().unwrap().shift_remove("response_format");
    let prompt = "be brief\n\nAnswer with one JSON value that satisfies this JSON Schema, and with nothing else: no \
                  explanation, no code fence.\n{\"type\":\"object\"}";
    expected["messages"][0]["content"] = json!(prompt);
    assert_eq!(sent, expected);

    let sent = form(Change::OtherLimit).apply(&body()).into_owned();
    assert_eq!(
        (sent.get("max_tokens"), sent.get("max_completion_tokens")),
        (None, Some(&json!(9)))
    );
    assert_eq!(
        form(Change::OtherLimit).apply(&sent).into_owned()["max_tokens"],
        json!(9)
    );

    let sent = form(Change::WithoutLogProbs).apply(&body()).into_owned();
    assert!(sent.get("logprobs").is_none() && sent.get("top_logprobs").is_none());
    for change in [Change::Whole, Change::WithoutStreamOptions] {
        assert_eq!(form(change).apply(&body()).into_owned(), body());
    }
    assert_eq!(Form::default().apply(&body()).into_owned(), body());
}

#[test]
fn a_value_that_is_refused_does_not_rename_the_limit() {
    let body = json!({"max_tokens": 7});
    let is_tried = |text: &str| Change::OtherLimit.is_named(&bare(400, text, None), &body);
    for text in [
        "max_tokens is too large: this model does not support more than 5 tokens",
        "max_tokens=7 is not allowed; the limit is 5",
        "unexpected value for max_tokens: must be at most 5",
        "max_tokens: 7 is forbidden for your tier (at most 5)",
    ] {
        assert!(!is_tried(text), "{text}");
    }
    for text in [
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "max_tokens: extra fields not permitted",
        "unknown field `max_tokens`",
    ] {
        assert!(is_tried(text), "{text}");
    }
}
