//! Lets Rust closures be offered to the model as tools.

use std::{future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use holodeck_backend_api::{SideEffects, ToolCall, ToolCx, ToolError, ToolHost, ToolOutput, ToolSpec};
use serde_json::Value;

type Answer = Pin<Box<dyn Future<Output = ToolOutput> + Send>>;
type Handler = Arc<dyn Fn(Value, ToolCx) -> Answer + Send + Sync>;

/// Closures as tools.
#[derive(Clone, Default)]
pub struct Tools {
    specs: Vec<ToolSpec>,
    handlers: Vec<Handler>,
}

impl Tools {
    /// No tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool. `parameters` is a JSON Schema of type `object`.
    pub fn with<F, A>(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        run: F,
    ) -> Self
    where
        F: Fn(Value, ToolCx) -> A + Send + Sync + 'static,
        A: Future<Output = ToolOutput> + Send + 'static,
    {
        self.specs.push(ToolSpec {
            name: name.into(),
            description: description.into(),
            parameters,
            side_effects: SideEffects::Possible,
        });
        self.handlers
            .push(Arc::new(move |arguments, cx| Box::pin(run(arguments, cx))));
        self
    }
}

#[async_trait]
impl ToolHost for Tools {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let index = self.specs.iter().position(|spec| spec.name == call.name);
        match index.and_then(|index| self.handlers.get(index)) {
            Some(run) => Ok(run(call.arguments.clone(), cx).await),
            None => Ok(ToolOutput::error(format!("there is no tool `{}`", call.name))),
        }
    }
}
