use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a process allows itself. A program that handles hostile input calls [`apply`](Self::apply) before it touches
/// any: from then on the system ends it rather than let it take more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLimits {
    /// Bytes of address space. Where the system does not enforce this (macOS), the other limits remain.
    pub memory: u64,
    /// Time on the processor; it ends the process even if nobody is left to stop it.
    pub processor_time: Duration,
}

impl OwnLimits {
    /// Sets the limits for this process, for good, and that it leaves no core file.
    pub fn apply(self) -> io::Result<()> {
        lower(Resource::Core, 0)?;
        lower(Resource::Cpu, self.processor_time.as_secs().max(1))?;
        lower(Resource::As, self.memory)
    }
}

/// A limit that is lower already stays.
fn lower(resource: Resource, to: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let to = now.maximum.map_or(to, |maximum| maximum.min(to));
    let limit = Rlimit {
        current: Some(to),
        maximum: Some(to),
    };
    Ok(setrlimit(resource, limit)?)
}
