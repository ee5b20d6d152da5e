//! Counts the tokens of a turn, each once: those of the agent's own messages as they end, and the rest from the CLI's
//! totals by model.

use std::collections::BTreeMap;

use holodeck_backend_api::{BackendEvent, TokenUsage};
use holodeck_model::claude_model_id;

use crate::wire::{ResultFrame, Spending, WireUsage};

/// Tokens of messages, by the model that wrote them.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Tokens of the message in progress.
    open: TokenUsage,
    by_model: BTreeMap<Option<String>, TokenUsage>,
}

impl Counted {
    /// Counts the tokens of an event.
    pub(super) fn observe(&mut self, event: &BackendEvent) {
        match event {
            BackendEvent::Usage(usage) => self.open += *usage,
            BackendEvent::TurnEnd { model, .. } => {
                let usage = std::mem::take(&mut self.open);
                if usage != TokenUsage::default() {
                    *self.by_model.entry(model.clone()).or_default() += usage;
                }
            }
            _ => {}
        }
    }
}

/// The tokens of a turn so far.
#[derive(Debug, Default)]
pub(super) struct TurnTokens {
    /// Of the agent's own messages, which were emitted.
    pub(super) main: Counted,
    /// Of the messages of its sub-agents, which were not: what the CLI says of them is preliminary.
    pub(super) nested: Counted,
}

impl TurnTokens {
    /// The tokens that were not emitted, by model. `spent` is what the CLI says of this turn, and counts; without it, the
    /// messages of the sub-agents are added to what it says of the agent. `model` is that of the agent.
    pub(super) fn rest(
        self,
        result: &ResultFrame,
        spent: Option<&Spending>,
        model: Option<&str>,
    ) -> Vec<(Option<String>, TokenUsage)> {
        let main = result.usage.map(WireUsage::tokens).unwrap_or_default();
        // The total of a turn that failed may be too low.
        let is_whole = |spent: &&Spending| spent.tokens().total_tokens >= main.total_tokens;
        let mut rest: Vec<(Option<String>, TokenUsage)> = match spent.filter(is_whole) {
            Some(spent) => {
                let models = spent.0.iter();
                models
                    .map(|(name, spent)| (Some(name.clone()), spent.usage.tokens()))
                    .collect()
            }
            None => std::iter::once((model.map(str::to_owned), main))
                .chain(self.nested.by_model)
                .collect(),
        };
        let mut counted: Vec<_> = self.main.by_model.into_iter().collect();
        let same =
            |one: Option<&str>, other: Option<&str>| one.map(claude_model_id) == other.map(claude_model_id);
        for (writer, counted) in &mut counted {
            if let Some((_, usage)) = rest
                .iter_mut()
                .find(|(model, _)| same(model.as_deref(), writer.as_deref()))
            {
                deduct(usage, counted);
            }
        }
        // The endpoint may call a model otherwise than the CLI does.
        rest.sort_by_key(|(name, _)| !same(name.as_deref(), model));
        for (_, usage) in &mut rest {
            for (_, counted) in &mut counted {
                deduct(usage, counted);
            }
        }
        rest.retain(|(_, usage)| *usage != TokenUsage::default());
        rest
    }
}

/// Takes what was counted off `usage`, as far as both go.
fn deduct(usage: &mut TokenUsage, counted: &mut TokenUsage) {
    let pairs = [
        (&mut usage.prompt_tokens, &mut counted.prompt_tokens),
        (&mut usage.completion_tokens, &mut counted.completion_tokens),
        (&mut usage.total_tokens, &mut counted.total_tokens),
        (&mut usage.cache_read_tokens, &mut counted.cache_read_tokens),
        (
            &mut usage.cache_creation_tokens,
            &mut counted.cache_creation_tokens,
        ),
        (&mut usage.reasoning_tokens, &mut counted.reasoning_tokens),
    ];
    for (usage, counted) in pairs {
        let both = (*usage).min(*counted);
        *usage -= both;
        *counted -= both;
    }
}
