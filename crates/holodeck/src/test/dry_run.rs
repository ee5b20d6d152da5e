//! Estimates what a run would execute and cost, for `holodeck test --dry-run`.
//!
//! Must not call a model, start a server or change a file.

use holodeck_model::{PLAIN_COMMAND, ResolvedAgent, TokenUsage};
use holodeck_orchestrator::LoopRules;
use holodeck_runner::Plan;
use holodeck_runs::{AgentRuns, CaseTrials, Journal};
use holodeck_turn::Prices;

use crate::{
    agent::inventory::{Inventory, ModelRole},
    test::judges,
};

/// A preview of a run.
#[derive(Clone, Debug)]
pub struct DryRun {
    /// The cases, in order.
    pub plan: Plan,
    /// The names of these cases as reports show them.
    pub labels: Vec<String>,
    /// How often each of them runs; empty if each runs once.
    pub trials: Vec<CaseTrials>,
    /// The expected usage; `None` when answers come from a recording and cost nothing.
    pub estimate: Option<Estimate>,
    /// Whether the programs of `claude.hooks` would run; `None` without any.
    pub hooks: Option<String>,
}

/// An estimate of what a run may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Tokens.
    pub usage: TokenUsage,
    /// Cost in US dollars, if the price of the model is known.
    pub cost_usd: Option<f64>,
    /// The day of the price list.
    pub prices_as_of: String,
    /// The basis of the estimate.
    pub basis: String,
    /// Calls of judges, at least; their tokens and cost come in addition.
    pub judge_calls: u64,
    /// Calls of models that play users, at most; their tokens and cost come in addition.
    pub user_calls: u64,
    /// The model that selects specialists, with its calls, at most; their tokens and cost come in addition.
    pub selections: Option<PlannedSelections>,
    /// The quality loop may ask for this number of answers to a case; the further ones and scoring come in addition,
    /// unless the basis is a run that has them.
    pub loop_answers: Option<u32>,
    /// The tools whose every search asks a chat model to rerank. How often the agent searches is not known.
    pub reranked: Vec<RerankedTool>,
}

/// The calls of a model that selects specialists, whose tokens come in addition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedSelections {
    /// The model.
    pub model: String,
    /// One call for each message that is routed, at most: a declared command needs none.
    pub calls: u64,
}

/// A tool whose search results a chat model reranks, with one call for each search.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RerankedTool {
    /// The tool.
    pub tool: String,
    /// The model that is asked.
    pub model: String,
}

/// Bytes of English text per token, roughly.
const BYTES_PER_TOKEN: usize = 4;

/// Assumed length of an answer without `max_tokens`.
const ANSWER_TOKENS: u64 = 256;

impl DryRun {
    /// How many trials would run: as many as cases if each runs once.
    pub fn units(&self) -> u64 {
        count_units(&self.plan, &self.trials)
    }
}

fn count_units(plan: &Plan, trials: &[CaseTrials]) -> u64 {
    if trials.is_empty() {
        return plan.cases.len() as u64;
    }
    trials.iter().map(|trials| u64::from(trials.count)).sum()
}

pub(crate) fn estimate(
    agent: &ResolvedAgent,
    plan: &Plan,
    trials: &[CaseTrials],
    prices: &Prices,
) -> Estimate {
    let asking = count_asking(agent, plan, trials);
    let (usage, basis) = match from_last_run(agent, asking) {
        Some(estimate) => estimate,
        None => from_lengths(agent, plan, trials),
    };
    Estimate {
        cost_usd: prices.cost(&agent.config.answerer(), &usage),
        usage,
        prices_as_of: prices.as_of().to_owned(),
        basis,
        judge_calls: judges::least_calls(agent, plan.cases.iter().copied()),
        user_calls: most_user_calls(agent, plan, trials),
        selections: selections(agent, plan, trials),
        loop_answers: agent
            .config
            .enabled_loop()
            .map(|config| LoopRules::of(config).max_iterations),
        reranked: reranked(agent, plan),
    }
}

/// How many trials ask the agent: those of cases that check only a selection do not.
fn count_asking(agent: &ResolvedAgent, plan: &Plan, trials: &[CaseTrials]) -> u64 {
    let planned = plan.cases.iter().enumerate();
    let counts = planned.map(|(place, index)| {
        let asks = agent
            .config
            .test_cases
            .get(*index)
            .is_some_and(|case| !agent.config.needs_no_model(&case));
        let count = trials.get(place).map_or(1, |trials| u64::from(trials.count));
        if asks { count } else { 0 }
    });
    counts.sum()
}

