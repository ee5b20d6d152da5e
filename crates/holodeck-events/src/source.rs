use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// Time that only goes forward, since a moment of the clock's own.
    fn elapsed(&self) -> Duration;
}

/// Where ids come from.
pub trait Ids: Send + Sync {
    /// A new one, UUID v4.
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
