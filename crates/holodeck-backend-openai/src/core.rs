use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use holodeck_backend_api::{
    Approver, BackendError, ModelCalls, ModelRequest, TokenUsage, ToolFilter, ToolHost, ToolSpec,
};
use holodeck_model::{LoadedAgent, ToolAccess, ToolNames};
use serde_json::{Map, Value};

use crate::{
    answer_format::{AnswerFormat, Telling},
    parameters::Parameters,
    wire_message,
};

/// What tokens of a model cost in US dollars, if that is known.
pub(crate) type Price = Box<dyn Fn(&str, &TokenUsage) -> Option<f64> + Send + Sync>;

/// What all turns of a backend share.
pub(crate) struct Core {
    pub(crate) calls: Arc<dyn ModelCalls>,
    pub(crate) tools: Arc<dyn ToolHost>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) format: Option<AnswerFormat>,
    pub(crate) max_turns: u32,
    /// What one turn may cost.
    pub(crate) max_budget_usd: Option<f64>,
    /// What tokens cost; nothing is known without it.
    pub(crate) price: Option<Price>,
    /// Tool calls of one answer that run at the same time.
    pub(crate) parallel_tool_calls: usize,
    pub(crate) model: String,
    pub(crate) fallback_model: Option<String>,
    provider: String,
    instructions: String,
    parameters: Parameters,
    offered: Vec<Offered>,
    filter: Option<Arc<dyn ToolFilter>>,
    names: ToolNames,
    access: ToolAccess,
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
        let mut names = ToolNames::of(config);
        for spec in tools.specs() {
            names.host(&spec.name);
        }
        let access = ToolAccess::of(config);
        let offered = offered(&names, &access, tools.specs());
        Ok(Self {
            format: agent
                .response_format
                .as_ref()
                .map(AnswerFormat::new)
                .transpose()?,
            max_turns: openai.max_turns.max(1),
            max_budget_usd: openai.max_budget_usd,
            price: None,
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
            names,
            access,
        })
    }

    /// Whether a turn that used these tokens may ask the model again. Usage that is not known cannot be held against a
    /// budget.
    pub(crate) fn may_go_on(&self, used: Option<&TokenUsage>) -> bool {
        let (Some(budget), Some(price)) = (self.max_budget_usd, &self.price) else {
            return true;
        };
        used.and_then(|used| price(&self.model, used))
            .is_some_and(|spent| spent < budget)
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
                changed = offered(&self.names, &self.access, &specs);
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
        self.access.allows_call(&self.names, tool)
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

/// The tools that the lists of the `openai` block leave to the model.
fn offered(names: &ToolNames, access: &ToolAccess, specs: &[ToolSpec]) -> Vec<Offered> {
    let allowed = specs.iter().filter(|spec| access.allows_call(names, &spec.name));
    let offered = allowed.map(|spec| Offered {
        name: spec.name.clone(),
        sent: wire_message::tool(spec),
    });
    offered.collect()
}
