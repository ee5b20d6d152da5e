//! Enforces the limits on cost and tokens of a run.
//!
//! A usage that is unknown ends the run, since the limit can no longer be enforced.

use holodeck_model::Spent;

use holodeck_runs::{Grade, RunEnd, RunEndKind, UnitRecord};

/// The limits on cost and tokens after which a run starts no further case.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// In US dollars.
    pub max_cost_usd: Option<f64>,
    /// In tokens, prompt and completion together.
    pub max_tokens_total: Option<u64>,
}

/// Adds up what a run uses, for execution and grading, and checks it against the budget.
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

    /// Adds the usage of an executed unit; returns a reason to end the run, if there is one.
    pub(crate) fn add_unit(&mut self, unit: &UnitRecord) -> Option<RunEnd> {
        let by_user = unit.user.as_ref().and_then(|user| self.add(user.used?));
        self.add(unit.spent()).or(by_user)
    }

    /// Adds the usage of the judge for a unit.
    pub(crate) fn add_grade(&mut self, grade: &Grade) -> Option<RunEnd> {
        self.add(grade.judging?)
    }

    /// Adds a usage; returns a reason to end the run, if there is one. Usage that is unknown, or zero although the model answered, cannot be compared with a budget, so it also ends
    /// the run.
    pub(crate) fn add(&mut self, spent: Spent) -> Option<RunEnd> {
        let Spent {
            calls,
            tokens,
            cost_usd: cost,
        } = spent;
        let tokens = tokens.map(|usage| usage.total_tokens);
        self.tokens += tokens.unwrap_or(0);
        self.cost_usd += cost.unwrap_or(0.0);
        let called = calls > 0;
        if let Some(limit) = self.budget.max_tokens_total {
            if called && tokens.is_none_or(|tokens| tokens == 0) {
                return Some(RunEnd::early(
                    RunEndKind::Unenforceable,
                    "cannot enforce `--max-tokens-total`: the endpoint reports no token usage",
                ));
            }
            if self.tokens >= limit {
                let because = format!(
                    "token budget used up: {} of {limit} {}",
                    self.tokens,
                    if limit == 1 { "token" } else { "tokens" }
                );
                return Some(RunEnd::early(RunEndKind::Budget, because));
            }
        }
        if let Some(limit) = self.budget.max_cost_usd {
            if called && (cost.is_none() || tokens == Some(0)) {
                return Some(RunEnd::early(
                    RunEndKind::Unenforceable,
                    "cannot enforce `--max-cost-usd`: the endpoint reports no token usage, or no price is known",
                ));
            }
            if self.cost_usd >= limit {
                let because = format!("cost budget used up: ${:.4} of ${limit}", self.cost_usd);
                return Some(RunEnd::early(RunEndKind::Budget, because));
            }
        }
        None
    }
}
