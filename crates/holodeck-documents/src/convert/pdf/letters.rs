//! Positioned letters, grouped into lines of text.

use pdf_extract::{ColorSpace, MediaBox, OutputDev, OutputError, Path, Transform};

/// More text than this cannot be on one page.
pub(super) const MOST_TEXT: usize = 16 * 1024 * 1024;

/// A line of text on the page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// Its text; a tab stands between columns.
    pub(super) text: String,
    /// Its left end.
    pub(super) left: f64,
    /// Its height on the page, from the bottom.
    pub(super) y: f64,
    /// The size of most of its letters.
    pub(super) size: f64,
}

/// Collects the letters of a page.
#[derive(Default)]
pub(super) struct Letters {
    lines: Vec<Line>,
    line: Option<Line>,
    /// The number of letters of each size.
    sizes: Vec<(f64, usize)>,
    /// Where the last letter ends.
    end: f64,
    length: usize,
}

impl Letters {
    pub(super) fn lines(mut self) -> Vec<Line> {
        self.finish();
        self.lines
    }

    pub(super) fn too_many(&self) -> bool {
        self.length > MOST_TEXT
    }

    fn finish(&mut self) {
        let sizes = std::mem::take(&mut self.sizes);
        if let Some(mut line) = self.line.take() {
            if let Some((size, _)) = sizes.into_iter().max_by_key(|(_, letters)| *letters) {
                line.size = size;
            }
            line.text.truncate(line.text.trim_end().len());
            if !line.text.is_empty() {
                self.lines.push(line);
            }
        }
    }
}

impl OutputDev for Letters {
    fn begin_page(
        &mut self,
        _number: u32,
        _media: &MediaBox,
        _art: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn output_character(
        &mut self,
        transform: &Transform,
        width: f64,
        _spacing: f64,
        font_size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        self.length += text.len();
        if self.too_many() {
            return Err(OutputError::IoError(std::io::ErrorKind::FileTooLarge.into()));
        }
        let (x, y) = (transform.m31, transform.m32);
        // Independent of rotation, the size of a letter is the side of the square with its area.
        let area = (transform.m11 * transform.m22 - transform.m12 * transform.m21).abs();
        let scale = area.sqrt();
        let size = font_size.abs() * scale;
        let advance = width * size;
        if !(x.is_finite() && y.is_finite() && size.is_finite() && advance.is_finite()) {
            return Ok(());
        }
        let same_line = self.line.as_ref().is_some_and(|line| {
            let near = line.size.max(size);
            (line.y - y).abs() < near * 0.5 && x > self.end - near * 2.0
        });
        if !same_line {
            self.finish();
        }
        let gap = x - self.end;
        let line = self.line.get_or_insert_with(|| Line {
            text: String::new(),
            left: x,
            y,
            size,
        });
        if same_line && gap > size {
            line.text.truncate(line.text.trim_end().len());
            line.text.push('\t');
        } else if same_line && gap > size * 0.12 && !line.text.ends_with([' ', '\t']) {
            line.text.push(' ');
        }
        for c in text.chars() {
            match c {
                c if c.is_whitespace() && line.text.is_empty() => {}
                // A ligature is one glyph but several letters.
                'ﬀ' => line.text.push_str("ff"),
                'ﬁ' => line.text.push_str("fi"),
                'ﬂ' => line.text.push_str("fl"),
                'ﬃ' => line.text.push_str("ffi"),
                'ﬄ' => line.text.push_str("ffl"),
                '\u{a0}' => line.text.push(' '),
                c if c.is_control() => {}
                c => line.text.push(c),
            }
        }
        #[expect(clippy::float_cmp, reason = "what was computed alike is alike")]
        match self.sizes.iter_mut().find(|(known, _)| *known == size) {
            Some((_, letters)) => *letters += 1,
            None => self.sizes.push((size, 1)),
        }
        self.end = x + advance;
        Ok(())
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn stroke(&mut self, _: &Transform, _: &ColorSpace, _: &[f64], _: &Path) -> Result<(), OutputError> {
        Ok(())
    }

    fn fill(&mut self, _: &Transform, _: &ColorSpace, _: &[f64], _: &Path) -> Result<(), OutputError> {
        Ok(())
    }
}
