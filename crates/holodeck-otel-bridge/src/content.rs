//! Prompts, answers and arguments: exported only on request, redacted and truncated.

use std::sync::Arc;

use holodeck_model::{Redactor, TracesConfig};
use regex::Regex;
use serde_json::Value;

/// Longer texts are truncated.
const LONGEST: usize = 64 * 1024;

const MASK: &str = "***";

/// Whether content is exported, and what is redacted.
#[derive(Debug)]
pub(crate) enum Content {
    Off,
    On {
        redactor: Arc<Redactor>,
        patterns: Vec<Regex>,
    },
}

impl Content {
    /// The loader has already reported expressions that do not compile.
    pub(crate) fn new(captured: bool, traces: &TracesConfig, redactor: Arc<Redactor>) -> Self {
        if !captured {
            return Self::Off;
        }
        let patterns = traces.redaction_patterns.iter();
        Self::On {
            redactor,
            patterns: patterns.filter_map(|pattern| Regex::new(pattern).ok()).collect(),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        matches!(self, Self::On { .. })
    }

    /// The text as it may be exported; `None` if content is off.
    pub(crate) fn text(&self, text: &str) -> Option<String> {
        let Self::On { redactor, patterns } = self else {
            return None;
        };
        let mut clean = redactor.text(text).into_owned();
        for pattern in patterns {
            clean = pattern.replace_all(&clean, MASK).into_owned();
        }
        if clean.len() > LONGEST {
            clean.truncate(clean.floor_char_boundary(LONGEST));
            clean.push('…');
        }
        Some(clean)
    }

    /// Applies [`text`](Self::text) to every string in a value.
    pub(crate) fn value(&self, value: &Value) -> Option<Value> {
        Some(match value {
            Value::String(text) => Value::String(self.text(text)?),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect::<Option<_>>()?,
            Value::Object(fields) => fields
                .iter()
                .map(|(name, field)| Some((name.clone(), self.value(field)?)))
                .collect::<Option<_>>()?,
            other => self.is_on().then(|| other.clone())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_matches_is_taken_out() {
        let traces = TracesConfig {
            redaction_patterns: vec![r"\d{3}-\d{4}".to_owned()],
            ..TracesConfig::default()
        };
        let content = Content::new(
            true,
            &traces,
            Arc::new(Redactor::new(["s3cret-value".to_owned()])),
        );
        assert_eq!(
            content.text("call 555-1234 with s3cret-value").unwrap(),
            "call *** with ***"
        );
        assert_eq!(
            content.value(&json!({"a": ["555-1234", 1], "b": null})).unwrap(),
            json!({"a": ["***", 1], "b": null})
        );
        let long = content.text(&"ä".repeat(LONGEST)).unwrap();
        assert!(long.len() <= LONGEST + 4 && long.ends_with('…'));
        let off = Content::new(false, &TracesConfig::default(), Arc::default());
        assert_eq!((off.text("x"), off.value(&json!(1))), (None, None));
    }
}
