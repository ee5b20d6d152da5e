//! Imports the test files of other tools: reads them from the disk, and runs their code where a person allows it.

use std::{
    cell::RefCell,
    fs, io,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use holodeck_import::{
    CodeRequest, CodeRunner, Import, ImportError, ImportedFile, Language, SourceFiles, import_deepeval,
    import_promptfoo, import_table,
};
use holodeck_model::{Env, absolute_path, io_reason};
use holodeck_process::{AtLimit, BASE_VARIABLES, ChildEnv, ProcessSpec, run};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The largest file of a source.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How long code of a source may run.
const MAX_TIME: Duration = Duration::from_secs(30);
/// The longest result of code.
const MAX_RESULT: usize = 16 * 1024 * 1024;

const RUN_JAVASCRIPT: &str = include_str!("import/run.mjs");
const RUN_PYTHON: &str = include_str!("import/run.py");

/// The tool that a source is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportedTool {
    /// promptfoo, whose code may run or not.
    Promptfoo {
        /// Whether code of the source runs.
        run_code: bool,
    },
    /// DeepEval.
    Deepeval,
    /// A table: the column, and the field of a case that it is.
    Table(Vec<(String, String)>),
}

/// Why an import wrote nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportFailure {
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] ImportError),
    /// Files with another content are there.
    #[error("files exist in `{}`", .folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
        /// The files.
        files: Vec<PathBuf>,
    },
    /// A file of the source would be overwritten.
    #[error("`{}` is a file of the source", .0.display())]
    IsSource(PathBuf),
    /// A path in the folder is a link, which may lead out of it.
    #[error("`{}` is a link; files are written only in the folder of the import", .0.display())]
    IsLink(PathBuf),
    /// A file cannot be written.
    #[error("cannot write `{}`: {}", .path.display(), io_reason(.error))]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

/// Converts a source and writes the result to a folder. Existing files with another content are refused, unless `force`.
pub fn import_tests(
    tool: &ImportedTool,
    source: &Path,
    folder: &Path,
    force: bool,
    env: &Env,
) -> Result<Import, ImportFailure> {
    let files = DiskSources::default();
    let import = match tool {
        ImportedTool::Promptfoo { run_code } => {
            let back = way_back(folder, source.parent().unwrap_or(Path::new("")));
            let mut code = SourceCode::new(env);
            let code: Option<&mut dyn CodeRunner> = if *run_code { Some(&mut code) } else { None };
            import_promptfoo(source, &back, &files, code)?
        }
        ImportedTool::Deepeval => import_deepeval(source, &files)?,
        ImportedTool::Table(columns) => import_table(source, columns, &files)?,
    };
    let read = files.read.into_inner();
    let mut existing = Vec::new();
    for file in &import.files {
        let path = folder.join(&file.path);
        if let Some(link) = link_below(folder, &file.path) {
            return Err(ImportFailure::IsLink(link));
        }
        let is_source = path.canonicalize().is_ok_and(|path| read.contains(&path));
        match fs::read(&path) {
            Ok(text) if text == file.text.as_bytes() || text.is_empty() => {}
            Ok(_) if is_source => return Err(ImportFailure::IsSource(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => existing.push(path),
        }
    }
    if !force && !existing.is_empty() {
        return Err(ImportFailure::Exists {
            folder: folder.to_owned(),
            files: existing,
        });
    }
    for file in &import.files {
        let path = folder.join(&file.path);
        write(&path, file).map_err(|error| ImportFailure::Write { path, error })?;
    }
    Ok(import)
}

/// The first part of a path below a folder that is a link, also one that leads nowhere.
fn link_below(folder: &Path, path: &Path) -> Option<PathBuf> {
    let mut whole = folder.to_owned();
    path.components().find_map(|part| {
        whole.push(part);
        let is_link = fs::symlink_metadata(&whole).is_ok_and(|found| found.is_symlink());
        is_link.then(|| whole.clone())
    })
}

fn write(path: &Path, file: &ImportedFile) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, &file.text)
}

/// The path from one folder to another.
fn way_back(from: &Path, to: &Path) -> PathBuf {
    let (from, to) = (plain(&absolute_path(from)), plain(&absolute_path(to)));
    let common = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

/// An absolute path without `.` and `..`.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// The disk, and what was read of it.
#[derive(Default)]
struct DiskSources {
    read: RefCell<Vec<PathBuf>>,
}

impl SourceFiles for DiskSources {
    fn read(&self, path: &Path) -> io::Result<String> {
        String::from_utf8(self.read_bytes(path)?)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
    }

    fn read_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        if metadata.len() > MAX_BYTES {
            return Err(io::Error::other("it has more than 64 MB"));
        }
        self.read.borrow_mut().extend(path.canonicalize());
        fs::read(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            files.push(entry?.path());
        }
        files.sort();
        Ok(files)
    }
}

/// Runs code of the source in a process with limits, and with only harmless variables.
struct SourceCode {
    env: ChildEnv,
}

impl SourceCode {
    fn new(env: &Env) -> Self {
        Self {
            env: ChildEnv::inherit(BASE_VARIABLES, |name| env.get(name)),
        }
    }
}

impl CodeRunner for SourceCode {
    fn run(&mut self, request: &CodeRequest) -> Result<Value, String> {
        let (program, args) = match request.language {
            Language::JavaScript => ("node", ["--input-type=module", "-e", RUN_JAVASCRIPT].as_slice()),
            Language::Python => ("python3", ["-c", RUN_PYTHON].as_slice()),
        };
        let file = absolute_path(&request.file);
        let input = json!({"file": file, "function": request.function, "arguments": request.arguments});
        let spec = ProcessSpec::new(program, self.env.clone())
            .args(args.iter().copied())
            .current_dir(file.parent().unwrap_or(Path::new("/")))
            .stdin(input.to_string())
            .timeout(MAX_TIME)
            .stdout_limit(MAX_RESULT, AtLimit::Stop);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let never = CancellationToken::new();
        let output = runtime
            .block_on(run(&spec, &never))
            .and_then(holodeck_process::ProcessOutput::check)
            .map_err(|error| format!("its code failed: {error}"))?;
        serde_json::from_slice(&output.stdout).map_err(|_| "its code gave no JSON".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_leads_from_one_folder_to_the_other() {
        let back = |from: &str, to: &str| way_back(Path::new(from), Path::new(to));
        assert_eq!(back("/a/b/out", "/a/b"), Path::new(".."));
        assert_eq!(back("/a/out", "/a/src/x"), Path::new("../src/x"));
        assert_eq!(back("/a/b", "/a/b"), Path::new(""));
        assert_eq!(back("/a/./b/../out", "/a"), Path::new(".."));
    }
}
