//! Decides which report files and recordings a run may write, before anything runs: a run costs time and money.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    rc::Rc,
};

use holodeck::{
    RunInputs, check_target, is_recording,
    model::{Env, Redactor},
    reports::{
        CasePlaces, Format, ReportError, is_baseline, other_baseline_owner, write_empty_report, write_report,
    },
    runner::RunOutcome,
    runs::RunOwner,
    target_reason,
    yaml::LoadedAgent,
};

use crate::{
    command::places::{file_name, finding_place, user_variable},
    failure::Problem,
    render::shown_path,
};

/// Bytes read from the beginning and the end of a file to recognise it.
const SAMPLE_LEN: u64 = 4096;

/// Paths of the standard output.
const STDOUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Which existing files may be overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overwrite {
    /// Only those that holodeck wrote.
    Known,
    /// All, with `--force`.
    Anything,
}

/// The requested reports.
#[derive(Debug)]
pub(super) struct Reports {
    targets: Vec<(Format, Target)>,
    /// A file of the CI server to which a summary is added.
    step_summary: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub(super) enum Target {
    Stdout,
    Null,
    File(PathBuf),
}

/// GitHub shows this file at the page of the job.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

impl Target {
    pub(super) fn of(path: PathBuf) -> Self {
        match path.to_str() {
            Some(name) if STDOUT.contains(&name) => Self::Stdout,
            Some("/dev/null") => Self::Null,
            _ => Self::File(path),
        }
    }
}

impl Reports {
    pub(super) fn new(targets: impl Iterator<Item = (Format, PathBuf)>) -> Result<Self, Problem> {
        let targets: Vec<_> = targets.map(|(format, path)| (format, Target::of(path))).collect();
        let reports = Self {
            targets,
            step_summary: None,
        };
        let mut paths = BTreeSet::new();
        for path in reports.paths() {
            if !paths.insert(normalize(&path)) {
                return Err(Problem::config(format!(
                    "two reports would be written to `{}`",
                    path.display()
                )));
            }
        }
        if reports
            .targets
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

    /// The same reports, with `name` in the names of their files: `report.html` becomes `report-name.html`.
    pub(super) fn named(self, name: &str) -> Self {
        let targets = self.targets;
        let targets = targets.into_iter().map(|(format, target)| {
            let target = match target {
                Target::File(path) => Target::File(with_name(&path, name)),
                other => other,
            };
            (format, target)
        });
        Self {
            targets: targets.collect(),
            ..self
        }
    }

    /// The pages that show all runs of a matrix; the reports of its runs have names of their own.
    pub(super) fn of_matrix(&self) -> Self {
        let pages = self.targets.iter();
        let pages =
            pages.filter(|(format, target)| *format == Format::Html && matches!(target, Target::File(_)));
        Self {
            targets: pages.cloned().collect(),
            step_summary: None,
        }
    }

    /// The files to write.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.targets.iter().filter_map(|(_, target)| match target {
            Target::File(path) => Some(path.clone()),
            Target::Stdout | Target::Null => None,
        })
    }

    /// The files of reports that an earlier run wrote.
    pub(super) fn older(&self) -> impl Iterator<Item = &Path> {
        self.targets.iter().filter_map(|(format, target)| match target {
            // Opening a pipe would wait for a writer.
            Target::File(path) if path.is_file() && looks_like(*format, path) => Some(path.as_path()),
            Target::File(_) | Target::Stdout | Target::Null => None,
        })
    }

    /// Adds the summary of a step of GitHub Actions, if a report for it is requested and there is a place for one.
    pub(super) fn add_step_summary(&mut self, env: &Env) {
        let for_github = self.targets.iter().any(|(format, _)| *format == Format::Github);
        if let Some(path) = user_variable(env, STEP_SUMMARY).filter(|_| for_github) {
            self.step_summary = Some(PathBuf::from(path));
        }
    }

    /// The places of the cases of an agent, if a report shows them.
    pub(super) fn case_places(&self, agent: &LoadedAgent, file: &Path, env: &Env) -> Option<Rc<CasePlaces>> {
        if !self.targets.iter().any(|(format, _)| format.has_places()) {
            return None;
        }
        let places = agent.places.clone();
        let names = env.clone();
        Some(Rc::new(CasePlaces {
            agent: file_name(env, file),
            of_case: Box::new(move |index| {
                let place = places.locate(&format!("test_cases.{index}"))?;
                Some(finding_place(&names, &place))
            }),
        }))
    }

    /// Whether a report replaces the summary on stdout.
    pub(super) fn use_stdout(&self) -> bool {
        self.targets
            .iter()
            .any(|(_, target)| matches!(target, Target::Stdout))
    }

    /// Refuses targets that cannot or must not be written.
    pub(super) fn check(&self, inputs: &RunInputs, overwrite: Overwrite) -> Result<(), Problem> {
        for (format, target) in &self.targets {
            if let Target::File(path) = target {
                let is_report = |path: &Path| looks_like(*format, path);
                check(
                    path,
                    &format!("{} report", format.as_str()),
                    inputs,
                    overwrite,
                    is_report,
                )?;
            }
        }
        Ok(())
    }

    /// Writes all reports, also after one has failed. Returns the files that were written.
    pub(super) fn write(
        &self,
        outcome: &RunOutcome,
        places: Option<&Rc<CasePlaces>>,
    ) -> (Vec<PathBuf>, Vec<Problem>) {
        self.write_each(|format, out| {
            outcome.with_view(|view| match places {
                Some(places) => write_report(format, &view.with_places(places), out),
                None => write_report(format, view, out),
            })
        })
    }

    /// Writes all reports of an agent that had nothing to run.
    pub(super) fn write_empty(&self, agent: &str, path: &Path) -> (Vec<PathBuf>, Vec<Problem>) {
        let path = path.display().to_string();
        self.write_each(|format, out| write_empty_report(format, agent, &path, out))
    }

    /// Writes these pages.
    pub(super) fn write_pages(
        &self,
        render: impl Fn(&Path, &mut dyn Write) -> Result<(), ReportError>,
    ) -> (Vec<PathBuf>, Vec<Problem>) {
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for path in self.paths() {
            let written = replace(&path, |file| {
                let mut out = BufWriter::with_capacity(1 << 16, file);
                render(&path, &mut out)?;
                Ok::<_, ReportError>(out.flush()?)
            });
            match written {
                Ok(()) => files.push(path),
                Err(error) => problems.push(cannot_write(&path.display().to_string(), &error)),
            }
        }
        (files, problems)
    }

    fn write_each(
        &self,
        render: impl Fn(Format, &mut dyn Write) -> Result<(), ReportError>,
    ) -> (Vec<PathBuf>, Vec<Problem>) {
        let write = |format: Format, out: &mut dyn Write| {
            let mut out = BufWriter::with_capacity(1 << 16, out);
            render(format, &mut out)?;
            Ok::<_, ReportError>(out.flush()?)
        };
        let mut files = Vec::new();
        let mut problems = Vec::new();
        for (format, target) in &self.targets {
            let (name, written) = match target {
                Target::Stdout => ("-".into(), write(*format, &mut io::stdout())),
                Target::Null => continue,
                Target::File(path) => {
                    let written = replace(path, |mut file| write(*format, &mut file));
                    (path.display().to_string(), written)
                }
            };
            match (written, target) {
                (Ok(()), Target::File(path)) => files.push(path.clone()),
                (Ok(()), _) => {}
                (Err(error), _) => problems.push(cannot_write(&name, &error)),
            }
        }
        if let Some(path) = &self.step_summary {
            let file = File::options().append(true).create(true).open(path);
            let file = file.map_err(ReportError::from);
            if let Err(error) = file.and_then(|mut file| write(Format::Markdown, &mut file)) {
                let path = path.display();
                let problem = format!("cannot add to the step summary `{path}`: {error}");
                problems.push(Problem::execution(problem));
            }
        }
        (files, problems)
    }
}

