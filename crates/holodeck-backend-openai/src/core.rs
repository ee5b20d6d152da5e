//! The state that all turns of one backend share: the system prompt, the offered tools, the answer format and the
//! budget.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use holodeck_backend_api::{
    AnswerFormat, AnswerWishes, Approver, BackendError, CallRefusal, ModelCalls, ModelRequest, RequestBody,
    RequestPlace, TokenUsage, ToolCall, ToolDefinitions, ToolFilter, ToolHost, ToolOutput, ToolSpec,
};
use holodeck_model::{
    JSON_LEVELS, Location, ModelConfig, ResolvedAgent, ToolAccess, ToolNames, is_deep_json,
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{answer_format::SentFormat, json::numbers, number_odds, parameters::Parameters, wire_message};

/// The cost of a model's tokens in US dollars, if known.
pub(crate) type Price = Box<dyn Fn(&str, &TokenUsage) -> Option<f64> + Send + Sync>;

/// The state that all turns of a backend share.
pub(crate) struct Core {
    pub(crate) calls: Arc<dyn ModelCalls>,
    pub(crate) tools: Arc<dyn ToolHost>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) format: Option<SentFormat>,
    pub(crate) max_turns: u32,
    /// The budget of one turn.
    pub(crate) max_budget_usd: Option<f64>,
    /// Without it, no cost is known.
    pub(crate) price: Option<Price>,
    /// Maximum number of tool calls of one answer that run at the same time.
    pub(crate) parallel_tool_calls: usize,
    pub(crate) model: String,
    pub(crate) fallback_model: Option<String>,
    provider: String,
    instructions: String,
    parameters: Parameters,
    offered_tools: Vec<OfferedTool>,
    /// The definitions of all of them.
    definitions: Arc<ToolDefinitions>,
    filter: Option<Arc<dyn ToolFilter>>,
    names: ToolNames,
    access: ToolAccess,
    notices: Mutex<HashSet<String>>,
}

/// The context of a model call besides the conversation.
#[derive(Clone, Copy)]
pub(crate) struct CallContext<'a> {
    /// The tools offered to the model, as sent.
    pub(crate) tools: &'a Arc<ToolDefinitions>,
    pub(crate) unit: Option<&'a str>,
    pub(crate) number_odds: bool,
    pub(crate) wishes: &'a AnswerWishes,
    pub(crate) cancel: &'a CancellationToken,
}

/// The definitions of these tools.
fn definitions<'a>(tools: impl Iterator<Item = &'a OfferedTool>) -> Arc<ToolDefinitions> {
    let list = tools.map(|tool| tool.definition.clone()).collect();
    Arc::new(ToolDefinitions::new(list))
}

impl Core {
    pub(crate) fn new(
        agent: &ResolvedAgent,
        model: &ModelConfig,
        format: Option<Arc<dyn AnswerFormat>>,
        tools: Arc<dyn ToolHost>,
        calls: Arc<dyn ModelCalls>,
    ) -> Self {
        let config = &agent.config;
        let openai = config.openai.clone().unwrap_or_default();
        let mut names = ToolNames::of(config);
        for spec in tools.specs() {
            names.add_host_tool(&spec.name);
        }
        let access = ToolAccess::of(config);
        let offered_tools = offer_tools(&names, &access, tools.specs());
        let definitions = definitions(offered_tools.iter());
        Self {
            format: format.map(SentFormat::new),
            max_turns: openai.max_turns.max(1),
            max_budget_usd: openai.max_budget_usd,
            price: None,
            parallel_tool_calls: agent.execution.parallel_tool_calls.value.get(),
            model: model.name.clone(),
            fallback_model: openai.fallback_model,
            provider: model.provider.to_string(),
            instructions: agent.instructions.text.clone(),
            parameters: Parameters::of(model, config.openai.as_ref()),
            notices: Mutex::default(),
            calls,
            tools,
            approver: None,
            offered_tools,
            definitions,
            filter: None,
            names,
            access,
        }
    }

    /// The tools of other servers that share a called tool's bare name.
    pub(crate) fn namesakes(&self, called: &str) -> Vec<String> {
        let specs = self.tools.specs().iter().map(|spec| spec.name.as_str());
        let tool = self.names.identify(called);
        tool.map_or_else(Vec::new, |tool| self.names.namesakes(&tool, specs))
    }

    /// Whether a turn that used these tokens may call the model again. True without a budget or prices; with both,
    /// false if the cost is unknown, since the budget cannot be enforced.
    pub(crate) fn is_within_budget(&self, used: Option<&TokenUsage>) -> bool {
        let (Some(budget), Some(price)) = (self.max_budget_usd, &self.price) else {
            return true;
        };
        used.and_then(|used| price(&self.model, used))
            .is_some_and(|spent| spent < budget)
    }

    /// The request that shows the model `conversation`. A reasoning model is not asked for log-probabilities, which it
    /// refuses.
    pub(crate) fn request(&self, conversation: &[Value], context: &CallContext<'_>) -> ModelRequest {
        let mut messages = Vec::with_capacity(conversation.len() + 1);
        messages.extend(self.system());
        messages.extend_from_slice(conversation);
        let mut body = Map::new();
        body.insert("messages".to_owned(), Value::Array(messages));
        let own = self.format.as_ref().map(SentFormat::response_format);
        if let Some(format) = own.or(context.wishes.format.as_ref()) {
            body.insert("response_format".to_owned(), format.clone());
        }
        body.extend(self.parameters.with(context.wishes));
        if context.number_odds && !self.parameters.reasoning {
            body.extend(number_odds::parameters());
        }
        ModelRequest {
            provider: self.provider.clone(),
            model: self.model.clone(),
            body: RequestBody::with_tools(Value::Object(body), Arc::clone(context.tools)),
            unit: context.unit.map(str::to_owned),
        }
    }

