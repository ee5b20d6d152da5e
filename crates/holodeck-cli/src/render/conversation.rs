//! Conversations as a person reads them.

use holodeck::{
    backend_api::HistoryItem as Item,
    events::history,
    model::{events::AgentEvent, printable},
};
use serde_json::Value;

use super::{style::dim, text};

/// The width of a call's arguments in a line.
const ARGUMENTS_WIDTH: usize = 40;

/// A conversation as a person reads it.
pub(crate) fn conversation(events: &[&AgentEvent]) -> String {
    let mut shown = String::new();
    for item in history(events.iter().copied()) {
        match &item {
            Item::User { text: message } => shown += &format!("you › {}\n", printable(message)),
            Item::Assistant { text: answer } => shown += &format!("{}\n\n", printable(answer)),
            Item::Partial { text: answer } => {
                shown += &format!("{}\n{}\n\n", printable(answer), dim("stopped"));
            }
            Item::Call(call) => {
                let arguments = call_arguments(&call.arguments);
                shown += &format!("  ⚙ {} {arguments}\n", printable(&call.name));
            }
            _ => {}
        }
    }
    shown
}

/// The arguments of a call in a few words: the only text as it is, else JSON.
pub(crate) fn call_arguments(args: &Value) -> String {
    let text = match args {
        Value::Object(fields) if fields.is_empty() => String::new(),
        Value::Object(fields) => match fields.values().next() {
            Some(only @ Value::String(_)) if fields.len() == 1 => only.to_string(),
            _ => args.to_string(),
        },
        other => other.to_string(),
    };
    text::cut(&printable(&text), ARGUMENTS_WIDTH)
}

/// All arguments of a call as JSON, if [`call_arguments`] does not show all of them: who decides about a call must see it
/// whole.
pub(crate) fn whole_arguments(args: &Value) -> Option<String> {
    call_arguments(args)
        .ends_with('…')
        .then(|| printable(&args.to_string()).into_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn arguments_are_short_and_harmless() {
        for (args, shown) in [
            (json!({}), ""),
            (json!({"query": "changes section 4"}), r#""changes section 4""#),
            (json!({"id": 7}), r#"{"id":7}"#),
            (json!({"a": "x", "b": "y"}), r#"{"a":"x","b":"y"}"#),
        ] {
            assert_eq!(call_arguments(&args), shown);
        }
        let hostile = call_arguments(&json!({"q": "\u{1b}[2J\nnext"}));
        assert!(
            !hostile.contains('\u{1b}') && !hostile.contains('\n'),
            "{hostile}"
        );
        let long = json!({"q": format!("{}\u{202e}end", "x".repeat(500))});
        assert!(call_arguments(&long).width() <= ARGUMENTS_WIDTH);
        let whole = whole_arguments(&long).unwrap();
        assert!(whole.contains("end") && !whole.contains('\u{202e}'), "{whole}");
        assert_eq!(whole_arguments(&json!({"id": 7})), None);
    }
}
