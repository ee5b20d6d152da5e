//! Reads a child's standard error continuously and keeps its end for error messages.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio_util::task::AbortOnDropHandle;

/// Drains a child's stderr, so that it never blocks, and keeps the end.
#[derive(Debug)]
pub(crate) struct StderrTail {
    ring: Arc<Mutex<Ring>>,
    /// Owned so that reading ends with the child's owner.
    reader: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Ring {
    bytes: VecDeque<u8>,
    kept: usize,
    cut: bool,
}

impl StderrTail {
    pub(crate) fn of(stderr: ChildStderr, kept: usize) -> Self {
        let ring = Arc::new(Mutex::new(Ring {
            bytes: VecDeque::new(),
            kept,
            cut: false,
        }));
        let reader = tokio::spawn(drain(stderr, Arc::clone(&ring)));
        Self {
            ring,
            reader: AbortOnDropHandle::new(reader),
        }
    }

    /// Waits until all was read, at most `patience`.
    pub(crate) async fn settle(&mut self, patience: Duration) {
        if !self.reader.is_finished() {
            // In both cases, what was read is available.
            let _ = tokio::time::timeout(patience, &mut self.reader).await;
        }
    }

    /// The end of what was written, without control characters.
    pub(crate) fn text(&self) -> String {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = ring.bytes.iter().copied().collect();
        let mut text = String::from_utf8_lossy(&bytes).trim().to_owned();
        text.retain(|c| !c.is_control() || c == '\n' || c == '\t');
        if ring.cut { format!("…{text}") } else { text }
    }
}

async fn drain(mut stderr: ChildStderr, ring: Arc<Mutex<Ring>>) {
    let mut chunk = vec![0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        let read = chunk.get(..count).unwrap_or_default();
        ring.lock().unwrap_or_else(PoisonError::into_inner).push(read);
    }
}

impl Ring {
    fn push(&mut self, read: &[u8]) {
        self.bytes.extend(read);
        let surplus = self.bytes.len().saturating_sub(self.kept);
        self.cut |= surplus > 0;
        self.bytes.drain(..surplus);
    }
}
