//! `holodeck test compare`: compares two stored runs, or a run with a baseline.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use holodeck::{
    CompareError, RunInputs, compare_runs,
    reports::{
        Comparison, GateOptions, ReadRunError, comparison_json, write_comparison_html,
        write_comparison_markdown,
    },
    runs::{ExitCode, StoreError},
};

use super::flags::parse_axis;
use super::targets::{Overwrite, Target, check, read_beginning, replace};
use crate::{
    command::as_argument,
    failure::{Failure, Problem, Subject},
    render,
    terminal::{Terminal, set_redactor},
};

/// Flags of `holodeck test compare`.
#[derive(Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// The earlier run, A: a run id, a prefix of it, `latest`, `baseline`, `baseline:NAME`, or the path of a journal,
    /// a run file (also of HoloDeck 0.7) or a baseline.
    #[arg(value_name = "A")]
    before: String,
    /// The later run, B, named in the same way.
    #[arg(value_name = "B")]
    after: String,
    /// The agent file that the runs belong to.
    #[arg(value_name = "AGENT", default_value = "agent.yaml")]
    agent: PathBuf,
    /// Of the runs of a `matrix`, `latest` is the one with this value, as in `model.name=gpt-4o`. May be repeated.
    #[arg(long, value_name = "PATH=VALUE", value_parser = parse_axis)]
    matrix: Vec<(String, String)>,
    /// Exit 1 if B is significantly worse than A or has new errors, 4 if that cannot be decided.
    #[arg(long, help_heading = "Gate")]
    gate: bool,
    /// The level of significance, from 0.000001 to 0.5.
    #[arg(long, value_name = "LEVEL", default_value = "0.05", value_parser = parse_alpha, help_heading = "Gate")]
    alpha: f64,
    /// Do not count cases of A that B lacks as errors.
    #[arg(long, help_heading = "Gate")]
    allow_missing: bool,
    /// Allow that something else is expected of cases than in A; what changed is listed and not tested.
    #[arg(long, help_heading = "Gate")]
    allow_changed_expectations: bool,
    /// Allow that another judge or grader program decides than in A; what it decides is listed and not tested.
    #[arg(long, help_heading = "Gate")]
    allow_changed_judges: bool,
    /// Exit 1 if more than N cases do not pass in B that passed in A or are new, significant or not.
    #[arg(long, value_name = "N", help_heading = "Gate")]
    max_new_failures: Option<usize>,
    /// Write the comparison; `--format` or the file extension selects the format.
    #[arg(short, long, value_name = "PATH", help_heading = "Output")]
    output: Option<PathBuf>,
    /// The format; without `--output` the comparison is written to the standard output.
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    format: Option<ComparisonFormat>,
    /// Overwrite the file of `--output` even if `holodeck` did not write it.
    #[arg(long, help_heading = "Output")]
    force: bool,
    /// Write the comparison as one JSON object to stdout, instead of text.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

/// The values of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ComparisonFormat {
    /// One object.
    Json,
    /// For a pull request.
    Markdown,
    /// One self-contained page.
    Html,
}

impl ComparisonFormat {
    fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "md" | "markdown" => Some(Self::Markdown),
            "html" | "htm" => Some(Self::Html),
            _ => None,
        }
    }

    /// Whether a file with this beginning is a comparison in this format.
    fn recognizes(self, beginning: &str) -> bool {
        match self {
            Self::Json => beginning.starts_with('{') && beginning.contains("\"comparison\""),
            Self::Markdown => beginning.starts_with("## ") && beginning.contains(": comparison "),
            Self::Html => beginning.starts_with("<!DOCTYPE html>") && beginning.contains(": comparison "),
        }
    }

    fn write(self, comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Json => writeln!(out, "{:#}", comparison_json(comparison)),
            Self::Markdown => write_comparison_markdown(comparison, out),
            Self::Html => write_comparison_html(comparison, &[], out),
        }
    }
}

fn parse_alpha(text: &str) -> Result<f64, String> {
    let alpha: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    // Below, no test of this program is exact; above, chance alone would be significant.
    if (1e-6..=0.5).contains(&alpha) {
        Ok(alpha)
    } else {
        Err("must be between 0.000001 and 0.5".to_owned())
    }
}

