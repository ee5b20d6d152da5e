//! The `target` block: an agent that is not ours, which answers in the place of `model` and `instructions`.

use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ResponsePaths, SideEffects};
use crate::value::{PathRef, SecretMap, nullable, read_secrets, tagged_enum, write_secrets};

/// The seconds that a target may take for one answer, if the YAML sets none.
const SECONDS: f64 = 120.0;

/// An agent that is not ours: a service, a program, a function, or answers that exist.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(tag = "type")]
pub enum TargetConfig {
    /// A service behind a URL, with requests and answers in JSON.
    Http(HttpTarget),
    /// A program: started for each message, or kept running.
    Command(CommandTarget),
    /// A Python or JavaScript function.
    Function(FunctionTarget),
    /// An agent behind a stream of AG-UI events.
    #[serde(rename = "ag-ui")]
    AgUi(AgUiTarget),
    /// Another `holodeck serve`.
    Holodeck(HolodeckTarget),
    /// Answers that exist, such as those of a log.
    Answers(AnswersTarget),
}

tagged_enum!(TargetConfig {
    Http => "http",
    Command => "command",
    Function => "function",
    AgUi => "ag-ui",
    Holodeck => "holodeck",
    Answers => "answers",
});

impl TargetConfig {
    /// The name of the target for reports: an address without its query, a program, a file.
    pub fn label(&self) -> String {
        let address = |url: &str| {
            let url = url.split(['?', '#']).next().unwrap_or_default();
            match url.split_once("://") {
                // A password is not shown.
                Some((scheme, rest)) => {
                    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                    let host = host.rsplit('@').next().unwrap_or_default();
                    format!("{scheme}://{host}{path}")
                }
                None => url.to_owned(),
            }
        };
        match self {
            Self::Http(target) => address(&target.url),
            Self::AgUi(target) => address(&target.url),
            Self::Holodeck(target) => address(&target.url),
            Self::Command(target) => target.command.to_string(),
            Self::Function(target) => format!("{}:{}", target.file, target.function),
            Self::Answers(target) => target.file.to_string(),
        }
    }

    /// The longest wait for one answer.
    pub fn time_limit(&self) -> Duration {
        let seconds = match self {
            Self::Http(target) => target.timeout,
            Self::Command(target) => target.timeout,
            Self::Function(target) => target.timeout,
            Self::AgUi(target) => target.timeout,
            Self::Holodeck(target) => target.timeout,
            Self::Answers(_) => None,
        };
        Duration::try_from_secs_f64(seconds.unwrap_or(SECONDS)).unwrap_or(Duration::MAX)
    }

    /// Whether the cookies of a service are those of the whole run and not of one case.
    pub fn shares_run(&self) -> bool {
        matches!(
            self,
            Self::Http(HttpTarget {
                share: Some(TargetShare::Run),
                ..
            })
        )
    }

    /// Whether answers that exist are read: no agent is asked.
    pub fn exists(&self) -> bool {
        matches!(self, Self::Answers(_))
    }
}

/// A service behind a URL.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpTarget {
    /// The URL, a template: `{{ input }}`, `{{ session_id }}` and `{{ vars.NAME }}` in it are escaped as a part of a URL.
    #[schemars(regex(pattern = r"\S"))]
    pub url: String,
    /// The method of the request; `POST` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<HttpMethod>,
    /// Headers of the request; their values are templates.
    #[serde(default, deserialize_with = "read_secrets", serialize_with = "write_secrets")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub headers: SecretMap,
    /// The query of the URL; its values are templates.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "IndexMap::is_empty"
    )]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub query: IndexMap<String, String>,
    /// The JSON of the request. Each string in it is a template with `input`, `messages`, `session_id`, `files` and
    /// `vars`; one that is a single expression, such as `"{{ messages }}"`, becomes the JSON value of that expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Where the parts of an answer are in its JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponsePaths>,
    /// The form of an answer that is a stream of events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<TargetStream>,
    /// `none`: a request changes nothing, so that it may be sent again after an answer was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    /// `run`: all cases share the cookies of the service. If absent, each case has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<TargetShare>,
    /// Seconds that an answer may take; 120 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001))]
    pub timeout: Option<f64>,
}

