//! Decides whether a JSON text that arrives in pieces is complete. It only counts brackets: a text that it calls complete
//! need not be valid.

/// The state after the pieces so far.
#[derive(Debug, Default)]
pub(super) struct Completeness {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    is_complete: bool,
}

impl Completeness {
    /// Whether an object, a list or a string has ended. A number or a word is never complete, because more of it could
    /// follow.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) fn push(&mut self, piece: &str) {
        for byte in piece.bytes() {
            self.push_byte(byte);
        }
    }

    fn push_byte(&mut self, byte: u8) {
        match byte {
            _ if self.is_complete => {}
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' => {
                self.in_string = !self.in_string;
                self.is_complete = !self.in_string && self.depth == 0;
            }
            _ if self.in_string => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.is_complete = self.depth == 0;
            }
            _ => {}
        }
    }
}
