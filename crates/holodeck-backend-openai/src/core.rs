use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use holodeck_backend_api::{
    Approver, BackendError, ModelCalls, ModelRequest, ToolFilter, ToolHost, ToolSpec,
};
use holodeck_model::{LoadedAgent, OpenAiConfig};
use serde_json::{Map, Value};

use crate::{
    answer_format::{AnswerFormat, Telling},
    parameters::Parameters,
    wire_message,
};

/// What all turns of a backend share.
pub(crate) struct Core {
    pub(crate) calls: Arc<dyn ModelCalls>,
    pub(crate) tools: Arc<dyn ToolHost>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) format: Option<AnswerFormat>,
    pub(crate) max_turns: u32,
    /// Tool calls of one answer that run at the same time.
    pub(crate) parallel_tool_calls: usize,
    pub(crate) model: String,
    pub(crate) fallback_model: Option<String>,
    provider: String,
    instructions: String,
    parameters: Parameters,
    offered: Vec<Offered>,
    filter: Option<Arc<dyn ToolFilter>>,
    allowed: Allowed,
    said: Mutex<HashSet<String>>,
}

impl Core {
    pub(crate) fn new(
        agent: &LoadedAgent,
        tools: Arc<dyn ToolHost>,
        calls: Arc<dyn ModelCalls>,
    ) -> Result<Self, BackendError> {
        let config = &agent.config;
        let openai = config.openai.clone().unwrap_or_default();
        let allowed = Allowed::of(&openai);
        let offered = allowed.offered(tools.specs());
        Ok(Self {
            format: agent
                .response_format
                .as_ref()
                .map(AnswerFormat::new)
                .transpose()?,
            max_turns: openai.max_turns.max(1),
            parallel_tool_calls: agent.execution.parallel_tool_calls.value.get(),
            model: config.model.name.clone(),
            fallback_model: openai.fallback_model,
            provider: config.model.provider.to_string(),
            instructions: agent.instructions.text.clone(),
            parameters: Parameters::of_agent(agent),
            said: Mutex::default(),
            calls,
            tools,
            approver: None,
            offered,
            filter: None,
            allowed,
        })
    }

    /// The request that shows the model `conversation`.
    pub(crate) fn request(
        &self,
        conversation: &[Value],
        telling: Option<Telling>,
        tools: &[Value],
        unit: Option<&str>,
    ) -> ModelRequest {
        let mut messages = Vec::with_capacity(conversation.len() + 1);
        messages.extend(self.system(telling));
        messages.extend_from_slice(conversation);
        let mut body = Map::new();
        body.insert("messages".to_owned(), Value::Array(messages));
        if !tools.is_empty() {
            body.insert("tools".to_owned(), Value::Array(tools.to_vec()));
        }
        if let (Some(format), Some(Telling::Native)) = (&self.format, telling) {
            body.insert("response_format".to_owned(), format.native().clone());
        }
        body.extend(self.parameters.body.clone());
        ModelRequest {
            provider: self.provider.clone(),
            model: self.model.clone(),
            body: Value::Object(body),
            unit: unit.map(str::to_owned),
        }
    }

    /// Shows the model only what `filter` chooses for each message.
    pub(crate) fn filtered(&mut self, filter: Arc<dyn ToolFilter>) {
        self.filter = Some(filter);
    }

    /// The tools that a turn which begins with `message` shows the model, after this conversation; `None`: all.
    pub(crate) async fn choose(
        &self,
        message: &str,
        conversation: &[Value],
    ) -> Result<Option<HashSet<String>>, BackendError> {
        let Some(filter) = &self.filter else {
            return Ok(None);
        };
        let chosen = filter.choose(message, &used(conversation)).await?;
        tracing::debug!(
            tools = chosen.len(),
            of = self.offered.len(),
            "tools were chosen for a message"
        );
        Ok(Some(chosen))
    }

    /// The tools that a message is shown, as they are sent; `chosen` are those that fit it.
    pub(crate) fn offered(
        &self,
        chosen: Option<&HashSet<String>>,
        unit: Option<&str>,
        message: u32,
    ) -> Vec<Value> {
        let changed;
        let offered = match self.tools.shown(unit, message) {
            Cow::Borrowed(_) => &self.offered,
            // The tools of an MCP server have changed.
            Cow::Owned(specs) => {
                changed = self.allowed.offered(&specs);
                &changed
            }
        };
        // Nobody asked whether a tool fits that came later.
        let is_new = |name: &str| !self.offered.iter().any(|tool| tool.name == name);
        let offered = offered
            .iter()
            .filter(|tool| chosen.is_none_or(|chosen| chosen.contains(&tool.name) || is_new(&tool.name)));
        offered.map(|tool| tool.sent.clone()).collect()
    }

    /// Whether a tool may be called; a model may ask for one it was not offered.
    pub(crate) fn allows(&self, tool: &str) -> bool {
        self.allowed.allows(tool)
    }

    /// An error with the line of the YAML it comes from, where one can be told.
    pub(crate) fn explained(&self, mut error: BackendError) -> BackendError {
        if let BackendError::Provider {
            status: Some(400 | 422),
            param: Some(param),
            message,
            ..
        } = &mut error
            && let Some(explanation) = self.parameters.explain(param)
        {
            message.push_str(&explanation);
        }
        error
    }

    /// What there is to say before anything is asked.
    pub(crate) fn opening_notice(&self) -> Option<String> {
        let notice = self.parameters.notice.clone()?;
        self.say_once(notice)
    }

    /// The notice, unless it was said before.
    pub(crate) fn say_once(&self, notice: String) -> Option<String> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.insert(notice.clone()).then_some(notice)
    }

    fn system(&self, telling: Option<Telling>) -> Option<Value> {
        let mut text = self.instructions.clone();
        if let (Some(format), Some(Telling::Instructed)) = (&self.format, telling) {
            if !text.trim().is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&format.instructions());
        }
        (!text.trim().is_empty()).then(|| wire_message::system(&text))
    }
}

/// A tool as the model is shown it.
struct Offered {
    name: String,
    sent: Value,
}

/// How often each tool was called in a conversation.
fn used(conversation: &[Value]) -> HashMap<String, usize> {
    let calls = conversation
        .iter()
        .filter_map(|message| message.get("tool_calls")?.as_array());
    let names = calls
        .flatten()
        .filter_map(|call| call.get("function")?.get("name")?.as_str());
    let mut used = HashMap::new();
    for name in names {
        *used.entry(name.to_owned()).or_default() += 1;
    }
    used
}

/// Which tools the `openai` block leaves to the model.
#[derive(Debug)]
struct Allowed {
    only: Option<Vec<String>>,
    not: Vec<String>,
}

impl Allowed {
    fn of(openai: &OpenAiConfig) -> Self {
        let permissions = openai.permissions.clone().unwrap_or_default();
        let mut not = openai.disallowed_tools.clone().unwrap_or_default();
        not.extend(permissions.disallowed_tools.unwrap_or_default());
        Self {
            only: permissions.allowed_tools,
            not,
        }
    }

    fn offered(&self, specs: &[ToolSpec]) -> Vec<Offered> {
        let allowed = specs.iter().filter(|spec| self.allows(&spec.name));
        let offered = allowed.map(|spec| Offered {
            name: spec.name.clone(),
            sent: wire_message::tool(spec),
        });
        offered.collect()
    }

    fn allows(&self, tool: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == tool);
        self.only.as_deref().is_none_or(named) && !named(&self.not)
    }
}
