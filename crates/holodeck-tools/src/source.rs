use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holodeck_backend_api::ToolSource;

use crate::toolbox::Entry;

/// The tools of a source, made ready again whenever it says that they are others.
pub(crate) struct Source {
    tools: Arc<dyn ToolSource>,
    timeout: Duration,
    /// When the toolbox took its specs.
    first: u64,
    ready: Mutex<Ready>,
}

struct Ready {
    revision: u64,
    entries: Arc<[Arc<Entry>]>,
}

impl Source {
    pub(crate) fn new(tools: Arc<dyn ToolSource>, timeout: Duration) -> Self {
        let ready = Ready::of(tools.as_ref(), timeout);
        Self {
            first: ready.revision,
            ready: Mutex::new(ready),
            tools,
            timeout,
        }
    }

    /// Whether its tools are others than at first.
    pub(crate) fn has_changed(&self) -> bool {
        self.tools.revision() != self.first
    }

    /// The tools as they are now.
    pub(crate) fn entries(&self) -> Arc<[Arc<Entry>]> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.revision != self.tools.revision() {
            *ready = Ready::of(self.tools.as_ref(), self.timeout);
        }
        Arc::clone(&ready.entries)
    }
}

impl Ready {
    fn of(source: &dyn ToolSource, timeout: Duration) -> Self {
        // First, so that what changes meanwhile is looked at again.
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
