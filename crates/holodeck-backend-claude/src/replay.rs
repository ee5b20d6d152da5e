//! Parses the output of a CLI without a process: for recordings and for random input.

use holodeck_backend_api::{BackendEvent, ToolNames};

use crate::{
    framing::{LINE_LIMIT, Lines},
    translate::{TranslateOptions, Translator},
    wire,
};

/// The result of parsing.
#[derive(Debug, Default)]
pub struct Replay {
    /// The events of all turns, in order.
    pub events: Vec<BackendEvent>,
    /// How each turn ended.
    pub endings: Vec<String>,
    /// The number of lines that are not messages.
    pub unread: usize,
    /// Errors while reading lines.
    pub errors: Vec<String>,
}

/// Parses the whole output of a CLI, in pieces of `chunk` bytes.
pub fn replay(output: &[u8], chunk: usize) -> Replay {
    let mut replay = Replay::default();
    let mut lines = Lines::new(LINE_LIMIT);
    let mut translator = Translator::new(TranslateOptions {
        structured: true,
        max_tokens: None,
        names: ToolNames::with_builtins(),
    });
    for piece in output.chunks(chunk.max(1)) {
        lines.buffer_mut().extend_from_slice(piece);
        loop {
            match lines.take() {
                Ok(Some(line)) => {
                    let line = lines.get(line).unwrap_or_default();
                    replay.line(line, &mut translator);
                }
                Ok(None) => break,
                Err(error) => replay.errors.push(error.to_string()),
            }
        }
    }
    if let Err(error) = lines.end() {
        replay.errors.push(error.to_string());
    }
    translator.end_of_stream(&mut |event| replay.events.push(event));
    replay
}

impl Replay {
    fn line(&mut self, line: &[u8], translator: &mut Translator) {
        let Ok(frame) = wire::parse(line) else {
            self.unread += 1;
            return;
        };
        let ending = translator.observe(&frame, &mut |event| self.events.push(event));
        self.endings.extend(ending.map(|ending| format!("{ending:?}")));
    }
}
