//! Sources of time and ids, which tests replace.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

/// A source of time.
pub trait Clock: Send + Sync {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// Monotonic time since a moment of the clock's choice.
    fn elapsed(&self) -> Duration;
}

/// A source of ids.
pub trait Ids: Send + Sync {
    /// A new id, UUID v4.
    fn next(&self) -> Uuid;
}

/// The system's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Random ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn next(&self) -> Uuid {
        Uuid::new_v4()
    }
}
