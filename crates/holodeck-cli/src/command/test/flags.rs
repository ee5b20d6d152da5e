use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use clap::ValueEnum;
use holodeck::{
    AnswerSource, TestOptions,
    index::Rebuild,
    model::SideEffectGate,
    runner::{Budget, Format, OnFailure},
};

use super::targets::{Overwrite, Reports};
use crate::{
    command::{dollars, seconds},
    failure::Problem,
};

/// Which cases, and where answers come from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What to run")]
pub(super) struct WhatArgs {
    /// Only cases whose name fits, as in `refund*`.
    #[arg(long, value_name = "GLOB")]
    pub(super) filter: Option<String>,
    /// Only the first so many.
    #[arg(short = 'n', long, value_name = "N")]
    pub(super) limit: Option<NonZeroUsize>,
    /// Only what did not pass in the newest run.
    #[arg(long)]
    pub(super) failed: bool,
    /// Run nothing; tell what would run and what it may cost.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Answer from a recording.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["live", "record"])]
    replay: Option<PathBuf>,
    /// Ask the endpoint, whatever `execution.replay` says.
    #[arg(long)]
    live: bool,
}

impl WhatArgs {
    pub(super) fn answers(&self) -> AnswerSource {
        match (&self.replay, self.live) {
            (Some(path), _) => AnswerSource::Replay(path.clone()),
            (None, true) => AnswerSource::Live,
            (None, false) => AnswerSource::AsConfigured,
        }
    }
}

/// How a run is made.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How to run")]
pub(super) struct HowArgs {
    /// The longest a turn of the model may take.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Cases at a time.
    #[arg(short = 'j', long, value_name = "N")]
    parallel_test_cases: Option<NonZeroUsize>,
    /// Start no further case once one did not pass.
    #[arg(long)]
    fail_fast: bool,
    /// Start no further case once this much is spent.
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost_usd: Option<f64>,
    /// Start no further case once this many tokens are used.
    #[arg(long, value_name = "N")]
    max_tokens_total: Option<NonZeroU64>,
    /// Prices of models, laid over those that come with holodeck.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Record the answers of the endpoint, to replay them later.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Let agents of provider `anthropic` use the shell and write files; without effect on other providers.
    #[arg(long)]
    allow_side_effects: bool,
    /// Build the indexes of the agent's tools anew, whatever they hold.
    #[arg(long)]
    force_ingest: bool,
}

impl HowArgs {
    pub(super) fn options(&self) -> TestOptions {
        TestOptions {
            record: self.record.clone(),
            timeout: self.timeout,
            parallel: self.parallel_test_cases,
            on_failure: if self.fail_fast {
                OnFailure::Stop
            } else {
                OnFailure::Continue
            },
            budget: Budget {
                max_cost_usd: self.max_cost_usd,
                max_tokens_total: self.max_tokens_total.map(NonZeroU64::get),
            },
            prices: self.prices.clone(),
            rebuild: if self.force_ingest {
                Rebuild::Everything
            } else {
                Rebuild::Changed
            },
            side_effects: if self.allow_side_effects {
                SideEffectGate::Open
            } else {
                SideEffectGate::Closed
            },
            ..TestOptions::default()
        }
    }
}

/// What is written, and how its end is told.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Write a report; its format is told by the file's ending, or by `--format`.
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The format of `--output`.
    #[arg(long, value_name = "FORMAT", requires = "output")]
    format: Option<FormatName>,
    /// Write a report in a format, as in `junit=results/junit.xml`. May be given more than once.
    #[arg(long, value_name = "FORMAT=PATH", value_parser = report)]
    report: Vec<(Format, PathBuf)>,
    /// Write one JSON object a line to stdout for each thing that happens, instead of text.
    #[arg(long)]
    pub(super) json: bool,
    /// Overwrite a file at the path of a report or recording even if `holodeck` did not write it.
    #[arg(long)]
    force: bool,
    /// Nothing to run, or nothing checked, is no error.
    #[arg(long)]
    pub(super) allow_empty: bool,
}

impl OutputArgs {
    pub(super) fn reports(&self) -> Result<Reports, Problem> {
        let own = self.output.as_ref().map(|path| {
            let format = self.format.map_or_else(|| Format::of_path(path), Format::from);
            (format, path.clone())
        });
        let reports = Reports::new(own.into_iter().chain(self.report.iter().cloned()))?;
        if self.json && reports.use_stdout() {
            return Err(Problem::config(
                "`--json` and a report would both be written to the standard output",
            ));
        }
        Ok(reports)
    }

    pub(super) fn overwrite(&self) -> Overwrite {
        if self.force {
            Overwrite::Anything
        } else {
            Overwrite::Known
        }
    }
}

/// The formats as flags spell them.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatName {
    /// One object with the field names of HoloDeck 0.7, and more.
    Json,
    /// For a pull request.
    Markdown,
    /// For CI servers.
    Junit,
    /// One self-contained page.
    Html,
    /// One line for the run, then one for each case.
    Jsonl,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Json => Self::Json,
            FormatName::Markdown => Self::Markdown,
            FormatName::Junit => Self::Junit,
            FormatName::Html => Self::Html,
            FormatName::Jsonl => Self::Jsonl,
        }
    }
}

fn report(text: &str) -> Result<(Format, PathBuf), String> {
    let formats = Format::ALL.map(Format::as_str).join(", ");
    let Some((format, path)) = text.split_once('=') else {
        return Err(format!("expected FORMAT=PATH, with one of the formats {formats}"));
    };
    let format = Format::ALL
        .into_iter()
        .find(|known| known.as_str() == format)
        .ok_or_else(|| format!("`{format}` is not a format; formats are {formats}"))?;
    if path.is_empty() {
        return Err("there is no path after `=`".to_owned());
    }
    Ok((format, PathBuf::from(path)))
}