/// One question for each message that is routed.
fn selections(agent: &ResolvedAgent, plan: &Plan, trials: &[CaseTrials]) -> Option<PlannedSelections> {
    let model = match agent.config.selecting_model() {
        Some((_, model)) => model.name.clone(),
        None => agent.config.asked_embedder()?.model,
    };
    let routing = agent.config.routing.as_ref().filter(|routing| routing.enabled)?;
    let mut commands = routing.commands.iter();
    let routes_plain = commands.any(|command| command.trim().eq_ignore_ascii_case(PLAIN_COMMAND));
    let plain = u64::from(routes_plain);
    let planned = plan.cases.iter().enumerate();
    let calls = planned.filter_map(|(place, planned)| {
        let case = agent.config.test_cases.get(*planned)?;
        let of = |command: &Option<String>| if command.is_some() { 1 } else { plain };
        let messages: u64 = match &case.user {
            Some(user) => of(&case.command) + plain * u64::from(user.max_turns).saturating_sub(1),
            None if case.turns.is_empty() => of(&case.command),
            None => case.turns.iter().map(|turn| of(&turn.command)).sum(),
        };
        let count = trials.get(place).map_or(1, |trials| u64::from(trials.count));
        Some(messages * count)
    });
    let calls = calls.sum();
    (calls > 0).then_some(PlannedSelections { model, calls })
}

fn reranked(agent: &ResolvedAgent, plan: &Plan) -> Vec<RerankedTool> {
    let inventory = Inventory::new(agent, Some(&plan.cases));
    let models = inventory.models().iter();
    let rerankers = models.filter(|used| used.role == ModelRole::Reranker);
    let rerankers = rerankers.map(|used| RerankedTool {
        tool: used.user.clone(),
        model: used.config.name.clone(),
    });
    rerankers.collect()
}

/// One call for each message, and one after the last answer. An answer that does not fit is asked for once more.
fn most_user_calls(agent: &ResolvedAgent, plan: &Plan, trials: &[CaseTrials]) -> u64 {
    let planned = plan.cases.iter().enumerate();
    let calls = planned.filter_map(|(place, planned)| {
        let case = agent.config.test_cases.get(*planned)?;
        let user = case.user.as_ref()?;
        let count = trials.get(place).map_or(1, |trials| u64::from(trials.count));
        Some(count * (u64::from(user.max_turns) + u64::from(case.input.is_none())))
    });
    calls.sum()
}

/// Multiplies the mean token usage of a trial in the newest run by the number of trials.
fn from_last_run(agent: &ResolvedAgent, planned: u64) -> Option<(TokenUsage, String)> {
    // Another model or other instructions use other numbers of tokens.
    let journals = AgentRuns::of(agent).journals_of(agent.combination.as_ref());
    let journal = Journal::open(journals.ok()?.first()?).ok()?;
    let mut usage = TokenUsage::default();
    let mut units = 0;
    for unit in journal.units() {
        // A unit without model calls did not ask the agent.
        if let Some(used) = unit.ok()?.spent().tokens.filter(|used| used.total_tokens > 0) {
            usage += used;
            units += 1;
        }
    }
    if units == 0 {
        return None;
    }
    let scale = |tokens: u64| tokens.saturating_mul(planned) / units;
    let usage = TokenUsage::new(scale(usage.prompt_tokens), scale(usage.completion_tokens));
    Some((usage, format!("the mean case of run {}", journal.header().run_id)))
}

/// Estimates from the lengths of the prompts.
fn from_lengths(agent: &ResolvedAgent, plan: &Plan, trials: &[CaseTrials]) -> (TokenUsage, String) {
    let mut usage = TokenUsage::default();
    let answer = agent.config.model.as_ref().and_then(|model| model.max_tokens);
    let answer = answer.map_or(ANSWER_TOKENS, u64::from);
    for (place, planned) in plan.cases.iter().enumerate() {
        let count = trials.get(place).map_or(1, |trials| u64::from(trials.count));
        let Some(case) = agent.config.test_cases.get(*planned) else {
            continue;
        };
        if agent.config.needs_no_model(&case) {
            continue;
        }
        let single = case.input.iter().map(String::as_str);
        let inputs: Vec<&str> = match &case.user {
            // As many messages as may be sent, of the length of the goal.
            Some(user) => vec![user.goal.as_str(); user.max_turns as usize],
            None => single
                .chain(case.turns.iter().map(|turn| turn.input.as_str()))
                .collect(),
        };
        let mut sent = agent.instructions.text.len() / BYTES_PER_TOKEN;
        for input in inputs {
            sent += input.len() / BYTES_PER_TOKEN + 1;
            usage += TokenUsage::new(sent as u64 * count, answer * count);
        }
    }
    (
        usage,
        "the lengths of the prompts; no earlier run reported token usage".to_owned(),
    )
}
