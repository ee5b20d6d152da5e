//! Renders the error of a command.

use holodeck::reports::format::printable;

use super::style::{ERROR, hint, paint};
use crate::failure::Problem;

/// The cause, the details and the next step.
pub(crate) fn problem(problem: &Problem) -> String {
    let mut text = String::new();
    if !problem.message.is_empty() {
        text.push_str(&format!(
            "{}: {}\n",
            paint(ERROR, "error"),
            printable(&problem.message)
        ));
    }
    for detail in &problem.details {
        for line in printable(detail).lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    if let Some(next) = &problem.hint {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&hint(next));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_details_and_next_step() {
        let down = Problem::execution("the model endpoint did not answer")
            .with_detail("http://localhost:11434/v1/chat/completions: connection refused")
            .with_detail("configured at agent.yaml:5:13 (`model.endpoint`)")
            .with_hint("is Ollama running? start it with `ollama serve`, or set `model.endpoint`");
        insta::assert_snapshot!(anstream::adapter::strip_str(&super::problem(&down)));
    }
}
