//! `holodeck import`: converts the test files of other tools.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use holodeck::{
    FindingKind, Import, ImportFailure, ImportFinding, ImportedTool, import_tests, reports::format::count,
    runs::ExitCode,
};
use serde_json::json;

use crate::{
    failure::{Failure, Problem},
    terminal::Terminal,
};

/// Flags of `holodeck import`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    source: ImportSource,
}

#[derive(Debug, clap::Subcommand)]
enum ImportSource {
    /// Convert a configuration of promptfoo to agents and test cases.
    Promptfoo(PromptfooArgs),
    /// Convert goldens of DeepEval (JSON, JSON Lines, CSV) to test cases.
    Deepeval(DeepevalArgs),
    /// Convert a table (CSV, XLSX, JSON, JSON Lines) to test cases.
    Table(TableArgs),
}

#[derive(Debug, clap::Args)]
struct PromptfooArgs {
    /// The configuration: YAML, JSON, or with `--run-code` JavaScript.
    #[arg(value_name = "FILE", default_value = "promptfooconfig.yaml")]
    source: PathBuf,
    /// Run code of the configuration: prompt functions, functions that write tests, a configuration in JavaScript. It
    /// runs with limits and without keys.
    #[arg(long)]
    run_code: bool,
    #[command(flatten)]
    written: WrittenArgs,
}

#[derive(Debug, clap::Args)]
struct DeepevalArgs {
    /// The goldens.
    #[arg(value_name = "FILE")]
    source: PathBuf,
    #[command(flatten)]
    written: WrittenArgs,
}

#[derive(Debug, clap::Args)]
struct TableArgs {
    /// The table; its first row names the columns.
    #[arg(value_name = "FILE")]
    source: PathBuf,
    /// The columns to read, and the fields of a case that they are, as in `q=input,a=ground_truth`.
    #[arg(long, value_name = "COLUMN=FIELD", value_delimiter = ',', required = true)]
    columns: Vec<String>,
    #[command(flatten)]
    written: WrittenArgs,
}

#[derive(Debug, clap::Args)]
struct WrittenArgs {
    /// The folder to write to.
    #[arg(short, long, value_name = "DIR", default_value = "holodeck")]
    output: PathBuf,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Converts and writes; exit code 1 if something that decides a verdict was left out.
pub(crate) fn run(args: &ImportArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let (tool, source, written) = match &args.source {
        ImportSource::Promptfoo(args) => {
            let run_code = args.run_code;
            (ImportedTool::Promptfoo { run_code }, &args.source, &args.written)
        }
        ImportSource::Deepeval(args) => (ImportedTool::Deepeval, &args.source, &args.written),
        ImportSource::Table(args) => {
            let columns = args.columns.iter().map(|text| column(text));
            let columns = columns.collect::<Result<_, _>>()?;
            (ImportedTool::Table(columns), &args.source, &args.written)
        }
    };
    let env = holodeck::environment(source).map_err(Problem::from)?;
    let import = import_tests(&tool, source, &written.output, written.force, &env).map_err(problem)?;
    let text = if written.json {
        let files: Vec<_> = import
            .files
            .iter()
            .map(|file| written.output.join(&file.path))
            .collect();
        let agents: Vec<_> = import
            .agents
            .iter()
            .map(|path| written.output.join(path))
            .collect();
        let result = json!({
            "files": files, "agents": agents, "cases": import.cases,
            "complete": !import.is_partial(), "findings": import.findings,
        });
        format!("{result}\n")
    } else {
        report(&import, &written.output)
    };
    terminal.write_data(&text)?;
    terminal.flush()?;
    if let (false, Some(agent)) = (written.json, import.agents.first()) {
        let agent = written.output.join(agent);
        let next = format!("`holodeck test {}` runs its cases", agent.display());
        terminal.write_message(&crate::render::hint(&next));
    }
    Ok(if import.is_partial() {
        ExitCode::Failed
    } else {
        ExitCode::Passed
    })
}

fn column(text: &str) -> Result<(String, String), Problem> {
    match text.split_once('=') {
        Some((column, field)) if !column.trim().is_empty() && !field.trim().is_empty() => {
            Ok((column.trim().to_owned(), field.trim().to_owned()))
        }
        _ => Err(Problem::config(format!("`{text}` is not COLUMN=FIELD"))
            .with_hint("as in `--columns q=input,a=ground_truth`")),
    }
}

/// The files, and what was not taken over as it was.
fn report(import: &Import, folder: &Path) -> String {
    let mut text = String::new();
    for file in &import.files {
        let _ = writeln!(text, "{}", folder.join(&file.path).display());
    }
    let agents = match import.agents.len() {
        0 => String::new(),
        agents => format!("{}, ", count(agents, "agent")),
    };
    let _ = writeln!(text, "\n{agents}{}", count(import.cases, "case"));
    let sections = [
        (FindingKind::LeftOut, "Not taken over, and it decides verdicts:"),
        (
            FindingKind::Differs,
            "Taken over, but not decided in exactly the same way:",
        ),
        (FindingKind::Ignored, "Not taken over; it decides no verdict:"),
    ];
    for (kind, title) in sections {
        let findings: Vec<&ImportFinding> = import
            .findings
            .iter()
            .filter(|found| found.kind == kind)
            .collect();
        if findings.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{title}");
        for found in findings {
            let _ = writeln!(text, "  {}:{}: {}", found.file.display(), found.line, found.what);
            if let Some(nearest) = &found.nearest {
                let _ = writeln!(text, "    nearest: {nearest}");
            }
        }
    }
    text
}

fn problem(failure: ImportFailure) -> Problem {
    let message = failure.to_string();
    match failure {
        ImportFailure::Source(_) => {
            let problem = Problem::config(message.clone());
            if message.contains("--run-code") {
                problem.with_hint("its code runs with limits and without keys")
            } else {
                problem
            }
        }
        ImportFailure::Exists { files, .. } => {
            let problem = Problem::config(message)
                .with_hint("choose another folder with `-o`, or overwrite them with `--force`");
            files.iter().fold(problem, |problem, file| {
                problem.with_detail(format!("{} exists", file.display()))
            })
        }
        ImportFailure::IsLink(_) => {
            Problem::config(message).with_hint("remove the link, or choose another folder with `-o`")
        }
        ImportFailure::IsSource(_) => Problem::config(message).with_hint("choose another folder with `-o`"),
        _ => Problem::execution(message),
    }
}
