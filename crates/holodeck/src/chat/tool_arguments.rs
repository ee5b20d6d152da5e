//! Checks arguments that a person edited in an approval against the schema of the tool.

use std::sync::Arc;

use holodeck_backend_api::{AnswerFormat as _, ToolHost};
use holodeck_chat::CheckArguments;
use holodeck_validators::SchemaFormat;
use serde_json::Value;

/// Checks arguments against the schemas of an agent's tools. What the backend's own tools accept is not known here.
pub(crate) struct ToolArguments(pub(crate) Arc<dyn ToolHost>);

impl CheckArguments for ToolArguments {
    fn check(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        // A backend may put the name of the server before the tool's own.
        let is_asked =
            |name: &str| tool == name || tool.strip_suffix(name).is_some_and(|rest| rest.ends_with("__"));
        let tools = self.0.current();
        let Some(spec) = tools.iter().find(|spec| is_asked(&spec.name)) else {
            return Ok(());
        };
        // A schema that is not usable was reported when the tool was set up.
        let Ok(schema) = SchemaFormat::new(&spec.parameters) else {
            return Ok(());
        };
        let checked = schema.check(arguments);
        checked.map_err(|reason| format!("`{}` does not accept these arguments: {reason}", spec.name))
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
