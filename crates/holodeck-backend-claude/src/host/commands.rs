//! Decides whether the patterns of an agent allow a command of the shell.

use holodeck_model::Glob;
use serde_json::Value;

use crate::wire::CanUseTool;

/// The command of a call of the shell.
pub(super) fn command_of(request: &CanUseTool) -> &str {
    let command = request.input.get("command");
    command.and_then(Value::as_str).unwrap_or_default()
}

/// Whether a command is a single program call that a pattern allows. Shell syntax is refused.
pub(super) fn is_allowed_command(command: &str, patterns: &[String]) -> bool {
    let is_plain = !command.contains([';', '|', '&', '$', '`', '<', '>', '(', ')', '{', '}', '\n', '\\']);
    is_plain
        && patterns.iter().any(|pattern| match pattern.strip_suffix(":*") {
            Some(prefix) => {
                let rest = command.strip_prefix(prefix);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            }
            None => Glob::new(pattern).matches(command.trim()),
        })
}
