//! Holds all tools of an agent and applies time limits, cancellation and size limits to every call.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use holodeck_backend_api::{
    CallRefusal, Tool, ToolCall, ToolCx, ToolError, ToolHost, ToolOutput, ToolSource, ToolSpec,
};
use holodeck_model::{Env, FunctionTool as FunctionConfig, ToolConfig, ToolNames};
use tokio_util::sync::CancellationToken;

use crate::entry::{Entry, run_call};
use crate::source::Source;
use crate::{FunctionTool, MockTool, SetupError};

/// All tools of one agent, and the one place where time-outs, cancellation and limits apply. Clones share the tools.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<Entry>>,
    sources: Vec<Arc<Source>>,
    /// The specs of all tools when they were added.
    specs: Vec<ToolSpec>,
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
        self.tools.push(Arc::new(Entry::strict(tool, timeout)?));
        self.specs.push(spec);
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
        output.details.kind = Some(entry.kind());
        output.details.side_effects = Some(entry.spec().side_effects);
        Ok(output)
    }
}
