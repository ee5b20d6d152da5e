use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use holodeck_backend_api::{
    CallDetails, Image, ModelRequest, SideEffects, ToolCall, ToolCx, ToolError, ToolHost, ToolOutput,
    ToolSpec,
};
use holodeck_model::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    Cassette,
    entry::{Picture, Response, TOOL, TOOL_LIST, TOOLS_SHOWN},
    recorder::{Tape, redacted},
    replayer::{NoAnswer, Reel},
};

/// The tools of an agent, as far as a recording must know them.
#[derive(Clone, Debug, Default)]
pub struct ToolSet {
    /// What the YAML says of those that are recorded: with other words, other tools may be there.
    pub declared: Value,
    /// Names of those that need nothing and answer by themselves, recorded or not.
    pub own: HashSet<String>,
    /// The files behind them: with other content they may be others, or answer otherwise.
    pub files: Vec<ToolFiles>,
}

/// The files behind a tool, or behind all tools of a server.
#[derive(Clone, Debug, Default)]
pub struct ToolFiles {
    /// The tool as the YAML names it.
    pub tool: String,
    /// Its name for the model, or with what the names of its tools begin.
    pub shown: String,
    /// Digests by the name of the file.
    pub digests: BTreeMap<String, String>,
    /// Whether they say which tools there are and what they take; else the YAML does.
    pub declare: bool,
}

impl ToolSet {
    /// Digests of files by tool, of those that a call of `name` may reach.
    fn files_of(&self, name: &str) -> Value {
        let reaches = |shown: &str| name == shown || shown.ends_with("__") && name.starts_with(shown);
        digests(self.files.iter().filter(|files| reaches(&files.shown)))
    }
}

fn digests<'a>(files: impl Iterator<Item = &'a ToolFiles>) -> Value {
    files
        .map(|files| (files.tool.clone(), json!(files.digests)))
        .collect()
}

/// Stands before an agent's tools and writes down what they answer.
pub struct RecordedTools {
    host: Arc<dyn ToolHost>,
    tape: Arc<Tape>,
    set: ToolSet,
}

impl RecordedTools {
    /// Records on `tape` what `host` answers, and which tools it has.
    pub fn new(host: Arc<dyn ToolHost>, tape: Arc<Tape>, set: ToolSet) -> Self {
        let request = redacted(&list_request(&set), tape.redactor());
        tape.keep(&request, list(host.specs()), 0);
        Self { host, tape, set }
    }
}

#[async_trait]
impl ToolHost for RecordedTools {
    fn specs(&self) -> &[ToolSpec] {
        self.host.specs()
    }

    fn current(&self) -> Cow<'_, [ToolSpec]> {
        self.host.current()
    }

    fn shown(&self, unit: Option<&str>, message: u32) -> Cow<'_, [ToolSpec]> {
        let shown = self.host.shown(unit, message);
        if *shown != *self.host.specs() {
            let request = redacted(&shown_request(unit, message), self.tape.redactor());
            self.tape.keep(&request, list(&shown), 0);
        }
        shown
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        if self.set.own.contains(&call.name) {
            return self.host.call(call, cx).await;
        }
        let request = call_request(call, cx.unit.clone(), &self.set);
        let request = redacted(&request, self.tape.redactor());
        let started = Instant::now();
        let spending = cx.spending.part();
        let cx = ToolCx {
            spending: spending.clone(),
            ..cx
        };
        let result = self.host.call(call, cx).await;
        if let Some(mut response) = response(&result) {
            response.spent = spending.take();
            let latency = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.tape.keep(&request, response, latency);
        }
        result
    }
}

/// Answers calls of tools from a recording; no tool runs but those that need nothing.
pub struct ReplayedTools {
    host: Arc<dyn ToolHost>,
    specs: Vec<ToolSpec>,
    set: ToolSet,
    reel: Reel,
}

impl ReplayedTools {
    /// The tools of `cassette`. `host` has at least those of `set.own`.
    ///
    /// If the recording does not know which tools the YAML of today gives, it shows those of `host`, which must then be
    /// all: see [`ReplayedTools::knows`].
    pub fn new(
        cassette: Arc<Cassette>,
        redactor: Arc<Redactor>,
        host: Arc<dyn ToolHost>,
        set: ToolSet,
    ) -> Self {
        let specs = listed(&cassette, &redactor, &set);
        let specs = specs.map_or_else(
            || host.specs().to_vec(),
            |recorded| merged(recorded, host.specs(), &set.own),
        );
        Self {
            host,
            specs,
            set,
            reel: Reel::new(cassette, redactor),
        }
    }

