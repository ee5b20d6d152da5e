//! The programs of `claude.hooks`: each gets the events of its kind, one after the other, and changes nothing.
//!
//! A program observes. What it writes and how it ends is dropped, except that a failure is reported; an event waits for no
//! program, and a turn neither. The events of a turn pass `observe` unchanged.

mod observe;
mod payload;

use std::{
    mem,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use holodeck_backend_api::AgentBackend;
use holodeck_model::{Env, Glob, HookConfig, HookEvent, HooksConfig, Redactor, SecretMap, ToolNames};
use holodeck_process::{AtLimit, ChildEnv, ProcessError, ProcessOutput, ProcessSpec, run};
use serde_json::Value;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use self::observe::ObservedBackend;
use crate::{
    function::{absolute, child_env},
    program::describe_exit,
};

/// How many events wait for a program. Further ones are dropped, and counted.
const WAITING: usize = 256;

/// The longest part of a program's stderr that a warning shows.
const MAX_SHOWN: usize = 300;

/// The programs of `claude.hooks` while an agent is open.
pub struct Hooks {
    programs: Vec<Hook>,
    names: ToolNames,
    redactor: Arc<Redactor>,
    /// The agent's working directory, as the programs are given it.
    folder: String,
    /// Cancelled when no further event comes: what waits then has the time of one more run.
    closing: CancellationToken,
    workers: Mutex<JoinSet<()>>,
}

/// A program and the queue of its events.
struct Hook {
    event: HookEvent,
    /// The tools of the calls that it observes; `None` for all.
    tools: Option<Vec<Glob>>,
    /// The way to its worker; `None` after the last event.
    sender: Mutex<Option<Sender<Vec<u8>>>>,
    /// The events that found no place in the queue.
    dropped: Arc<AtomicUsize>,
}

impl Hooks {
    /// Prepares the programs; no process is started before an event. They have the variables of `env` that are known to
    /// be harmless. Needs a runtime.
    pub fn new(
        config: &HooksConfig,
        names: ToolNames,
        env: &Env,
        redactor: Arc<Redactor>,
        folder: &Path,
    ) -> Self {
        let env = child_env(env, &SecretMap::default());
        let closing = CancellationToken::new();
        let mut workers = JoinSet::new();
        let hooks = config.each().map(|(event, pointer, hook)| {
            let (sender, receiver) = channel(WAITING);
            let dropped = Arc::default();
            let worker = Worker {
                spec: spec(hook, env.clone()),
                pointer,
                limit: hook.timeout(),
                redactor: Arc::clone(&redactor),
                dropped: Arc::clone(&dropped),
                failures: 0,
                runs: 0,
            };
            workers.spawn(worker.work(receiver, closing.clone()));
            Hook {
                event,
                tools: hook.tools.as_ref().map(|tools| {
                    let tools = tools.as_slice().iter();
                    tools.map(|tool| Glob::new(tool)).collect()
                }),
                sender: Mutex::new(Some(sender)),
                dropped,
            }
        });
        Self {
            programs: hooks.collect(),
            names,
            redactor,
            folder: absolute(folder).display().to_string(),
            closing,
            workers: Mutex::new(workers),
        }
    }

    /// `backend`, whose turns the programs observe.
    pub fn observe(self, backend: Arc<dyn AgentBackend>) -> Arc<dyn AgentBackend> {
        Arc::new(ObservedBackend::new(backend, Arc::new(self)))
    }

    fn observes(&self, event: HookEvent) -> bool {
        self.programs.iter().any(|hook| hook.event == event)
    }

    /// Gives an event to the programs that observe it, without waiting. `tool` is that of a call.
    fn emit(&self, event: HookEvent, tool: Option<&str>, payload: impl FnOnce() -> Value) {
        let mut hooks = self
            .programs
            .iter()
            .filter(|hook| hook.event == event && self.is_about(hook, tool))
            .peekable();
        if hooks.peek().is_none() {
            return;
        }
        let input = payload::bytes(payload(), event, &self.folder, &self.redactor);
        for hook in hooks {
            hook.push(&input);
        }
    }

    fn is_about(&self, hook: &Hook, tool: Option<&str>) -> bool {
        let (Some(globs), Some(tool)) = (&hook.tools, tool) else {
            return true;
        };
        match self.names.identify(tool) {
            Some(identity) => globs.iter().any(|glob| self.names.matches(glob, &identity)),
            None => globs.iter().any(|glob| glob.matches(tool)),
        }
    }

    /// Waits until every program has had its events, at most for the time that one run of each may take.
    async fn close(&self) {
        for hook in &self.programs {
            *hook.sender.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.closing.cancel();
        let mut workers = mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        while workers.join_next().await.is_some() {}
    }
}

impl Hook {
    fn push(&self, input: &[u8]) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender
            && sender.try_send(input.to_vec()).is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The process of a hook. As for other programs of the YAML: a bare name is looked up, a path is relative to the file that
/// names it.
fn spec(hook: &HookConfig, env: ChildEnv) -> ProcessSpec {
    let folder = absolute(hook.command.base());
    let command = hook.command.as_str();
    let program = if command.contains('/') {
        folder.join(command)
    } else {
        command.into()
    };
    ProcessSpec::new(program, env)
        .args(&hook.args)
        .current_dir(folder)
        .stdout_limit(0, AtLimit::Drop)
        .stderr_kept(4 * 1024)
        .grace(Duration::from_millis(500))
        .timeout(hook.timeout())
}

/// Runs a program for each of its events, one after the other.
struct Worker {
    spec: ProcessSpec,
    /// Where the YAML has it.
    pointer: String,
    /// How long it may run.
    limit: Duration,
    redactor: Arc<Redactor>,
    /// The events that found no place in the queue.
    dropped: Arc<AtomicUsize>,
    runs: usize,
    failures: usize,
}

impl Worker {
    async fn work(mut self, mut inputs: Receiver<Vec<u8>>, closing: CancellationToken) {
        let limit = self.limit;
        let is_late = async {
            closing.cancelled().await;
            sleep(limit).await;
        };
        // Dropping the other future ends the process and everything below it.
        let late = tokio::select! {
            () = self.run_all(&mut inputs) => 0,
            () = is_late => 1,
        };
        let dropped = self.dropped.load(Ordering::Relaxed);
        self.report(inputs.len() + late + dropped);
    }

    async fn run_all(&mut self, inputs: &mut Receiver<Vec<u8>>) {
        while let Some(input) = inputs.recv().await {
            self.runs += 1;
            let spec = self.spec.clone().stdin(input);
            // The end of this future ends the process.
            let ended = run(&spec, &CancellationToken::new()).await;
            let Some(problem) = problem(ended) else { continue };
            self.failures += 1;
            if self.failures == 1 {
                let problem = shorten(&self.redactor.text(&problem));
                tracing::warn!(
                    "the hook `{}` failed, which changes nothing else: {problem}",
                    self.pointer
                );
            }
        }
    }

    /// Warns of further failures, and of events that the program did not get.
    fn report(&self, missed: usize) {
        let (pointer, runs) = (&self.pointer, self.runs);
        if self.failures > 1 {
            tracing::warn!("the hook `{pointer}` failed {} times of {runs}", self.failures);
        }
        if missed > 0 {
            let events = if missed == 1 { "event" } else { "events" };
            tracing::warn!(
                "the hook `{pointer}` did not get {missed} {events}: its program is slower than the agent"
            );
        }
    }
}

/// Why a run of a program failed.
fn problem(ended: Result<ProcessOutput, ProcessError>) -> Option<String> {
    match ended {
        Ok(output) if output.exit.success() => None,
        Ok(output) => Some(describe_exit(&output, "")),
        Err(ProcessError::TimedOut { after, stderr }) => {
            let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
            let last = last.map(|line| format!("; it wrote {:?} last", line.trim()));
            Some(format!(
                "it was ended, because it was still running after {} ms (`timeout_ms`){}",
                after.as_millis(),
                last.unwrap_or_default()
            ))
        }
        Err(error) => {
            let cause = std::error::Error::source(&error);
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            Some(format!("{error}{cause}"))
        }
    }
}

/// One line of at most [`MAX_SHOWN`] characters.
fn shorten(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests;
