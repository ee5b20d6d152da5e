//! `holodeck serve` as a process, a model behind it, and clients of it: what `soak` and `bench events` measure.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{host, workspace::Metadata};

pub(crate) mod client;
pub(crate) mod load;
pub(crate) mod model;

/// A profile of Cargo, and where its programs are.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    Dev,
    Release,
}

/// Builds the program, and returns its path.
pub(crate) fn build(profile: Profile) -> Result<PathBuf> {
    let mut cargo = host::cargo(["build", "--locked", "-p", "holodeck-cli"]);
    let folder = match profile {
        Profile::Dev => "debug",
        Profile::Release => {
            cargo.arg("--release");
            "release"
        }
    };
    host::run(&mut cargo)?;
    Ok(Metadata::load()?.target_directory().join(folder).join("holodeck"))
}

/// A server that runs until it is dropped.
pub(crate) struct Served {
    child: Child,
    address: String,
    /// Its own folder, unless others use it.
    folder: Option<tempfile::TempDir>,
}

impl Served {
    /// Serves this agent from a folder of its own.
    pub(crate) fn start(program: &Path, agent: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("holodeck-serve-").tempdir()?;
        std::fs::write(folder.path().join("agent.yaml"), agent)?;
        Self::start_in(program, folder, &[], &[])
    }

    /// Serves the `agent.yaml` of a folder.
    pub(crate) fn start_in(
        program: &Path,
        folder: tempfile::TempDir,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Result<Self> {
        let mut served = Self::start_at(program, folder.path(), args, env, Stdio::inherit())?;
        served.folder = Some(folder);
        Ok(served)
    }

    /// The same in a folder that others may use, with its log where the caller wants it.
    pub(crate) fn start_at(
        program: &Path,
        folder: &Path,
        args: &[&str],
        env: &[(&str, &str)],
        log: Stdio,
    ) -> Result<Self> {
        let mut child = host::command(program)
            .args(["serve", "agent.yaml", "--port", "0", "--json"])
            .args(args)
            .envs(env.iter().copied())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("failed to start `{}`", program.display()))?;
        let stdout = child.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = serde_json::from_str::<Value>(&line).ok().and_then(|listening| {
            Some(
                listening
                    .get("url")?
                    .as_str()?
                    .strip_prefix("http://")?
                    .to_owned(),
            )
        });
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            anyhow::bail!("`holodeck serve` did not start");
        };
        Ok(Self {
            child,
            address,
            folder: None,
        })
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, as `-STOP`.
    pub(crate) fn signal(&self, signal: &str) -> Result<()> {
        host::run(host::command("kill").args([signal, &self.child.id().to_string()]))
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Its resident memory in bytes: at present (`VmRSS`), or the peak (`VmHWM`).
    pub(crate) fn memory(&self, field: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|line| {
            line.trim_start_matches(':')
                .trim()
                .strip_suffix(" kB")?
                .parse::<u64>()
                .ok()
        });
        Ok(kib.with_context(|| format!("{path} has no {field}"))? * 1024)
    }

    /// Ends it with a signal, and checks that it ended well.
    pub(crate) fn end(mut self) -> Result<()> {
        self.signal("-TERM")?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.folder.take());
    }
}
