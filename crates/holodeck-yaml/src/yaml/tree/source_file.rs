//! A file of the tree, and an index of its lines.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use holodeck_model::{Files, Layer, Source};

/// A source file with its layer.
pub(crate) struct SourceFile {
    pub(crate) source: Source,
    pub(crate) layer: Layer,
    pub(crate) dir: PathBuf,
    /// The same directory, independent of the working directory.
    pub(crate) base: PathBuf,
    index: OnceLock<Index>,
}

/// Bytes between two entries of the character index.
const STEP: usize = 1024;

/// Converts an offset to a line and a column without scanning the file, even if its lines are long.
struct Index {
    /// Where each line begins.
    lines: Vec<usize>,
    /// How many characters come before each multiple of [`STEP`]. Empty if every byte is a character.
    characters: Vec<usize>,
}

impl SourceFile {
    pub(crate) fn new(source: Source, layer: Layer) -> Self {
        let dir = source.path.parent().map(Path::to_path_buf).unwrap_or_default();
        Self {
            source,
            layer,
            base: dir.clone(),
            dir,
            index: OnceLock::new(),
        }
    }

    /// Sets the path of its directory that does not depend on the working directory.
    pub(crate) fn based_at(mut self, files: &dyn Files) -> Self {
        self.base = files.absolute(&self.dir);
        self
    }

    /// Line and column, counted from 1, the column in characters.
    pub(super) fn line_column(&self, offset: usize) -> (usize, usize) {
        let text = &*self.source.text;
        let index = self.index.get_or_init(|| Index::of(text));
        let line = index.lines.partition_point(|start| *start <= offset).max(1);
        let start = index.lines.get(line - 1).copied().unwrap_or(0);
        let column = index.characters_before(text, offset) - index.characters_before(text, start) + 1;
        (line, column)
    }
}

impl Index {
    fn of(text: &str) -> Self {
        let characters = if text.is_ascii() {
            Vec::new()
        } else {
            running_counts(text.as_bytes())
        };
        Self {
            lines: line_starts(text.as_bytes()),
            characters,
        }
    }

    fn characters_before(&self, text: &str, offset: usize) -> usize {
        let step = offset / STEP;
        match self.characters.get(step) {
            None => offset,
            Some(known) => {
                let rest = text.as_bytes().get(step * STEP..offset).unwrap_or_default();
                known + rest.iter().filter(|byte| starts_character(**byte)).count()
            }
        }
    }
}

fn running_counts(bytes: &[u8]) -> Vec<usize> {
    let mut count = 0;
    let mut counts = vec![0];
    for chunk in bytes.chunks(STEP) {
        count += chunk.iter().filter(|byte| starts_character(**byte)).count();
        counts.push(count);
    }
    counts
}

/// Whether a byte of UTF-8 is the first of a character.
fn starts_character(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

/// CR, LF and CRLF each end a line.
fn line_starts(bytes: &[u8]) -> Vec<usize> {
    let mut starts = vec![0];
    for (index, byte) in bytes.iter().enumerate() {
        let ends_line = match byte {
            b'\n' => true,
            b'\r' => bytes.get(index + 1) != Some(&b'\n'),
            _ => false,
        };
        if ends_line {
            starts.push(index + 1);
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, offset: usize, line: usize, column: usize) {
        let source = Source {
            path: Path::new("a.yaml").into(),
            text: text.into(),
        };
        assert_eq!(
            SourceFile::new(source, Layer::Agent).line_column(offset),
            (line, column)
        );
    }

    #[test]
    fn columns_are_characters() {
        check("ab\ncd", 4, 2, 2);
        check("ab\r\ncd\ref", 7, 3, 1);
        check("é: x", 3, 1, 3);
        check("", 0, 1, 1);
        let long = format!("{}x", "é".repeat(5000));
        check(&long, 10_000, 1, 5001);
        check(&format!("a\n{long}"), 10_002, 2, 5001);
    }
}
