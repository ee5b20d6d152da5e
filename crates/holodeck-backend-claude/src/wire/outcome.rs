//! Reads the frame that ends a turn, with its usage and denied calls.

use holodeck_backend_api::TokenUsage;
use serde_json::{Map, Value};

use super::fields::{Fields as _, maps, texts};

/// The end of a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResultFrame {
    /// `success` or `error_…`. A failed request to the model has `success` and `is_error`.
    pub(crate) subtype: String,
    pub(crate) is_error: bool,
    /// The final text, or the text of the error.
    pub(crate) result: Option<String>,
    pub(crate) structured_output: Option<Value>,
    pub(crate) errors: Vec<String>,
    pub(crate) stop_reason: Option<String>,
    pub(crate) terminal_reason: Option<String>,
    pub(crate) api_error_status: Option<u16>,
    /// The error type that the endpoint reported.
    pub(crate) api_error_type: Option<String>,
    /// Tokens of the main agent in this turn. Can be too low if the turn failed.
    pub(crate) usage: Option<WireUsage>,
    /// Tokens of all models since the last result, including subagents and the CLI's own calls. Only in newer CLIs.
    pub(crate) all_usage: Option<WireUsage>,
    /// The cost of `all_usage`, by the CLI's own prices.
    pub(crate) all_cost_usd: Option<f64>,
    pub(crate) session_id: Option<String>,
    pub(crate) denials: Vec<Denial>,
    /// The number of queued messages of the host.
    pub(crate) queued: u64,
    /// Set when the turn was not started by a message of the host, for example `task-notification`.
    pub(crate) origin: Option<String>,
}

/// A tool call that was not allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) tool_name: String,
    pub(crate) call_id: Option<String>,
}

/// Tokens as the Messages API counts them: each kind separately, absent if not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WireUsage {
    pub(crate) input: Option<u64>,
    pub(crate) output: Option<u64>,
    pub(crate) cache_read: Option<u64>,
    pub(crate) cache_creation: Option<u64>,
    pub(crate) thinking: Option<u64>,
}

impl WireUsage {
    /// Replaces the counts that a later report contains.
    pub(crate) fn update(&mut self, later: Self) {
        self.input = later.input.or(self.input);
        self.output = later.output.or(self.output);
        self.cache_read = later.cache_read.or(self.cache_read);
        self.cache_creation = later.cache_creation.or(self.cache_creation);
        self.thinking = later.thinking.or(self.thinking);
    }

    /// Converts to the contract's counts, in which the prompt includes cached tokens.
    pub(crate) fn tokens(self) -> TokenUsage {
        let cache_read = self.cache_read.unwrap_or_default();
        let cache_creation = self.cache_creation.unwrap_or_default();
        let prompt = self
            .input
            .unwrap_or_default()
            .saturating_add(cache_read)
            .saturating_add(cache_creation);
        TokenUsage {
            cache_read_tokens: cache_read,
            cache_creation_tokens: cache_creation,
            reasoning_tokens: self.thinking.unwrap_or_default(),
            ..TokenUsage::new(prompt, self.output.unwrap_or_default())
        }
    }
}

pub(super) fn read(mut body: Map<String, Value>) -> ResultFrame {
    let by_model = body.take_map("model_usage_since_last_result");
    let by_model = by_model.map(|models| maps(models.into_iter().map(|(_, usage)| usage).collect()));
    ResultFrame {
        subtype: body.take_text("subtype").unwrap_or_default(),
        is_error: body.flag("is_error"),
        result: body.take_text("result"),
        structured_output: body.take_value("structured_output"),
        errors: texts(body.take_list("errors")),
        stop_reason: body.take_text("stop_reason"),
        terminal_reason: body.take_text("terminal_reason"),
        api_error_status: body.status("api_error_status"),
        api_error_type: body
            .take_text("api_error_type")
            .or_else(|| body.take_text("api_error")),
        usage: body.take_map("usage").as_ref().map(usage),
        all_usage: by_model.as_deref().map(all_usage),
        all_cost_usd: by_model
            .as_ref()
            .and_then(|models| models.iter().map(|model| model.float("costUSD")).sum()),
        session_id: body.take_text("session_id"),
        denials: maps(body.take_list("permission_denials"))
            .into_iter()
            .map(|mut denial| Denial {
                tool_name: denial.take_text("tool_name").unwrap_or_default(),
                call_id: denial.take_text("tool_use_id"),
            })
            .collect(),
        queued: body.number("queued_turn_count").unwrap_or_default(),
        origin: body
            .take_map("origin")
            .and_then(|mut origin| origin.take_text("kind")),
    }
}

/// Parses usage in the format of the Messages API.
pub(super) fn usage(body: &Map<String, Value>) -> WireUsage {
    let details = body.get("output_tokens_details").and_then(Value::as_object);
    WireUsage {
        input: body.number("input_tokens"),
        output: body.number("output_tokens"),
        cache_read: body.number("cache_read_input_tokens"),
        cache_creation: body.number("cache_creation_input_tokens"),
        thinking: details.and_then(|details| details.number("thinking_tokens")),
    }
}

/// The sum of the usage of all models.
fn all_usage(by_model: &[Map<String, Value>]) -> WireUsage {
    let mut sum = WireUsage::default();
    for model in by_model {
        let add = |sum: &mut Option<u64>, name: &str| {
            if let Some(more) = model.number(name) {
                *sum = Some(sum.unwrap_or_default().saturating_add(more));
            }
        };
        add(&mut sum.input, "inputTokens");
        add(&mut sum.output, "outputTokens");
        add(&mut sum.cache_read, "cacheReadInputTokens");
        add(&mut sum.cache_creation, "cacheCreationInputTokens");
        add(&mut sum.thinking, "thinkingTokens");
    }
    sum
}