    /// Whether a recording knows which tools a YAML gives, so that they need not be made ready.
    pub fn knows(cassette: &Cassette, redactor: &Redactor, set: &ToolSet) -> bool {
        listed(cassette, redactor, set).is_some()
    }

    /// The files that were others when it was recorded which tools this YAML gives, as `tool NAME: file`.
    pub fn changed_files(cassette: &Cassette, redactor: &Redactor, set: &ToolSet) -> Vec<String> {
        if Self::knows(cassette, redactor, set) {
            return Vec::new();
        }
        changed_files(cassette, &redacted(&list_request(set), redactor), "tools")
    }
}

#[async_trait]
impl ToolHost for ReplayedTools {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Those of the beginning, unless the recording says that they had changed.
    fn shown(&self, unit: Option<&str>, message: u32) -> Cow<'_, [ToolSpec]> {
        let entry = self.reel.next(&shown_request(unit, message)).ok();
        match entry.and_then(|entry| read_list(&entry.response.text)) {
            Some(recorded) => Cow::Owned(merged(recorded, self.host.specs(), &self.set.own)),
            None => Cow::Borrowed(&self.specs),
        }
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        if self.set.own.contains(&call.name) {
            return self.host.call(call, cx).await;
        }
        let unavailable = |reason: String| ToolError::Unavailable {
            name: call.name.clone(),
            reason,
        };
        let request = call_request(call, cx.unit.clone(), &self.set);
        match self.reel.next(&request) {
            Ok(entry) => {
                entry.response.repeat_spending(&cx.spending);
                output(entry.response, &call.name, entry.latency_ms)
            }
            Err(NoAnswer::Cassette(error)) => Err(unavailable(error.to_string())),
            Err(NoAnswer::Miss(asked)) => {
                let changed = changed_files(&self.reel.cassette, &asked, "arguments");
                let with = match changed.as_slice() {
                    [] => String::new(),
                    changed => format!(" with these files ({} changed)", changed.join(", ")),
                };
                Err(unavailable(format!(
                    "`{}` holds no answer of it to these arguments{with}; record again",
                    self.reel.cassette.path().display(),
                )))
            }
        }
    }
}

/// The recorded tools; those that need nothing as they are today.
fn merged(recorded: Vec<ToolSpec>, today: &[ToolSpec], own: &HashSet<String>) -> Vec<ToolSpec> {
    let of_today = |name: &str| today.iter().find(|spec| spec.name == name && own.contains(name));
    let mut specs: Vec<ToolSpec> = recorded
        .into_iter()
        .map(|spec| of_today(&spec.name).cloned().unwrap_or(spec))
        .collect();
    for spec in today {
        if own.contains(&spec.name) && !specs.iter().any(|other| other.name == spec.name) {
            specs.push(spec.clone());
        }
    }
    specs
}

fn listed(cassette: &Cassette, redactor: &Redactor, set: &ToolSet) -> Option<Vec<ToolSpec>> {
    let request = redacted(&list_request(set), redactor);
    let places = cassette.candidates(&crate::request_key(&request), None);
    let entry = cassette.entry(*places.last()?).ok()?;
    read_list(&entry.response.text)
}

fn list(specs: &[ToolSpec]) -> Response {
    let specs: Vec<Listed> = specs.iter().map(Listed::of).collect();
    Response {
        text: serde_json::to_string(&specs).unwrap_or_default(),
        stop_reason: Ended::Result.word().to_owned(),
        ..Response::default()
    }
}

fn read_list(text: &str) -> Option<Vec<ToolSpec>> {
    let listed: Vec<Listed> = serde_json::from_str(text).ok()?;
    Some(listed.into_iter().map(Listed::spec).collect())
}

