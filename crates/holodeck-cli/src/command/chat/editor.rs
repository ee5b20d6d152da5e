//! Reads messages and answers at a terminal: with history, several lines and editing.

use std::{fs, future::pending, path::PathBuf};

use rustyline::{
    Cmd, Config, Context, EventHandler, ExternalPrinter as _, Helper, KeyCode, KeyEvent, Modifiers,
    completion::Completer,
    config::Configurer as _,
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::FileHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};

use super::slash::HELP;
use crate::failure::{Failure, Problem};

/// Messages that are remembered.
const MAX_HISTORY: usize = 1_000;

/// The prompt before a person's message.
const PROMPT: &str = "you › ";

/// An editor that runs on a thread of its own, so that the program continues while it waits.
pub(super) struct Editor {
    /// Absent while a thread reads.
    editor: Option<rustyline::Editor<Lines, FileHistory>>,
    history: Option<PathBuf>,
}

/// The input of a person.
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
        let mut editor = rustyline::Editor::with_config(config).map_err(|error| failed(&error))?;
        editor.set_helper(Some(Lines));
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
        let mut was_interrupted = false;
        loop {
            match self.read(PROMPT.to_owned(), String::new(), pending()).await? {
                Typed::End => return Ok(None),
                // The first one drops the message, the second one leaves.
                Typed::Interrupt if was_interrupted => return Ok(None),
                Typed::Interrupt => {
                    was_interrupted = true;
                    show_way_out();
                }
                Typed::Text(text) => {
                    self.remember(&text);
                    return Ok(Some(text.replace("\\\n", "\n")));
                }
            }
        }
    }

    /// An answer to a question; `None` after Ctrl-C or Ctrl-D. Once there is a `notice`, it is shown above the question.
    pub(super) async fn ask(
        &mut self,
        prompt: &str,
        initial: &str,
        notice: impl Future<Output = String>,
    ) -> Result<Option<String>, Failure> {
        let read = self.read(prompt.to_owned(), initial.to_owned(), notice).await?;
        Ok(match read {
            Typed::Text(text) => Some(text),
            Typed::Interrupt | Typed::End => None,
        })
    }

    async fn read(
        &mut self,
        prompt: String,
        initial: String,
        notice: impl Future<Output = String>,
    ) -> Result<Typed, Failure> {
        let Some(mut editor) = self.editor.take() else {
            return Ok(Typed::End);
        };
        // Without one, the notice is not shown.
        let mut printer = editor.create_external_printer().ok();
        let mut reading = tokio::task::spawn_blocking(move || {
            let line = editor.readline_with_initial(&prompt, (&initial, ""));
            (editor, line)
        });
        let read = tokio::select! {
            read = &mut reading => read,
            notice = notice => {
                if let Some(printer) = &mut printer {
                    // It is only shown.
                    let _ = printer.print(notice);
                }
                reading.await
            }
        };
        let (editor, line) =
            read.map_err(|error| Problem::execution(format!("cannot read from the terminal: {error}")))?;
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
            // A conversation needs no history.
            let _ = fs::create_dir_all(folder);
        }
        let _ = editor.save_history(path);
    }
}

/// The rules of messages for the editor: which lines continue, and the commands.
struct Lines;

impl Validator for Lines {
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if typed.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Completer for Lines {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..at).unwrap_or_default();
        let names = HELP.iter().map(|(name, _, _)| (*name).to_owned());
        let fits = |name: &String| typed.starts_with('/') && name.starts_with(typed);
        Ok((0, names.filter(fits).collect()))
    }
}

impl Hinter for Lines {
    type Hint = String;
}

impl Highlighter for Lines {}

impl Helper for Lines {}

fn show_way_out() {
    let _ = crate::terminal::write_to_stderr(b"(Ctrl-C again, or /quit, leaves)\n");
}

fn failed(error: &ReadlineError) -> Failure {
    Problem::execution(format!("cannot read from the terminal: {error}")).into()
}
