//! The flags of `holodeck test` and the options they set.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ValueEnum;
use holodeck::{
    AnswerSource, OpenOptions, TestOptions,
    index::Rebuild,
    model::{Combination, Env, Shard, ShardError, SideEffectGate},
    reports::{DEFAULT_BASELINE, Format, check_baseline_name},
    runner::{Budget, OnFailure},
    runs::{MAX_TRIALS, RunStore, Sample},
};

use super::{
    is_yaml,
    targets::{Overwrite, Reports},
};
use crate::{
    command::{parse_dollars, parse_seconds},
    failure::Problem,
};

/// Which cases to run, and where the answers come from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What to run")]
pub(super) struct WhatArgs {
    /// Run only the cases whose name matches, as in `refund*`.
    #[arg(long, value_name = "GLOB")]
    pub(super) filter: Option<String>,
    /// Run only the cases with this tag. May be repeated: one of the tags is enough.
    #[arg(long = "tag", value_name = "TAG")]
    pub(super) tags: Vec<String>,
    /// Run N of the cases, selected by chance: the same ones for the same seed.
    #[arg(long, value_name = "N")]
    sample: Option<NonZeroUsize>,
    /// Decides which cases `--sample` selects.
    #[arg(long, value_name = "S", default_value_t = 0, requires = "sample")]
    seed: u64,
    /// Run at most N cases.
    #[arg(short = 'n', long, value_name = "N")]
    pub(super) limit: Option<NonZeroUsize>,
    /// Run only the cases that did not pass last time.
    #[arg(long)]
    pub(super) failed: bool,
    /// Run only one part of the cases, as in `2/3`; `auto` reads it from the variables of GitLab CI or Kubernetes.
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    shard: Option<ShardArg>,
    /// Run only the combinations of the agent file's `matrix` with this value, as in `model.name=gpt-4o`. May be
    /// repeated: values of one path are alternatives.
    #[arg(long, value_name = "PATH=VALUE", value_parser = parse_axis)]
    pub(super) matrix: Vec<(String, String)>,
    /// Run each case N times, whatever the agent file says.
    #[arg(long, value_name = "N", value_parser = parse_trials)]
    pub(super) trials: Option<u32>,
    /// Pass a case if M of its trials pass, whatever the agent file says. Default: all.
    #[arg(long, value_name = "M", value_parser = parse_trials)]
    pub(super) min_passes: Option<u32>,
    /// Show what would run and the estimated cost.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// After the run, wait for changes of its files and run the cases again that a change concerns, until Ctrl-C.
    #[arg(long, conflicts_with_all = ["shard", "dry_run", "record", "save_baseline"])]
    pub(super) watch: bool,
    /// Replay the answers of a recording.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["live", "record"])]
    replay: Option<PathBuf>,
    /// Call the endpoint even if `execution.replay` is set.
    #[arg(long)]
    live: bool,
}

/// The value of `--shard`.
#[derive(Clone, Copy, Debug)]
enum ShardArg {
    /// As the environment says.
    Auto,
    Part(Shard),
}

impl WhatArgs {
    /// The part of the cases to run.
    pub(super) fn shard(&self, env: &Env) -> Result<Option<Shard>, Problem> {
        match self.shard {
            None => Ok(None),
            Some(ShardArg::Part(shard)) => Ok(Some(shard)),
            Some(ShardArg::Auto) => Shard::from_env(env).map(Some).map_err(|error| {
                Problem::config(format!("`--shard auto`: {error}")).with_hint(
                    "it needs `CI_NODE_INDEX` and `CI_NODE_TOTAL`, as with `parallel: N` in GitLab CI, or \
                     `JOB_COMPLETION_INDEX` and `HOLODECK_SHARDS`, as in an indexed job of Kubernetes; elsewhere, \
                     use `--shard I/N`",
                )
            }),
        }
    }

