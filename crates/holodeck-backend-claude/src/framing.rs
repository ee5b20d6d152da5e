//! Splits a byte stream into lines of limited length.

use std::{io::BufRead as _, ops::Range};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The maximum length of a line. An image in a tool result takes a few megabytes of base64; a much longer line is not a
/// message.
pub(crate) const LINE_LIMIT: usize = 32 * 1024 * 1024;

/// The minimum buffer space for one read.
const CHUNK: usize = 16 * 1024;

/// A buffer that grew beyond this size for a long line is freed after it.
const MAX_IDLE_CAPACITY: usize = 256 * 1024;

/// Why no line was read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FramingError {
    /// A line exceeds the limit. It is skipped; the lines after it can be read.
    #[error("a line of output is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The stream ended within a line.
    #[error("the output ended in the middle of a line, after {bytes} bytes of it")]
    HalfLine {
        /// The number of bytes that were read of the line.
        bytes: usize,
    },
    /// The stream could not be read.
    #[error("the output cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

/// Is called with the beginning of a line whose end has not arrived.
type Watch = Box<dyn Fn(&[u8]) + Send + Sync>;

/// Reads lines from a reader. Skips empty lines and removes line ends.
pub(crate) struct LineReader<R> {
    inner: R,
    lines: Lines,
    ended: bool,
    watch: Option<Watch>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(inner: R, limit: usize) -> Self {
        Self {
            inner,
            lines: Lines::new(limit),
            ended: false,
            watch: None,
        }
    }

    /// Calls `watch` with the beginning of a line whose end has not arrived.
    pub(crate) fn watch(&mut self, watch: impl Fn(&[u8]) + Send + Sync + 'static) {
        self.watch = Some(Box::new(watch));
    }

    /// The next line, or `None` at the end. Dropping the future loses nothing. After an error other than
    /// [`FramingError::Io`], reading can continue.
    pub(crate) async fn next(&mut self) -> Result<Option<&[u8]>, FramingError> {
        let line = loop {
            if let Some(line) = self.lines.take()? {
                break line;
            }
            if self.ended {
                self.lines.end()?;
                return Ok(None);
            }
            if let Some(watch) = &self.watch {
                watch(self.lines.rest());
            }
            // Cancel safe: `read_buf` puts the bytes into the buffer as it reads them.
            self.ended = self.inner.read_buf(self.lines.buffer_mut()).await? == 0;
        };
        Ok(self.lines.get(line))
    }
}

/// Bytes that were read but not yet returned as lines.
#[derive(Debug)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Where the next line starts.
    start: usize,
    /// No line end exists before this index.
    searched: usize,
    limit: usize,
    /// Whether the current line was already reported as too long.
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

    /// The beginning of a line whose end has not arrived.
    fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// The buffer to append new bytes to.
    pub(crate) fn buffer_mut(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > MAX_IDLE_CAPACITY {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(CHUNK);
        &mut self.buffer
    }

    /// The next complete line that is not empty.
    pub(crate) fn take(&mut self) -> Result<Option<Range<usize>>, FramingError> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(at) = line_end(rest) else {
                self.searched = self.buffer.len();
                return self.check_unfinished();
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
            let line = self.trim_return(line);
            if !line.is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// Checks the length of an incomplete line, which is all that the buffer holds.
    fn check_unfinished(&mut self) -> Result<Option<Range<usize>>, FramingError> {
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

    /// Reports an incomplete line at the end of the stream, once.
    pub(crate) fn end(&mut self) -> Result<(), FramingError> {
        let bytes = self.buffer.len() - self.start;
        self.buffer = Vec::new();
        self.start = 0;
        self.searched = 0;
        // A line that is too long was already reported.
        if bytes > 0 && !std::mem::take(&mut self.skipping) {
            return Err(FramingError::HalfLine { bytes });
        }
        Ok(())
    }

    fn trim_return(&self, line: Range<usize>) -> Range<usize> {
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
