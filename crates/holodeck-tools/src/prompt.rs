//! Renders `type: prompt` tools and sends them to a model. The template sees only declared parameters.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{
    BackendError, SideEffects, Tool, ToolCx, ToolError, ToolKind, ToolOutput, ToolSpec,
};
use holodeck_model::{JsonMap, PromptTool as PromptConfig, read_text_input};
use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

use crate::SetupError;

/// Maximum size of a template file.
const MAX_TEMPLATE_BYTES: u64 = 1024 * 1024;

/// The model of a prompt tool.
#[async_trait]
pub trait PromptModel: Send + Sync {
    /// Answers one prompt, without tools and without a conversation.
    async fn answer(&self, prompt: String, cx: &ToolCx) -> Result<String, BackendError>;
}

/// A `type: prompt` tool: renders its template with the arguments and sends it to a model.
pub struct PromptTool {
    spec: ToolSpec,
    template: String,
    parameters: Vec<Parameter>,
    model: Arc<dyn PromptModel>,
}

struct Parameter {
    name: String,
    /// The value if a call omits the parameter.
    default: Option<Value>,
}

impl PromptTool {
    /// Creates a tool from its YAML. The template is read and checked; no request is sent.
    pub fn prepare(config: &PromptConfig, model: Arc<dyn PromptModel>) -> Result<Self, SetupError> {
        let template = read_template(config)?;
        environment()
            .template_from_str(&template)
            .map_err(|error| SetupError::Template {
                name: config.name.clone(),
                reason: describe_error(&error),
            })?;
        let parameters = config.parameters.iter().map(|(name, schema)| Parameter {
            name: name.clone(),
            default: schema.get("default").cloned(),
        });
        Ok(Self {
            spec: ToolSpec {
                name: config.name.clone(),
                description: config.description.clone(),
                parameters: config.parameters_schema(),
                side_effects: SideEffects::None,
            },
            template,
            parameters: parameters.collect(),
            model,
        })
    }

    /// Checks a template as far as possible without a call.
    pub fn check(config: &PromptConfig) -> Result<(), PromptProblem> {
        let text = read_template(config).map_err(|error| PromptProblem::Unusable(error.to_string()))?;
        let environment = environment();
        let template = environment
            .template_from_str(&text)
            .map_err(|error| PromptProblem::Unusable(describe_error(&error)))?;
        let mut unknown: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        unknown.retain(|name| {
            !config.parameters.contains_key(name) && environment.globals().all(|(global, _)| global != name)
        });
        unknown.sort();
        if unknown.is_empty() {
            Ok(())
        } else {
            Err(PromptProblem::Unknown(unknown))
        }
    }

    /// Renders the prompt for a call. The template sees only the parameters of the YAML, even if the model sends more.
    fn render(&self, arguments: &Value) -> Result<String, String> {
        let mut values = JsonMap::new();
        for Parameter { name, default } in &self.parameters {
            if let Some(value) = arguments.get(name).or(default.as_ref()) {
                values.insert(name.clone(), value.clone());
            }
        }
        environment()
            .render_str(&self.template, minijinja::value::Serde(&values))
            .map_err(|error| describe_error(&error))
    }
}

/// A problem of a prompt's template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptProblem {
    /// The template can't be read or parsed.
    Unusable(String),
    /// The template uses names that are not parameters.
    Unknown(Vec<String>),
}

fn read_template(config: &PromptConfig) -> Result<String, SetupError> {
    match (&config.template, &config.file) {
        (Some(template), _) => Ok(template.clone()),
        (None, Some(file)) => {
            read_text_input(&file.path(), MAX_TEMPLATE_BYTES).map_err(|error| SetupError::Template {
                name: config.name.clone(),
                reason: format!("can't read `{}`: {error}", file.path().display()),
            })
        }
        (None, None) => Ok(String::new()),
    }
}

/// Undefined names are errors instead of empty strings. Values are not escaped, because a prompt is not HTML.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
}

/// Describes a problem of a template with its line.
fn describe_error(error: &minijinja::Error) -> String {
    let what = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) => format!("{what}, in line {line} of the template"),
        None => what,
    }
}

