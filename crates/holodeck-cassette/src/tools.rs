//! Records and replays the results of tools, keyed by their arguments and the files and models behind them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use holodeck_backend_api::{
    CallDetails, Image, ModelRequest, RequestPlace, SideEffects, ToolCall, ToolCx, ToolError, ToolHost,
    ToolOutput, ToolSpec,
};
use holodeck_model::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::{
    Cassette,
    entry::{RecordedImage, Response, TOOL, TOOL_LIST, TOOLS_SHOWN},
    recorder::{Tape, redact_request},
    replayer::{NoAnswer, ReplayCursor},
};

/// The properties of an agent's tools that a recording depends on.
#[derive(Clone, Debug, Default)]
pub struct ToolSet {
    /// The YAML of the recorded tools: with another declaration, the tools may differ.
    pub declared: Value,
    /// Names of the tools that run without external resources; they run in a replay as well.
    pub own: HashSet<String>,
    /// The files behind them: with other content the tools or their results may differ.
    pub files: Vec<ToolFiles>,
    /// The models that shape the results of a tool, such as one that reranks, by the tool's name for the model.
    pub models: BTreeMap<String, Value>,
}

/// The files behind a tool, or behind all tools of a server.
#[derive(Clone, Debug, Default)]
pub struct ToolFiles {
    /// The tool as the YAML names it.
    pub tool: String,
    /// Its name for the model, or the prefix of the names of a server's tools.
    pub shown: String,
    /// Digests by file name.
    pub digests: BTreeMap<String, String>,
    /// Whether the files define the tools and their parameters; otherwise the YAML does.
    pub declare: bool,
}

impl ToolSet {
    /// Digests of the files that a call of `name` may use, by tool.
    fn files_of(&self, name: &str) -> Value {
        let uses = |shown: &str| name == shown || shown.ends_with("__") && name.starts_with(shown);
        digests(self.files.iter().filter(|files| uses(&files.shown)))
    }
}

fn digests<'a>(files: impl Iterator<Item = &'a ToolFiles>) -> Value {
    files
        .map(|files| (files.tool.clone(), json!(files.digests)))
        .collect()
}

/// Wraps an agent's tools and records their results.
pub struct RecordedTools {
    host: Arc<dyn ToolHost>,
    tape: Arc<Tape>,
    set: ToolSet,
}

