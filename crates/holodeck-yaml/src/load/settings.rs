//! Execution settings from all layers except the command line.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    path::{Path, PathBuf},
    time::Duration,
};

use holodeck_model::{Agent, Code, Diagnostic, ExecutionSettings, Layer, Setting, closest, env};

use super::Loader;
use crate::{schema, shape::ShapeKind, yaml::NodeId};

/// The settings of `HOLODECK_*` variables.
#[derive(Default)]
pub(super) struct FromEnv {
    file_timeout: Option<Duration>,
    llm_timeout: Option<Duration>,
    download_timeout: Option<Duration>,
    cache_dir: Option<PathBuf>,
}

/// The next step for a variable that is no setting: the field that sets the same, or a variable with a similar name.
fn meant_setting(name: &str) -> Option<String> {
    const PREFIX: &str = "HOLODECK_";
    let own = name.strip_prefix(PREFIX)?;
    let field = own.to_ascii_lowercase();
    if has_execution_field(&field) {
        return Some(format!(
            "write `execution: {{{field}: …}}` in the agent file or in `config.yaml`"
        ));
    }
    let settings = env::SETTINGS
        .iter()
        .filter_map(|known| known.strip_prefix(PREFIX));
    closest(own, settings).map(|meant| format!("did you mean `{PREFIX}{meant}`?"))
}

/// Whether `execution` has a field of this name.
fn has_execution_field(name: &str) -> bool {
    let shapes = &*schema::AGENT;
    let ShapeKind::Record(agent) = &shapes.get(shapes.root).kind else {
        return false;
    };
    let block = agent
        .fields
        .get("execution")
        .map(|field| &shapes.get(field.shape).kind);
    let record = match block {
        Some(ShapeKind::Record(record)) => Some(record),
        Some(ShapeKind::Either(kinds)) => kinds.iter().find_map(|id| match &shapes.get(*id).kind {
            ShapeKind::Record(record) => Some(record),
            _ => None,
        }),
        _ => None,
    };
    record.is_some_and(|record| record.fields.contains_key(name))
}

impl Loader<'_> {
    pub(super) fn settings_from_env(&mut self) -> FromEnv {
        self.warn_unknown_variables();
        FromEnv {
            file_timeout: self.seconds(env::HOLODECK_FILE_TIMEOUT),
            llm_timeout: self.seconds(env::HOLODECK_LLM_TIMEOUT),
            download_timeout: self.seconds(env::HOLODECK_DOWNLOAD_TIMEOUT),
            cache_dir: self.env.non_blank(env::HOLODECK_CACHE_DIR).map(PathBuf::from),
        }
    }

    /// Warns of misspelt settings, which would have no effect. Variables that a file mentions are the author's own.
    fn warn_unknown_variables(&mut self) {
        for name in self.env.names().filter(|name| name.starts_with("HOLODECK_")) {
            let is_mentioned = self.tree.sources().any(|(_, source)| source.text.contains(name));
            if env::SETTINGS.contains(&name) || name == env::HOLODECK_MCP_SERVER || is_mentioned {
                continue;
            }
            let message = format!("environment variable `{name}` has no effect: there is no such setting");
            let mut diagnostic = Diagnostic::warning(Code::BadVariable, message);
            if let Some(help) = meant_setting(name) {
                diagnostic = diagnostic.with_help(help);
            }
            self.findings.diagnostics.push(diagnostic);
        }
    }

    fn seconds(&mut self, name: &str) -> Option<Duration> {
        let text = self.env.non_blank(name)?;
        match text.trim().parse::<u64>() {
            Ok(seconds) if seconds > 0 => Some(Duration::from_secs(seconds)),
            _ => {
                let diagnostic = Diagnostic::error(
                    Code::BadVariable,
                    format!("environment variable `{name}` must be a whole number of seconds, 1 or more"),
                )
                .with_help(format!("correct it, or `unset {name}`"));
                self.findings.diagnostics.push(diagnostic);
                None
            }
        }
    }

    pub(super) fn execution_settings(
        &self,
        root: NodeId,
        agent: &Agent,
        dir: &Path,
        from_env: FromEnv,
    ) -> ExecutionSettings {
        let mut settings = ExecutionSettings::default();
        settings.cache_dir.value = dir.join(&settings.cache_dir.value);
        if let Some(file) = &agent.execution {
            let seconds = |value: Option<u64>| value.map(Duration::from_secs);
            self.apply(
                root,
                "file_timeout",
                &mut settings.file_timeout,
                seconds(file.file_timeout),
            );
            self.apply(
                root,
                "llm_timeout",
                &mut settings.llm_timeout,
                seconds(file.llm_timeout),
            );
            self.apply(
                root,
                "download_timeout",
                &mut settings.download_timeout,
                seconds(file.download_timeout),
            );
            self.apply(
                root,
                "allow_private_urls",
                &mut settings.allow_private_urls,
                file.allow_private_urls,
            );
            self.apply(
                root,
                "cache_dir",
                &mut settings.cache_dir,
                file.cache_dir.as_ref().map(holodeck_model::PathRef::path),
            );
            self.apply(root, "verbose", &mut settings.verbose, file.verbose);
            self.apply(root, "quiet", &mut settings.quiet, file.quiet);
            let parallel = file
                .parallel_test_cases
                .and_then(|count| NonZeroUsize::new(count as usize));
            self.apply(
                root,
                "parallel_test_cases",
                &mut settings.parallel_test_cases,
                parallel.map(Some),
            );
            let tool_calls = file
                .parallel_tool_calls
                .and_then(|count| NonZeroUsize::new(count as usize));
            self.apply(
                root,
                "parallel_tool_calls",
                &mut settings.parallel_tool_calls,
                tool_calls,
            );
            let judge_calls = file
                .parallel_judge_calls
                .and_then(|count| NonZeroUsize::new(count as usize));
            self.apply(
                root,
                "parallel_judge_calls",
                &mut settings.parallel_judge_calls,
                judge_calls,
            );
            let trials = file.trials.and_then(NonZeroU32::new);
            self.apply(root, "trials", &mut settings.trials, trials);
            let min_passes = file.min_passes.and_then(NonZeroU32::new);
            self.apply(root, "min_passes", &mut settings.min_passes, min_passes.map(Some));
            self.apply(root, "report_k", &mut settings.report_k, file.report_k.clone());
            let replay = file.replay.as_ref().map(|replay| Some(replay.path()));
            self.apply(root, "replay", &mut settings.replay, replay);
            self.apply(
                root,
                "on_truncated",
                &mut settings.on_truncated,
                file.on_truncated,
            );
        }
        apply_env(&mut settings.file_timeout, from_env.file_timeout);
        apply_env(&mut settings.llm_timeout, from_env.llm_timeout);
        apply_env(&mut settings.download_timeout, from_env.download_timeout);
        apply_env(&mut settings.cache_dir, from_env.cache_dir);
        settings
    }

    fn apply<T>(&self, root: NodeId, field: &str, setting: &mut Setting<T>, value: Option<T>) {
        let Some(value) = value else { return };
        let node = self
            .tree
            .find(root, "execution")
            .and_then(|block| self.tree.find(block, field));
        *setting = Setting {
            value,
            layer: node.map_or(Layer::BuiltIn, |node| self.layer(node)),
            location: node.map(|node| self.tree.location(self.tree.place(node))),
        };
    }
}

fn apply_env<T>(setting: &mut Setting<T>, value: Option<T>) {
    if let Some(value) = value {
        *setting = Setting {
            value,
            layer: Layer::Env,
            location: None,
        };
    }
}
