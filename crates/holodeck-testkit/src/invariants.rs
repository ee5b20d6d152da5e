//! Rules for every request to a model, in any test.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use crate::ReceivedRequest;

mod conversation;
mod schema;

/// The violations of a chat completion request: transport, flags, and all of [`body_violations`].
pub fn request_violations(request: &ReceivedRequest) -> Vec<String> {
    let mut found = Violations::default();
    found.unless(request.method == "POST", || {
        format!("method {} instead of POST", request.method)
    });
    found.unless(
        request
            .header("content-type")
            .is_some_and(|value| value.starts_with("application/json")),
        || "the content type is not application/json".to_owned(),
    );
    azure(request, &mut found);
    if !request.body.is_object() {
        found.add("the body is not a JSON object");
        return found.0;
    }
    found.unless(request.body["stream"].is_boolean(), || {
        "`stream` does not say whether to stream".to_owned()
    });
    if let Some(options) = request.body.get("stream_options") {
        found.unless(request.body["stream"] == true, || {
            "`stream_options` without a stream".to_owned()
        });
        found.unless(options["include_usage"] == true, || {
            "`stream_options` without `include_usage: true`".to_owned()
        });
    }
    found.unless(
        request.body["model"]
            .as_str()
            .is_some_and(|name| !name.is_empty()),
        || "`model` is missing".to_owned(),
    );
    found.0.extend(body_violations(&request.body));
    found.0
}

/// The violations in the body: messages, tools, response format, parameters.
pub fn body_violations(body: &Value) -> Vec<String> {
    let mut found = Violations::default();
    match body["messages"].as_array() {
        Some(messages) if !messages.is_empty() => conversation::check(messages, &mut found),
        _ => found.add("`messages` is no list with something in it"),
    }
    tools(body, &mut found);
    response_format(body, &mut found);
    found.unless(
        body.get("max_tokens").is_none() || body.get("max_completion_tokens").is_none(),
        || "both `max_tokens` and `max_completion_tokens`".to_owned(),
    );
    for (key, value) in body.as_object().into_iter().flatten() {
        found.unless(!value.is_null(), || format!("`{key}` is null instead of absent"));
    }
    for key in ["api_key", "endpoint", "base_url", "api_version"] {
        found.unless(body.get(key).is_none(), || {
            format!("`{key}` has no place in a body")
        });
    }
    found.0
}

/// Violations in the order they were found.
#[derive(Default)]
pub(crate) struct Violations(Vec<String>);

impl Violations {
    pub(crate) fn into_texts(self) -> Vec<String> {
        self.0
    }

    pub(crate) fn add(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }

    pub(crate) fn unless(&mut self, fine: bool, text: impl FnOnce() -> String) {
        if !fine {
            self.0.push(text());
        }
    }
}

fn azure(request: &ReceivedRequest, found: &mut Violations) {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    if path.contains("/openai/deployments/") {
        found.unless(query.contains("api-version="), || {
            "a deployment's path without `api-version`".to_owned()
        });
    }
    if path.contains("/openai/deployments/") || path.contains("/openai/v1/") {
        found.unless(request.header("authorization").is_none(), || {
            "Azure takes `api-key`, not `authorization`".to_owned()
        });
    }
}

fn tools(body: &Value, found: &mut Violations) {
    let Some(tools) = body.get("tools") else {
        return;
    };
    let Some(tools) = tools.as_array().filter(|tools| !tools.is_empty()) else {
        found.add("`tools` is no list with something in it");
        return;
    };
    let mut names = HashSet::new();
    for tool in tools {
        let function = &tool["function"];
        let name = function["name"].as_str().unwrap_or_default();
        found.unless(tool["type"] == "function" && is_name(name), || {
            format!("tool `{name}` is no function with a usable name")
        });
        found.unless(names.insert(name.to_owned()), || {
            format!("tool `{name}` is listed twice")
        });
        found.unless(function["parameters"]["type"] == "object", || {
            format!("the parameters of tool `{name}` are no object schema")
        });
    }
}

fn response_format(body: &Value, found: &mut Violations) {
    let Some(format) = body.get("response_format") else {
        return;
    };
    match format["type"].as_str() {
        Some("json_schema") => {
            let spec = &format["json_schema"];
            found.unless(is_name(spec["name"].as_str().unwrap_or_default()), || {
                "`response_format.json_schema.name` is not usable".to_owned()
            });
            found.unless(spec["schema"].is_object(), || {
                "`response_format.json_schema.schema` is no object".to_owned()
            });
            if spec["strict"] == true {
                let mut missing = BTreeSet::new();
                schema::not_strict(&spec["schema"], "", &mut missing);
                for place in missing {
                    found.0.push(format!("strict schema, but {place}"));
                }
            }
        }
        Some("json_object" | "text") => {}
        _ => found.add("`response_format.type` is unknown"),
    }
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests;