    /// The sample of the cases to run.
    pub(super) fn sample(&self) -> Option<Sample> {
        let cases = self.sample?.get();
        Some(Sample {
            cases,
            seed: self.seed,
        })
    }

    pub(super) fn answers(&self) -> AnswerSource {
        match (&self.replay, self.live) {
            (Some(path), _) => AnswerSource::Replay(path.clone()),
            (None, true) => AnswerSource::Live,
            (None, false) => AnswerSource::AsConfigured,
        }
    }
}

/// How to run the cases.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How to run")]
pub(super) struct HowArgs {
    /// Time out a turn of the model after this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    /// Run N cases at a time.
    #[arg(short = 'j', long, value_name = "N")]
    parallel_test_cases: Option<NonZeroUsize>,
    /// Start no more cases after one that did not pass.
    #[arg(long)]
    fail_fast: bool,
    /// Start no more cases once this much is spent.
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    max_cost_usd: Option<f64>,
    /// Start no more cases once this many tokens are used.
    #[arg(long, value_name = "N")]
    max_tokens_total: Option<NonZeroU64>,
    /// Read model prices from a file; they override the built-in prices.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Record the answers of the endpoint to replay them later.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Let agents of provider `anthropic` use the shell, write files and run hooks; no effect on other providers.
    #[arg(long)]
    allow_side_effects: bool,
    /// Leave out the agent's quality loop: test what `chat` and `serve` answer.
    #[arg(long)]
    without_loop: bool,
    /// Rebuild the indexes of the agent's tools even if they are up to date.
    #[arg(short, long)]
    force_ingest: bool,
}

impl HowArgs {
    pub(super) fn options(&self) -> TestOptions {
        TestOptions {
            open: OpenOptions {
                record: self.record.clone(),
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
                ..OpenOptions::default()
            },
            without_loop: self.without_loop,
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
            ..TestOptions::default()
        }
    }
}

/// The outputs, and how the end of the run is reported.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Write a report; `--format` or the file extension selects the format. Default: JSON.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The format of `--output`.
    #[arg(long, value_name = "FORMAT", requires = "output")]
    format: Option<FormatName>,
    /// Write a report in the given format, as in `junit=results/junit.xml`; can be repeated.
    #[arg(long, value_name = "FORMAT=PATH", value_parser = parse_report)]
    report: Vec<(Format, PathBuf)>,
    /// Write one JSON object per line to stdout for each event, instead of text.
    #[arg(long)]
    pub(super) json: bool,
    /// Save the verdicts and scores as `baselines/NAME.json` beside the agent, for `holodeck test compare`. Default
    /// name: `baseline`.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = DEFAULT_BASELINE)]
    save_baseline: Option<String>,
    /// Overwrite a file at the path of a report, recording or baseline even if `holodeck` did not write it.
    #[arg(long)]
    force: bool,
    /// Exit 0 even if nothing was run or checked.
    #[arg(long)]
    pub(super) allow_empty: bool,
}

impl OutputArgs {
    /// The agent file of `--save-baseline agent.yaml`: a baseline has no such name.
    pub(super) fn agent_after_flag(&self) -> Option<&Path> {
        let name = self.save_baseline.as_deref().filter(|name| is_yaml(name))?;
        Some(Path::new(name))
    }

    /// The file of the baseline to save.
    pub(super) fn baseline(&self, folder: &Path) -> Result<Option<PathBuf>, Problem> {
        let Some(name) = &self.save_baseline else {
            return Ok(None);
        };
        let name = self
            .agent_after_flag()
            .map_or(name.as_str(), |_| DEFAULT_BASELINE);
        check_baseline_name(name).map_err(Problem::config)?;
        Ok(Some(RunStore::new(folder).baseline_path(name)))
    }

