//! The agent's secrets are taken out of everything that is printed, whichever part of the program prints it.

use std::{
    borrow::Cow,
    sync::{Arc, PoisonError, RwLock},
};

use holodeck::model::{Redactor, printable_json};
use serde_json::Value;

static REDACTOR: RwLock<Option<Arc<Redactor>>> = RwLock::new(None);

/// From now on the secrets that `redactor` has are masked, too. Before, only what has the shape of a secret is.
pub(crate) fn mask_secrets(redactor: Arc<Redactor>) {
    *REDACTOR.write().unwrap_or_else(PoisonError::into_inner) = Some(redactor);
}

/// The redactor of what is printed.
pub(crate) fn redactor() -> Arc<Redactor> {
    let redactor = REDACTOR.read().unwrap_or_else(PoisonError::into_inner);
    redactor.clone().unwrap_or_default()
}

/// A text as it may be printed.
pub(crate) fn masked(text: &str) -> Cow<'_, str> {
    redactor().text(text)
}

/// A value as a line of JSON that may be printed. On a terminal control characters are escapes.
pub(crate) fn json_line(mut value: Value, to_terminal: bool) -> String {
    redactor().mask_value(&mut value);
    shown(format!("{value}\n"), to_terminal)
}

/// The same on several lines, for people.
pub(super) fn json_lines(mut value: Value, to_terminal: bool) -> String {
    redactor().mask_value(&mut value);
    shown(format!("{value:#}\n"), to_terminal)
}

fn shown(json: String, to_terminal: bool) -> String {
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
    fn b06_json_on_a_terminal_steers_nothing() {
        let value = json!({"answer": "\u{9b}31mred\u{202e}"});
        assert_eq!(
            json_line(value.clone(), true),
            "{\"answer\":\"\\u009b31mred\\u202e\"}\n"
        );
        assert_eq!(json_line(value, false), "{\"answer\":\"\u{9b}31mred\u{202e}\"}\n");
    }
}