/// The method of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// `GET`, which has no body.
    Get,
    /// `POST`.
    #[default]
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
}

/// An answer as a stream of server-sent events, each with JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetStream {
    /// The path of the next piece of text in an event; events without it hold other parts.
    #[schemars(regex(pattern = r"\S"))]
    pub text: String,
    /// The last event: its data, such as `[DONE]`, or a path that matches only in it, such as `$.done`. A stream that ends
    /// without it is an error.
    #[schemars(regex(pattern = r"\S"))]
    pub done: String,
}

/// The cases that share cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetShare {
    /// All cases of a run share cookies.
    Run,
}

/// The extent of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetFresh {
    /// Each case has a process of its own.
    Case,
}

/// The form of what a program prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetOutput {
    /// One JSON object.
    #[default]
    Json,
    /// The text of the answer.
    Text,
}

/// A program that reads a request as JSON on standard input and prints its answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandTarget {
    /// The program: a name to be found on the path, or a path.
    pub command: PathRef,
    /// Arguments of the program.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub args: Vec<String>,
    /// Whether it keeps running and answers one line of JSON with one line of JSON; otherwise it is started for each message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_alive: bool,
    /// `case`: a kept program is started for each case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<TargetFresh>,
    /// Environment variables passed to it; of all others, only harmless ones are passed.
    #[serde(default, deserialize_with = "read_secrets", serialize_with = "write_secrets")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub env: SecretMap,
    /// The folder it runs in; that of this file if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<PathRef>,
    /// The form of what it prints; `json` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<TargetOutput>,
    /// Where the parts of an answer are in its JSON; `{text, tool_calls, …}` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponsePaths>,
    /// Seconds that an answer may take; 120 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001))]
    pub timeout: Option<f64>,
}

/// A function in a Python (`.py`) or JavaScript (`.mjs`, `.js`) file, kept running.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionTarget {
    /// The file.
    pub file: PathRef,
    /// The function, which may be asynchronous. It gets the request and returns a text or `{text, tool_calls, …}`.
    #[schemars(regex(pattern = r"\S"))]
    pub function: String,
    /// `case`: a process is started for each case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<TargetFresh>,
    /// Environment variables passed to it; of all others, only harmless ones are passed.
    #[serde(default, deserialize_with = "read_secrets", serialize_with = "write_secrets")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub env: SecretMap,
    /// Where the parts of an answer are in what it returns; `{text, tool_calls, …}` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponsePaths>,
    /// Seconds that an answer may take; 120 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001))]
    pub timeout: Option<f64>,
}

/// An agent behind a stream of AG-UI events.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgUiTarget {
    /// The URL that takes a `RunAgentInput`.
    #[schemars(regex(pattern = r"\S"))]
    pub url: String,
    /// Headers of the request.
    #[serde(default, deserialize_with = "read_secrets", serialize_with = "write_secrets")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub headers: SecretMap,
    /// `none`: a request changes nothing, so that it may be sent again after an answer was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    /// Seconds that an answer may take; 120 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001))]
    pub timeout: Option<f64>,
}

/// An agent of another `holodeck serve`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HolodeckTarget {
    /// The URL of the server.
    #[schemars(regex(pattern = r"\S"))]
    pub url: String,
    /// The agent there, by its name in the server's addresses; its only one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"\S"))]
    pub agent: Option<String>,
    /// Headers of the request.
    #[serde(default, deserialize_with = "read_secrets", serialize_with = "write_secrets")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub headers: SecretMap,
    /// Seconds that an answer may take; 120 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001))]
    pub timeout: Option<f64>,
}

/// Answers that exist, by the name of a case or by its input.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswersTarget {
    /// A table with one answer in each row: CSV, JSON Lines or a workbook (`.xlsx`).
    pub file: PathRef,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_shows_neither_a_password_nor_a_query() {
        for (url, label) in [
            (
                "https://user:hush@orders.internal/chat?key=hush",
                "https://orders.internal/chat",
            ),
            ("http://127.0.0.1:80#hush", "http://127.0.0.1:80"),
            ("{{ input }}", "{{ input }}"),
        ] {
            let target: HttpTarget = serde_json::from_value(json!({"url": url})).unwrap();
            assert_eq!(TargetConfig::Http(target).label(), label);
        }
    }
}
