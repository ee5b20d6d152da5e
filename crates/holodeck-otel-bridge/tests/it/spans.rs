//! Tests of exported spans and metrics: structure, content only on request, and masked secrets.

use std::sync::Arc;

use futures::StreamExt as _;
use holodeck_backend_api::{AgentBackend, BackendError, BackendEvent, StopReason, TokenUsage};
use holodeck_otel_bridge::{Telemetry, TelemetryOptions};
use insta::assert_json_snapshot;
use opentelemetry_proto::tonic::trace::v1::Span;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    agent::{
        Scripted, agent, call, end, export_all, options, otlp, plain, request, result, start, text, turn_end,
        usage, with_a_tool, wrap,
    },
    collector::{Collector, attributes},
};

/// Runs every event of one turn.
pub(crate) async fn run(backend: &Arc<dyn AgentBackend>) -> Vec<Result<BackendEvent, BackendError>> {
    backend.start(request("PRIVATE-PROMPT")).collect().await
}

fn shown(spans: &[Span]) -> Value {
    let name_of = |id: &[u8]| {
        spans
            .iter()
            .find(|span| span.span_id == id)
            .map(|span| span.name.as_str())
    };
    let one = |span: &Span| {
        json!({"name": span.name, "kind": span.kind, "under": name_of(&span.parent_span_id),
            "links_to": span.links.iter().map(|link| name_of(&link.span_id)).collect::<Vec<_>>(),
            "status": span.status.as_ref().map(|status| (status.code, status.message.as_str())),
            "attributes": attributes(&span.attributes)})
    };
    spans.iter().map(one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_becomes_spans_and_measures() {
    let collector = Collector::start().await;
    let telemetry = start(&otlp(&collector.url, &json!({})));
    let backend = wrap(&telemetry, Scripted::backend([with_a_tool()]));
    let events = run(&backend).await;
    assert_eq!(format!("{events:?}"), format!("{:?}", with_a_tool()));
    export_all(&telemetry).await;
    assert_json_snapshot!("spans", shown(&collector.spans()));
    assert_json_snapshot!("measures", collector.series());
    assert_eq!(
        collector.resource(),
        json!({"service.name": "holodeck-helper", "service.version": env!("CARGO_PKG_VERSION")})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spans_and_measures_of_a_judge_name_its_own_model() {
    let collector = Collector::start().await;
    let telemetry = start(&otlp(&collector.url, &json!({})));
    let mut judge = agent("anthropic", &json!({})).config.model.clone().unwrap();
    judge.name = "judging-model".to_owned();
    run(&wrap(&telemetry, Scripted::backend([plain("one")]))).await;
    run(&telemetry.wrap(Scripted::backend([plain("two")]), &judge)).await;
    export_all(&telemetry).await;
    let spans = shown(&collector.spans());
    let asked: Vec<_> = spans
        .as_array()
        .unwrap()
        .iter()
        .filter(|span| span["attributes"]["gen_ai.request.model"].is_string())
        .map(|span| {
            let attributes = &span["attributes"];
            (
                span["name"].as_str().unwrap().to_owned(),
                attributes["gen_ai.provider.name"].clone(),
                attributes["gen_ai.request.model"].clone(),
            )
        })
        .collect();
    for (model, provider) in [("m-1", "openai"), ("judging-model", "anthropic")] {
        for name in ["invoke_agent helper".to_owned(), format!("chat {model}")] {
            let expected = (name, json!(provider), json!(model));
            assert_eq!(
                asked.iter().filter(|span| **span == expected).count(),
                1,
                "{asked:?}"
            );
        }
    }
    assert_eq!(asked.len(), 4, "{asked:?}");
    let measured = serde_json::to_string(&collector.series()).unwrap();
    assert!(
        measured.contains("m-1") && measured.contains("judging-model"),
        "{measured}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_content_leaves_unless_it_is_asked_for() {
    let collector = Collector::start().await;
    let telemetry = start(&otlp(&collector.url, &json!({})));
    let error = BackendError::Provider {
        status: Some(400),
        code: None,
        explanation: "bad PRIVATE-ECHO".into(),
        param: None,
        retryable: false,
        retry_after: None,
    };
    let backend = wrap(&telemetry, Scripted::backend([with_a_tool(), vec![Err(error)]]));
    run(&backend).await;
    run(&backend).await;
    export_all(&telemetry).await;
    assert!(collector.received_text("search") && collector.received_text("400"));
    assert!(!collector.received_text("PRIVATE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn captured_content_is_redacted() {
    let collector = Collector::start().await;
    let traces = json!({"capture_content": true, "redaction_patterns": ["HIT|QUERY"]});
    let telemetry = start(&otlp(&collector.url, &traces));
    let mut script = with_a_tool();
    script.insert(0, Ok(text("key sk-very-secret-key ")));
    let backend = wrap(&telemetry, Scripted::backend([script]));
    run(&backend).await;
    export_all(&telemetry).await;
    for words in [
        "PRIVATE-PROMPT",
        "PRIVATE-THOUGHT",
        "PRIVATE-ANSWER",
        "PRIVATE-***",
    ] {
        assert!(collector.received_text(words), "{words}");
    }
    for words in ["PRIVATE-HIT", "PRIVATE-QUERY", "sk-very-secret-key"] {
        assert!(!collector.received_text(words), "{words}");
    }
    let tool = attributes(&collector.span("execute_tool search").attributes);
    assert_eq!(tool["gen_ai.tool.call.arguments"], r#"{"query":"PRIVATE-***"}"#);
    assert_eq!(tool["gen_ai.tool.call.result"], "PRIVATE-***");
    let agent = attributes(&collector.span("invoke_agent helper").attributes);
    assert_eq!(
        agent["gen_ai.input.messages"],
        r#"[{"role":"user","parts":[{"type":"text","content":"PRIVATE-PROMPT"}]}]"#
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_ends_are_errors_without_their_words() {
    let collector = Collector::start().await;
    let telemetry = start(&otlp(&collector.url, &json!({})));
    let unreachable = BackendError::Provider {
        status: None,
        code: None,
        explanation: "refused".into(),
        param: None,
        retryable: true,
        retry_after: None,
    };
    let failing_tool = vec![
        Ok(call("search", "c", json!({}))),
        Ok(usage(1, 1)),
        Ok(turn_end(StopReason::ToolUse, "m")),
        Ok(result("c", "no", true)),
        Err(BackendError::Timeout {
            after: std::time::Duration::from_secs(1),
            cause: None,
        }),
    ];
    let scripts = [vec![Err(unreachable)], failing_tool, with_a_tool()];
    let backend = wrap(&telemetry, Scripted::backend(scripts));
    run(&backend).await;
    run(&backend).await;
    // Dropped in the middle: the caller gave up.
    let mut stream = backend.start(request("x"));
    stream.next().await;
    stream.next().await;
    drop(stream);
    export_all(&telemetry).await;
    let errors: Vec<(String, Value)> = collector
        .spans()
        .iter()
        .map(|span| {
            (
                span.name.clone(),
                attributes(&span.attributes)["error.type"].clone(),
            )
        })
        .filter(|(_, error)| !error.is_null())
        .collect();
    let expected = [
        ("invoke_agent helper", "unreachable"),
        ("chat m-1", "unreachable"),
        ("invoke_agent helper", "timeout"),
        ("execute_tool search", "tool_error"),
        ("chat m-1", "timeout"),
        ("invoke_agent helper", "cancelled"),
        ("chat m-1", "cancelled"),
        ("execute_tool search", "cancelled"),
    ];
    let mut errors: Vec<_> = errors
        .iter()
        .map(|(name, error)| (name.as_str(), error.as_str().unwrap()))
        .collect();
    let mut expected = expected.to_vec();
    errors.sort_unstable();
    expected.sort_unstable();
    assert_eq!(errors, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_an_agent_hang_under_the_call_that_started_them() {
    let collector = Collector::start().await;
    let telemetry = start(&otlp(&collector.url, &json!({})));
    let nested = |event| {
        Ok(BackendEvent::Nested {
            parent_call_id: "outer".to_owned(),
            event: Box::new(event),
        })
    };
    let script = vec![
        Ok(BackendEvent::SessionStarted {
            session_id: "conv-7".to_owned(),
            model: None,
        }),
        Ok(call("Agent", "outer", json!({}))),
        Ok(turn_end(StopReason::ToolUse, "m1")),
        nested(call("Read", "inner", json!({}))),
        nested(turn_end(StopReason::ToolUse, "m2")),
        nested(result("inner", "text", false)),
        Ok(result("outer", "done", false)),
        Ok(text("fine")),
        Ok(turn_end(StopReason::EndTurn, "m3")),
        Ok(end("fine", TokenUsage::new(1, 1))),
    ];
    let backend = wrap(&telemetry, Scripted::backend([script]));
    run(&backend).await;
    export_all(&telemetry).await;
    let (agent, read) = (
        collector.span("execute_tool Agent"),
        collector.span("execute_tool Read"),
    );
    assert_eq!(read.parent_span_id, agent.span_id);
    let root = collector.span("invoke_agent helper");
    assert_eq!(agent.parent_span_id, root.span_id);
    let chats: Vec<_> = collector
        .spans()
        .into_iter()
        .filter(|span| span.name.starts_with("chat "))
        .collect();
    let parents: Vec<_> = chats
        .iter()
        .map(|span| span.parent_span_id == agent.span_id)
        .collect();
    assert_eq!(parents.iter().filter(|nested| **nested).count(), 1);
    assert_eq!(chats.len(), 3);
    assert_eq!(attributes(&root.attributes)["gen_ai.conversation.id"], "conv-7");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_sub_agents_count_once_for_their_model_and_are_no_call_of_the_agent() {
    let collector = Collector::start().await;
    let telemetry = start(&otlp(&collector.url, &json!({})));
    let nested = |event| {
        Ok(BackendEvent::Nested {
            parent_call_id: "outer".to_owned(),
            event: Box::new(event),
        })
    };
    let helper_end = BackendEvent::TurnEnd {
        stop_reason: StopReason::EndTurn,
        message_id: None,
        model: Some("helper-2".to_owned()),
    };
    let script = vec![
        Ok(call("Agent", "outer", json!({}))),
        Ok(usage(100, 10)),
        Ok(turn_end(StopReason::ToolUse, "a")),
        nested(text("found")),
        nested(helper_end),
        Ok(result("outer", "done", false)),
        Ok(text("fine")),
        Ok(usage(200, 20)),
        Ok(turn_end(StopReason::EndTurn, "b")),
        Ok(BackendEvent::OtherUsage {
            model: Some("helper-2".to_owned()),
            usage: TokenUsage::new(7_000, 700),
        }),
        Ok(BackendEvent::Cost { usd: 0.5 }),
        Ok(end("fine", TokenUsage::new(7_300, 730))),
    ];
    let backend = wrap(&telemetry, Scripted::backend([script]));
    run(&backend).await;
    export_all(&telemetry).await;
    let chats: Vec<String> = collector
        .spans()
        .into_iter()
        .map(|span| span.name)
        .filter(|name| name.starts_with("chat "))
        .collect();
    assert_eq!(chats, ["chat m-1", "chat helper-2", "chat m-1"]);
    let tokens: Vec<(String, String, f64)> = collector
        .series()
        .iter()
        .filter(|series| series["name"] == "gen_ai.client.token.usage")
        .map(|series| {
            let text = |name: &str| series["attributes"][name].as_str().unwrap().to_owned();
            let sum = series["sum"].as_f64().unwrap();
            (text("gen_ai.request.model"), text("gen_ai.token.type"), sum)
        })
        .collect();
    let expected = [
        ("helper-2", "input", 7_000.0),
        ("helper-2", "output", 700.0),
        ("m-1", "input", 300.0),
        ("m-1", "output", 30.0),
    ];
    let mut tokens = tokens;
    tokens.sort_by(|one, other| one.partial_cmp(other).unwrap());
    assert_eq!(
        tokens,
        expected.map(|(model, kind, sum)| (model.to_owned(), kind.to_owned(), sum))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turns_of_a_session_share_a_conversation_and_each_is_a_trace() {
    let collector = Collector::start().await;
    let telemetry = start(&otlp(&collector.url, &json!({})));
    let backend = wrap(&telemetry, Scripted::backend([plain("one"), plain("two")]));
    let mut session = backend.create_session().await.unwrap();
    session.send("a").await.unwrap();
    session.send("b").await.unwrap();
    session.close().await.unwrap();
    export_all(&telemetry).await;
    let turns: Vec<_> = collector
        .spans()
        .into_iter()
        .filter(|span| span.name == "invoke_agent helper")
        .collect();
    let [first, second] = turns.as_slice() else {
        panic!("{} turns", turns.len());
    };
    let conversation = |span: &Span| attributes(&span.attributes)["gen_ai.conversation.id"].clone();
    assert_eq!(conversation(first), conversation(second));
    assert!(conversation(first).is_string());
    assert_ne!(first.trace_id, second.trace_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_run_has_a_place_in_the_callers_trace() {
    let collector = Collector::start().await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let options = TelemetryOptions {
        parent: Some(parent.to_owned()),
        ..options()
    };
    let agent = agent("openai", &otlp(&collector.url, &json!({})));
    let telemetry = Telemetry::start(&agent, &options);
    let traceparent = telemetry.traceparent().unwrap();
    assert!(traceparent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && traceparent.ends_with("-01"));
    assert!(!traceparent.contains("00f067aa0ba902b7"));
    let backend = wrap(&telemetry, Scripted::backend([plain("x")]));
    run(&backend).await;
    export_all(&telemetry).await;
    let run = collector.span("holodeck test");
    let id = u64::from_be_bytes(run.span_id.as_slice().try_into().unwrap());
    assert!(
        traceparent.contains(&format!("-{id:016x}-")),
        "{traceparent} {id:x}"
    );
    assert_eq!(
        collector.span("invoke_agent helper").links[0].span_id,
        run.span_id
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_of_nothing_keeps_no_trace_but_measures() {
    let collector = Collector::start().await;
    let telemetry = start(&otlp(&collector.url, &json!({"sample_rate": 0.0})));
    let backend = wrap(&telemetry, Scripted::backend([plain("x")]));
    run(&backend).await;
    assert_eq!(telemetry.shutdown(std::time::Duration::from_secs(30)).await, None);
    assert!(collector.spans().is_empty());
    assert!(!collector.series().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_compression_and_attributes_are_those_of_the_yaml() {
    let collector = Collector::start().await;
    let observability = json!({"enabled": true, "service_name": "shop", "resource_attributes": {"team": "blue"},
        "exporters": {"otlp": {"endpoint": format!("{}/base/", collector.url), "compression": "gzip",
            "headers": {"authorization": "Bearer hush"}}}});
    let telemetry = start(&observability);
    let backend = wrap(&telemetry, Scripted::backend([plain("x")]));
    run(&backend).await;
    export_all(&telemetry).await;
    let received = collector.received();
    assert!(!received.is_empty());
    for received in &received {
        assert!(received.path.starts_with("/base/v1/"), "{}", received.path);
        assert_eq!(received.header("authorization"), Some("Bearer hush"));
        assert_eq!(received.header("content-encoding"), Some("gzip"));
        assert_eq!(received.header("content-type"), Some("application/x-protobuf"));
    }
    assert!(collector.received_text("shop") && collector.received_text("blue"));
}
