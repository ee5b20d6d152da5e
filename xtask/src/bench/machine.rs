//! The machine the figures come from.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::{host, served};

/// Facts about the machine that a reader needs to judge the figures.
pub(super) struct Machine {
    cores: usize,
    processor: String,
    kernel: String,
    compiler: String,
    revision: String,
    date: String,
    /// Load average of the last minute, before the build.
    load: String,
    /// The program that is measured in the place of the release build.
    program: Option<PathBuf>,
}

impl Machine {
    /// Looks at it, before `program` or the release build is measured on it.
    pub(super) fn look(program: Option<&Path>) -> Result<Self> {
        let read =
            |path: &str| std::fs::read_to_string(path).with_context(|| format!("failed to read {path}"));
        let load = read("/proc/loadavg")?;
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            processor: processor(&read("/proc/cpuinfo")?).to_owned(),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            compiler: host::first_line("rustc", &["--version"]).unwrap_or_default(),
            revision: host::first_line("git", &["describe", "--always", "--dirty"]).unwrap_or_default(),
            date: host::first_line("date", &["-u", "+%Y-%m-%d"]).unwrap_or_default(),
            load: load.split_whitespace().next().unwrap_or_default().to_owned(),
            program: program.map(std::path::absolute).transpose()?,
        })
    }

    /// The `holodeck` to measure.
    pub(super) fn program(&self) -> Result<PathBuf> {
        match &self.program {
            Some(program) => Ok(program.clone()),
            None => served::build(served::Profile::Release),
        }
    }

    pub(super) fn describe(&self) -> String {
        let Self {
            cores,
            processor,
            kernel,
            compiler,
            revision,
            date,
            load,
            program,
        } = self;
        let build = if program.is_some() {
            "the distributed program"
        } else {
            "the release build"
        };
        format!(
            "Measured {date}, {build} at revision {revision}: {cores} cores, {processor}, Linux {kernel}, {compiler}; load \
             average before the start {load}."
        )
    }
}

/// The name of the first processor.
fn processor(cpuinfo: &str) -> &str {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let mut names = fields.filter(|(key, _)| key.trim() == "model name");
    names.next().map_or("unknown processor", |(_, name)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::processor;

    #[test]
    fn reads_the_processor() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(processor(text), "Some CPU @ 2 GHz");
        assert_eq!(processor("CPU part : 0xd40\n"), "unknown processor");
    }
}
