//! Renders the plan and the estimate of a dry run.

use holodeck::{DryRun, RerankedTool, reports::format};
use serde_json::{Value, json};

use super::case::one_line;

/// The cases that would run and the estimated cost.
pub(crate) fn dry_run(dry: &DryRun) -> String {
    let mut text = String::new();
    for (place, (index, label)) in dry.plan.cases.iter().zip(&dry.labels).enumerate() {
        let label = one_line(label);
        let trials = dry.trials.get(place).filter(|trials| trials.count > 1);
        let trials = trials.map_or_else(String::new, |trials| {
            format!(" × {}, {} must pass", trials.count, trials.min_passes)
        });
        text.push_str(&format!("{:>4}  {label}{trials}\n", index + 1));
    }
    if !dry.plan.cases.is_empty() {
        text.push('\n');
    }
    let cases = format::count(dry.plan.cases.len(), "case");
    if dry.trials.is_empty() {
        text.push_str(&format!("{cases} would run\n"));
    } else {
        text.push_str(&format!("{cases} would run, {} trials\n", dry.units()));
    }
    if let Some(shard) = &dry.plan.shard {
        text.push_str(&format!("{}\n", shard.describe(dry.plan.cases.len())));
    }
    match &dry.estimate {
        None => text.push_str("answers come from a recording and cost nothing\n"),
        Some(estimate) => {
            let tokens = format::tokens(estimate.usage.total_tokens);
            let cost = match estimate.cost_usd {
                Some(cost) => format!(
                    "{} at the prices of {}",
                    format::cost(cost),
                    estimate.prices_as_of
                ),
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
            if estimate.user_calls > 0 {
                text.push_str(&format!(
                    "simulated users are asked at most {} times; their tokens come in addition\n",
                    estimate.user_calls
                ));
            }
            if let Some(selections) = &estimate.selections {
                let calls = usize::try_from(selections.calls).unwrap_or(usize::MAX);
                text.push_str(&format!(
                    "`{}` selects an agent at most {}; its tokens come in addition\n",
                    selections.model,
                    format::count(calls, "time"),
                ));
            }
            if let Some(answers) = estimate.loop_answers {
                text.push_str(&format!(
                    "the quality loop asks for up to {answers} answers to each case; an estimate from lengths has only the first\n"
                ));
            }
            for RerankedTool { tool, model, .. } in &estimate.reranked {
                text.push_str(&format!(
                    "each search of `{tool}` asks `{model}` once to rerank; its tokens come in addition\n"
                ));
            }
        }
    }
    if let Some(hooks) = &dry.hooks {
        text.push_str(&format!("{hooks}\n"));
    }
    text
}

/// The dry run as JSON.
pub(crate) fn dry_run_json(dry: &DryRun) -> Value {
    let estimate = dry.estimate.as_ref().map(|estimate| {
        let reranked = estimate.reranked.iter();
        let reranked = reranked.map(|reranked| json!({"tool": reranked.tool, "model": reranked.model}));
        let reranked: Vec<Value> = reranked.collect();
        json!({
            "token_usage": estimate.usage,
            "cost_usd": estimate.cost_usd,
            "prices_as_of": estimate.prices_as_of,
            "basis": estimate.basis,
            "judge_calls": estimate.judge_calls,
            "user_calls": estimate.user_calls,
            "selections": estimate.selections.as_ref().map(|it| json!({"model": it.model, "calls": it.calls})),
            "loop_answers": estimate.loop_answers,
            "reranked": reranked,
        })
    });
    let cases: Vec<_> = dry
        .plan
        .cases
        .iter()
        .zip(&dry.labels)
        .enumerate()
        .map(|(place, (index, label))| match dry.trials.get(place) {
            None => json!({"index": index, "label": label}),
            Some(trials) => json!({
                "index": index,
                "label": label,
                "trials": trials.count,
                "min_passes": trials.min_passes,
            }),
        })
        .collect();
    let mut value = json!({"cases": cases, "estimate": estimate});
    if let (Some(shard), Some(fields)) = (&dry.plan.shard, value.as_object_mut()) {
        fields.insert("shard".to_owned(), json!(shard));
    }
    if let (Some(hooks), Some(fields)) = (&dry.hooks, value.as_object_mut()) {
        fields.insert("hooks".to_owned(), json!(hooks));
    }
    value
}
