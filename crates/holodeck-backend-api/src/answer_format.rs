//! The check that every structured answer of an agent must pass. Backends apply it; `holodeck-validators` implements
//! it.

use std::fmt;

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

    /// Brings an answer, which was written as `json`, into the form of the schema where that has one reading only; here it
    /// stays as it is. The error says which readings it has.
    fn fit(&self, json: &str, answer: Value) -> Result<Value, String> {
        let _ = json;
        Ok(answer)
    }
}
