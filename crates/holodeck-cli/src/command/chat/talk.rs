//! A conversation in progress: sends messages, shows what happens, asks about tool calls.

#![allow(
    clippy::format_push_string,
    reason = "the texts are short; readable code is worth an allocation"
)]

mod commands;
mod questions;

use std::{
    mem,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use holodeck::{
    Chat, RecordedCase,
    conversation::{FileSearch, RunError, RunHandle, RunRequest, Thinking},
    events::{Delivery, EventSink, Ids as _, RandomIds, SessionInfo},
    model::{
        Env, FileInput,
        events::{AgentEvent, CompleteReason, EventBody},
        io_reason, printable,
    },
    reports::format::count,
    runs::ExitCode,
};
use tokio::sync::mpsc;

use super::{Output, describe_agent, editor::Editor, view::View};

use crate::{
    failure::{Failure, Problem},
    interrupt::{Interrupts, StopRequest},
    render::{dim, failed_text, strong},
    terminal::{Terminal, Verbosity},
};

/// A conversation and what it is shown on.
pub(super) struct Talk<'a> {
    chat: &'a Chat,
    env: &'a Env,
    session_id: String,
    /// The user whose conversation it is, if a server stored it.
    user: Option<String>,
    terminal: &'a mut Terminal,
    pub(super) interrupts: &'a mut Interrupts,
    output: Output,
    thinking: Option<Thinking>,
    search: Option<FileSearch>,
    files: Vec<FileInput>,
    attachments: Vec<String>,
    has_messages: bool,
    exit: ExitCode,
    is_left: bool,
}

