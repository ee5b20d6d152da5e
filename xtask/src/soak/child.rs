//! A program that listens on loopback, ended when dropped. One that does not come to listen is an error with its last lines.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::host;

/// How many lines of what a program printed an error shows.
const SHOWN_LINES: usize = 30;

/// A running program.
pub(super) struct Listening {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

/// A port that is free now.
pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Listening {
    /// Starts a program in a folder of its own that is to listen on a port, and waits until it does.
    pub(super) fn start(
        mut command: Command,
        folder: tempfile::TempDir,
        port: u16,
        patience: Duration,
    ) -> Result<Self> {
        let log = fs::File::create(folder.path().join("log"))?;
        let line = host::show(&command);
        let child = command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("failed to start `{line}`"))?;
        let mut listening = Self { child, port, folder };
        let started = Instant::now();
        loop {
            if let Some(ended) = listening.child.try_wait()? {
                bail!(
                    "`{line}` ended ({ended}) before it listened:\n{}",
                    listening.log()
                );
            }
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(listening);
            }
            if started.elapsed() > patience {
                let seconds = patience.as_secs();
                bail!("`{line}` does not listen after {seconds} s:\n{}", listening.log());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// `http://127.0.0.1:PORT`.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// All that it printed.
    pub(super) fn printed(&self) -> String {
        let log = fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The last lines that it printed.
    pub(super) fn log(&self) -> String {
        let log = self.printed();
        let lines: Vec<&str> = log.lines().collect();
        let skipped = lines.len().saturating_sub(SHOWN_LINES);
        lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended already; there is nothing left to do then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
