//! Converters and fetchers of documents.

use std::{ffi::OsStr, path::PathBuf, sync::OnceLock};

use holodeck_documents::{Addresses, Converter, FetchOptions, Fetcher, Isolation};
use holodeck_http::{HttpOptions, SetupError};
use holodeck_model::{Env, ResolvedAgent};
use holodeck_process::{BASE_VARIABLES, ChildEnv, which};

/// The program that converts documents in a process of its own.
static COMMAND: OnceLock<PathBuf> = OnceLock::new();

/// Sets the path of the `holodeck` command, which converts PDF and Office files in a child process with limits on time
/// and memory. By default it is looked up on the `PATH`; if there is none, files are converted in this process without
/// limits. Only the first call has an effect.
pub fn convert_documents_with(command: impl Into<PathBuf>) {
    let _ = COMMAND.set(command.into());
}

/// The converter for the documents of an agent. It caches the results of child processes.
pub(crate) fn converter(agent: &ResolvedAgent, env: &Env) -> Converter {
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

/// The program that reads the text in images, if it is installed.
pub(crate) fn tesseract(env: &Env) -> Option<PathBuf> {
    which("tesseract", env.get("PATH").map(OsStr::new))
}

/// Whether files from the web are cached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caching {
    On,
    Off,
}

/// The fetcher for files from the web that an agent's file names.
pub(crate) fn fetcher(agent: &ResolvedAgent, env: &Env, caching: Caching) -> Result<Fetcher, SetupError> {
    let http = HttpOptions::from_variables(|name| env.get(name).map(str::to_owned));
    let folder = agent.execution.cache_dir.value.join("downloads");
    let options = FetchOptions {
        timeout: agent.execution.download_timeout.value,
        addresses: if agent.execution.allow_private_urls.value {
            Addresses::Any
        } else {
            Addresses::Public
        },
        cache: (caching == Caching::On).then_some(folder),
        ..FetchOptions::default()
    };
    Fetcher::new(&http, options)
}