/// The files that were others when the same was `asked`, by a field of its body, with as few changes as possible.
fn changed_files(cassette: &Cassette, asked: &ModelRequest, by: &str) -> Vec<String> {
    let recorded = cassette.entries().filter_map(Result::ok);
    let recorded = recorded.filter(|entry| {
        let request = &entry.request;
        (&request.provider, &request.model) == (&asked.provider, &asked.model)
            && request.body.get(by) == asked.body.get(by)
    });
    recorded
        .map(|entry| differing_files(&entry.request.body, &asked.body))
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

/// Files that are not the same in the bodies of two requests.
fn differing_files(recorded: &Value, today: &Value) -> Vec<String> {
    let files = |body: &Value| -> BTreeSet<(String, String, String)> {
        let tools = body.get("files").and_then(Value::as_object).into_iter().flatten();
        let files = tools.flat_map(|(tool, files)| {
            let files = files.as_object().into_iter().flatten();
            files.map(move |(file, digest)| (tool.clone(), file.clone(), digest.to_string()))
        });
        files.collect()
    };
    let (recorded, today) = (files(recorded), files(today));
    let changed: BTreeSet<String> = recorded
        .symmetric_difference(&today)
        .map(|(tool, file, _)| format!("tool {tool}: {file}"))
        .collect();
    changed.into_iter().collect()
}

fn list_request(set: &ToolSet) -> ModelRequest {
    ModelRequest {
        provider: TOOL_LIST.to_owned(),
        model: String::new(),
        body: json!({
            "tools": set.declared,
            "files": digests(set.files.iter().filter(|files| files.declare)),
        }),
        unit: None,
    }
}

fn shown_request(unit: Option<&str>, message: u32) -> ModelRequest {
    ModelRequest {
        provider: TOOLS_SHOWN.to_owned(),
        model: String::new(),
        // With the unit, so that no other one's takes its place when two recordings become one.
        body: json!({"unit": unit, "message": message}),
        unit: unit.map(str::to_owned),
    }
}

fn has_files(files: &Value) -> bool {
    files.as_object().is_some_and(|files| !files.is_empty())
}

fn call_request(call: &ToolCall, unit: Option<String>, set: &ToolSet) -> ModelRequest {
    let arguments = call.arguments.clone();
    let files = set.files_of(&call.name);
    ModelRequest {
        provider: TOOL.to_owned(),
        model: call.name.clone(),
        body: if has_files(&files) {
            json!({"arguments": arguments, "files": files})
        } else {
            arguments
        },
        unit,
    }
}

/// A tool in a list.
#[derive(Serialize, Deserialize)]
struct Listed {
    name: String,
    description: String,
    parameters: Value,
    reads_only: bool,
}

impl Listed {
    fn of(spec: &ToolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            parameters: spec.parameters.clone(),
            reads_only: spec.side_effects == SideEffects::None,
        }
    }

    fn spec(self) -> ToolSpec {
        ToolSpec {
            name: self.name,
            description: self.description,
            parameters: self.parameters,
            side_effects: if self.reads_only {
                SideEffects::None
            } else {
                SideEffects::Possible
            },
        }
    }
}

/// How a call of a tool ended.
#[derive(Clone, Copy)]
enum Ended {
    Result,
    Error,
    Unavailable,
    TimedOut,
}

impl Ended {
    fn word(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed_out",
        }
    }
}

/// What is written down of a call; nothing of one that was stopped.
fn response(result: &Result<ToolOutput, ToolError>) -> Option<Response> {
    let (text, images, ended) = match result {
        Ok(output) if output.is_error => (output.text.clone(), output.images.as_slice(), Ended::Error),
        Ok(output) => (output.text.clone(), output.images.as_slice(), Ended::Result),
        Err(ToolError::Unavailable { reason, .. }) => (reason.clone(), &[][..], Ended::Unavailable),
        Err(ToolError::TimedOut { .. }) => (String::new(), &[][..], Ended::TimedOut),
        Err(_) => return None,
    };
    let images = images.iter().map(|image| Picture {
        media_type: image.media_type.clone(),
        base64: image.base64.to_string(),
    });
    Some(Response {
        text,
        images: images.collect(),
        stop_reason: ended.word().to_owned(),
        details: match result {
            Ok(output) => output.details.clone(),
            Err(_) => CallDetails::default(),
        },
        ..Response::default()
    })
}

fn output(response: Response, tool: &str, latency_ms: u64) -> Result<ToolOutput, ToolError> {
    let ended = [Ended::Result, Ended::Error, Ended::Unavailable, Ended::TimedOut]
        .into_iter()
        .find(|ended| ended.word() == response.stop_reason);
    let images = response.images.into_iter().map(|picture| Image {
        media_type: picture.media_type,
        base64: picture.base64.into(),
    });
    match ended {
        Some(Ended::Result | Ended::Error) => Ok(ToolOutput {
            text: response.text,
            images: images.collect(),
            is_error: matches!(ended, Some(Ended::Error)),
            details: response.details,
        }),
        Some(Ended::Unavailable) => Err(ToolError::Unavailable {
            name: tool.to_owned(),
            reason: response.text,
        }),
        Some(Ended::TimedOut) => Err(ToolError::TimedOut {
            name: tool.to_owned(),
            after: Duration::from_millis(latency_ms),
        }),
        None => Err(ToolError::Unavailable {
            name: tool.to_owned(),
            reason: format!("the recording knows no end `{}`", response.stop_reason),
        }),
    }
}

#[cfg(test)]
mod tests;
