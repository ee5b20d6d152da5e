//! Holds all tools of an agent and applies time limits, cancellation and size limits to every call.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::join_all;
use holodeck_backend_api::{
    CallRefusal, Elicitation, ElicitationAnswer, ElicitationHost, Tool, ToolCall, ToolCx, ToolError,
    ToolHost, ToolOutput, ToolSource, ToolSpec,
};
use holodeck_model::{Env, FunctionTool as FunctionConfig, ToolConfig, ToolNames};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::source::Source;
use crate::{FunctionTool, MockTool, SetupError};

/// Maximum size of one tool result; the rest is truncated.
pub const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// How long a cancelled tool may take to stop.
const GRACE: Duration = Duration::from_secs(2);

/// All tools of one agent, and the one place where time-outs, cancellation and limits apply. Clones share the tools.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<Entry>>,
    sources: Vec<Arc<Source>>,
    /// The specs of all tools when they were added.
    specs: Vec<ToolSpec>,
}

/// A tool with the checks and limits of its calls.
pub(crate) struct Entry {
    tool: Arc<dyn Tool>,
    arguments: Arguments,
    timeout: Duration,
}

impl Entry {
    /// A tool that checks its arguments itself if its schema is invalid.
    pub(crate) fn lenient(tool: Arc<dyn Tool>, timeout: Duration) -> Self {
        let spec = tool.spec();
        let arguments = Arguments::new(&spec.parameters).unwrap_or_else(|reason| {
            tracing::debug!(
                tool = spec.name,
                reason,
                "the parameters are not a valid JSON Schema"
            );
            Arguments::unchecked()
        });
        Self {
            tool,
            arguments,
            timeout,
        }
    }

    pub(crate) fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }
}

impl Toolbox {
    /// An empty toolbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool whose calls may take `timeout`.
    pub fn add(&mut self, tool: Arc<dyn Tool>, timeout: Duration) -> Result<(), SetupError> {
        let spec = tool.spec().clone();
        if self.specs.iter().any(|other| other.name == spec.name) {
            return Err(SetupError::Duplicate { name: spec.name });
        }
        let arguments = Arguments::new(&spec.parameters).map_err(|reason| SetupError::Schema {
            name: spec.name.clone(),
            reason,
        })?;
        self.specs.push(spec);
        self.tools.push(Arc::new(Entry {
            tool,
            arguments,
            timeout,
        }));
        Ok(())
    }

    /// Adds tools that may change later; each call may take `timeout`. Tools whose name is already in use are ignored.
    pub fn add_source(&mut self, source: Arc<dyn ToolSource>, timeout: Duration) {
        let source = Source::new(source, timeout);
        for entry in source.entries().iter() {
            if self.specs.iter().all(|spec| spec.name != entry.spec().name) {
                self.specs.push(entry.spec().clone());
            }
        }
        self.sources.push(Arc::new(source));
    }

    fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        let has_name = |entry: &&Arc<Entry>| entry.spec().name == name;
        let fixed = self.tools.iter().find(has_name).map(Arc::clone);
        fixed.or_else(|| {
            let mut lists = self.sources.iter().map(|source| source.entries());
            lists.find_map(|list| list.iter().find(has_name).map(Arc::clone))
        })
    }

    /// Adds `type: function` tools, prepared concurrently; returns the errors of all of them.
    pub async fn add_functions(
        &mut self,
        configs: &[&FunctionConfig],
        env: &Env,
        cancel: &CancellationToken,
    ) -> Result<(), Vec<SetupError>> {
        let prepared = join_all(
            configs
                .iter()
                .map(|config| FunctionTool::prepare(config, env, cancel)),
        )
        .await;
        let mut errors = Vec::new();
        for (config, tool) in configs.iter().zip(prepared) {
            let added = tool.and_then(|tool| self.add(Arc::new(tool), config.timeout()));
            errors.extend(added.err());
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Adds the tools that mocked tools among `configs` offer to the model; see [`MockTool::of`].
    pub fn add_mocks(&mut self, configs: &[ToolConfig], names: &ToolNames) -> Result<(), Vec<SetupError>> {
        let mut errors = Vec::new();
        for config in configs {
            for tool in MockTool::of(config, names) {
                errors.extend(self.add(Arc::new(tool), MockTool::timeout(config)).err());
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn refuse_unknown(&self, name: &str) -> ToolOutput {
        let specs = self.current();
        let names: Vec<_> = specs.iter().map(|spec| format!("`{}`", spec.name)).collect();
        let text = match names.as_slice() {
            [] => format!("there is no tool `{name}`; this agent has none"),
            names => format!("there is no tool `{name}`; there are {}", names.join(", ")),
        };
        ToolOutput::refused(CallRefusal::Unknown, text)
    }
}

async fn run_call(entry: &Entry, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
    let arguments = match entry.arguments.check(&call.arguments) {
        Ok(arguments) => arguments,
        Err(problems) => {
            let text = format!("invalid arguments: {problems}");
            return Ok(ToolOutput::refused(CallRefusal::InvalidArguments, text));
        }
    };
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let stop = cx.cancel.child_token();
    let (asking, is_asking) = watch::channel(0_usize);
    let elicitation = cx.elicitation.clone().map(|person| {
        let patient = PatientElicitation { person, asking };
        Arc::new(patient) as Arc<dyn ElicitationHost>
    });
    let inner = ToolCx {
        cancel: stop.clone(),
        elicitation,
        ..cx.clone()
    };
    let running = AssertUnwindSafe(entry.tool.call(arguments, inner)).catch_unwind();
    tokio::pin!(running);
    // A cancelled tool is awaited, so that processes it started have ended when the call returns.
    let result = tokio::select! {
        biased;
        result = &mut running => result,
        () = cx.cancel.cancelled() => {
            let _ = timeout(GRACE, &mut running).await;
            return Err(ToolError::Cancelled);
        }
        () = time_out(entry.timeout, is_asking) => {
            stop.cancel();
            let _ = timeout(GRACE, &mut running).await;
            return Ok(ToolOutput::error(format!("no answer within {} s", entry.timeout.as_secs_f64())));
        }
    };
    match result {
        Ok(output) => output.map(truncate_output),
        Err(_panic) => Err(ToolError::Unavailable {
            name: call.name.clone(),
            reason: "it panicked".to_owned(),
        }),
    }
}

/// Stops the clock of a call while a person is asked.
struct PatientElicitation {
    person: Arc<dyn ElicitationHost>,
    /// How many questions are open.
    asking: watch::Sender<usize>,
}

#[async_trait]
impl ElicitationHost for PatientElicitation {
    async fn elicit(&self, question: Elicitation) -> ElicitationAnswer {
        let _open = OpenQuestion::new(&self.asking);
        self.person.elicit(question).await
    }
}

/// Counts as an open question until it is dropped.
struct OpenQuestion<'a>(&'a watch::Sender<usize>);

impl<'a> OpenQuestion<'a> {
    fn new(asking: &'a watch::Sender<usize>) -> Self {
        asking.send_modify(|open| *open += 1);
        Self(asking)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open = open.saturating_sub(1));
    }
}

/// Waits for `limit`, without the time in which a person is asked.
async fn time_out(limit: Duration, mut is_asking: watch::Receiver<usize>) {
    let mut left = limit;
    loop {
        let began = Instant::now();
        let asked = timeout(left, is_asking.wait_for(|open| *open > 0))
            .await
            .map(|asked| asked.is_ok());
        left = left.saturating_sub(began.elapsed());
        match asked {
            Err(_elapsed) => return,
            Ok(true) if is_asking.wait_for(|open| *open == 0).await.is_ok() => {}
            // Nothing can ask any more.
            Ok(_) => return sleep(left).await,
        }
    }
}

#[async_trait]
impl ToolHost for Toolbox {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    fn current(&self) -> Cow<'_, [ToolSpec]> {
        if !self.sources.iter().any(|source| source.has_changed()) {
            return Cow::Borrowed(&self.specs);
        }
        let mut specs: Vec<ToolSpec> = self.tools.iter().map(|entry| entry.spec().clone()).collect();
        for source in &self.sources {
            for entry in source.entries().iter() {
                if specs.iter().all(|spec| spec.name != entry.spec().name) {
                    specs.push(entry.spec().clone());
                }
            }
        }
        Cow::Owned(specs)
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let Some(entry) = self.entry(&call.name) else {
            return Ok(self.refuse_unknown(&call.name));
        };
        let mut output = run_call(&entry, call, cx).await?;
        output.details.kind = Some(entry.tool.kind());
        output.details.side_effects = Some(entry.spec().side_effects);
        Ok(output)
    }
}

fn truncate_output(mut output: ToolOutput) -> ToolOutput {
    let mut size = 0;
    output.details.passages.retain(|passage| {
        size += passage.text.len();
        size <= MAX_OUTPUT_BYTES
    });
    if output.text.len() > MAX_OUTPUT_BYTES {
        output.details.truncated = true;
        output
            .text
            .truncate(output.text.floor_char_boundary(MAX_OUTPUT_BYTES));
        output
            .text
            .push_str("\n[truncated: the result is longer than 256 KiB]");
    }
    output
}
