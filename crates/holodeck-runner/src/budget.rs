use holodeck_model::TestResult;

/// What a run may use before it stops starting cases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// In US dollars.
    pub max_cost_usd: Option<f64>,
    /// In tokens, prompt and completion together.
    pub max_tokens_total: Option<u64>,
}

/// Adds up what a run uses and tells when it is too much.
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

    /// Adds a finished case; tells why the run must stop, if it must. A case whose use is not known can't be held
    /// against a budget, so it stops the run too.
    pub(crate) fn add(&mut self, result: &TestResult) -> Option<String> {
        self.tokens += result.token_usage.as_ref().map_or(0, |usage| usage.total_tokens);
        self.cost_usd += result.cost_usd.unwrap_or(0.0);
        let called = result.num_turns > 0;
        if let Some(limit) = self.budget.max_tokens_total {
            if called && result.token_usage.is_none() {
                return Some(
                    "the endpoint reports no token usage, so the token budget can't be held".to_owned(),
                );
            }
            if self.tokens >= limit {
                return Some(format!("token budget used up: {} of {limit} tokens", self.tokens));
            }
        }
        if let Some(limit) = self.budget.max_cost_usd {
            if called && result.cost_usd.is_none() {
                return Some("the price of a case is not known, so the cost budget can't be held".to_owned());
            }
            if self.cost_usd >= limit {
                return Some(format!("cost budget used up: ${:.4} of ${limit}", self.cost_usd));
            }
        }
        None
    }
}
