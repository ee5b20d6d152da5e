//! Collects what tools spend on models during a turn. An unknown amount makes the sum unknown.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::TokenUsage;

/// Collects the token usage of model calls made by tools during a turn. It can be read whether the turn succeeded or
/// failed. Clones share state.
#[derive(Clone, Debug, Default)]
pub struct Spending(Arc<Account>);

#[derive(Debug, Default)]
struct Account {
    usages: Mutex<Vec<ToolUsage>>,
    /// Receives everything that is added here, too.
    parent: Option<Spending>,
}

/// The usage of one model call made by a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUsage {
    /// The model as the YAML names it.
    pub model: String,
    /// The model's own name, as the endpoint reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// The tokens. `None` if the endpoint reported no usage: missing, not zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// The cost that the endpoint reported; if absent, a price list is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Spending {
    /// An empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// A child collection; everything that is added to it is also added here.
    pub fn part(&self) -> Self {
        Self(Arc::new(Account {
            parent: Some(self.clone()),
            ..Account::default()
        }))
    }

    /// Adds the usage of a model call.
    pub fn add(&self, usage: ToolUsage) {
        if let Some(parent) = &self.0.parent {
            parent.add(usage.clone());
        }
        self.usages().push(usage);
    }

    /// Removes and returns everything added since the last call.
    pub fn take(&self) -> Vec<ToolUsage> {
        mem::take(&mut *self.usages())
    }

    fn usages(&self) -> std::sync::MutexGuard<'_, Vec<ToolUsage>> {
        self.0.usages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tokens of a turn: the agent's own and those of its tools. `None` if one of them is unknown: a sum that is too
/// low must not be compared with a budget.
pub fn total_usage(own: Option<TokenUsage>, own_calls: u32, tools: &[ToolUsage]) -> Option<TokenUsage> {
    if own.is_none() && (own_calls > 0 || tools.is_empty()) {
        return None;
    }
    let mut total = own.unwrap_or_default();
    for tool in tools {
        total += tool.usage?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool_usage(usage: Option<TokenUsage>) -> ToolUsage {
        ToolUsage {
            model: "m".to_owned(),
            answered_by: None,
            usage,
            cost_usd: None,
        }
    }

    #[test]
    fn a_parent_collects_the_usage_of_its_children() {
        let whole = Spending::new();
        let part = whole.part();
        part.add(tool_usage(Some(TokenUsage::new(1, 2))));
        whole.clone().add(tool_usage(None));
        assert_eq!(part.take().len(), 1);
        assert_eq!((whole.take().len(), whole.take().len()), (2, 0));
    }

    #[test]
    fn a_sum_is_returned_only_if_all_parts_are_known() {
        let one = TokenUsage::new(10, 1);
        let known = [tool_usage(Some(TokenUsage::new(5, 2)))];
        for (own, calls, tools, total) in [
            (Some(one), 1, &[][..], Some(11)),
            (Some(one), 1, &known[..], Some(18)),
            (Some(one), 1, &[tool_usage(None)][..], None),
            (None, 1, &known[..], None),
            // The agent's own call was not answered.
            (None, 0, &known[..], Some(7)),
            (None, 0, &[][..], None),
        ] {
            let usage = total_usage(own, calls, tools);
            assert_eq!(usage.map(|usage| usage.total_tokens), total);
        }
    }
}
