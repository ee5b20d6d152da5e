//! How documents are read.

use std::{ffi::OsStr, path::PathBuf, sync::OnceLock};

use holodeck_documents::{Addresses, Converter, FetchOptions, Fetcher, Isolation};
use holodeck_http::{HttpOptions, SetupError};
use holodeck_model::{Env, LoadedAgent};
use holodeck_process::{BASE_VARIABLES, ChildEnv, which};

/// The program that converts documents in a process of its own.
static COMMAND: OnceLock<PathBuf> = OnceLock::new();

/// Says where the `holodeck` command is. PDF and Office files are converted by it in a child process with limits on time
/// and memory. Without this, one on the `PATH` does it; without that, they are converted in this process, unprotected.
/// Only the first call counts.
pub fn convert_documents_with(command: impl Into<PathBuf>) {
    let _ = COMMAND.set(command.into());
}

/// What converts the documents of an agent; it keeps what took a process of its own.
pub(crate) fn converter(agent: &LoadedAgent, env: &Env) -> Converter {
    let path = env.get("PATH").map(OsStr::new);
    let command = COMMAND.get().cloned().or_else(|| which("holodeck", path));
    let isolation = match command {
        Some(command) => Isolation::by_command(command),
        None => Isolation::None,
    };
    let converter = Converter::new(isolation).cache(agent.execution.cache_dir.value.join("documents"));
    match tesseract(env) {
        Some(program) => {
            converter.tesseract(program, ChildEnv::inherit(BASE_VARIABLES, |name| env.get(name)))
        }
        None => converter,
    }
}

/// What reads the text in pictures, if it is there.
pub(crate) fn tesseract(env: &Env) -> Option<PathBuf> {
    which("tesseract", env.get("PATH").map(OsStr::new))
}

/// Whether files of the web are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Yes,
    No,
}

/// What gets the files of the web that an agent's file names.
pub(crate) fn fetcher(agent: &LoadedAgent, env: &Env, keep: Keep) -> Result<Fetcher, SetupError> {
    let http = HttpOptions::from_variables(|name| env.get(name).map(str::to_owned));
    let folder = agent.execution.cache_dir.value.join("downloads");
    let options = FetchOptions {
        timeout: agent.execution.download_timeout.value,
        addresses: if agent.execution.allow_private_urls.value {
            Addresses::Any
        } else {
            Addresses::Public
        },
        cache: (keep == Keep::Yes).then_some(folder),
        ..FetchOptions::default()
    };
    Fetcher::new(&http, options)
}
