//! The models of prompt tools.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, ToolCx, TurnRequest};
use holodeck_model::{Code, Diagnostic, PromptTool as PromptConfig, ToolConfig};
use holodeck_tools::{PromptModel, PromptProblem, PromptTool};
use holodeck_yaml::{Load, LoadedAgent};

use crate::agent::{
    asker::Asker,
    backends::{BackendSelector, Specialist},
};

/// The model that a prompt tool asks: the agent's, with the tool's overrides.
pub(crate) async fn model(
    agent: &LoadedAgent,
    tool: &PromptConfig,
    backends: &BackendSelector,
) -> Result<Arc<dyn PromptModel>, BackendError> {
    let Some(own) = &agent.config.model else {
        return Err(BackendError::config("a prompt tool needs the agent's `model`"));
    };
    let model = match &tool.model {
        Some(overrides) => own.with_overrides(overrides),
        None => own.clone(),
    };
    let specialist = Specialist {
        model,
        instructions: String::new(),
        response_format: None,
    };
    let asker = Asker::new(agent, specialist, backends);
    Ok(Arc::new(ToolModel(asker.reuse_backend().await?)))
}

struct ToolModel(Asker);

#[async_trait]
impl PromptModel for ToolModel {
    async fn answer(&self, prompt: String, cx: &ToolCx) -> Result<String, BackendError> {
        let answer = self.0.ask(Vec::new(), TurnRequest::new(prompt), cx).await?;
        Ok(answer.text)
    }
}

/// Reports templates that can't work when the agent is loaded.
pub(crate) fn check(load: &mut Load) {
    let Some(agent) = &load.agent else { return };
    let tools = agent.config.real_tools();
    let found: Vec<_> = tools
        .filter_map(|(index, tool)| match tool {
            ToolConfig::Prompt(tool) => check_template(agent, index, tool),
            _ => None,
        })
        .collect();
    load.diagnostics.extend(found);
    if load.has_errors() {
        load.agent = None;
    }
}

fn check_template(agent: &LoadedAgent, index: usize, tool: &PromptConfig) -> Option<Diagnostic> {
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
                "`{field}` of tool `{}` is not a valid template: {reason}",
                tool.name
            ),
        ),
        PromptProblem::Unknown(names) => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let parameters: Vec<_> = tool.parameters.keys().map(|name| format!("`{name}`")).collect();
            Diagnostic::warning(
                Code::UnknownReference,
                format!(
                    "`{field}` of tool `{}` uses {}, but the tool has no such parameter",
                    tool.name,
                    names.join(", ")
                ),
            )
            .with_help(format!(
                "its parameters are {}; a call that reaches the unknown name fails",
                parameters.join(", ")
            ))
        }
    };
    Some(diagnostic.at(agent.locate(&pointer)).about(pointer))
}
