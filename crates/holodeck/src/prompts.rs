//! The models of prompt tools.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, ToolCx, TurnRequest};
use holodeck_model::{Code, Diagnostic, Env, Load, LoadedAgent, PromptTool as PromptConfig, ToolConfig};
use holodeck_tools::{PromptModel, PromptProblem, PromptTool};

use crate::{Answers, asker::Asker};

/// The model that a prompt tool asks: the agent's, with what the tool says over it.
pub(crate) async fn model(
    agent: &LoadedAgent,
    tool: &PromptConfig,
    env: &Env,
    answers: &Answers,
) -> Result<Arc<dyn PromptModel>, BackendError> {
    let own = &agent.config.model;
    let model = match &tool.model {
        Some(overrides) => own.overridden(overrides),
        None => own.clone(),
    };
    let asker = Asker::new(agent.for_one_question(model), env, answers);
    Ok(Arc::new(OfTool(asker.lasting().await?)))
}

struct OfTool(Asker);

#[async_trait]
impl PromptModel for OfTool {
    async fn answer(&self, prompt: String, cx: &ToolCx) -> Result<String, BackendError> {
        let answer = self.0.ask(Vec::new(), TurnRequest::new(prompt), cx).await?;
        Ok(answer.text)
    }
}

/// Says at load time which templates can't work.
pub(crate) fn check(load: &mut Load) {
    let Some(agent) = &load.agent else { return };
    let tools = agent.config.tools.iter().enumerate();
    let found: Vec<_> = tools
        .filter_map(|(index, tool)| match tool {
            ToolConfig::Prompt(tool) if tool.mock.is_none() => problem(agent, index, tool),
            _ => None,
        })
        .collect();
    load.diagnostics.extend(found);
    if load.has_errors() {
        load.agent = None;
    }
}

fn problem(agent: &LoadedAgent, index: usize, tool: &PromptConfig) -> Option<Diagnostic> {
    let field = if tool.template.is_some() {
        "template"
    } else {
        "file"
    };
    let pointer = format!("tools.{index}.{field}");
    let diagnostic = match PromptTool::check(tool).err()? {
        PromptProblem::Unusable(reason) => Diagnostic::error(
            Code::BadFormat,
            format!(
                "`{field}` of tool `{}` is no usable template: {reason}",
                tool.name
            ),
        ),
        PromptProblem::Unknown(names) => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let parameters: Vec<_> = tool.parameters.keys().map(|name| format!("`{name}`")).collect();
            Diagnostic::warning(
                Code::UnknownReference,
                format!(
                    "`{field}` of tool `{}` uses {}, which no parameter is called",
                    tool.name,
                    names.join(", ")
                ),
            )
            .with_help(format!(
                "its parameters are {}; a call that comes there fails",
                parameters.join(", ")
            ))
        }
    };
    Some(diagnostic.at(agent.locate(&pointer)).about(pointer))
}
