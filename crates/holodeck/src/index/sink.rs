//! The receiver of index events, as callers of the library pass it in.

use std::{fmt, sync::Arc};

use super::IndexEvent;

/// Receives the events of building indexes.
#[derive(Clone)]
pub struct IndexSink(Arc<dyn Fn(&IndexEvent) + Send + Sync>);

impl IndexSink {
    /// Calls `on` for each event, in order.
    pub fn new(on: impl Fn(&IndexEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(on))
    }

    pub(super) fn emit(&self, event: &IndexEvent) {
        (self.0)(event);
    }
}

impl Default for IndexSink {
    /// Ignores all events.
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for IndexSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IndexSink")
    }
}
