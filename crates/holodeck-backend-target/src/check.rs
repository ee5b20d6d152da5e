//! Checks of a target that need no request: its templates and paths.

use holodeck_model::{ResponsePaths, TargetConfig};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use crate::{
    paths::parse,
    template::{NAMES, names},
};

/// A problem of a field of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a problem has exactly these parts")]
pub struct TargetProblem {
    /// The field, as in `target.response.text`.
    pub pointer: String,
    /// The problem.
    pub message: String,
}

/// The problems of the templates and paths of a target.
pub fn check_target(target: &TargetConfig) -> Vec<TargetProblem> {
    let mut problems = Vec::new();
    match target {
        TargetConfig::Http(http) => {
            check_template("target.url", &http.url, &mut problems);
            for (name, value) in &http.query {
                check_template(&format!("target.query.{name}"), value, &mut problems);
            }
            for (name, value) in &http.headers {
                check_template(
                    &format!("target.headers.{name}"),
                    value.expose_secret(),
                    &mut problems,
                );
            }
            if let Some(body) = &http.body {
                check_json("target.body", body, &mut problems);
            }
            check_paths(http.response.as_ref(), &mut problems);
            if let Some(stream) = &http.stream {
                check_path("target.stream.text", &stream.text, &mut problems);
                if stream.done.trim_start().starts_with('$') {
                    check_path("target.stream.done", &stream.done, &mut problems);
                }
            }
        }
        TargetConfig::Command(command) => check_paths(command.response.as_ref(), &mut problems),
        TargetConfig::Function(function) => check_paths(function.response.as_ref(), &mut problems),
        _ => {}
    }
    problems
}

fn check_paths(paths: Option<&ResponsePaths>, problems: &mut Vec<TargetProblem>) {
    for (name, path) in paths.iter().flat_map(|paths| paths.each()) {
        check_path(&format!("target.response.{name}"), path.path(), problems);
    }
}

fn check_path(pointer: &str, path: &str, problems: &mut Vec<TargetProblem>) {
    if let Err(problem) = parse(path) {
        let message = format!("`{path}` is no JSONPath: {problem}");
        problems.push(TargetProblem {
            pointer: pointer.to_owned(),
            message,
        });
    }
}

fn check_json(pointer: &str, value: &Value, problems: &mut Vec<TargetProblem>) {
    match value {
        Value::String(text) => check_template(pointer, text, problems),
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                check_json(&format!("{pointer}.{place}"), item, problems);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                check_json(&format!("{pointer}.{name}"), field, problems);
            }
        }
        _ => {}
    }
}

/// A template is not shown, because it may hold a key.
fn check_template(pointer: &str, text: &str, problems: &mut Vec<TargetProblem>) {
    let mut add = |message: String| {
        problems.push(TargetProblem {
            pointer: pointer.to_owned(),
            message,
        });
    };
    match names(text) {
        Err(problem) => add(format!("the template of `{pointer}` is broken: {problem}")),
        Ok(used) => {
            for name in used.iter().filter(|name| !NAMES.contains(&name.as_str())) {
                add(format!(
                    "`{{{{ {name} }}}}` in `{pointer}` is not known; the names are {}",
                    NAMES.map(|name| format!("`{name}`")).join(", ")
                ));
            }
        }
    }
}
