//! The check that every structured answer of an agent must pass. Backends apply it; `holodeck-validators` implements
//! it.

use std::fmt;

use holodeck_model::parse_deciding;
use serde_json::Value;

/// The format that every answer of an agent must have.
pub trait AnswerFormat: fmt::Debug + Send + Sync {
    /// The JSON Schema.
    fn schema(&self) -> &Value;

    /// Checks an answer; the error describes what is wrong and where.
    fn check(&self, answer: &Value) -> Result<(), String>;

    /// Whether an answer may have text around its only JSON object.
    fn is_loose(&self) -> bool {
        false
    }

    /// Reads an answer as it was written. The only way from the text of an answer to its value: a backend that hands over a value
    /// that another program read would hand over the numbers of that program.
    fn read(&self, json: &str) -> Result<Value, String> {
        let value = parse_deciding(json).map_err(|error| format!("it is not JSON ({error})"))?;
        let value = self.fit(json, value)?;
        self.check(&value)?;
        Ok(value)
    }

    /// Brings an answer, which was written as `json`, into the form of the schema where that has one reading only; here it
    /// stays as it is. The error says which readings it has.
    fn fit(&self, json: &str, answer: Value) -> Result<Value, String> {
        let _ = json;
        Ok(answer)
    }
}
