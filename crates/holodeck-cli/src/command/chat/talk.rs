//! A conversation in progress: sends messages, shows what happens, asks about tool calls.

#![allow(
    clippy::format_push_string,
    reason = "the texts are short; readable code is worth an allocation"
)]

use std::{fs, io::Write as _, mem, path::Path, sync::Arc};

use holodeck::{
    Chat,
    conversation::{RunError, RunHandle, RunRequest, Thinking},
    events::{
        ApprovalAnswer, Delivery, EventSink, Ids as _, RandomIds, Resolution, SessionInfo, StoreError,
        history,
    },
    model::{
        FileInput,
        events::{AgentEvent, ApprovalRequested, ApprovalScope, CompleteReason, EventBody, RunTotals},
        printable,
    },
    runner::{ExitCode, words::count},
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    Output, describe_agent,
    editor::Editor,
    slash::{HELP, Slash},
    view::{View, describe_totals},
};

use crate::{
    failure::{Failure, Problem},
    interrupt::{Interrupts, StopRequest},
    render::{call_arguments, conversation, dim, failed_text, strong},
    terminal::Terminal,
};

/// A conversation and what it is shown on.
pub(super) struct Talk<'a> {
    chat: &'a Chat,
    session_id: String,
    /// The user whose conversation it is, if a server stored it.
    user: Option<String>,
    terminal: &'a mut Terminal,
    pub(super) interrupts: &'a mut Interrupts,
    output: Output,
    thinking: Option<Thinking>,
    files: Vec<FileInput>,
    attachments: Vec<String>,
    has_messages: bool,
    exit: ExitCode,
    is_left: bool,
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        chat: &'a Chat,
        session_id: Option<String>,
        user: Option<String>,
        terminal: &'a mut Terminal,
        interrupts: &'a mut Interrupts,
        output: Output,
    ) -> Self {
        Self {
            chat,
            session_id: session_id.unwrap_or_else(new_id),
            user,
            terminal,
            interrupts,
            output,
            thinking: None,
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

    /// What the command ends with: the worst end of an answer.
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
        let size = std::fs::metadata(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
        if size.len() > vault.max_file_bytes() {
            let limit = vault.limits().max_file_mib;
            return Err(format!(
                "{shown} is larger than {limit} MiB (`attachments.max_file_mib`)"
            ));
        }
        let bytes = std::fs::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
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
        loop {
            let event = tokio::select! {
                biased;
                event = events.recv() => event,
                request = self.interrupts.next() => {
                    if self.stop(request, &run) {
                        break;
                    }
                    continue;
                }
            };
            let Some(event) = &event else { break };
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

    /// What an end means for the exit code.
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

    /// Asks a person about a call until there is an answer.
    async fn decide(
        &mut self,
        asked: &ApprovalRequested,
        editor: &mut Editor,
        run: &RunHandle,
    ) -> Result<(), Failure> {
        if asked.answer_schema.is_some() {
            return self.answer_server(asked, editor, run).await;
        }
        let tool = printable(&asked.tool_name).into_owned();
        let args = asked.args.as_ref().map(call_arguments).unwrap_or_default();
        let masked = crate::terminal::mask_text(&args).into_owned();
        self.terminal
            .write_message(&format!("  ? {} {masked}\n", strong(&tool)));
        loop {
            let answer = editor
                .ask("    allow?  [y]es  [n]o  [a]lways in this session  [e]dit › ", "")
                .await?;
            let Some(answer) = answer else {
                run.cancel();
                return Ok(());
            };
            let answer = answer.trim();
            let (word, reason) = answer.split_once(char::is_whitespace).unwrap_or((answer, ""));
            let mut decision = match word {
                "y" | "yes" => ApprovalAnswer::new(&asked.approval_id, Resolution::Approve),
                "a" | "always" => {
                    let mut answer = ApprovalAnswer::new(&asked.approval_id, Resolution::Approve);
                    answer.scope = ApprovalScope::Session;
                    answer
                }
                "n" | "no" => ApprovalAnswer::new(&asked.approval_id, Resolution::Reject),
                "e" | "edit" => {
                    let Some(arguments) = self.edit(asked, editor).await? else {
                        continue;
                    };
                    ApprovalAnswer::new(&asked.approval_id, Resolution::Modify(arguments))
                }
                _ => continue,
            };
            decision.reason = (!reason.trim().is_empty()).then(|| reason.trim().to_owned());
            if self.is_answered(decision).await? {
                return Ok(());
            }
        }
    }

    /// Asks a person what a server wants to know.
    async fn answer_server(
        &mut self,
        asked: &ApprovalRequested,
        editor: &mut Editor,
        run: &RunHandle,
    ) -> Result<(), Failure> {
        let question = crate::terminal::mask_text(&asked.description).into_owned();
        self.terminal
            .write_message(&format!("  ? {}\n", printable(&question)));
        let mut text = asked.args.as_ref().map(ToString::to_string).unwrap_or_default();
        loop {
            let prompt = "    your answer; an empty line declines › ";
            let Some(given) = editor.ask(prompt, &printable(&text)).await? else {
                run.cancel();
                return Ok(());
            };
            let decision = if given.trim().is_empty() {
                Resolution::Reject
            } else {
                match serde_json::from_str::<Value>(&given) {
                    Ok(value) if value.is_object() => Resolution::Modify(value),
                    Ok(_) => {
                        self.complain("the answer must be a JSON object");
                        continue;
                    }
                    Err(error) => {
                        self.complain(&format!("not JSON: {error}"));
                        continue;
                    }
                }
            };
            text = given;
            if self
                .is_answered(ApprovalAnswer::new(&asked.approval_id, decision))
                .await?
            {
                return Ok(());
            }
        }
    }

    /// Stores an answer; false if the question must be asked again.
    async fn is_answered(&mut self, answer: ApprovalAnswer) -> Result<bool, Failure> {
        let answer = answer.by(self.user.as_deref());
        match self.chat.service().answer(answer).await {
            Ok(_) => Ok(true),
            // Not what the tool or the server accepts.
            Err(RunError::Refused { reason }) => {
                self.complain(&reason);
                Ok(false)
            }
            Err(RunError::Store(
                error @ (StoreError::AlreadyResolved { .. } | StoreError::Expired { .. }),
            )) => {
                self.complain(&error.to_string());
                Ok(true)
            }
            Err(error) => Err(Problem::execution(error.to_string()).into()),
        }
    }

    /// New arguments of a call; `None` if there are none.
    async fn edit(
        &mut self,
        asked: &ApprovalRequested,
        editor: &mut Editor,
    ) -> Result<Option<Value>, Failure> {
        let mut text = asked.args.as_ref().map(ToString::to_string).unwrap_or_default();
        loop {
            let Some(edited) = editor.ask("    arguments › ", &printable(&text)).await? else {
                return Ok(None);
            };
            match serde_json::from_str::<Value>(&edited) {
                Ok(value) if value.is_object() => return Ok(Some(value)),
                Ok(_) => self.complain("the arguments must be a JSON object"),
                Err(error) => self.complain(&format!("not JSON: {error}")),
            }
            text = edited;
        }
    }

    /// Executes a command. What goes wrong is shown, and the conversation continues.
    pub(super) async fn execute(&mut self, command: Slash, editor: &mut Editor) -> Result<(), Failure> {
        let done = match command {
            Slash::Help => {
                self.help();
                Ok(())
            }
            Slash::Attach(path) => self.attach(&path).await.map(|()| {
                let text = format!(
                    "attached to the next message: {}\n",
                    printable(&path.to_string_lossy())
                );
                self.terminal.write_message(&dim(&text));
            }),
            Slash::Tools => {
                self.tools();
                Ok(())
            }
            Slash::Cost => self.cost().await,
            Slash::History => self.events().await.map(|events| {
                let events: Vec<_> = events.iter().collect();
                self.terminal.write_message(&conversation(&events));
            }),
            Slash::Export(path) => self.export(&path).await,
            Slash::Fork => self.fork(None).await,
            Slash::Retry => match self.rewind().await {
                Ok(message) => return self.send(&message, Some(editor)).await,
                Err(problem) => Err(problem),
            },
            Slash::Clear => {
                self.session_id = new_id();
                self.has_messages = false;
                self.terminal.write_message(&dim("a new conversation\n"));
                Ok(())
            }
            Slash::Quit => Ok(()),
        };
        if let Err(problem) = done {
            self.complain(&problem);
        }
        Ok(())
    }

    fn help(&mut self) {
        let mut text = String::new();
        for (name, argument, what) in HELP {
            let command = format!("{name} {argument}");
            text += &format!("  {command:16} {}\n", dim(what));
        }
        text += &dim("  A line that ends with \\ continues, as does Alt-Enter. Ctrl-C stops an answer.\n");
        self.terminal.write_message(&text);
    }

    fn tools(&mut self) {
        let tools = &self.chat.agent().config.tools;
        let mut text = String::new();
        for tool in tools {
            let description = tool.description();
            let line = format!(
                "  {:20} {}",
                tool.name(),
                dim(description.lines().next().unwrap_or_default())
            );
            text += &format!("{line}\n");
        }
        if tools.is_empty() {
            text = dim("the YAML defines no tools\n");
        }
        self.terminal.write_message(&text);
    }

    async fn cost(&mut self) -> Result<(), String> {
        let events = self.events().await?;
        let mut total = RunTotals::default();
        let mut unpriced = 0;
        let ends = events.iter().filter_map(|event| match &event.body {
            EventBody::Complete(end) => Some(&end.totals),
            EventBody::Error(error) => Some(&error.totals),
            _ => None,
        });
        for part in ends {
            total.duration_ms =
                Some(total.duration_ms.unwrap_or_default() + part.duration_ms.unwrap_or_default());
            if let Some(usage) = part.usage {
                let sum = total.usage.get_or_insert_default();
                sum.total_tokens += usage.total_tokens;
            }
            match part.cost_usd {
                Some(cost) => *total.cost_usd.get_or_insert_default() += cost,
                None => unpriced += 1,
            }
        }
        let mut text = describe_totals(&total);
        if unpriced > 0 {
            text += &format!(" · the cost of {} is unknown", count(unpriced, "answer"));
        }
        self.terminal.write_message(&format!("{}\n", dim(&text)));
        Ok(())
    }

    async fn export(&mut self, path: &Path) -> Result<(), String> {
        let text = self.markdown().await?;
        let cannot = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
        let mut file = fs::File::create_new(path).map_err(cannot)?;
        file.write_all(crate::terminal::mask_text(&text).as_bytes())
            .map_err(cannot)?;
        self.terminal
            .write_message(&dim(&format!("written to {}\n", path.display())));
        Ok(())
    }

    /// The conversation in Markdown.
    async fn markdown(&self) -> Result<String, String> {
        use holodeck::backend_api::HistoryItem as Item;
        let events = self.events().await?;
        let mut text = format!("# {}\n\n", self.chat.agent().config.name);
        for item in history(events.iter()) {
            match &item {
                Item::User { text: message } => text += &format!("**You:** {message}\n\n"),
                Item::Assistant { text: answer } | Item::Partial { text: answer } => {
                    text += &format!("{answer}\n\n");
                }
                Item::Call(call) => text += &format!("`{}` `{}`\n\n", call.name, call.arguments),
                _ => {}
            }
        }
        Ok(text)
    }

    /// Continues in a copy of the conversation, up to the end of the run at this index.
    async fn fork(&mut self, after: Option<u64>) -> Result<(), String> {
        if !self.has_events().await? {
            return Err("there is nothing to copy yet".to_owned());
        }
        let copy = new_id();
        let store = self.chat.service().store();
        let forked = store
            .fork_session(&self.session_id, after, &copy, self.user.as_deref())
            .await;
        forked.map_err(|error| error.to_string())?;
        self.terminal
            .write_message(&dim(&format!("a copy of {}\n", self.session_id)));
        self.session_id = copy;
        Ok(())
    }

    /// Continues in a copy without the last message and its answer; returns that message.
    async fn rewind(&mut self) -> Result<String, String> {
        let events = self.events().await?;
        let asked = events
            .iter()
            .rposition(|event| matches!(event.body, EventBody::UserMessageConfirmed(_)));
        let Some((at, EventBody::UserMessageConfirmed(message))) =
            asked.and_then(|at| Some((at, &events.get(at)?.body)))
        else {
            return Err("there is no message to ask again".to_owned());
        };
        let before = events.get(..at).unwrap_or_default();
        let end = before.iter().rev().find(|event| event.body.is_terminal());
        match end.and_then(|end| end.meta.event_index) {
            Some(index) => self.fork(Some(index)).await?,
            None => self.session_id = new_id(),
        }
        self.attachments = message.attachments.iter().map(|file| file.id.clone()).collect();
        Ok(message.content.clone())
    }

    async fn has_events(&self) -> Result<bool, String> {
        let session = self.chat.service().store().session(&self.session_id).await;
        Ok(session.map_err(|error| error.to_string())?.is_some())
    }

    async fn events(&self) -> Result<Vec<AgentEvent>, String> {
        if !self.has_events().await? {
            return Ok(Vec::new());
        }
        let stored = self
            .chat
            .service()
            .store()
            .read_after(&self.session_id, None)
            .await;
        let stored = stored.map_err(|error| error.to_string())?;
        Ok(stored.iter().map(|event| event.event().clone()).collect())
    }
}

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
