//! `holodeck validate`: checks an agent file and the files it refers to.

use clap::ValueEnum;
use holodeck::{
    reports::{Finding, FindingForm, FindingSubject, write_findings},
    runs::ExitCode,
};

use super::{fixes, places};
use crate::{
    args::AgentArg,
    failure::{Failure, Problem},
    render::{self, DiagnosticFilter},
    terminal::{Terminal, Verbosity, set_redactor},
};

/// Flags of `holodeck validate`.
#[derive(Debug, clap::Args)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// Write one JSON object instead of text; same as `--format json`.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// The form of the problems.
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_default_value = true
    )]
    format: FormatName,
    /// First put texts of front matter that need quotes in quotes, in their files.
    #[arg(long)]
    fix: bool,
}

/// The values of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// Each problem with its lines of the file.
    Text,
    /// One line for each problem.
    Concise,
    /// One object.
    Json,
    /// Annotations of GitHub Actions.
    Github,
    /// Code quality of GitLab.
    Gitlab,
    /// For code scanning.
    Sarif,
}

/// Checks the agent file and the files it names; `doctor` checks the environment.
pub(crate) fn run(args: &ValidateArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let path = &args.agent.agent;
    let env = holodeck::environment(path).map_err(Problem::from)?;
    let mut load = holodeck::load(path, &env);
    if args.fix && fixes::apply(&load.diagnostics, terminal)? {
        load = holodeck::load(path, &env);
    }
    holodeck::check_equal_cases(&mut load);
    holodeck::require_what_runs_need(&mut load);
    if let Some(agent) = &load.agent {
        set_redactor(holodeck::redactor(agent, &env));
    }
    let form = match args.format {
        FormatName::Text | FormatName::Json => None,
        FormatName::Concise => Some(FindingForm::Concise),
        FormatName::Github => Some(FindingForm::Github),
        FormatName::Gitlab => Some(FindingForm::Gitlab),
        FormatName::Sarif => Some(FindingForm::Sarif),
    };
    if args.json || args.format == FormatName::Json {
        terminal.write_json(render::diagnostics_json(&load, path))?;
    } else if let Some(form) = form {
        let file = places::file_name(&env, path);
        let subject = FindingSubject {
            name: load.agent.as_ref().map_or(&file, |agent| &agent.config.name),
            file: &file,
            verdict: render::count_diagnostics(&load),
            is_complete: !load.has_errors(),
        };
        let findings = load.diagnostics.iter().map(|found| {
            Ok(Finding::of_diagnostic(found, |path| {
                places::file_name(&env, path)
            }))
        });
        let mut text = Vec::new();
        let written = write_findings(form, &subject, findings, &mut text);
        written.map_err(|error| Problem::execution(error.to_string()))?;
        terminal.write_data(&String::from_utf8_lossy(&text))?;
    } else {
        let filter = if terminal.verbosity() == Verbosity::Quiet {
            DiagnosticFilter::Important
        } else {
            DiagnosticFilter::All
        };
        let text = render::diagnostics(&load, path, filter, terminal.width());
        terminal.write_data(&text)?;
        if terminal.verbosity() >= Verbosity::Verbose
            && let Some(agent) = &load.agent
        {
            terminal.write_data(&format!("\n{}", render::settings(&agent.execution)))?;
        }
    }
    Ok(if load.has_errors() {
        ExitCode::Config
    } else {
        ExitCode::Passed
    })
}
