//! Commands of an agent: its specialists, routing, skills and the quality loop.

pub(crate) mod agents;
pub(crate) mod chooser;
pub(crate) mod quality;
pub(crate) mod routed;
pub(crate) mod skills;