    /// Looks up the places of the YAML fields that errors name.
    pub(crate) fn locate_fields(&mut self, locate: impl Fn(&str) -> Option<Location>) {
        self.parameters.locate_fields(locate);
    }

    /// Offers the model only the tools that `filter` chooses for each message.
    pub(crate) fn set_filter(&mut self, filter: Arc<dyn ToolFilter>) {
        self.filter = Some(filter);
    }

    /// The tools to offer in a turn that begins with `message` after this conversation; `None` means all.
    pub(crate) async fn choose_tools(
        &self,
        message: &str,
        conversation: &[Value],
    ) -> Result<Option<HashSet<String>>, BackendError> {
        let Some(filter) = &self.filter else {
            return Ok(None);
        };
        let selection = filter.choose(message, &count_calls(conversation)).await?;
        tracing::debug!(
            tools = selection.len(),
            of = self.offered_tools.len(),
            "chose tools for a message"
        );
        Ok(Some(selection))
    }

    /// The definitions of the tools offered with a message; `selection` contains the names that the filter chose.
    pub(crate) fn offered_tools(
        &self,
        selection: Option<&HashSet<String>>,
        place: RequestPlace<'_>,
    ) -> Arc<ToolDefinitions> {
        let changed;
        let offered = match self.tools.specs_for_request(place) {
            Cow::Borrowed(_) if selection.is_none() => return Arc::clone(&self.definitions),
            Cow::Borrowed(_) => &self.offered_tools,
            // The tools of an MCP server have changed.
            Cow::Owned(specs) => {
                changed = offer_tools(&self.names, &self.access, &specs);
                &changed
            }
        };
        // The filter did not see tools that were added later.
        let is_new = |name: &str| !self.offered_tools.iter().any(|tool| tool.name == name);
        let offered = offered.iter().filter(|tool| {
            selection.is_none_or(|selection| selection.contains(&tool.name) || is_new(&tool.name))
        });
        definitions(offered)
    }

    /// Whether a tool may be called; a model may call one that was not offered.
    pub(crate) fn allows(&self, tool: &str) -> bool {
        self.access.allows_call(&self.names, tool)
    }

    /// Why a call cannot run, regardless of an approver's decision.
    pub(crate) fn refusal(&self, call: &ToolCall) -> Option<ToolOutput> {
        if !self.allows(&call.name) {
            let text = format!("tool `{}` is not allowed", call.name);
            return Some(ToolOutput::refused(CallRefusal::NotAllowed, text));
        }
        let problem = object_problem(&call.arguments)?;
        let text = format!(
            "the arguments for `{}` are not a JSON object ({problem}); call it again with one",
            call.name
        );
        Some(ToolOutput::refused(CallRefusal::InvalidArguments, text))
    }

    /// Adds the place in the YAML that caused the error, if known.
    pub(crate) fn explain(&self, mut error: BackendError) -> BackendError {
        if let BackendError::Provider {
            status: Some(400 | 422),
            param: Some(param),
            explanation,
            ..
        } = &mut error
            && let Some((place, hint)) = self.parameters.explain(param)
        {
            explanation.message.push_str(&place);
            explanation.hint = hint.map(str::to_owned);
        }
        error
    }

    /// The notice before the first model call, if any.
    pub(crate) fn opening_notice(&self) -> Option<String> {
        let notice = self.parameters.notice.clone()?;
        self.notice_once(notice)
    }

    /// Returns the notice the first time, `None` after that.
    pub(crate) fn notice_once(&self, notice: String) -> Option<String> {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.insert(notice.clone()).then_some(notice)
    }

    fn system(&self) -> Option<Value> {
        let text = &self.instructions;
        (!text.trim().is_empty()).then(|| wire_message::system(text))
    }
}

/// A tool that is offered to the model.
struct OfferedTool {
    name: String,
    /// As sent.
    definition: Value,
}

/// How often each tool was called in a conversation.
fn count_calls(conversation: &[Value]) -> HashMap<String, usize> {
    let calls = conversation
        .iter()
        .filter_map(|message| message.get("tool_calls")?.as_array());
    let names = calls
        .flatten()
        .filter_map(|call| call.get("function")?.get("name")?.as_str());
    let mut counts = HashMap::new();
    for name in names {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

/// The tools that the lists of the `openai` block allow.
fn offer_tools(names: &ToolNames, access: &ToolAccess, specs: &[ToolSpec]) -> Vec<OfferedTool> {
    let allowed = specs.iter().filter(|spec| access.allows_call(names, &spec.name));
    let offered = allowed.map(|spec| OfferedTool {
        name: spec.name.clone(),
        definition: wire_message::tool(spec),
    });
    offered.collect()
}

/// Why the arguments are not an object; `None` if they are one.
fn object_problem(arguments: &Value) -> Option<String> {
    match arguments {
        Value::Object(_) => None,
        Value::String(text) if is_deep_json(text) => {
            Some(format!("they have more than {JSON_LEVELS} levels"))
        }
        Value::String(text) => Some(match serde_json::from_str::<Value>(text) {
            Ok(_) => match numbers::first_lossy(text) {
                Some(number) => format!("the number {number} has too many digits; send it as a text"),
                None => "they are a text".to_owned(),
            },
            Err(error) => error.to_string(),
        }),
        Value::Array(_) => Some("they are a list".to_owned()),
        _ => Some("they are a single value".to_owned()),
    }
}
