use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::TokenUsage;

/// What the tools of a turn ask models for, beside the agent's own calls. Whoever has to know gives one along and looks
/// into it, however the turn ended. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Spending(Arc<Account>);

#[derive(Debug, Default)]
struct Account {
    spent: Mutex<Vec<ToolUsage>>,
    /// Hears of everything too.
    within: Option<Spending>,
}

/// What one question of a tool to a model took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUsage {
    /// The model as the YAML names it.
    pub model: String,
    /// The model's own name as the endpoint gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// Its tokens. `None` when the endpoint told none: missing, not zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// What the other side says it cost; absent where a price list has to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Spending {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One of its own; what is added to it is added here too.
    pub fn part(&self) -> Self {
        Self(Arc::new(Account {
            within: Some(self.clone()),
            ..Account::default()
        }))
    }

    /// Adds what a question took.
    pub fn add(&self, usage: ToolUsage) {
        if let Some(whole) = &self.0.within {
            whole.add(usage.clone());
        }
        self.spent().push(usage);
    }

    /// All that was added since it was last taken.
    pub fn take(&self) -> Vec<ToolUsage> {
        mem::take(&mut *self.spent())
    }

    fn spent(&self) -> std::sync::MutexGuard<'_, Vec<ToolUsage>> {
        self.0.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tokens of a turn: the agent's own and what its tools took. `None` as soon as one of them is not known: a sum
/// that is too low would be held against a budget.
pub fn total_usage(own: Option<TokenUsage>, own_calls: u32, tools: &[ToolUsage]) -> Option<TokenUsage> {
    if own.is_none() && (own_calls > 0 || tools.is_empty()) {
        return None;
    }
    let mut total = own.unwrap_or_default();
    for spent in tools {
        total += spent.usage?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(usage: Option<TokenUsage>) -> ToolUsage {
        ToolUsage {
            model: "m".to_owned(),
            answered_by: None,
            usage,
            cost_usd: None,
        }
    }

    #[test]
    fn what_a_part_spends_the_whole_has_spent() {
        let whole = Spending::new();
        let part = whole.part();
        part.add(spent(Some(TokenUsage::new(1, 2))));
        whole.clone().add(spent(None));
        assert_eq!(part.take().len(), 1);
        assert_eq!((whole.take().len(), whole.take().len()), (2, 0));
    }

    #[test]
    fn a_sum_is_told_only_if_all_of_it_is_known() {
        let one = TokenUsage::new(10, 1);
        let known = [spent(Some(TokenUsage::new(5, 2)))];
        for (own, calls, tools, total) in [
            (Some(one), 1, &[][..], Some(11)),
            (Some(one), 1, &known[..], Some(18)),
            (Some(one), 1, &[spent(None)][..], None),
            (None, 1, &known[..], None),
            // The agent's own call never came to an answer.
            (None, 0, &known[..], Some(7)),
            (None, 0, &[][..], None),
        ] {
            let usage = total_usage(own, calls, tools);
            assert_eq!(usage.map(|usage| usage.total_tokens), total);
        }
    }
}
