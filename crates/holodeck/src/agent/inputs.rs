//! The files that a run reads and must not overwrite.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use holodeck_cassette::Cassette;
use holodeck_model::Env;
use holodeck_yaml::LoadedAgent;

use crate::{
    AnswerSource, JUDGE_STEPS, TestOptions,
    agent::inventory::{self, Named},
};

/// The files that a run reads.
#[derive(Clone, Debug, Default)]
pub struct RunInputs {
    /// Files, and folders of which every file is read.
    files: Vec<PathBuf>,
    /// Documents that are searched: files, and folders with all their contents.
    sources: Vec<PathBuf>,
}

impl RunInputs {
    /// The inputs of a run of `agent`: the files that were read to load it, and those that they and `options` name.
    pub fn new(agent: &LoadedAgent, env: &Env, options: &TestOptions) -> Self {
        let mut inputs = Self {
            files: agent.places.source_files().map(Path::to_owned).collect(),
            sources: Vec::new(),
        };
        let files = &mut inputs.files;
        let folders = [Some(agent.dir.clone()), env.user_dir()];
        for folder in folders.into_iter().flatten() {
            files.extend([folder.join(".env"), folder.join("prices.json")]);
        }
        files.push(agent.dir.join(JUDGE_STEPS));
        files.extend(options.open.prices.clone());
        match &options.open.answers {
            AnswerSource::Replay(path) => files.push(path.clone()),
            // A run that records may overwrite the recording.
            AnswerSource::AsConfigured if options.open.record.is_none() => {
                files.extend(agent.execution.replay.value.clone());
            }
            AnswerSource::AsConfigured | AnswerSource::Live => {}
        }
        for used in inventory::files(agent) {
            let paths = used.paths();
            match used.named {
                Named::Documents { .. } => inputs.sources.extend(paths),
                _ => inputs.files.extend(paths),
            }
        }
        inputs
    }

    /// Every file and folder, whether it exists or not.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().chain(&self.sources).map(PathBuf::as_path)
    }

    /// Whether `path` is one of these files, under any name, or in one of their folders.
    pub fn contains(&self, path: &Path) -> bool {
        let identity = |path: &Path| fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
        let Some(own) = identity(path) else { return false };
        self.files.iter().any(|file| identity(file) == Some(own)) || is_within(path, &self.files)
    }

    /// Whether `path` is among the documents that are searched.
    pub fn searches(&self, path: &Path) -> bool {
        is_within(path, &self.sources)
    }
}

/// Whether a file is one of these places or in one of these folders.
fn is_within(path: &Path, places: &[PathBuf]) -> bool {
    let Ok(path) = path.canonicalize() else {
        return false;
    };
    let mut places = places.iter().filter_map(|place| place.canonicalize().ok());
    places.any(|place| path.starts_with(place))
}

/// Whether a file is a recording.
pub fn is_recording(path: &Path) -> bool {
    Cassette::is_cassette(path)
}
