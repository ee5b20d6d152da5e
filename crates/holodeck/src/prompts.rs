//! The models of prompt tools.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend, BackendError, BackendFactory as _, Mode, NoTools, ToolCx, TurnRequest, collect,
};
use holodeck_model::{
    Code, Diagnostic, Env, Load, LoadedAgent, PromptTool as PromptConfig, Provider, ToolConfig,
};
use holodeck_tools::{PromptModel, PromptProblem, PromptTool};

use crate::{Answers, BackendSelector};

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
    let agent = Arc::new(agent.for_one_question(model));
    let factory = BackendSelector::new(env.clone(), answers.clone());
    let lasting = match agent.config.model.provider {
        // A process for each question; none waits for the next.
        Provider::Anthropic => None,
        _ => Some(
            factory
                .create(Arc::clone(&agent), Mode::Chat, Arc::new(NoTools))
                .await?,
        ),
    };
    Ok(Arc::new(OneQuestion {
        agent,
        factory,
        lasting,
    }))
}

struct OneQuestion {
    agent: Arc<LoadedAgent>,
    factory: BackendSelector,
    lasting: Option<Arc<dyn AgentBackend>>,
}

#[async_trait]
impl PromptModel for OneQuestion {
    async fn answer(&self, prompt: String, cx: &ToolCx) -> Result<String, BackendError> {
        let backend = if let Some(backend) = &self.lasting {
            Arc::clone(backend)
        } else {
            let agent = Arc::clone(&self.agent);
            self.factory.create(agent, Mode::Chat, Arc::new(NoTools)).await?
        };
        let request = TurnRequest {
            unit: cx.unit.clone(),
            cancel: cx.cancel.clone(),
            ..TurnRequest::new(prompt)
        };
        let result = collect(backend.start(request)).await;
        if self.lasting.is_none() {
            backend.teardown().await?;
        }
        let result = result.map_err(|failed| failed.error)?;
        match result.error_reason() {
            None => Ok(result.response),
            Some(reason) => Err(BackendError::Session {
                message: reason.into_owned(),
            }),
        }
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
