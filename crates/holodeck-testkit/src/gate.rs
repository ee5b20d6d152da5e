//! Lets a test decide when something continues, instead of sleeping.

use tokio_util::sync::CancellationToken;

/// A gate that a test opens, so that nothing has to sleep. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(CancellationToken);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets every waiter through, now and later.
    pub fn open(&self) {
        self.0.cancel();
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the gate is open.
    pub async fn opened(&self) {
        self.0.cancelled().await;
    }
}
