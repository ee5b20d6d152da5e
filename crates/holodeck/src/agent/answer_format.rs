//! Compiles the schema of an agent's `response_format` into the check that backends apply to answers.

use std::sync::Arc;

use holodeck_backend_api::{AnswerFormat, BackendError};
use holodeck_model::ResolvedAgent;
use holodeck_validators::SchemaFormat;

/// The format that the agent's answers must have, if it names one.
pub(crate) fn answer_format(agent: &ResolvedAgent) -> Result<Option<Arc<dyn AnswerFormat>>, BackendError> {
    let Some(schema) = &agent.response_format else {
        return Ok(None);
    };
    match SchemaFormat::new(schema) {
        // The format of a judge or another helper is ours: its agent has none in the YAML.
        Ok(format) if agent.config.response_format.is_none() => Ok(Some(Arc::new(format.loose()))),
        Ok(format) => Ok(Some(Arc::new(format))),
        Err(message) => Err(BackendError::init(message)),
    }
}
