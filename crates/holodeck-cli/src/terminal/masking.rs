//! Masks the agent's secrets in everything that is printed, whichever part of the program prints it.

use std::{
    borrow::Cow,
    sync::{Arc, PoisonError, RwLock},
};

use holodeck::model::{Redactor, printable_json};
use serde_json::Value;

static REDACTOR: RwLock<Option<Arc<Redactor>>> = RwLock::new(None);

/// Sets the redactor of all further output. Before that, only texts that look like a secret are masked.
pub(crate) fn set_redactor(redactor: Arc<Redactor>) {
    *REDACTOR.write().unwrap_or_else(PoisonError::into_inner) = Some(redactor);
}

/// The redactor of the output.
pub(crate) fn redactor() -> Arc<Redactor> {
    let redactor = REDACTOR.read().unwrap_or_else(PoisonError::into_inner);
    redactor.clone().unwrap_or_default()
}

/// Masks the secrets in a text.
pub(crate) fn mask_text(text: &str) -> Cow<'_, str> {
    redactor().text(text)
}

/// A value as one line of JSON with its secrets masked. For a terminal, control characters are escaped.
pub(crate) fn json_line(mut value: Value, to_terminal: bool) -> String {
    redactor().mask_value(&mut value);
    escape_for_terminal(format!("{value}\n"), to_terminal)
}

/// The same, indented.
pub(super) fn json_lines(mut value: Value, to_terminal: bool) -> String {
    redactor().mask_value(&mut value);
    escape_for_terminal(format!("{value:#}\n"), to_terminal)
}

fn escape_for_terminal(json: String, to_terminal: bool) -> String {
    if to_terminal {
        printable_json(&json).into_owned()
    } else {
        json
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_on_a_terminal_steers_nothing() {
        let value = json!({"answer": "\u{9b}31mred\u{202e}"});
        assert_eq!(
            json_line(value.clone(), true),
            "{\"answer\":\"\\u009b31mred\\u202e\"}\n"
        );
        assert_eq!(json_line(value, false), "{\"answer\":\"\u{9b}31mred\u{202e}\"}\n");
    }
}
