//! Finds JSON between other text of the answer.

use holodeck_model::StandardMetric;
use serde_json::{Deserializer, Value};

use super::{
    Answer, Check, Finding,
    json::{JsonSchema, parse},
};
use crate::MetricError;

/// The answer contains a JSON object, or an object or a list that follows a schema.
pub(super) struct ContainsJson {
    schema: Option<JsonSchema>,
}

/// The beginning of the parser's message for brackets in brackets, beyond its limit.
const TOO_DEEP: &str = "recursion limit exceeded";

impl ContainsJson {
    pub(super) fn new(config: &StandardMetric) -> Result<Self, String> {
        let schema = config
            .schema
            .as_ref()
            .map(|_| JsonSchema::new(config))
            .transpose()?;
        Ok(Self { schema })
    }
}

impl Check for ContainsJson {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let text = answer.text()?;
        let starts: &[char] = if self.schema.is_some() {
            &['{', '[']
        } else {
            &['{']
        };
        let mut rest = &*text;
        let mut unreadable = None;
        let mut violations = None;
        while let Some(start) = rest.find(starts) {
            let candidate = rest.get(start..).unwrap_or_default();
            let mut values = Deserializer::from_str(candidate).into_iter::<Value>();
            let parsed = values.next();
            if let Some(Err(error)) = &parsed
                && error.to_string().starts_with(TOO_DEEP)
            {
                // Each of its brackets could begin what is looked for.
                return Err(MetricError::Unreadable {
                    metric: answer.metric.to_string(),
                    problem: format!("its brackets are nested too deeply ({error})"),
                });
            }
            let is_json = matches!(parsed, Some(Ok(_)));
            let (found, after) = candidate.split_at(if is_json { values.byte_offset() } else { 1 });
            rest = after;
            if !is_json {
                continue;
            }
            let checked = parse(found, answer).and_then(|value| match (value, &self.schema) {
                (Err(problem), _) => Ok(Some(problem)),
                (Ok(_), None) => Ok(None),
                (Ok(value), Some(schema)) => schema.violations(&value, answer),
            });
            match checked {
                Ok(None) => return Ok(Finding::met("the answer contains JSON")),
                Ok(Some(problem)) => violations = violations.or(Some(problem)),
                Err(error) => unreadable = unreadable.or(Some(error)),
            }
        }
        match (unreadable, violations, &self.schema) {
            // It may be what is looked for.
            (Some(error), _, _) => Err(error),
            (None, Some(violations), _) => Ok(Finding::missed(format!(
                "no JSON in the answer follows the schema: {violations}"
            ))),
            (None, None, Some(_)) => Ok(Finding::missed("the answer contains no JSON object or list")),
            (None, None, None) => Ok(Finding::missed("the answer contains no JSON object")),
        }
    }
}
