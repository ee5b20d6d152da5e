//! Where a run writes what it is asked to: checked before anything runs, as a run costs time and money.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use holodeck::{
    RunInputs, is_recording,
    runner::{Format, ReportError, RunOutcome, write_report},
};

use crate::failure::Problem;

/// How much of the beginning and of the end of a file is looked at to recognise it.
const LOOK: u64 = 4096;

/// Names of the standard output.
const STDOUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Files that are not recognised may be written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overwrite {
    /// No.
    Known,
    /// Yes: `--force`.
    Anything,
}

/// The reports that were asked for.
#[derive(Debug)]
pub(super) struct Reports {
    wanted: Vec<(Format, Target)>,
}

#[derive(Debug)]
enum Target {
    Stdout,
    Null,
    File(PathBuf),
}

impl Target {
    fn of(path: PathBuf) -> Self {
        match path.to_str() {
            Some(name) if STDOUT.contains(&name) => Self::Stdout,
            Some("/dev/null") => Self::Null,
            _ => Self::File(path),
        }
    }
}

impl Reports {
    pub(super) fn new(wanted: impl Iterator<Item = (Format, PathBuf)>) -> Result<Self, Problem> {
        let wanted: Vec<_> = wanted.map(|(format, path)| (format, Target::of(path))).collect();
        let reports = Self { wanted };
        let mut paths = BTreeSet::new();
        for path in reports.paths() {
            if !paths.insert(plain(&path)) {
                return Err(Problem::config(format!(
                    "two reports would be written to `{}`",
                    path.display()
                )));
            }
        }
        if reports
            .wanted
            .iter()
            .filter(|(_, target)| matches!(target, Target::Stdout))
            .count()
            > 1
        {
            return Err(Problem::config(
                "two reports would be written to the standard output",
            ));
        }
        Ok(reports)
    }

    /// Files that are written.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.wanted.iter().filter_map(|(_, target)| match target {
            Target::File(path) => Some(path.clone()),
            Target::Stdout | Target::Null => None,
        })
    }

    /// Whether one of them takes the place of the summary.
    pub(super) fn use_stdout(&self) -> bool {
        self.wanted
            .iter()
            .any(|(_, target)| matches!(target, Target::Stdout))
    }

    /// Refuses targets that cannot or must not be written.
    pub(super) fn check(&self, inputs: &RunInputs, overwrite: Overwrite) -> Result<(), Problem> {
        for (format, target) in &self.wanted {
            if let Target::File(path) = target {
                let was_report = |path: &Path| looks_like(*format, path);
                check(
                    path,
                    &format!("{} report", format.as_str()),
                    inputs,
                    overwrite,
                    was_report,
                )?;
            }
        }
        Ok(())
    }

    /// Writes all; one that fails keeps no other from being written.
    pub(super) fn write(&self, outcome: &RunOutcome) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (format, target) in &self.wanted {
            let (name, written) = match target {
                Target::Stdout => ("-".into(), write(*format, outcome, io::stdout())),
                Target::Null => continue,
                Target::File(path) => (path.display().to_string(), replace(*format, path, outcome)),
            };
            if let Err(error) = written {
                problems.push(Problem::execution(format!(
                    "writing the report `{name}`: {error}"
                )));
            }
        }
        problems
    }
}

/// Refuses a recording that cannot or must not be written.
pub(super) fn check_recording(path: &Path, inputs: &RunInputs, overwrite: Overwrite) -> Result<(), Problem> {
    check(path, "recording", inputs, overwrite, is_recording)
}

fn check(
    path: &Path,
    what: &str,
    inputs: &RunInputs,
    overwrite: Overwrite,
    is_former: impl Fn(&Path) -> bool,
) -> Result<(), Problem> {
    let refused =
        |why: &str| Problem::config(format!("cannot write the {what} to `{}`: {why}", path.display()));
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => return Err(refused("it is a directory")),
        Ok(about) if !about.is_file() => {
            return Err(
                refused("it is not a regular file").with_hint("reports also go to `-` and `/dev/null`")
            );
        }
        Ok(about) => {
            let is_former = about.len() == 0 || is_former(path);
            if inputs.contains(path) || (!is_former && inputs.searches(path)) {
                return Err(refused("this run reads it").with_hint("choose another path"));
            }
            if !is_former && overwrite == Overwrite::Known {
                let why = format!("it exists and is not a {what} of holodeck");
                return Err(refused(&why).with_hint("choose another path, or overwrite it with `--force`"));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(refused(&reason(&error))),
    }
    try_out(path).map_err(|error| refused(&reason(&error)))
}

/// Makes the folder and the file beside the target that is renamed to it, and removes that file.
fn try_out(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let partial = partial(path);
    drop(private(&partial)?);
    fs::remove_file(&partial)
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a part of the path is a file".to_owned()
        }
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        _ => error.to_string(),
    }
}

fn looks_like(format: Format, path: &Path) -> bool {
    let look = || {
        let mut file = File::open(path)?;
        let mut begin = Vec::new();
        (&mut file).take(LOOK).read_to_end(&mut begin)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOOK)))?;
        let mut end = Vec::new();
        file.take(LOOK).read_to_end(&mut end)?;
        Ok::<_, io::Error>((begin, end))
    };
    look().is_ok_and(|(begin, end)| {
        format.wrote(&String::from_utf8_lossy(&begin), &String::from_utf8_lossy(&end))
    })
}

/// In one step, so that no one reads half a report.
fn replace(format: Format, path: &Path, outcome: &RunOutcome) -> Result<(), ReportError> {
    let partial = partial(path);
    let written = (|| {
        write(format, outcome, private(&partial)?)?;
        Ok(fs::rename(&partial, path)?)
    })();
    if written.is_err() {
        // It may not be there at all.
        let _ = fs::remove_file(&partial);
    }
    written
}

fn write(format: Format, outcome: &RunOutcome, out: impl Write) -> Result<(), ReportError> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    outcome.with_view(|view| write_report(format, view, &mut out))?;
    out.flush()?;
    Ok(())
}

/// A file that no other user can read: a report holds questions and answers.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// The same path however it is typed.
fn plain(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| *part != std::path::Component::CurDir)
        .collect()
}
