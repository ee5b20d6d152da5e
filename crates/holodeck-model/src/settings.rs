//! Execution settings after all layers, each with the layer that set it.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use serde::Serialize;

use crate::{Location, OnTruncated};

/// A layer of configuration, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// A flag of the command.
    Cli,
    /// A `HOLODECK_*` variable.
    Env,
    /// The agent file.
    Agent,
    /// `config.yaml` beside the agent file.
    Project,
    /// `~/.holodeck/config.yaml`.
    User,
    /// Built in.
    BuiltIn,
}

impl Layer {
    /// The name of the layer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "command line",
            Self::Env => "environment",
            Self::Agent => "agent file",
            Self::Project => "project config",
            Self::User => "user config",
            Self::BuiltIn => "built in",
        }
    }
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// The layer that set it.
    pub layer: Layer,
    /// The place in a file, if a file set it.
    pub location: Option<Location>,
}

impl<T> Setting<T> {
    /// A built-in value.
    pub fn built_in(value: T) -> Self {
        Self {
            value,
            layer: Layer::BuiltIn,
            location: None,
        }
    }

    /// Overrides the value with a flag, if given.
    pub fn override_with(&mut self, flag: Option<T>) {
        if let Some(value) = flag {
            *self = Self {
                value,
                layer: Layer::Cli,
                location: None,
            };
        }
    }
}

/// Tool calls of one answer that run at the same time, unless a layer sets another number.
const PARALLEL_TOOL_CALLS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);

/// Calls of judges that run at the same time, unless a layer sets another number.
const PARALLEL_JUDGE_CALLS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);

/// How tests are run, after all layers except the command line: its flags are applied with
/// [`Setting::override_with`].
#[derive(Clone, Debug, Serialize)]
pub struct ExecutionSettings {
    /// How long a file may take to be processed.
    pub file_timeout: Setting<Duration>,
    /// How long one turn of the model may take.
    pub llm_timeout: Setting<Duration>,
    /// How long a download may take.
    pub download_timeout: Setting<Duration>,
    /// Whether files are fetched from this machine and from private networks too.
    pub allow_private_urls: Setting<bool>,
    /// Where downloaded and converted files are kept.
    pub cache_dir: Setting<PathBuf>,
    /// Increase verbosity.
    pub verbose: Setting<bool>,
    /// Print only the result.
    pub quiet: Setting<bool>,
    /// How many test cases run at the same time; if absent, the backend decides.
    pub parallel_test_cases: Setting<Option<NonZeroUsize>>,
    /// How many tool calls of one answer run at the same time.
    pub parallel_tool_calls: Setting<NonZeroUsize>,
    /// How many calls of judges run at the same time.
    pub parallel_judge_calls: Setting<NonZeroUsize>,
    /// A recording to replay.
    pub replay: Setting<Option<PathBuf>>,
    /// How to treat an answer that was cut off.
    pub on_truncated: Setting<OnTruncated>,
}

impl Default for ExecutionSettings {
    fn default() -> Self {
        Self {
            file_timeout: Setting::built_in(Duration::from_secs(30)),
            llm_timeout: Setting::built_in(Duration::from_mins(1)),
            download_timeout: Setting::built_in(Duration::from_secs(30)),
            allow_private_urls: Setting::built_in(false),
            cache_dir: Setting::built_in(PathBuf::from(".holodeck/cache")),
            verbose: Setting::built_in(false),
            quiet: Setting::built_in(false),
            parallel_test_cases: Setting::built_in(None),
            parallel_tool_calls: Setting::built_in(PARALLEL_TOOL_CALLS),
            parallel_judge_calls: Setting::built_in(PARALLEL_JUDGE_CALLS),
            replay: Setting::built_in(None),
            on_truncated: Setting::built_in(OnTruncated::Warn),
        }
    }
}
