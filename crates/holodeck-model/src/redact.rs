use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;
use serde_json::Value;

/// What a secret is replaced with.
const MASK: &str = "***";

/// Shorter values would blot out ordinary words.
const MIN_SECRET: usize = 8;

/// Takes secrets out of anything that is written down or shown: the values it was told of, and texts in the shape
/// of well-known keys.
#[derive(Debug, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// Knows `secrets` beside the well-known shapes.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets
            .into_iter()
            .filter(|secret| secret.len() >= MIN_SECRET)
            .collect();
        // Longest first: a secret may hold another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets }
    }

    /// `text` without secrets; borrowed when there was none.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for secret in &self.secrets {
            if clean.contains(secret.as_str()) {
                clean = Cow::Owned(clean.replace(secret.as_str(), MASK));
            }
        }
        match shapes().map(|shapes| shapes.replace_all(&clean, MASK)) {
            Some(Cow::Owned(replaced)) => Cow::Owned(replaced),
            _ => clean,
        }
    }

    /// Takes secrets out of every text in `value`.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.text(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.value(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Keys of OpenAI, Anthropic and their like, AWS, GitHub, Slack, Google; JSON web tokens.
fn shapes() -> Option<&'static Regex> {
    static SHAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?x)
              \bsk-[A-Za-z0-9_-]{20,}
            | \bAKIA[0-9A-Z]{16}\b
            | \bgh[pousr]_[A-Za-z0-9]{30,}
            | \bgithub_pat_[A-Za-z0-9_]{30,}
            | \bxox[abprs]-[A-Za-z0-9-]{10,}
            | \bAIza[0-9A-Za-z_-]{35}
            | \beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        )
        .ok()
    });
    SHAPES.as_ref()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn told_secrets_and_known_shapes_go_other_texts_stay() {
        let redactor = Redactor::new(["correct-horse".to_owned(), "short".to_owned()]);
        let key = format!("sk-{}", "a1B2".repeat(8));
        assert_eq!(redactor.text(&format!("use {key} now")), "use *** now");
        assert_eq!(redactor.text("x=correct-horse;"), "x=***;");
        assert!(matches!(
            redactor.text("a short desk-lamp"),
            Cow::Borrowed("a short desk-lamp")
        ));
    }

    #[test]
    fn the_shapes_compile() {
        assert!(shapes().is_some());
    }

    #[test]
    fn values_are_cleaned_to_the_leaves() {
        let redactor = Redactor::new(["correct-horse".to_owned()]);
        let mut value = json!({"a": ["correct-horse", 1], "b": {"c": "keep"}});
        redactor.value(&mut value);
        assert_eq!(value, json!({"a": ["***", 1], "b": {"c": "keep"}}));
    }
}
