//! Renders the execution settings.

use std::time::Duration;

use holodeck::model::{ExecutionSettings, Setting};

use super::{
    style::{DIM, paint},
    text::fit,
};

/// The execution settings, each with the layer that set it.
pub(crate) fn settings(settings: &ExecutionSettings) -> String {
    let seconds = |setting: &Setting<Duration>| format!("{} s", setting.value.as_secs_f64());
    let rows = [
        row(
            "llm_timeout",
            seconds(&settings.llm_timeout),
            &settings.llm_timeout,
        ),
        row(
            "file_timeout",
            seconds(&settings.file_timeout),
            &settings.file_timeout,
        ),
        row(
            "download_timeout",
            seconds(&settings.download_timeout),
            &settings.download_timeout,
        ),
        row(
            "parallel_test_cases",
            settings
                .parallel_test_cases
                .value
                .map_or_else(|| "set by the backend".to_owned(), |number| number.to_string()),
            &settings.parallel_test_cases,
        ),
        row(
            "parallel_tool_calls",
            settings.parallel_tool_calls.value.to_string(),
            &settings.parallel_tool_calls,
        ),
        row(
            "parallel_judge_calls",
            settings.parallel_judge_calls.value.to_string(),
            &settings.parallel_judge_calls,
        ),
        row(
            "replay",
            settings
                .replay
                .value
                .as_ref()
                .map_or_else(|| "none".to_owned(), |path| path.display().to_string()),
            &settings.replay,
        ),
        row(
            "cache_dir",
            settings.cache_dir.value.display().to_string(),
            &settings.cache_dir,
        ),
        row("verbose", settings.verbose.value.to_string(), &settings.verbose),
        row("quiet", settings.quiet.value.to_string(), &settings.quiet),
    ];
    let mut text = String::new();
    for [name, value, from] in rows {
        text.push_str(&format!(
            "{}  {}  {}\n",
            fit(name.as_str(), 19),
            fit(&value, 20),
            paint(DIM, from)
        ));
    }
    text
}

fn row<T>(name: &str, value: String, setting: &Setting<T>) -> [String; 3] {
    let from = match &setting.location {
        Some(place) => format!("{} ({place})", setting.layer.as_str()),
        None => setting.layer.as_str().to_owned(),
    };
    [name.to_owned(), value, from]
}
