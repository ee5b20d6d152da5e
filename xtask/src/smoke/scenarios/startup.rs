//! Options and settings that the CLI refuses, and those that it ignores.

use anyhow::Result;
use serde_json::{Value, json};

use super::{Subject, exit_of};
use crate::smoke::conversation::Launch;
use crate::smoke::facts::{Facts, listed, text_at};

/// Nothing listens there: whatever starts here must not get as far as asking a model.
const NOWHERE: &str = "http://127.0.0.1:9";

pub(super) fn run(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let format = ["--output-format", "stream-json", "--input-format", "stream-json"];
    let ended = Launch::bare(&format)?.args(&["-p"]).start(subject)?.close()?;
    facts.set("stream-json without --verbose", exit_of(&ended));
    for (name, args) in [
        ("an unknown option", &["--no-such-option"][..]),
        ("--json-schema that is invalid JSON", &["--json-schema", "{"]),
    ] {
        let ended = Launch::new(NOWHERE)?.args(args).start(subject)?.close()?;
        facts.set(name, exit_of(&ended));
    }
    let ended = Launch::new(NOWHERE)?
        .args(&["--permission-mode", "acceptAll"])
        .start(subject)?
        .close()?;
    facts.set(
        "--permission-mode acceptAll",
        format!("exit {}", ended.code.unwrap_or(-1)),
    );
    let choices = ended
        .errors
        .split("Allowed choices are")
        .nth(1)
        .unwrap_or_default();
    let choices = choices
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .trim_end_matches('.');
    facts.set("choices of --permission-mode", choices);
    input(subject, facts)
}

fn input(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let mut cli = Launch::new(NOWHERE)?.args(&["--tools", ""]).start(subject)?;
    cli.send_line("nonsense")?;
    let ended = cli.close()?;
    facts.set(
        "a line that is invalid JSON",
        format!("exit {}", ended.code.unwrap_or(-1)),
    );
    let mut cli = Launch::new(NOWHERE)?.args(&["--tools", ""]).start(subject)?;
    for line in [
        String::new(),
        "[]".to_owned(),
        json!({"type": "no_such_type"}).to_string(),
        json!({"type": "control_response", "response": {"subtype": "success", "request_id": "unknown"}})
            .to_string(),
    ] {
        cli.send_line(&line)?;
    }
    let answer = cli.initialize(&Value::Null)?;
    facts.either(
        "an empty line, a list, an unknown type, an unasked answer",
        answer.is_object(),
        ["overlooked", "refused"],
    );
    facts.set(
        "--permission-mode without the flag",
        text_at(&answer, "/current_permission_mode"),
    );
    let ended = cli.close()?;
    facts.set("end of input", format!("exit {}", ended.code.unwrap_or(-1)));
    facts.set(
        "frames after the end of input",
        listed(ended.frames.iter().map(crate::smoke::conversation::kind)),
    );
    Ok(())
}
