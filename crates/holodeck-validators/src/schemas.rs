use holodeck_model::{Code, Diagnostic, LoadedAgent};

use crate::Check;

/// Whether `response_format` can be used at all: a backend that is given one it can't compile does not start.
pub(crate) fn check(agent: &LoadedAgent) -> Option<Check> {
    let subject = "response format";
    let schema = agent.response_format.as_ref()?;
    Some(match jsonschema::validator_for(schema) {
        Ok(_) => Check::ok(subject, "a valid JSON Schema"),
        Err(error) => {
            let path = error.instance_path().to_string();
            let at = if path.is_empty() {
                String::new()
            } else {
                format!(" at `{path}`")
            };
            let message = format!("`response_format` is not a valid JSON Schema{at}: {error}");
            let error = Diagnostic::error(Code::BadSchema, message).at(agent.locate("response_format"));
            Check::problem(subject, error)
        }
    })
}