    pub(super) fn reports(&self) -> Result<Reports, Problem> {
        let output = match &self.output {
            Some(path) => Some((self.format_of(path)?, path.clone())),
            None => None,
        };
        let reports = Reports::new(output.into_iter().chain(self.report.iter().cloned()))?;
        if self.json && reports.use_stdout() {
            return Err(Problem::config(
                "`--json` and a report would both be written to the standard output",
            ));
        }
        Ok(reports)
    }

    /// The reports of one of several runs, with its name in the names of their files.
    pub(super) fn reports_named(&self, name: &str) -> Result<Reports, Problem> {
        Ok(self.reports()?.named(name))
    }

    /// Refuses what only one run can write.
    pub(super) fn check_several<'c>(
        &self,
        options: &TestOptions,
        combinations: impl Iterator<Item = &'c Combination>,
    ) -> Result<(), Problem> {
        let refuse = |flag: &str, why: &str| {
            let mut problem = Problem::config(format!(
                "`{flag}` cannot be used with several combinations: {why}"
            ));
            problem.details = combinations.map(Combination::to_string).collect();
            Err(problem.with_hint("select one combination with `--matrix PATH=VALUE`"))
        };
        if self.save_baseline.is_some() {
            return refuse("--save-baseline", "a baseline is that of one run");
        }
        if options.open.record.is_some() {
            return refuse("--record", "a recording is that of one run");
        }
        if self.reports()?.use_stdout() {
            return refuse("--output -", "each combination has its own report");
        }
        Ok(())
    }

    fn format_of(&self, path: &Path) -> Result<Format, Problem> {
        if let Some(format) = self.format {
            return Ok(format.into());
        }
        Format::of_path(path).ok_or_else(|| {
            let extension = path.extension().unwrap_or_default().display();
            Problem::config(format!(
                "`--output {}`: no format has the extension `.{extension}`",
                path.display()
            ))
            .with_hint("name the format with `--format json`, `markdown`, `junit`, `html`, `jsonl`, `github`, `gitlab` or `sarif`")
        })
    }

    pub(super) fn overwrite(&self) -> Overwrite {
        if self.force {
            Overwrite::Anything
        } else {
            Overwrite::Known
        }
    }
}

/// The values of `--format`.
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
    /// Annotations of GitHub Actions.
    Github,
    /// Code quality of GitLab.
    Gitlab,
    /// For code scanning.
    Sarif,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Json => Self::Json,
            FormatName::Markdown => Self::Markdown,
            FormatName::Junit => Self::Junit,
            FormatName::Html => Self::Html,
            FormatName::Jsonl => Self::Jsonl,
            FormatName::Github => Self::Github,
            FormatName::Gitlab => Self::Gitlab,
            FormatName::Sarif => Self::Sarif,
        }
    }
}

fn parse_shard(text: &str) -> Result<ShardArg, String> {
    if text == "auto" {
        return Ok(ShardArg::Auto);
    }
    text.parse()
        .map(ShardArg::Part)
        .map_err(|error: ShardError| error.to_string())
}

pub(super) fn parse_axis(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(path, _)| !path.is_empty());
    let (path, value) = parts.ok_or("expected PATH=VALUE, as in `model.name=gpt-4o`")?;
    Ok((path.to_owned(), value.to_owned()))
}

fn parse_trials(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number @ 1..=MAX_TRIALS) => Ok(number),
        _ => Err(format!("expected a whole number from 1 to {MAX_TRIALS}")),
    }
}

fn parse_report(text: &str) -> Result<(Format, PathBuf), String> {
    let formats = Format::ALL.map(Format::as_str).join(", ");
    let Some((format, path)) = text.split_once('=') else {
        return Err(format!("expected FORMAT=PATH, with one of the formats {formats}"));
    };
    let format = Format::ALL
        .into_iter()
        .find(|known| known.as_str() == format)
        .ok_or_else(|| format!("`{format}` is not a format; formats are {formats}"))?;
    if path.is_empty() {
        return Err("the path after `=` is missing".to_owned());
    }
    Ok((format, PathBuf::from(path)))
}
