//! Keeps the tools of a changing source, such as an MCP server, prepared for calls.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holodeck_backend_api::ToolSource;

use crate::entry::Entry;

/// The tools of a source, prepared again after each change.
pub(crate) struct Source {
    tools: Arc<dyn ToolSource>,
    timeout: Duration,
    /// The revision when the toolbox copied the specs.
    first: u64,
    current: Mutex<Snapshot>,
}

/// The tools of one revision.
struct Snapshot {
    revision: u64,
    entries: Arc<[Arc<Entry>]>,
}

impl Source {
    pub(crate) fn new(tools: Arc<dyn ToolSource>, timeout: Duration) -> Self {
        let current = Snapshot::of(tools.as_ref(), timeout);
        Self {
            first: current.revision,
            current: Mutex::new(current),
            tools,
            timeout,
        }
    }

    /// Whether the tools changed since they were added.
    pub(crate) fn has_changed(&self) -> bool {
        self.tools.revision() != self.first
    }

    /// The current tools.
    pub(crate) fn entries(&self) -> Arc<[Arc<Entry>]> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.revision != self.tools.revision() {
            *current = Snapshot::of(self.tools.as_ref(), self.timeout);
        }
        Arc::clone(&current.entries)
    }
}

impl Snapshot {
    fn of(source: &dyn ToolSource, timeout: Duration) -> Self {
        // Read first, so that a change in the meantime causes another snapshot.
        let revision = source.revision();
        let tools = source.tools().into_iter();
        Self {
            revision,
            entries: tools
                .map(|tool| Arc::new(Entry::lenient(tool, timeout)))
                .collect(),
        }
    }
}
