//! Checks arguments that a person edited in an approval against the schema of the tool.

use std::sync::Arc;

use holodeck_backend_api::{AnswerFormat as _, ToolHost, ToolSpec};
use holodeck_chat::CheckArguments;
use holodeck_model::{Redactor, ResolvedAgent, ToolConfig, ToolNames, ToolOrigin, digest_json};
use holodeck_validators::SchemaFormat;
use serde_json::{Value, json};

use crate::agent::{fingerprint::program_digests, inventory::FileOwner};

/// Checks arguments against the schemas of an agent's tools. What the backend's own tools accept is not known here.
pub(crate) struct ToolArguments {
    pub(crate) tools: Arc<dyn ToolHost>,
    pub(crate) agent: Arc<ResolvedAgent>,
    pub(crate) redactor: Arc<Redactor>,
}

impl ToolArguments {
    /// The tool as the model sees it.
    fn spec(&self, tool: &str) -> Option<ToolSpec> {
        // A backend may put the name of the server before the tool's own.
        let is_asked =
            |name: &str| tool == name || tool.strip_suffix(name).is_some_and(|rest| rest.ends_with("__"));
        let tools = self.tools.current();
        tools.iter().find(|spec| is_asked(&spec.name)).cloned()
    }
}

impl CheckArguments for ToolArguments {
    fn check(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        let Some(spec) = self.spec(tool) else {
            return Ok(());
        };
        // A schema that is not usable was reported when the tool was set up.
        let Ok(schema) = SchemaFormat::new(&spec.parameters) else {
            return Ok(());
        };
        let checked = schema.check(arguments);
        checked.map_err(|reason| format!("`{}` does not accept these arguments: {reason}", spec.name))
    }

    fn digest(&self, tool: &str) -> Option<String> {
        let spec = self.spec(tool);
        let identity = ToolNames::of(&self.agent.config).identify(tool);
        if spec.is_none()
            && identity
                .as_ref()
                .is_none_or(|tool| tool.origin == ToolOrigin::BuiltIn)
        {
            return None;
        }
        let declared = identity.map(|tool| tool.declared).unwrap_or_default();
        let of_tool = |tool: &ToolConfig| tool.name() == declared;
        let mut config = serde_json::to_value(self.agent.config.tools.iter().find(|tool| of_tool(tool)));
        if let Ok(config) = &mut config {
            self.redactor.configuration(config);
        }
        let files = program_digests(
            &self.agent,
            |owner| matches!(owner, FileOwner::Tool(tool) if of_tool(tool)),
        );
        let (Ok(config), Ok(files)) = (config, files) else {
            // What cannot be read may have changed: no approval of before fits.
            return Some(format!("unknown-{}", uuid::Uuid::new_v4()));
        };
        let files: Vec<_> = files.into_iter().map(|(_, digests)| digests).collect();
        let spec = spec.map(|spec| json!([spec.name, spec.description, spec.parameters]));
        Some(digest_json(
            &json!({ "tool": config, "files": files, "schema": spec }),
        ))
    }

    fn check_answer(&self, schema: &Value, answer: &Value) -> Result<(), String> {
        let Ok(format) = SchemaFormat::new(schema) else {
            return Ok(());
        };
        // A field that is left empty is not given.
        let mut given = answer.clone();
        if let Some(fields) = given.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        let checked = format.check(&given);
        checked.map_err(|reason| format!("this is not an answer to the question: {reason}"))
    }
}
