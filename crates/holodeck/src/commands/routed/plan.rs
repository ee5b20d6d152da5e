//! The plan of a command: which executor would run it, and why.

use std::sync::Arc;

use holodeck_model::{CommandContext, ExecutorKind, RoutingDecision, TokenUsage};
use holodeck_orchestrator::{AttemptDetails, FacadeSettings, GateResult, SelectionQuestion};
use serde::Serialize;

use super::{
    specialists::Variants,
    tools::{Restriction, declared_tools},
};
use crate::commands::chooser::backends_of;

/// The plan of a command.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RoutedPlan {
    /// The executor that would run it; `None`: no executor.
    pub executor: Option<ExecutorKind>,
    /// The gates and the selection of the backend; `None` if `routing.chain` leaves it out, or if a model would decide.
    pub sdk: Option<AttemptDetails>,
    /// The question to a model on whose answer the executor depends. It was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<PlannedQuestion>,
    /// The skill for the command.
    pub skill: Option<String>,
    /// The model that would answer.
    pub model: Option<String>,
    /// Its tools.
    pub tools: Vec<String>,
    /// The tokens of one turn without tool calls, estimated from the lengths of the prompts.
    pub usage: Option<TokenUsage>,
    /// Their cost in US dollars, if the price of the model is known.
    pub cost_usd: Option<f64>,
}

/// The question which specialist fits.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PlannedQuestion {
    /// The question.
    #[serde(flatten)]
    pub question: SelectionQuestion,
    /// The gates before it.
    pub gates: Vec<GateResult>,
    /// Its tokens, estimated from the length of the prompt.
    pub usage: TokenUsage,
    /// Their cost in US dollars, if the price of the model is known.
    pub cost_usd: Option<f64>,
}

/// Assumed length of the name of an agent as an answer.
const NAME_TOKENS: u64 = 16;

/// Bytes of English text per token, roughly.
const BYTES_PER_TOKEN: usize = 4;

/// Assumed length of an answer without `max_tokens`.
const ANSWER_TOKENS: u64 = 256;

pub(super) fn plan(
    variants: &Arc<Variants>,
    facade: &FacadeSettings,
    context: &CommandContext,
    sdk: Option<AttemptDetails>,
) -> RoutedPlan {
    let sdk = match sdk {
        Some(AttemptDetails {
            question: Some(question),
            gates,
            ..
        }) => return plan_question(variants, question, gates),
        sdk => sdk,
    };
    let has = |kind| facade.chain.contains(&kind);
    let skill = facade.skills.as_ref().filter(|_| has(ExecutorKind::Skills));
    let skill = skill.and_then(|skills| skills.find(&context.command.name));
    let runs = sdk
        .as_ref()
        .is_some_and(|details| details.attempt.routing_decision == RoutingDecision::SdkExecuted);
    let executor = if runs {
        Some(ExecutorKind::Sdk)
    } else if skill.is_some() {
        Some(ExecutorKind::Skills)
    } else if facade.legacy.is_some() && has(ExecutorKind::Legacy) {
        Some(ExecutorKind::Legacy)
    } else {
        None
    };
    let mut plan = RoutedPlan {
        executor,
        sdk,
        skill,
        ..RoutedPlan::default()
    };
    if !runs {
        return plan;
    }
    let agent = &variants.agent;
    let name = plan
        .sdk
        .as_ref()
        .and_then(|details| details.attempt.agent_used.clone());
    let definition = name.and_then(|name| variants.definition(&name));
    let (prompt, model, restriction) = match &definition {
        Some(definition) => (
            definition.prompt.as_str(),
            definition.model.clone(),
            Restriction::of(definition),
        ),
        None => (agent.instructions.text.as_str(), None, Restriction::NONE),
    };
    let model = model.unwrap_or_else(|| agent.config.answerer());
    let skills: Vec<String> = variants
        .skills
        .iter()
        .map(holodeck_model::SkillDoc::tool_name)
        .collect();
    plan.tools = declared_tools(&agent.config, restriction, &skills);
    let sent = (prompt.len() + context.command.task().len()) / BYTES_PER_TOKEN + 1;
    let answer = agent
        .config
        .model
        .as_ref()
        .and_then(|model| model.max_tokens)
        .map_or(ANSWER_TOKENS, u64::from);
    let usage = TokenUsage::new(sent as u64, answer);
    if let Ok(backends) = backends_of(agent, &variants.env, None) {
        plan.cost_usd = backends.price_list().cost(&model, &usage);
    }
    plan.usage = Some(usage);
    plan.model = Some(model);
    plan
}

/// The plan of a command whose executor depends on the answer of a model.
fn plan_question(variants: &Variants, question: SelectionQuestion, gates: Vec<GateResult>) -> RoutedPlan {
    let usage = TokenUsage::new((question.bytes / BYTES_PER_TOKEN + 1) as u64, NAME_TOKENS);
    let backends = backends_of(&variants.agent, &variants.env, None);
    let prices = backends.ok().map(|backends| backends.price_list().clone());
    RoutedPlan {
        question: Some(PlannedQuestion {
            cost_usd: prices.and_then(|prices| prices.cost(&question.model, &usage)),
            question,
            gates,
            usage,
        }),
        ..RoutedPlan::default()
    }
}
