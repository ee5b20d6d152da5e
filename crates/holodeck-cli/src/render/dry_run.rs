//! Renders the plan and the estimate of a dry run.

use holodeck::{DryRun, runner::words};
use serde_json::{Value, json};

use super::case::one_line;

/// The cases that would run and the estimated cost.
pub(crate) fn dry_run(dry: &DryRun) -> String {
    let mut text = String::new();
    for case in &dry.plan.cases {
        text.push_str(&format!("{:>4}  {}\n", case.index + 1, one_line(&case.label)));
    }
    if !dry.plan.cases.is_empty() {
        text.push('\n');
    }
    text.push_str(&format!(
        "{} would run\n",
        words::count(dry.plan.cases.len(), "case")
    ));
    match &dry.estimate {
        None => text.push_str("answers come from a recording and cost nothing\n"),
        Some(estimate) => {
            let tokens = words::tokens(estimate.usage.total_tokens);
            let cost = match estimate.cost_usd {
                Some(cost) => format!("{} at the prices of {}", words::cost(cost), estimate.prices_as_of),
                None => format!(
                    "the price of the model is not in the list of {}",
                    estimate.prices_as_of
                ),
            };
            text.push_str(&format!("about {tokens} tokens, {cost}\n"));
            text.push_str(&format!("estimated from {}\n", estimate.basis));
            if estimate.judge_calls > 0 {
                text.push_str(&format!(
                    "judges are asked at least {} times; their tokens come in addition\n",
                    estimate.judge_calls
                ));
            }
        }
    }
    text
}

/// The dry run as JSON.
pub(crate) fn dry_run_json(dry: &DryRun) -> Value {
    let estimate = dry.estimate.as_ref().map(|estimate| {
        json!({
            "token_usage": estimate.usage,
            "cost_usd": estimate.cost_usd,
            "prices_as_of": estimate.prices_as_of,
            "basis": estimate.basis,
            "judge_calls": estimate.judge_calls,
        })
    });
    let cases: Vec<_> = dry
        .plan
        .cases
        .iter()
        .map(|case| json!({"index": case.index, "label": case.label}))
        .collect();
    json!({"cases": cases, "estimate": estimate})
}
