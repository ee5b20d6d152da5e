//! Checks of a target that need no request: its templates and paths.

use holodeck_model::{JsonMap, ResponsePaths, TargetConfig};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use crate::{
    paths::parse,
    template::{self, NAMES, names, used_vars},
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
    for (pointer, template) in templates(target) {
        check_template(&pointer, &template, &mut problems);
    }
    match target {
        TargetConfig::Http(http) => {
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

/// The `vars` among these that requests to a target contain.
pub fn sent_vars(target: &TargetConfig, vars: &JsonMap) -> Vec<String> {
    let all = || vars.keys().cloned().collect();
    match target {
        // They get the whole question.
        TargetConfig::Command(_) | TargetConfig::Function(_) => return all(),
        TargetConfig::Answers(_) => return Vec::new(),
        _ => {}
    }
    let mut sent = Vec::new();
    for (_, template) in templates(target) {
        match used_vars(&template) {
            Some(names) => sent.extend(names),
            None => return all(),
        }
    }
    sent.retain(|name| vars.contains_key(name));
    sent.sort();
    sent.dedup();
    sent
}

/// The fields whose templates need one of the `vars` that is not among these, with its name.
pub fn missing_vars(target: &TargetConfig, vars: &JsonMap) -> Vec<(String, String)> {
    let templates = templates(target).into_iter();
    let missing = templates.flat_map(|(pointer, template)| {
        let names = template::missing_vars(&template, vars).into_iter();
        names.map(move |name| (pointer.clone(), name))
    });
    missing.collect()
}

/// The templates of a target, each with its field.
fn templates(target: &TargetConfig) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (url, headers) = match target {
        TargetConfig::Http(http) => (&http.url, &http.headers),
        TargetConfig::AgUi(agent) => (&agent.url, &agent.headers),
        TargetConfig::Holodeck(agent) => (&agent.url, &agent.headers),
        TargetConfig::Command(_) | TargetConfig::Function(_) | TargetConfig::Answers(_) => return found,
    };
    found.push(("target.url".to_owned(), url.clone()));
    for (name, value) in headers {
        found.push((format!("target.headers.{name}"), value.expose_secret().to_owned()));
    }
    if let TargetConfig::Http(http) = target {
        for (name, value) in &http.query {
            found.push((format!("target.query.{name}"), value.clone()));
        }
        if let Some(body) = &http.body {
            add_templates("target.body", body, &mut found);
        }
    }
    found
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

fn add_templates(pointer: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((pointer.to_owned(), text.clone())),
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                add_templates(&format!("{pointer}.{place}"), item, found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                add_templates(&format!("{pointer}.{name}"), field, found);
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