pub(super) fn run(args: &CompareArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let output = args.output()?;
    let options = GateOptions {
        gate: args.gate,
        alpha: args.alpha,
        allow_missing: args.allow_missing,
        allow_changed_expectations: args.allow_changed_expectations,
        allow_changed_judges: args.allow_changed_judges,
        max_new_failures: args.max_new_failures,
    };
    let compared = compare_runs(&args.agent, &args.before, &args.after, &args.matrix, &options)
        .map_err(|error| problem(&error, &args.agent))?;
    set_redactor(compared.redactor);
    let comparison = compared.comparison;
    if args.json {
        terminal.write_json(comparison_json(&comparison))?;
    } else if !matches!(output, Some((_, Target::Stdout))) {
        terminal.write_data(&render::comparison(&comparison, terminal.width()))?;
    }
    terminal.flush()?;
    let written = match output {
        None | Some((_, Target::Null)) => Ok(()),
        Some((format, Target::Stdout)) => format.write(&comparison, &mut io::stdout()),
        Some((format, Target::File(path))) => replace(&path, |mut file| format.write(&comparison, &mut file)),
    };
    let mut exit = comparison.exit();
    if let Err(error) = written {
        let problem = Problem::execution(format!("cannot write the comparison: {error}"));
        exit = exit.worse(problem.exit);
        terminal.write_message(&render::problem(&problem));
    }
    Ok(exit)
}

impl CompareArgs {
    /// Where the comparison is written, checked before anything is read.
    fn output(&self) -> Result<Option<(ComparisonFormat, Target)>, Problem> {
        let path = match (&self.output, self.format) {
            (Some(path), _) => path,
            (None, Some(_)) => Path::new("-"),
            (None, None) => return Ok(None),
        };
        let format = self
            .format
            .or_else(|| ComparisonFormat::of_path(path))
            .ok_or_else(|| {
                Problem::config(format!("`--output {}`: the format is not known", path.display()))
                    .with_hint("name it with `--format markdown`, `html` or `json`")
            })?;
        let target = Target::of(path.to_owned());
        match &target {
            Target::Stdout if self.json => {
                return Err(Problem::config(
                    "`--json` and another format would both be written to the standard output",
                ));
            }
            Target::File(path) => {
                let overwrite = if self.force {
                    Overwrite::Anything
                } else {
                    Overwrite::Known
                };
                let is_own =
                    |path: &Path| read_beginning(path).is_ok_and(|beginning| format.recognizes(&beginning));
                check(path, "comparison", &RunInputs::default(), overwrite, is_own)?;
            }
            Target::Stdout | Target::Null => {}
        }
        Ok(Some((format, target)))
    }
}

/// A run that cannot be read is an error of the command line, whatever the reason.
pub(super) fn problem(error: &CompareError, agent: &Path) -> Problem {
    let problem = Problem::config(error.to_string());
    let subject = Subject {
        argument: as_argument(agent),
    };
    let agent = &subject.argument;
    match error {
        CompareError::Read(ReadRunError::Journal(error)) => subject.journal(error),
        CompareError::LoopDiffers => problem.with_hint("compare runs that both use it, or both leave it out"),
        CompareError::WithoutChain { .. } => {
            problem.with_hint("without `--gate`, the comparison is shown with a note")
        }
        CompareError::Read(ReadRunError::Store(error)) => {
            let problem = subject.store(error);
            match error {
                StoreError::OtherAgent { .. } => {
                    problem.with_hint("to compare runs of two agents, give the path of the other one's journal")
                }
                _ => problem,
            }
        }
        CompareError::Read(ReadRunError::OtherBaseline { .. }) => problem.with_hint(format!(
            "`holodeck test{agent} --save-baseline NAME` writes one for this agent; to compare two agents, give \
             the path of the baseline"
        )),
        CompareError::Read(ReadRunError::NoBaseline { .. }) => {
            problem.with_hint(format!("`holodeck test{agent} --save-baseline` writes one"))
        }
        CompareError::NoAgent { .. } => {
            problem.with_hint("name the agent file after the runs, or give the paths of two run files")
        }
        _ => problem,
    }
}
