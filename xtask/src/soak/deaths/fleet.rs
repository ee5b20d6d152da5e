//! Processes of `holodeck serve` on one store, which are killed, frozen and started again, and requests to them that may get no
//! answer.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::served::Served;

/// The addresses at which the processes are now; clients read them.
#[derive(Clone, Default)]
pub(super) struct Addresses(Arc<Mutex<Vec<String>>>);

impl Addresses {
    pub(super) fn get(&self, number: usize) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(number % all.len().max(1)).cloned().unwrap_or_default()
    }

    fn set(&self, number: usize, address: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if number >= all.len() {
            all.resize(number + 1, String::new());
        }
        if let Some(place) = all.get_mut(number) {
            address.clone_into(place);
        }
    }
}

pub(super) struct Fleet {
    program: PathBuf,
    folder: PathBuf,
    env: Vec<(&'static str, String)>,
    processes: Vec<Process>,
    pub(super) addresses: Addresses,
}

struct Process {
    served: Served,
    /// Its size after its first round.
    first: Option<Size>,
}

/// The resources that a process holds.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    files: usize,
    threads: usize,
}

/// A process may hold this much more than after its first round: buffers of the allocator, pages of the store's cache.
const MORE_BYTES: u64 = 48 << 20;
const MORE_FILES: usize = 24;
/// More than all pools together.
const MOST_THREADS: usize = 80;

impl Fleet {
    /// Starts processes on the `agent.yaml` of a folder.
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        env: &[(&'static str, String)],
        count: usize,
    ) -> Result<Self> {
        let mut fleet = Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            env: env.to_vec(),
            processes: Vec::new(),
            addresses: Addresses::default(),
        };
        for number in 0..count {
            let process = fleet.process(number)?;
            fleet.processes.push(process);
        }
        Ok(fleet)
    }

    fn process(&self, number: usize) -> Result<Process> {
        let log = File::options().create(true).append(true).open(self.log(number))?;
        let env: Vec<_> = self
            .env
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let served = Served::start_at(&self.program, &self.folder, &[], &env, Stdio::from(log))?;
        self.addresses.set(number, served.address());
        Ok(Process { served, first: None })
    }

    fn log(&self, number: usize) -> PathBuf {
        self.folder.join(format!("log-{number}"))
    }

    fn at(&self, number: usize) -> Result<&Process> {
        self.processes.get(number).context("no such process")
    }

    pub(super) fn len(&self) -> usize {
        self.processes.len()
    }

    pub(super) fn signal(&self, number: usize, signal: &str) -> Result<()> {
        self.at(number)?.served.signal(signal)
    }

    pub(super) fn kill(&mut self, number: usize) -> Result<()> {
        self.processes
            .get_mut(number)
            .context("no such process")?
            .served
            .kill()
    }

    /// Replaces a process that was killed.
    pub(super) fn restart(&mut self, number: usize) -> Result<()> {
        let process = self.process(number)?;
        *self.processes.get_mut(number).context("no such process")? = process;
        Ok(())
    }

    /// Whether a process holds a lock for writing on a file of the folder.
    pub(super) fn holds_lock(&self, number: usize) -> Result<bool> {
        let id = self.at(number)?.served.id().to_string();
        let locks = fs::read_to_string("/proc/locks")?;
        // `1: POSIX ADVISORY WRITE 1234 08:01:42 0 EOF`
        Ok(locks.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.contains(&"WRITE") && words.contains(&id.as_str())
        }))
    }

    /// Fails if a process holds more than it did after its first round.
    pub(super) fn ensure_no_growth(&mut self) -> Result<()> {
        for (number, process) in self.processes.iter_mut().enumerate() {
            let now = size(&process.served)?;
            let first = *process.first.get_or_insert(now);
            if now.bytes > first.bytes + MORE_BYTES
                || now.files > first.files + MORE_FILES
                || now.threads > MOST_THREADS
            {
                bail!("process {number} grew from {first:?} to {now:?}");
            }
        }
        Ok(())
    }

    /// The most that a process grew, in bytes.
    pub(super) fn growth(&self) -> Result<u64> {
        let mut most = 0;
        for process in &self.processes {
            let now = size(&process.served)?.bytes;
            most = most.max(now.saturating_sub(process.first.map_or(now, |first| first.bytes)));
        }
        Ok(most)
    }
}

fn size(served: &Served) -> Result<Size> {
    let place = PathBuf::from(format!("/proc/{}", served.id()));
    let entries = |name: &str| anyhow::Ok(fs::read_dir(place.join(name))?.count());
    Ok(Size {
        bytes: served.memory("VmRSS")?,
        files: entries("fd")?,
        threads: entries("task")?,
    })
}

/// The status and the JSON of an answer; `None` if none came in time.
pub(super) fn ask(
    address: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
    patience: Duration,
) -> Option<(u16, Value)> {
    let address = address.parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&address, patience).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}
