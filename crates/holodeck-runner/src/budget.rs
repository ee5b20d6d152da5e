use crate::{
    ended::{Ended, HowEnded},
    record::UnitRecord,
};

/// What a run may use before it stops starting cases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// In US dollars.
    pub max_cost_usd: Option<f64>,
    /// In tokens, prompt and completion together.
    pub max_tokens_total: Option<u64>,
}

/// Adds up what a run uses, in running and in grading, and decides when it is too much.
#[derive(Debug)]
pub(crate) struct Meter {
    budget: Budget,
    tokens: u64,
    cost_usd: f64,
}

impl Meter {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            budget,
            tokens: 0,
            cost_usd: 0.0,
        }
    }

    /// Adds a unit that ran; returns why no further one may start, if so. A unit whose use is not known, or is zero
    /// though the model answered, cannot be compared with a budget, so it ends the run too.
    pub(crate) fn add(&mut self, unit: &UnitRecord) -> Option<Ended> {
        let tokens = unit.usage().map(|usage| usage.total_tokens);
        let cost = unit.cost_usd();
        self.tokens += tokens.unwrap_or(0);
        self.cost_usd += cost.unwrap_or(0.0);
        let called = unit.model_calls() > 0;
        if let Some(limit) = self.budget.max_tokens_total {
            if called && tokens.is_none_or(|tokens| tokens == 0) {
                return Some(Ended::early(
                    HowEnded::Unenforceable,
                    "cannot enforce `--max-tokens-total`: the endpoint reports no token usage",
                ));
            }
            if self.tokens >= limit {
                let because = format!("token budget used up: {} of {limit} tokens", self.tokens);
                return Some(Ended::early(HowEnded::Budget, because));
            }
        }
        if let Some(limit) = self.budget.max_cost_usd {
            if called && (cost.is_none() || tokens == Some(0)) {
                return Some(Ended::early(
                    HowEnded::Unenforceable,
                    "cannot enforce `--max-cost-usd`: the endpoint reports no token usage, or a price is not known",
                ));
            }
            if self.cost_usd >= limit {
                let because = format!("cost budget used up: ${:.4} of ${limit}", self.cost_usd);
                return Some(Ended::early(HowEnded::Budget, because));
            }
        }
        None
    }
}
