//! Cuts a byte stream into lines, with a bound on their length.

use std::{io::BufRead as _, ops::Range};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest line that is read. An image that a tool answers with is a few megabytes of base64; what is much longer
/// than that is not a message.
pub(crate) const LINE_LIMIT: usize = 32 * 1024 * 1024;

/// What one read asks for.
const CHUNK: usize = 16 * 1024;

/// A buffer that grew beyond this for one long line is given back after it.
const KEPT: usize = 256 * 1024;

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FramingError {
    /// A line goes on past the limit. The rest of it is skipped; the lines after it can be read.
    #[error("a line of output is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The stream ended within a line.
    #[error("the output ended in the middle of a line, after {bytes} bytes of it")]
    HalfLine {
        /// How much of the line there was.
        bytes: usize,
    },
    /// The stream could not be read.
    #[error("the output cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

/// The lines of a reader, one after the other. Empty lines are left out, and so is the line's end.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    inner: R,
    lines: Lines,
    ended: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(inner: R, limit: usize) -> Self {
        Self {
            inner,
            lines: Lines::new(limit),
            ended: false,
        }
    }

    /// The next line, or `None` at the end. Nothing is lost when the future is dropped. After an error other than
    /// [`FramingError::Io`] reading goes on where it makes sense.
    pub(crate) async fn next(&mut self) -> Result<Option<&[u8]>, FramingError> {
        let line = loop {
            if let Some(line) = self.lines.take()? {
                break line;
            }
            if self.ended {
                self.lines.end()?;
                return Ok(None);
            }
            // Cancel safe: bytes are in the buffer once they are read.
            self.ended = self.inner.read_buf(self.lines.room()).await? == 0;
        };
        Ok(self.lines.get(line))
    }
}

/// The state between reads: what has come and is not yet given out as a line.
#[derive(Debug)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Where the next line starts.
    start: usize,
    /// Up to here there is no line end.
    searched: usize,
    limit: usize,
    /// Within a line that was reported as too long.
    skipping: bool,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            limit,
            skipping: false,
        }
    }

    /// Where to put new bytes: at the end of this.
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(CHUNK);
        &mut self.buffer
    }

    /// The next whole line that is not empty.
    pub(crate) fn take(&mut self) -> Result<Option<Range<usize>>, FramingError> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(at) = line_end(rest) else {
                self.searched = self.buffer.len();
                return self.unfinished();
            };
            let end = self.searched + at;
            let line = self.start..end;
            self.start = end + 1;
            self.searched = self.start;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if line.len() > self.limit {
                return Err(FramingError::TooLong { limit: self.limit });
            }
            let line = self.without_return(line);
            if !line.is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// All there is belongs to a line that is not whole yet.
    fn unfinished(&mut self) -> Result<Option<Range<usize>>, FramingError> {
        let long = self.searched - self.start > self.limit;
        let report = long && !self.skipping;
        self.skipping |= long;
        if self.skipping {
            self.buffer = Vec::new();
            self.start = 0;
            self.searched = 0;
        }
        if report {
            return Err(FramingError::TooLong { limit: self.limit });
        }
        Ok(None)
    }

    /// Says once what is left when nothing more comes.
    pub(crate) fn end(&mut self) -> Result<(), FramingError> {
        let bytes = self.buffer.len() - self.start;
        self.buffer = Vec::new();
        self.start = 0;
        self.searched = 0;
        // A line that was too long has been reported.
        if bytes > 0 && !std::mem::take(&mut self.skipping) {
            return Err(FramingError::HalfLine { bytes });
        }
        Ok(())
    }

    fn without_return(&self, line: Range<usize>) -> Range<usize> {
        match self.buffer.get(line.clone()) {
            Some([.., b'\r']) => line.start..line.end - 1,
            _ => line,
        }
    }

    pub(crate) fn get(&self, line: Range<usize>) -> Option<&[u8]> {
        self.buffer.get(line)
    }
}

/// Where the first line of `bytes` ends. `BufRead` searches with the system's `memchr`.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    let read = rest.skip_until(b'\n').ok()?;
    let last = read.checked_sub(1)?;
    (bytes.get(last) == Some(&b'\n')).then_some(last)
}

#[cfg(test)]
mod tests;