fn cannot_write(name: &str, error: &ReportError) -> Problem {
    Problem::execution(format!("cannot write the report `{name}`: {error}"))
}

/// The path of the report of one of several runs: `report.html` becomes `report-name.html`.
pub(super) fn with_name(path: &Path, name: &str) -> PathBuf {
    let mut file = path.file_stem().unwrap_or_default().to_owned();
    file.push(format!("-{name}"));
    if let Some(extension) = path.extension() {
        file.push(".");
        file.push(extension);
    }
    path.with_file_name(file)
}

/// Refuses a recording that cannot or must not be written.
pub(super) fn check_recording(path: &Path, inputs: &RunInputs, overwrite: Overwrite) -> Result<(), Problem> {
    check(path, "recording", inputs, overwrite, is_recording)
}

/// Refuses a baseline that cannot or must not be written.
pub(super) fn check_baseline(
    path: &Path,
    owner: &RunOwner,
    redactor: &Redactor,
    inputs: &RunInputs,
    overwrite: Overwrite,
) -> Result<(), Problem> {
    let is_own = |path: &Path| read_beginning(path).is_ok_and(|beginning| is_baseline(&beginning));
    check(path, "baseline", inputs, overwrite, is_own)?;
    match other_baseline_owner(path, owner, redactor) {
        Some(other) if overwrite == Overwrite::Known => Err(Problem::config(format!(
            "cannot write the baseline to `{}`: it is the baseline of another agent, {other}",
            path.display()
        ))
        .with_hint(
            "agents in one folder need baselines of their own: `--save-baseline NAME`; `--force` overwrites it",
        )),
        _ => Ok(()),
    }
}