#[async_trait]
impl Tool for PromptTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Prompt
    }

    async fn call(&self, arguments: Value, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let prompt = match self.render(&arguments) {
            Ok(prompt) => prompt,
            Err(problem) => return Ok(ToolOutput::error(format!("the prompt can't be made: {problem}"))),
        };
        match self.model.answer(prompt, &cx).await {
            Ok(answer) => Ok(ToolOutput::ok(answer)),
            Err(BackendError::Cancelled) => Err(ToolError::Cancelled),
            Err(error) => Ok(ToolOutput::error(format!(
                "the model did not answer: {}",
                error.explanation().text()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    /// Returns the prompt as the answer.
    struct Echo;

    #[async_trait]
    impl PromptModel for Echo {
        async fn answer(&self, prompt: String, _: &ToolCx) -> Result<String, BackendError> {
            match prompt.as_str() {
                "stop" => Err(BackendError::Cancelled),
                "fail" => Err(BackendError::ended_early()),
                _ => Ok(prompt),
            }
        }
    }

    fn config(template: &str) -> PromptConfig {
        serde_json::from_value(json!({
            "name": "p",
            "description": "d",
            "template": template,
            "parameters": {
                "text": {"type": "string"},
                "style": {"type": "string", "default": "plain"},
                "items": {"type": "array", "optional": true},
            },
        }))
        .unwrap()
    }

    async fn call(template: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        let tool = PromptTool::prepare(&config(template), Arc::new(Echo)).unwrap();
        tool.call(arguments, ToolCx::default()).await
    }

    #[tokio::test]
    async fn a_template_sees_the_parameters_and_nothing_else() {
        for (template, expected) in [
            (
                "Say {{ text }} in {{ style }} words.",
                Ok("Say <a & b> in plain words."),
            ),
            (
                "{% for item in items %}- {{ item.name }}\n{% endfor %}",
                Ok("- x\n- y\n"),
            ),
            ("{{ items | length }} {{ text | upper }}", Ok("2 <A & B>")),
            (
                "{{ secret }}",
                Err("the prompt can't be made: undefined value, in line 1 of the template"),
            ),
            (
                "a\n{{ text.size }}",
                Err("the prompt can't be made: undefined value, in line 2 of the template"),
            ),
        ] {
            let arguments = json!({
                "text": "<a & b>", "items": [{"name": "x"}, {"name": "y"}], "secret": "seen",
            });
            let output = call(template, arguments).await.unwrap();
            let expected = expected.map_or_else(ToolOutput::error, ToolOutput::ok);
            assert_eq!(output, expected, "{template}");
        }
    }

    #[tokio::test]
    async fn a_model_error_is_an_output_and_a_cancellation_is_not() {
        let output = call("{{ text }}", json!({"text": "fail"})).await.unwrap();
        assert!(
            output.is_error && output.text.starts_with("the model did not answer"),
            "{output:?}"
        );
        let stopped = call("{{ text }}", json!({"text": "stop"})).await;
        assert!(matches!(stopped, Err(ToolError::Cancelled)));
    }

    #[test]
    fn a_template_is_checked_before_it_is_used() {
        assert_eq!(
            PromptTool::check(&config(
                "{{ text }}{% for i in range(3) %}{{ loop.index }}{% endfor %}"
            )),
            Ok(())
        );
        assert_eq!(
            PromptTool::check(&config("{{ txt }} {{ a }} {{ text }}")),
            Err(PromptProblem::Unknown(vec!["a".to_owned(), "txt".to_owned()]))
        );
        let Err(PromptProblem::Unusable(reason)) = PromptTool::check(&config("x\n{% if %}")) else {
            panic!("the template is usable")
        };
        assert!(reason.ends_with("in line 2 of the template"), "{reason}");
        let broken = PromptTool::prepare(&config("{{ text"), Arc::new(Echo));
        assert!(matches!(broken, Err(SetupError::Template { .. })));
        let mut missing = config("x");
        missing.template = None;
        missing.file = Some(holodeck_model::PathRef::new("gone.md", "/nowhere"));
        let Err(PromptProblem::Unusable(reason)) = PromptTool::check(&missing) else {
            panic!("the file exists")
        };
        assert!(reason.contains("/nowhere/gone.md"), "{reason}");
    }
}
