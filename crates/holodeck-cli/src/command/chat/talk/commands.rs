//! Executes the commands of a conversation.

use std::{fs, io::Write as _, path::Path};

use holodeck::{
    events::history,
    model::{
        events::{AgentEvent, EventBody, RunTotals},
        io_reason, printable,
    },
    reports::format::count,
    save_conversation,
};

use super::{Talk, new_id};
use crate::{
    command::chat::{
        editor::Editor,
        slash::{HELP, Slash},
        view::describe_totals,
    },
    failure::Failure,
    render::{conversation, dim, shown_path},
};

impl Talk<'_> {
    /// Executes a command. What goes wrong is shown, and the conversation continues.
    pub(in crate::command::chat) async fn execute(
        &mut self,
        command: Slash,
        editor: &mut Editor,
    ) -> Result<(), Failure> {
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
            Slash::History => self.show_conversation().await,
            Slash::Export(path) => self.export(&path).await,
            Slash::SaveAsTest(name) => self.save_as_test(name.as_deref()).await,
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

    /// Shows the conversation as the model sees it.
    pub(in crate::command::chat) async fn show_conversation(&mut self) -> Result<(), String> {
        let events = self.events().await?;
        let events: Vec<_> = events.iter().collect();
        self.terminal.write_message(&conversation(&events));
        Ok(())
    }

    fn help(&mut self) {
        let mut text = String::new();
        for (name, argument, what) in HELP {
            let command = format!("{name} {argument}");
            text += &format!("  {command:20} {}\n", dim(what));
        }
        text += &dim("  A line that ends with \\ continues, as does Alt-Enter. Ctrl-C stops an answer.\n");
        self.terminal.write_message(&text);
    }

    fn tools(&mut self) {
        let config = &self.chat.agent().config;
        let mut text = String::new();
        let mut add = |name: &str, what: &str| text += &format!("  {name:20} {}\n", dim(what));
        for tool in &config.tools {
            add(tool.name(), tool.description().lines().next().unwrap_or_default());
        }
        if config.is_claude() {
            let claude = config.claude.clone().unwrap_or_default();
            for name in claude.built_in_tools() {
                add(name, "built into Claude Code");
            }
            for name in claude.tools_of_subagents_only() {
                add(name, "built into Claude Code; only sub-agents have it");
            }
        }
        if text.is_empty() {
            text = dim("the agent has no tools\n");
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
        let cannot =
            |error: std::io::Error| format!("cannot write {}: {}", path.display(), io_reason(&error));
        let mut file = fs::File::create_new(path).map_err(cannot)?;
        file.write_all(crate::terminal::mask_text(&text).as_bytes())
            .map_err(cannot)?;
        self.terminal
            .write_message(&dim(&format!("written to {}\n", path.display())));
        Ok(())
    }

    /// Adds the conversation to the agent's test cases.
    async fn save_as_test(&mut self, name: Option<&str>) -> Result<(), String> {
        let events = self.events().await?;
        let agent_file = &self.chat.agent().path;
        let saved =
            save_conversation(agent_file, self.env, &events, name).map_err(|error| error.to_string())?;
        let path = shown_path(&saved.path).display().to_string();
        let mut text = format!(
            "saved as test case `{}` in {}, with {}\n",
            printable(&saved.name),
            printable(&path),
            count(saved.expected_tools.len(), "turn")
        );
        let mut unchecked = Vec::new();
        for (index, tools) in saved.expected_tools.iter().enumerate() {
            let turn = index + 1;
            if tools.is_empty() {
                unchecked.push(turn.to_string());
            } else {
                let tools: Vec<_> = tools
                    .iter()
                    .map(|tool| format!("`{}`", printable(tool)))
                    .collect();
                text += &format!("  turn {turn} expects {}\n", tools.join(", "));
            }
        }
        if !unchecked.is_empty() {
            let (turns, check) = if unchecked.len() == 1 {
                ("turn", "checks")
            } else {
                ("turns", "check")
            };
            text += &format!(
                "  {turns} {} {check} nothing yet: add `ground_truth` or `evaluations`\n",
                unchecked.join(", ")
            );
        }
        for note in &saved.notes {
            text += &format!("  note: {note}\n");
        }
        self.terminal.write_message(&dim(&text));
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
