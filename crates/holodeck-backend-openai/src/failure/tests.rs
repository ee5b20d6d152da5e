//! Tests of how errors of endpoints are read.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

#[test]
fn error_details_in_the_usual_shapes() {
    for (body, message, code, param) in [
        (
            r#"{"error":{"message":"no","type":"t","param":"temperature","code":"c"}}"#,
            Some("no"),
            Some("c"),
            Some("temperature"),
        ),
        (
            r#"{"error":{"message":"no","type":"t","code":null}}"#,
            Some("no"),
            Some("t"),
            None,
        ),
        (r#"{"error":"no"}"#, Some("no"), None, None),
        (
            r#"{"object":"error","message":"no","code":400}"#,
            Some("no"),
            Some("400"),
            None,
        ),
        (r#"{"detail":"no"}"#, Some("no"), None, None),
        (
            r#"{"detail":[{"msg":"no","type":"t"},{"msg":"other"}]}"#,
            Some("no"),
            Some("t"),
            None,
        ),
        (
            r#"{"result":null,"success":false,"errors":[{"code":7003,"message":"no"}],"messages":[]}"#,
            Some("no"),
            Some("7003"),
            None,
        ),
        (
            r#"{"base_resp":{"status_code":1004,"status_msg":"no"}}"#,
            Some("no"),
            Some("1004"),
            None,
        ),
        (r#"{"detail":[]}"#, None, None, None),
        (r#"{"errors":"no"}"#, None, None, None),
        ("<html>", None, None, None),
    ] {
        let found = ErrorDetails::of_body(body);
        let found = (found.message, found.code, found.param);
        let expected = [message, code, param].map(|text| text.map(str::to_owned));
        assert_eq!(found, expected.into(), "{body}");
    }
}

#[test]
fn the_status_that_an_error_names_in_the_usual_places() {
    for (body, expected) in [
        (r#"{"error":{"message":"no","code":503}}"#, Some(503)),
        (r#"{"error":{"message":"no","code":"503"}}"#, Some(503)),
        (r#"{"error":{"message":"no","status":503}}"#, Some(503)),
        (
            r#"{"error":{"message":"no","code":"busy","status":503}}"#,
            Some(503),
        ),
        (
            r#"{"error":{"message":"no","code":7003},"status":503}"#,
            Some(503),
        ),
        (r#"{"error":"no","status_code":503}"#, Some(503)),
        (r#"{"error":"no","code":503}"#, Some(503)),
        (r#"{"message":"no","status":503}"#, Some(503)),
        (
            r#"[{"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}]"#,
            Some(503),
        ),
        (
            r#"{"errors":[{"code":7003,"message":"no"}],"status":503}"#,
            Some(503),
        ),
        (r#"{"errors":[{"status":"503","message":"no"}]}"#, Some(503)),
        (r#"{"base_resp":{"status_code":1004,"status_msg":"no"}}"#, None),
        (
            r#"{"error":{"message":"no","type":"rate_limit_error"}}"#,
            Some(429),
        ),
        (
            r#"{"error":{"message":"no","code":"RESOURCE_EXHAUSTED"}}"#,
            Some(429),
        ),
        (
            r#"{"error":{"message":"no","type":"overloaded_error"}}"#,
            Some(503),
        ),
        (r#"{"error":{"message":"no","status":"UNAVAILABLE"}}"#, Some(503)),
        // Neither words of a message nor other numbers are a status.
        (r#"{"error":"overloaded, 503"}"#, None),
        (
            r#"{"error":{"message":"429","type":"server_error","code":200}}"#,
            None,
        ),
        (r#"{"error":{"message":"no","status":true,"code":99999}}"#, None),
    ] {
        assert_eq!(ErrorDetails::of_body(body).status, expected, "{body}");
    }
}

#[test]
fn a_parameter_named_in_the_text() {
    let body = json!({"messages": [], "temperature": 0.1, "max_tokens": 5});
    for (text, expected) in [
        (
            "Unsupported parameter: 'max_tokens' is not supported",
            Some("max_tokens"),
        ),
        ("`temperature` does not support 0.1", Some("temperature")),
        ("Unrecognized request argument supplied: top_p", None),
        ("these messages are too long", None),
    ] {
        assert_eq!(named_parameter(400, text, &body).as_deref(), expected, "{text}");
    }
    assert_eq!(named_parameter(500, "max_tokens", &body), None);
}