impl RecordedTools {
    /// Records on `tape` the results of the tools of `host`, and the list of tools.
    pub fn new(host: Arc<dyn ToolHost>, tape: Arc<Tape>, set: ToolSet) -> Self {
        let request = redact_request(&list_request(&set), tape.redactor());
        tape.record(&request, list_response(host.specs()), 0);
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

    fn specs_for_request(&self, request: RequestPlace<'_>) -> Cow<'_, [ToolSpec]> {
        let shown = self.host.specs_for_request(request);
        if *shown != *self.host.specs() {
            let request = redact_request(&shown_request(request), self.tape.redactor());
            self.tape.record(&request, list_response(&shown), 0);
        }
        shown
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        if self.set.own.contains(&call.name) {
            return self.host.call(call, cx).await;
        }
        let request = call_request(call, cx.unit.clone(), &self.set);
        let request = redact_request(&request, self.tape.redactor());
        let started = Instant::now();
        let spending = cx.spending.part();
        let cx = ToolCx {
            spending: spending.clone(),
            ..cx
        };
        let result = self.host.call(call, cx).await;
        if let Some(mut response) = call_response(&result) {
            response.spent = spending.take();
            let latency = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.tape.record(&request, response, latency);
        }
        result
    }
}

/// Answers tool calls from a recording; only tools that need no external resources run.
pub struct ReplayedTools {
    host: Arc<dyn ToolHost>,
    specs: Vec<ToolSpec>,
    set: ToolSet,
    cursor: ReplayCursor,
}

impl ReplayedTools {
    /// Replays the tools of `cassette`. `host` must have at least those of `set.own`.
    ///
    /// If the recording has no tool list for the current YAML, the tools of `host` are used, which must then be
    /// complete: see [`ReplayedTools::has_tool_list`].
    pub fn new(
        cassette: Arc<Cassette>,
        redactor: Arc<Redactor>,
        host: Arc<dyn ToolHost>,
        set: ToolSet,
    ) -> Self {
        let specs = recorded_specs(&cassette, &redactor, &set);
        let specs = specs.map_or_else(
            || host.specs().to_vec(),
            |recorded| merge_specs(recorded, host.specs(), &set.own),
        );
        Self {
            host,
            specs,
            set,
            cursor: ReplayCursor::new(cassette, redactor),
        }
    }

    /// Whether a recording has a tool list for these tools, so that they need not be prepared.
    pub fn has_tool_list(cassette: &Cassette, redactor: &Redactor, set: &ToolSet) -> bool {
        recorded_specs(cassette, redactor, set).is_some()
    }

    /// The files that differ from those of the recorded tool list, as `tool NAME: file`.
    pub fn changed_files(cassette: &Cassette, redactor: &Redactor, set: &ToolSet) -> Vec<String> {
        if Self::has_tool_list(cassette, redactor, set) {
            return Vec::new();
        }
        changed_files(cassette, &redact_request(&list_request(set), redactor), "tools")
    }
}

#[async_trait]
impl ToolHost for ReplayedTools {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// The initial tools, unless the recording has others for this message.
    fn specs_for_request(&self, request: RequestPlace<'_>) -> Cow<'_, [ToolSpec]> {
        let entry = self.cursor.next(&shown_request(request)).ok();
        match entry.and_then(|entry| read_list(&entry.response.text)) {
            Some(recorded) => Cow::Owned(merge_specs(recorded, self.host.specs(), &self.set.own)),
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
        match self.cursor.next(&request) {
            Ok(entry) => {
                entry.response.replay_spending(&cx.spending);
                tool_output(entry.response, &call.name, entry.latency_ms)
            }
            Err(NoAnswer::Cassette(error)) => Err(unavailable(error.to_string())),
            Err(NoAnswer::Miss(request)) => {
                let changed = changed_files(&self.cursor.cassette, &request, "arguments");
                let files = match changed.as_slice() {
                    [] => String::new(),
                    changed => format!(" and files ({} changed)", changed.join(", ")),
                };
                let model = describe_model(&self.cursor.cassette, &request);
                Err(unavailable(format!(
                    "`{}` holds no result for these arguments{files}{model}; record again",
                    self.cursor.cassette.path().display(),
                )))
            }
        }
    }
}

/// The recorded tools; those in `own` are replaced by their current versions.
fn merge_specs(recorded: Vec<ToolSpec>, current: &[ToolSpec], own: &HashSet<String>) -> Vec<ToolSpec> {
    let current_spec = |name: &str| {
        current
            .iter()
            .find(|spec| spec.name == name && own.contains(name))
    };
    let mut specs: Vec<ToolSpec> = recorded
        .into_iter()
        .map(|spec| current_spec(&spec.name).cloned().unwrap_or(spec))
        .collect();
    for spec in current {
        if own.contains(&spec.name) && !specs.iter().any(|other| other.name == spec.name) {
            specs.push(spec.clone());
        }
    }
    specs
}

fn recorded_specs(cassette: &Cassette, redactor: &Redactor, set: &ToolSet) -> Option<Vec<ToolSpec>> {
    let request = redact_request(&list_request(set), redactor);
    let places = cassette.candidates(&crate::request_key(&request), None);
    let entry = cassette.entry(*places.last()?).ok()?;
    read_list(&entry.response.text)
}

fn list_response(specs: &[ToolSpec]) -> Response {
    let specs: Vec<ListedTool> = specs.iter().map(ListedTool::from_spec).collect();
    Response {
        text: serde_json::to_string(&specs).unwrap_or_default(),
        stop_reason: CallEnd::Result.as_str().to_owned(),
        ..Response::default()
    }
}

fn read_list(text: &str) -> Option<Vec<ToolSpec>> {
    let tools: Vec<ListedTool> = serde_json::from_str(text).ok()?;
    Some(tools.into_iter().map(ListedTool::into_spec).collect())
}

/// The files that differ from the recorded request with the same body `field` and the fewest differences.
fn changed_files(cassette: &Cassette, current: &ModelRequest, field: &str) -> Vec<String> {
    let recorded = cassette.entries().filter_map(Result::ok);
    let recorded = recorded.filter(|entry| {
        let request = &entry.request;
        (&request.provider, &request.model) == (&current.provider, &current.model)
            && request.body.get(field) == current.body.get(field)
    });
    recorded
        .map(|entry| differing_files(&entry.request.body, &current.body))
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

/// Says that the recording has a result for these arguments, but with another model behind the tool.
fn describe_model(cassette: &Cassette, current: &ModelRequest) -> String {
    let parts = |body: &Value| -> (Value, Option<Value>) {
        match (body.get("arguments"), body.get("model")) {
            (Some(arguments), model) => (arguments.clone(), model.cloned()),
            // Without files and models, the arguments are the body.
            (None, _) => (body.clone(), None),
        }
    };
    let (arguments, model) = parts(&current.body);
    let has_other = cassette.entries().filter_map(Result::ok).any(|entry| {
        let request = &entry.request;
        let recorded = parts(&request.body);
        (&request.provider, &request.model) == (&current.provider, &current.model)
            && recorded.0 == arguments
            && recorded.1 != model
    });
    if has_other {
        " with this model of the tool (`reranker_model` changed)".to_owned()
    } else {
        String::new()
    }
}

/// Files that differ between the bodies of two requests.
fn differing_files(recorded: &Value, current: &Value) -> Vec<String> {
    let files = |body: &Value| -> BTreeSet<(String, String, String)> {
        let tools = body.get("files").and_then(Value::as_object).into_iter().flatten();
        let files = tools.flat_map(|(tool, files)| {
            let files = files.as_object().into_iter().flatten();
            files.map(move |(file, digest)| (tool.clone(), file.clone(), digest.to_string()))
        });
        files.collect()
    };
    let (recorded, current) = (files(recorded), files(current));
    let changed: BTreeSet<String> = recorded
        .symmetric_difference(&current)
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
        })
        .into(),
        unit: None,
    }
}

fn shown_request(RequestPlace { unit, message, .. }: RequestPlace<'_>) -> ModelRequest {
    ModelRequest {
        provider: TOOLS_SHOWN.to_owned(),
        model: String::new(),
        // The unit makes the key unique, so that merging recordings does not mix entries of different units.
        body: json!({"unit": unit, "message": message}).into(),
        unit: unit.map(str::to_owned),
    }
}

fn has_files(files: &Value) -> bool {
    files.as_object().is_some_and(|files| !files.is_empty())
}

fn call_request(call: &ToolCall, unit: Option<String>, set: &ToolSet) -> ModelRequest {
    let arguments = call.arguments.clone();
    let files = set.files_of(&call.name);
    let model = set.models.get(&call.name);
    let mut body = Map::new();
    if has_files(&files) {
        body.insert("files".to_owned(), files);
    }
    if let Some(model) = model {
        body.insert("model".to_owned(), model.clone());
    }
    ModelRequest {
        provider: TOOL.to_owned(),
        model: call.name.clone(),
        body: if body.is_empty() {
            arguments.into()
        } else {
            body.insert("arguments".to_owned(), arguments);
            Value::Object(body).into()
        },
        unit,
    }
}

/// A tool in a recorded list.
#[derive(Serialize, Deserialize)]
struct ListedTool {
    name: String,
    description: String,
    parameters: Value,
    reads_only: bool,
}

impl ListedTool {
    fn from_spec(spec: &ToolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            parameters: spec.parameters.clone(),
            reads_only: spec.side_effects == SideEffects::None,
        }
    }

    fn into_spec(self) -> ToolSpec {
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

/// How a tool call ended.
#[derive(Clone, Copy)]
enum CallEnd {
    Result,
    Error,
    Unavailable,
    TimedOut,
}

impl CallEnd {
    fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed_out",
        }
    }
}

/// The recorded form of a result; `None` for a cancelled call.
fn call_response(result: &Result<ToolOutput, ToolError>) -> Option<Response> {
    let (text, images, ended) = match result {
        Ok(output) if output.is_error => (output.text.clone(), output.images.as_slice(), CallEnd::Error),
        Ok(output) => (output.text.clone(), output.images.as_slice(), CallEnd::Result),
        Err(ToolError::Unavailable { reason, .. }) => (reason.clone(), &[][..], CallEnd::Unavailable),
        Err(ToolError::TimedOut { .. }) => (String::new(), &[][..], CallEnd::TimedOut),
        Err(_) => return None,
    };
    let images = images.iter().map(|image| RecordedImage {
        media_type: image.media_type.clone(),
        base64: image.base64.to_string(),
    });
    Some(Response {
        text,
        images: images.collect(),
        stop_reason: ended.as_str().to_owned(),
        details: match result {
            Ok(output) => output.details.clone(),
            Err(_) => CallDetails::default(),
        },
        ..Response::default()
    })
}

fn tool_output(response: Response, tool: &str, latency_ms: u64) -> Result<ToolOutput, ToolError> {
    let ended = [
        CallEnd::Result,
        CallEnd::Error,
        CallEnd::Unavailable,
        CallEnd::TimedOut,
    ]
    .into_iter()
    .find(|ended| ended.as_str() == response.stop_reason);
    let images = response.images.into_iter().map(|picture| Image {
        media_type: picture.media_type,
        base64: picture.base64.into(),
    });
    match ended {
        Some(CallEnd::Result | CallEnd::Error) => Ok(ToolOutput {
            text: response.text,
            images: images.collect(),
            is_error: matches!(ended, Some(CallEnd::Error)),
            details: CallDetails {
                redacted: response.redacted.answer,
                ..response.details
            },
        }),
        Some(CallEnd::Unavailable) => Err(ToolError::Unavailable {
            name: tool.to_owned(),
            reason: response.text,
        }),
        Some(CallEnd::TimedOut) => Err(ToolError::TimedOut {
            name: tool.to_owned(),
            after: Duration::from_millis(latency_ms),
        }),
        None => Err(ToolError::Unavailable {
            name: tool.to_owned(),
            reason: format!(
                "the recording has an unknown stop reason `{}`",
                response.stop_reason
            ),
        }),
    }
}

#[cfg(test)]
mod tests;
