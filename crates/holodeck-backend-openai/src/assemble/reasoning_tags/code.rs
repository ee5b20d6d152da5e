//! Follows whether a text is in a block of code, or between backticks. It must not read a character twice.

/// The state after the text so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Code {
    /// An odd number of complete lines are fences.
    in_block: bool,
    /// The line has an odd number of backticks.
    in_ticks: bool,
    line: Line,
}

/// The line so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Blanks, and then this number of backticks.
    Ticks(u8),
    Fence,
    Text,
}

impl Default for Line {
    fn default() -> Self {
        Self::Ticks(0)
    }
}

impl Code {
    pub(super) fn read(&mut self, text: &str) {
        for c in text.chars() {
            if c == '\n' {
                self.in_block ^= self.line == Line::Fence;
                self.in_ticks = false;
                self.line = Line::default();
                continue;
            }
            self.in_ticks ^= c == '`';
            self.line = match self.line {
                Line::Ticks(2) if c == '`' => Line::Fence,
                Line::Ticks(count) if c == '`' => Line::Ticks(count + 1),
                Line::Ticks(0) if c.is_whitespace() => Line::Ticks(0),
                Line::Ticks(_) | Line::Text => Line::Text,
                Line::Fence => Line::Fence,
            };
        }
    }

    /// Whether what follows is code.
    pub(super) fn is_inside(self) -> bool {
        self.in_block || self.in_ticks
    }
}
