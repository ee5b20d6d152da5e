//! Reads messages and answers at a terminal: with history, several lines and editing.

use std::{fs, path::PathBuf};

use rustyline::{
    Cmd, Config, DefaultEditor, EventHandler, KeyCode, KeyEvent, Modifiers, config::Configurer as _,
    error::ReadlineError,
};

use crate::failure::{Failure, Problem};

/// Messages that are remembered.
const MAX_HISTORY: usize = 1_000;

/// What is typed.
const PROMPT: &str = "you › ";

/// The line that a message that ends with a backslash continues on.
const CONTINUATION: &str = "    › ";

/// An editor that runs on a thread of its own, so that the program goes on while it waits.
pub(super) struct Editor {
    /// Absent while a thread reads.
    editor: Option<DefaultEditor>,
    history: Option<PathBuf>,
}

/// What a person typed.
enum Typed {
    Text(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    End,
}

impl Editor {
    /// Opens an editor that remembers messages in `history`.
    pub(super) fn open(history: Option<PathBuf>) -> Result<Self, Failure> {
        let config = Config::builder().auto_add_history(false).build();
        let mut editor = DefaultEditor::with_config(config).map_err(|error| failed(&error))?;
        // An invalid length cannot be set.
        let _ = editor.set_max_history_size(MAX_HISTORY);
        editor.bind_sequence(
            KeyEvent(KeyCode::Enter, Modifiers::ALT),
            EventHandler::Simple(Cmd::Newline),
        );
        if let Some(path) = &history {
            // The first conversation has no history.
            let _ = editor.load_history(path);
        }
        Ok(Self {
            editor: Some(editor),
            history,
        })
    }

    /// A message; `None` if the person leaves. A line that ends with `\` continues.
    pub(super) async fn read_message(&mut self) -> Result<Option<String>, Failure> {
        let mut message = String::new();
        let mut was_interrupted = false;
        loop {
            let prompt = if message.is_empty() { PROMPT } else { CONTINUATION };
            match self.read(prompt.to_owned(), String::new()).await? {
                Typed::End => return Ok(None),
                // The first one drops the line, the second one leaves.
                Typed::Interrupt if was_interrupted => return Ok(None),
                Typed::Interrupt => {
                    was_interrupted = true;
                    message.clear();
                    eprint_hint();
                }
                Typed::Text(line) => {
                    was_interrupted = false;
                    if let Some(begun) = line.strip_suffix('\\') {
                        message.push_str(begun);
                        message.push('\n');
                        continue;
                    }
                    message.push_str(&line);
                    self.remember(&message);
                    return Ok(Some(message));
                }
            }
        }
    }

    /// An answer to a question; `None` after Ctrl-C or Ctrl-D.
    pub(super) async fn ask(&mut self, prompt: &str, initial: &str) -> Result<Option<String>, Failure> {
        Ok(match self.read(prompt.to_owned(), initial.to_owned()).await? {
            Typed::Text(text) => Some(text),
            Typed::Interrupt | Typed::End => None,
        })
    }

    async fn read(&mut self, prompt: String, initial: String) -> Result<Typed, Failure> {
        let Some(mut editor) = self.editor.take() else {
            return Ok(Typed::End);
        };
        let reading = tokio::task::spawn_blocking(move || {
            let line = editor.readline_with_initial(&prompt, (&initial, ""));
            (editor, line)
        });
        let (editor, line) = reading
            .await
            .map_err(|error| Problem::execution(format!("cannot read from the terminal: {error}")))?;
        self.editor = Some(editor);
        match line {
            Ok(text) => Ok(Typed::Text(text)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupt),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Adds a message to the history, with the agent's secrets masked.
    fn remember(&mut self, message: &str) {
        let (Some(editor), Some(path)) = (&mut self.editor, &self.history) else {
            return;
        };
        let masked = crate::terminal::mask_text(message);
        if masked.trim().is_empty() || editor.add_history_entry(masked.as_ref()).is_err() {
            return;
        }
        if let Some(folder) = path.parent() {
            // Without a history the conversation goes on.
            let _ = fs::create_dir_all(folder);
        }
        let _ = editor.save_history(path);
    }
}

fn eprint_hint() {
    let _ = crate::terminal::write_to_stderr(b"(Ctrl-C again, or /quit, leaves)\n");
}

fn failed(error: &ReadlineError) -> Failure {
    Problem::execution(format!("cannot read from the terminal: {error}")).into()
}
