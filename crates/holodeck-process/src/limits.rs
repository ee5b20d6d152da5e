//! Limits on memory and CPU time that a process sets for itself before it reads hostile input.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limits that a process sets for itself. A program that handles hostile input calls [`apply`](Self::apply) before
/// reading any: from then on the system enforces them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLimits {
    /// Bytes of address space. Where the system does not enforce this (macOS), the other limits remain.
    pub memory: u64,
    /// CPU time; it also applies if the parent has died.
    pub processor_time: Duration,
}

impl OwnLimits {
    /// Sets the limits for this process permanently, and disables core files.
    pub fn apply(self) -> io::Result<()> {
        lower(Resource::Core, 0)?;
        lower(Resource::Cpu, self.processor_time.as_secs().max(1))?;
        lower(Resource::As, self.memory)
    }
}

/// A lower existing limit stays.
fn lower(resource: Resource, to: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let to = now.maximum.map_or(to, |maximum| maximum.min(to));
    let limit = Rlimit {
        current: Some(to),
        maximum: Some(to),
    };
    Ok(setrlimit(resource, limit)?)
}
