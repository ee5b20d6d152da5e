//! The report of a command that had nothing to run, for servers that expect the file of a report.

use std::{collections::BTreeMap, io::Write};

use holodeck_model::{REPORT_SCHEMA_VERSION, ReportHead, RunMetadata};
use serde_json::{Value, json};

use crate::{Format, ReportError, Results, RunView, SummaryFold, write_report};

/// The place of a run's id where there is no run.
const NO_RUN: &str = "none";

/// Writes a report without cases, whose verdict is that nothing was checked. The agent's file is `path`, as typed.
pub fn write_empty_report(
    format: Format,
    agent: &str,
    path: &str,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let head = ReportHead {
        agent_name: agent.to_owned(),
        agent_config_path: path.to_owned(),
        summary: SummaryFold::new().finish(),
        timestamp: jiff::Timestamp::now().to_string(),
        holodeck_version: version.clone(),
        environment: Value::Null,
        schema_version: REPORT_SCHEMA_VERSION,
        run_id: NO_RUN.to_owned(),
        replayed: None,
        warnings: Vec::new(),
        adapted: Vec::new(),
        ended: "completed".to_owned(),
        ended_because: None,
        regraded_from: None,
        combination: None,
        shard: None,
        merged_from: Vec::new(),
        partial: None,
        judge_steps: None,
        quality_loop: None,
        agent_parts: BTreeMap::new(),
    };
    let metadata = RunMetadata {
        agent_config: json!({ "name": agent }),
        prompt_version: Value::Null,
        holodeck_version: version,
        cli_args: Vec::new(),
        git_commit: None,
        mcp_servers: Vec::new(),
        managed_files: Vec::new(),
    };
    let nothing = || -> Results<'_> { Box::new(std::iter::empty()) };
    write_report(format, &RunView::new(&head, &metadata, "", &nothing), out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_nothing_is_one_of_its_format_and_passes_nothing() {
        for format in Format::ALL {
            let mut out = Vec::new();
            write_empty_report(format, "desk", "agents/d.yaml", &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(format.recognizes(&text, &text), "{text}");
            assert!(text.contains("desk") && !text.contains("✅"), "{text}");
            let says = match format {
                Format::Json | Format::Jsonl => "\"total_tests\":0",
                Format::Junit => "tests=\"0\"",
                Format::Markdown | Format::Html | Format::Github | Format::Gitlab | Format::Sarif => {
                    "nothing checked"
                }
            };
            assert!(text.replace(": ", ":").contains(says), "{text}");
        }
    }
}
