//! Handlers for operators and tools: health, metrics, the description of the interface.

use axum::{
    extract::State,
    response::{Html, IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::{App, ServedAgent, ServedTool};

/// The interface, for programs.
pub(crate) const OPENAPI: &str = include_str!("openapi.json");

pub(crate) async fn health(State(app): State<App>) -> axum::Json<Value> {
    axum::Json(json!({ "status": "healthy", "version": app.options().version }))
}

pub(crate) async fn ready(State(app): State<App>) -> Response {
    let status = if app.is_draining() {
        "stopping"
    } else if app.has_store().await {
        return axum::Json(json!({ "status": "ready" })).into_response();
    } else {
        "the store cannot be written"
    };
    let body = axum::Json(json!({ "status": status }));
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

pub(crate) async fn agent_health(State(app): State<App>) -> axum::Json<Value> {
    let describe = |agent: &ServedAgent| {
        json!({
            "name": agent.name,
            "description": agent.description,
            "model": agent.model,
            "tools": agent.tools.len(),
            "status": "ready",
        })
    };
    axum::Json(json!({ "agents": app.agents().map(describe).collect::<Vec<_>>() }))
}

pub(crate) async fn tools(State(app): State<App>) -> axum::Json<Value> {
    let describe = |agent: &ServedAgent, tool: &ServedTool| {
        json!({
            "name": tool.name,
            "type": tool.kind,
            "description": tool.description,
            "agent": agent.name,
            // Tools are ready when the server is.
            "supports_init": false,
            "init_status": null,
        })
    };
    let of_agent = |agent| {
        let agent: &ServedAgent = agent;
        agent.tools.iter().map(move |tool| describe(agent, tool))
    };
    let tools: Vec<Value> = app.agents().flat_map(of_agent).collect();
    axum::Json(json!({ "total": tools.len(), "tools": tools }))
}

pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4");
    let text = app.metrics().text(app.contract_violations());
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

pub(crate) async fn openapi() -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], OPENAPI).into_response()
}

/// The interface, for people: a table of the calls.
pub(crate) async fn docs() -> Response {
    let document: Value = serde_json::from_str(OPENAPI).unwrap_or_default();
    let mut rows = String::new();
    for (path, calls) in document
        .get("paths")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        for (method, call) in calls.as_object().into_iter().flatten() {
            let summary = call.get("summary").and_then(Value::as_str).unwrap_or_default();
            let method = method.to_uppercase();
            let row = format!("<tr><td>{method}<td><code>{path}</code><td>{summary}");
            rows.push_str(&row);
        }
    }
    let page = Html(format!(
        "<!doctype html><meta charset=utf-8><title>HoloDeck API</title>\
         <style>body{{font:15px system-ui;margin:2rem;max-width:60rem}}td{{padding:.2rem .8rem .2rem 0;vertical-align:top}}</style>\
         <h1>HoloDeck API</h1><p>The same for programs: <a href=/openapi.json>/openapi.json</a>.<table>{rows}</table>"
    ));
    let policy = HeaderValue::from_static(
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
    );
    ([(header::CONTENT_SECURITY_POLICY, policy)], page).into_response()
}
