//! The recordings in `fixtures/claude`, for tests.

mod events;

use std::{fs, path::PathBuf};

use holodeck_backend_api::{BackendEvent, ToolNames};
use serde_json::Value;

use crate::{
    translate::{Ending, TranslateOptions, Translator},
    wire::{Frame, parse},
};

/// A recorded conversation with a real CLI.
pub(crate) struct Recording {
    pub(crate) name: String,
    lines: Vec<Value>,
}

impl Recording {
    pub(crate) fn read(name: &str) -> Self {
        let path = folder().join(format!("{name}.jsonl"));
        let text = fs::read_to_string(path).unwrap();
        Self {
            name: name.to_owned(),
            lines: text
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
        }
    }

    pub(crate) fn all() -> Vec<Self> {
        let mut names: Vec<String> = fs::read_dir(folder())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        assert!(names.len() > 40, "the recordings are missing");
        names.iter().map(|name| Self::read(name)).collect()
    }

    fn messages(&self, direction: &str) -> impl Iterator<Item = &Value> {
        let lines = self.lines.iter().filter(move |line| line["dir"] == direction);
        lines.map(|line| &line["msg"])
    }

    /// The CLI's output.
    pub(crate) fn output(&self) -> Vec<u8> {
        let lines: Vec<String> = self
            .messages("out")
            .map(|message| format!("{message}\n"))
            .collect();
        lines.concat().into_bytes()
    }

    pub(crate) fn frames(&self) -> Vec<Frame> {
        self.messages("out")
            .map(|message| parse(message.to_string().as_bytes()).unwrap())
            .collect()
    }

    pub(crate) fn options(&self) -> TranslateOptions {
        let started = self.messages("note").next().unwrap().to_string();
        TranslateOptions {
            structured: started.contains("--json-schema"),
            max_tokens: None,
            names: ToolNames::with_builtins(),
        }
    }

    /// The turns. The last one has no ending if the CLI died during it.
    pub(crate) fn turns(&self) -> Vec<Turn> {
        let mut translator = Translator::new(self.options());
        let mut turns = Vec::new();
        let mut turn = Turn::default();
        for frame in self.frames() {
            turn.ending = translator.observe(&frame, &mut |event| turn.events.push(event));
            // As a turn reads it.
            if let Some(Ending::Answered {
                structured: Some(json),
                ..
            }) = &turn.ending
            {
                let value = serde_json::from_str(json).unwrap();
                turn.events.push(BackendEvent::StructuredOutput(value));
            }
            if turn.ending.is_some() {
                turn.background = translator.background_tasks();
                turn.frame = Some(frame);
                turns.push(std::mem::take(&mut turn));
            }
        }
        translator.end_of_stream(&mut |event| turn.events.push(event));
        if !turn.events.is_empty() {
            turns.push(turn);
        }
        turns
    }
}

#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) events: Vec<BackendEvent>,
    pub(crate) ending: Option<Ending>,
    /// The last frame.
    pub(crate) frame: Option<Frame>,
    pub(crate) background: usize,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude")
}
