//! A program that is kept running: one line of JSON in, one line of JSON out. Dropping it ends it with all that it started.

use std::{fmt, time::Duration};

use holodeck_process::{ChildProcess, ProcessError, ProcessSpec};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

/// The most that a program may print for one answer.
pub(crate) const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// How much of an answer is shown in an error.
pub(crate) const SHOWN: usize = 200;

/// How long the rest of stderr is awaited after the end of a program.
const DRAIN: Duration = Duration::from_millis(250);

/// A running program.
pub(crate) struct Kept {
    child: ChildProcess,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    /// The id of the last request.
    last: u64,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.child.id()).finish()
    }
}

impl Kept {
    pub(crate) fn start(spec: &ProcessSpec) -> Result<Self, ProcessError> {
        let mut child = ChildProcess::spawn(spec)?;
        let (stdin, stdout) = (child.take_stdin(), child.take_stdout());
        Ok(Self {
            child,
            stdin,
            stdout: stdout.map(BufReader::new),
            last: 0,
        })
    }

    pub(crate) fn is_running(&mut self) -> bool {
        !self.child.has_ended()
    }

    /// Sends a request and waits for the line with its id. Lines without `mark` are what a function prints.
    pub(crate) async fn ask(&mut self, mut request: Value, mark: &str) -> Result<Value, String> {
        self.last += 1;
        let id = self.last;
        if let Some(fields) = request.as_object_mut() {
            fields.insert("id".to_owned(), id.into());
        }
        let line = format!("{request}\n");
        let sent = match &mut self.stdin {
            Some(stdin) => match stdin.write_all(line.as_bytes()).await {
                Ok(()) => stdin.flush().await,
                Err(error) => Err(error),
            },
            None => Ok(()),
        };
        if sent.is_err() {
            return Err(self.ended("it ended before it read the request").await);
        }
        loop {
            let Some(line) = self.line().await? else {
                return Err(self.ended("it ended without an answer").await);
            };
            let Some(answer) = line.strip_prefix(mark) else {
                continue;
            };
            if answer.trim().is_empty() {
                continue;
            }
            let shown = || {
                answer
                    .chars()
                    .take(SHOWN)
                    .collect::<String>()
                    .escape_debug()
                    .to_string()
            };
            let value: Value = serde_json::from_str(answer).map_err(|error| {
                format!("it printed a line that is no JSON ({error}): `{}`; everything but answers belongs on stderr", shown())
            })?;
            return match value.get("id") {
                Some(found) if *found == id => Ok(value),
                Some(found) => Err(format!("it answered with the id {found} instead of {id}")),
                None => Err(format!("its answer has no `id`: `{}`", shown())),
            };
        }
    }

    /// The next line; `None` at the end.
    async fn line(&mut self) -> Result<Option<String>, String> {
        let Some(stdout) = &mut self.stdout else {
            return Ok(None);
        };
        let mut line = Vec::new();
        loop {
            let read = stdout.fill_buf().await.map_err(|error| error.to_string())?;
            if read.is_empty() {
                // A line without an end is not whole.
                return Ok(None);
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(read.len(), |end| end + 1);
            line.extend_from_slice(read.get(..end.unwrap_or(taken)).unwrap_or_default());
            stdout.consume(taken);
            if line.len() > MAX_ANSWER {
                return Err(format!("it printed more than {MAX_ANSWER} bytes in one line"));
            }
            if end.is_some() {
                let line = String::from_utf8(line)
                    .map_err(|_invalid| "it printed a line that is no UTF-8".to_owned())?;
                return Ok(Some(line.strip_suffix('\r').map(str::to_owned).unwrap_or(line)));
            }
        }
    }

    /// How it ended.
    async fn ended(&mut self, what: &str) -> String {
        self.stdin = None;
        let exit = tokio::time::timeout(DRAIN, self.child.wait()).await;
        self.child.settle_stderr(DRAIN).await;
        let exit = match exit {
            Ok(Ok(exit)) => format!("{what} ({exit})"),
            _ => what.to_owned(),
        };
        described(&exit, &self.child.stderr())
    }
}

/// How a process ended, with what it said last.
pub(crate) fn described(exit: &str, said: &str) -> String {
    let said = said.trim();
    if said.is_empty() {
        exit.to_owned()
    } else {
        format!("{exit}: {said}")
    }
}