/// Saves the baseline of a complete run. Returns its path, or why it was not saved.
pub(super) fn write_baseline(path: &Path, outcome: &RunOutcome) -> (Option<PathBuf>, Option<Problem>) {
    let saved = shown_path(path);
    let shown = saved.display();
    if !outcome.is_complete() {
        let problem = Problem::execution(format!(
            "the baseline `{shown}` was not saved, because the run did not finish"
        ));
        return (None, Some(problem));
    }
    let written = replace_with(path, PRIVATE, |file| {
        let mut out = BufWriter::with_capacity(1 << 16, file);
        outcome.write_baseline(&mut out)?;
        Ok::<_, ReportError>(out.flush()?)
    });
    match written {
        Ok(()) => (Some(saved), None),
        Err(error) => {
            let problem = Problem::execution(format!("cannot write the baseline `{shown}`: {error}"));
            (None, Some(problem))
        }
    }
}

/// The first bytes of a file.
pub(super) fn read_beginning(path: &Path) -> io::Result<String> {
    let mut beginning = Vec::new();
    File::open(path)?.take(SAMPLE_LEN).read_to_end(&mut beginning)?;
    Ok(String::from_utf8_lossy(&beginning).into_owned())
}

pub(super) fn check(
    path: &Path,
    what: &str,
    inputs: &RunInputs,
    overwrite: Overwrite,
    is_own_output: impl Fn(&Path) -> bool,
) -> Result<(), Problem> {
    let overwrites = overwrite == Overwrite::Anything;
    check_target(path, what, inputs, overwrites, is_own_output).map_err(|refused| {
        let problem = Problem::config(refused.message);
        match refused.hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    })?;
    check_writable(path).map_err(|error| {
        let reason = target_reason(&error);
        Problem::config(format!(
            "cannot write the {what} to `{}`: {reason}",
            path.display()
        ))
    })
}

/// Creates the folder and the temporary file beside the target, and removes that file again.
fn check_writable(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let partial = partial(path);
    drop(create(&partial, PRIVATE)?);
    fs::remove_file(&partial)
}

fn looks_like(format: Format, path: &Path) -> bool {
    let read_sample = || {
        let mut file = File::open(path)?;
        let mut begin = Vec::new();
        (&mut file).take(SAMPLE_LEN).read_to_end(&mut begin)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(SAMPLE_LEN)))?;
        let mut end = Vec::new();
        file.take(SAMPLE_LEN).read_to_end(&mut end)?;
        Ok::<_, io::Error>((begin, end))
    };
    read_sample().is_ok_and(|(begin, end)| {
        format.recognizes(&String::from_utf8_lossy(&begin), &String::from_utf8_lossy(&end))
    })
}

/// Writes a file that the user named: the umask decides who can read it, or the mode of the file that is replaced. Readers never
/// see a partial file: it is written beside it and renamed.
pub(super) fn replace<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(File) -> Result<(), E>,
) -> Result<(), E> {
    let mode = fs::metadata(path).map_or(0o666, |existing| existing.permissions().mode() & 0o777);
    replace_with(path, mode, write)
}

fn replace_with<E: From<io::Error>>(
    path: &Path,
    mode: u32,
    write: impl FnOnce(File) -> Result<(), E>,
) -> Result<(), E> {
    let partial = partial(path);
    let written = (|| {
        write(create(&partial, mode)?)?;
        Ok(fs::rename(&partial, path)?)
    })();
    if written.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// A file that no other user can read.
const PRIVATE: u32 = 0o600;

/// Creates a file. One that a killed run left is removed first, as it may have been replaced by a link.
fn create(path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(mode)
        .open(path)
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// The path without `.` components, for comparison.
fn normalize(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| *part != std::path::Component::CurDir)
        .collect()
}