impl<'a> Talk<'a> {
    /// The commands of the agent.
    pub(super) fn commands(&self) -> &'a [String] {
        self.chat.service().commands()
    }

    pub(super) fn new(
        chat: &'a Chat,
        env: &'a Env,
        session_id: Option<String>,
        user: Option<String>,
        terminal: &'a mut Terminal,
        interrupts: &'a mut Interrupts,
        output: Output,
    ) -> Self {
        Self {
            chat,
            env,
            session_id: session_id.unwrap_or_else(new_id),
            user,
            terminal,
            interrupts,
            output,
            thinking: None,
            search: None,
            files: Vec::new(),
            attachments: Vec::new(),
            has_messages: false,
            exit: ExitCode::Passed,
            is_left: false,
        }
    }

    /// Sets whether the model reasons before each answer.
    pub(super) fn think(&mut self, thinking: Option<Thinking>) {
        self.thinking = thinking;
    }

    /// Sets whether the files of the user are searched for each message.
    pub(super) fn search_files(&mut self, searches: bool) {
        self.search = searches.then(FileSearch::default);
    }

    pub(super) fn session_id(&self) -> &str {
        &self.session_id
    }

    pub(super) fn has_messages(&self) -> bool {
        self.has_messages
    }

    /// Whether the person left during an answer.
    pub(super) fn is_left(&self) -> bool {
        self.is_left
    }

    /// The exit code of the command: that of the worst end of an answer.
    pub(super) fn exit_code(&self) -> ExitCode {
        self.exit
    }

    pub(super) fn greet(&mut self, known: Option<&SessionInfo>) {
        let agent = printable(&describe_agent(self.chat.agent())).into_owned();
        let mut text = format!("{}{}\n", strong(&agent), dim(" · /help for commands"));
        if let Some(known) = known {
            let runs = usize::try_from(known.runs).unwrap_or(usize::MAX);
            text += &format!(
                "{}\n",
                dim(&format!("continuing after {}", count(runs, "message")))
            );
        }
        for warning in self.chat.warnings() {
            text += &format!("{}\n", dim(&format!("note: {}", printable(warning))));
        }
        self.terminal.write_message(&format!("{text}\n"));
    }

    /// Writes the warnings about the agent where no person is greeted.
    pub(super) fn warn(&mut self) {
        if self.terminal.verbosity() == Verbosity::Quiet {
            return;
        }
        for warning in self.chat.warnings() {
            self.terminal
                .write_message(&format!("warning: {}\n", printable(warning)));
        }
    }

    /// Begins with a case of a test run.
    pub(super) async fn begin_with(&mut self, case: RecordedCase, is_shown: bool) -> Result<(), Failure> {
        let changes = case.changes(self.chat, self.env);
        let RecordedCase {
            description,
            turns,
            notes,
            ..
        } = case;
        let (service, user) = (self.chat.service(), self.user.as_deref());
        let imported = service.import_turns(&self.session_id, user, turns).await;
        imported.map_err(|error| not_begun(&error))?;
        self.has_messages = true;
        if self.terminal.verbosity() > Verbosity::Quiet {
            let mut text = format!("continuing {description}\n");
            for note in notes.iter().chain(&changes) {
                text += &format!("note: {note}\n");
            }
            self.terminal
                .write_message(&format!("{}\n", dim(&printable(&text))));
        }
        if is_shown {
            self.show_conversation().await.map_err(Problem::execution)?;
        }
        Ok(())
    }

    pub(super) fn complain(&mut self, problem: &str) {
        let text = format!("{}: {}\n", failed_text("error"), printable(problem));
        self.terminal.write_message(&text);
    }

    /// Attaches a file to the next message. A stored conversation keeps it.
    pub(super) async fn attach(&mut self, path: &Path) -> Result<(), String> {
        let file = holodeck::attached_file(path)?;
        let service = self.chat.service();
        let (Some(vault), Some(user)) = (service.files(), &self.user) else {
            self.files.push(file);
            return Ok(());
        };
        let shown = path.display();
        let size =
            std::fs::metadata(path).map_err(|error| format!("cannot read {shown}: {}", io_reason(&error)))?;
        if size.len() > vault.max_file_bytes() {
            let limit = vault.limits().max_file_mib;
            return Err(format!(
                "{shown} is larger than {limit} MiB (`attachments.max_file_mib`)"
            ));
        }
        let bytes =
            std::fs::read(path).map_err(|error| format!("cannot read {shown}: {}", io_reason(&error)))?;
        let stored = service.add_file(user, &path.to_string_lossy(), bytes).await;
        self.attachments
            .push(stored.map_err(|error| error.to_string())?.file_id);
        Ok(())
    }

    /// Sends a message and shows the answer. With an editor, a person is asked about tool calls.
    pub(super) async fn send(
        &mut self,
        message: &str,
        mut editor: Option<&mut Editor>,
    ) -> Result<(), Failure> {
        let (sender, mut events) = mpsc::unbounded_channel();
        let sink: Arc<dyn EventSink> = Arc::new(move |event: Delivery| {
            // The receiver goes only when the command ends.
            let _ = sender.send(event);
        });
        let request = RunRequest {
            files: mem::take(&mut self.files),
            attachments: mem::take(&mut self.attachments),
            user_id: self.user.clone(),
            thinking: self.thinking,
            search: self.search,
            ..RunRequest::new(&self.session_id, message)
        };
        let mut run = match self.chat.service().start(request, Some(sink)).await {
            Ok(run) => run,
            Err(error) if editor.is_some() => {
                self.complain(&error.to_string());
                return Ok(());
            }
            Err(error) => return Err(not_begun(&error).into()),
        };
        self.has_messages = true;
        let mut view = View::new(self.terminal, self.output != Output::Text);
        let mut silent_since = Instant::now();
        loop {
            let event = tokio::select! {
                biased;
                event = events.recv() => event,
                () = tokio::time::sleep(SILENCE) => {
                    view.wait(silent_since.elapsed(), self.terminal);
                    continue;
                }
                request = self.interrupts.next() => {
                    if self.stop(request, &run) {
                        break;
                    }
                    continue;
                }
            };
            let Some(event) = &event else { break };
            silent_since = Instant::now();
            if self.output == Output::Events {
                let line = match event {
                    Delivery::Stored(event) => event.json().to_owned(),
                    Delivery::Transient(event) => {
                        serde_json::to_string(event.event()).map_err(std::io::Error::from)?
                    }
                };
                // JSON escapes control characters, and secrets were masked before.
                self.terminal.write_raw(&format!("{line}\n"))?;
            }
            let event = match event {
                Delivery::Stored(event) => event.event(),
                Delivery::Transient(event) => event.event(),
            };
            view.show(event, self.terminal)?;
            if let (EventBody::ApprovalRequested(asked), Some(editor)) = (&event.body, editor.as_deref_mut())
            {
                view.end_line(self.terminal)?;
                self.decide(asked, editor, &run).await?;
            }
            self.note_end(event);
        }
        view.end_line(self.terminal)?;
        if self.is_left {
            return Ok(());
        }
        let outcome = run.finish().await;
        if self.output == Output::Result {
            let result = match &outcome {
                Ok(result) => result,
                Err(RunError::Execution(result)) => result.as_ref(),
                Err(error) => return Err(not_begun(error).into()),
            };
            let result = serde_json::to_value(result).map_err(std::io::Error::from)?;
            self.terminal.write_json(result)?;
            self.terminal.flush()?;
        }
        match outcome {
            Err(error @ (RunError::Lost { .. } | RunError::Store(_))) => Err(not_begun(&error).into()),
            _ => Ok(()),
        }
    }

    /// Stops the answer; true if the person leaves.
    fn stop(&mut self, request: StopRequest, run: &RunHandle) -> bool {
        let again = run.is_stopping();
        run.cancel();
        let (exit, leaves) = match request {
            StopRequest::Interrupt => (ExitCode::Interrupted, again),
            StopRequest::Terminate => (ExitCode::Terminated, true),
        };
        self.exit = exit;
        self.is_left |= leaves;
        leaves
    }

    /// Updates the exit code by the end of a run.
    fn note_end(&mut self, event: &AgentEvent) {
        if event.meta.parent_tool_use_id.is_some() || self.exit != ExitCode::Passed {
            return;
        }
        self.exit = match &event.body {
            EventBody::Error(_) => ExitCode::Execution,
            EventBody::Complete(end) if end.reason != CompleteReason::Success => ExitCode::Failed,
            _ => return,
        };
    }
}

/// The time after which a person is shown that nothing came, and then the time between two signs.
const SILENCE: Duration = Duration::from_secs(1);

fn new_id() -> String {
    RandomIds.next().to_string()
}

/// The problem of a message that could not be answered at all.
fn not_begun(error: &RunError) -> Problem {
    match error {
        RunError::Refused { .. } => Problem::config(error.to_string()),
        _ => Problem::execution(error.to_string()),
    }
}
