//! Reads the frame that ends a turn, with its usage and denied calls.

use std::collections::BTreeMap;

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
    /// The structured answer as the JSON that was written.
    pub(crate) structured_output: Option<String>,
    pub(crate) errors: Vec<String>,
    pub(crate) stop_reason: Option<String>,
    pub(crate) terminal_reason: Option<String>,
    pub(crate) api_error_status: Option<u16>,
    /// The error type that the endpoint reported.
    pub(crate) api_error_type: Option<String>,
    /// Tokens of the main agent in this turn. Can be too low if the turn failed.
    pub(crate) usage: Option<WireUsage>,
    /// The spending of each model since the last result, including subagents and the CLI's own calls. Only in newer CLIs.
    pub(crate) since_last: Option<Spending>,
    /// The spending of each model since the process started, or since it was cleared.
    pub(crate) in_process: Option<Spending>,
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

/// The tokens and cost of models, by their names for the CLI.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spending(pub(crate) BTreeMap<String, ModelSpending>);

/// The tokens and cost of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ModelSpending {
    pub(crate) usage: WireUsage,
    /// By the CLI's own prices.
    pub(crate) cost_usd: Option<f64>,
}

impl Spending {
    fn read(models: Map<String, Value>) -> Self {
        let models = models.into_iter().filter_map(|(name, spent)| match spent {
            Value::Object(spent) => Some((name, ModelSpending::read(&spent))),
            _ => None,
        });
        Self(models.collect())
    }

    /// The tokens of all models.
    pub(crate) fn tokens(&self) -> TokenUsage {
        let mut sum = TokenUsage::default();
        for spent in self.0.values() {
            sum += spent.usage.tokens();
        }
        sum
    }

    /// The cost of all models, if each is known.
    pub(crate) fn cost_usd(&self) -> Option<f64> {
        self.0.values().map(|spent| spent.cost_usd).sum()
    }

    /// The spending after `earlier`. A count that is lower than before was set back.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let was_reset = earlier.0.iter().any(|(name, before)| {
            let now = self.0.get(name);
            now.is_none_or(|now| now.usage.tokens().total_tokens < before.usage.tokens().total_tokens)
        });
        if was_reset {
            return self.clone();
        }
        let models = self.0.iter().map(|(name, now)| {
            let before = earlier.0.get(name).copied().unwrap_or_default();
            (name.clone(), now.since(before))
        });
        Self(models.collect())
    }
}

impl ModelSpending {
    fn read(spent: &Map<String, Value>) -> Self {
        Self {
            usage: WireUsage {
                input: spent.number("inputTokens"),
                output: spent.number("outputTokens"),
                cache_read: spent.number("cacheReadInputTokens"),
                cache_creation: spent.number("cacheCreationInputTokens"),
                thinking: spent.number("thinkingTokens"),
            },
            cost_usd: spent.float("costUSD"),
        }
    }

    fn since(self, before: Self) -> Self {
        let rest = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or_default()))
        };
        Self {
            usage: WireUsage {
                input: rest(self.usage.input, before.usage.input),
                output: rest(self.usage.output, before.usage.output),
                cache_read: rest(self.usage.cache_read, before.usage.cache_read),
                cache_creation: rest(self.usage.cache_creation, before.usage.cache_creation),
                thinking: rest(self.usage.thinking, before.usage.thinking),
            },
            cost_usd: self
                .cost_usd
                .map(|now| (now - before.cost_usd.unwrap_or_default()).max(0.0)),
        }
    }
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
    ResultFrame {
        subtype: body.take_text("subtype").unwrap_or_default(),
        is_error: body.flag("is_error"),
        result: body.take_text("result"),
        structured_output: body.take_text("structured_output"),
        errors: texts(body.take_list("errors")),
        stop_reason: body.take_text("stop_reason"),
        terminal_reason: body.take_text("terminal_reason"),
        api_error_status: body.status("api_error_status"),
        api_error_type: body
            .take_text("api_error_type")
            .or_else(|| body.take_text("api_error")),
        usage: body.take_map("usage").as_ref().map(usage),
        since_last: body.take_map("model_usage_since_last_result").map(Spending::read),
        in_process: body.take_map("modelUsage").map(Spending::read),
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
