//! Finding every problem of a tree: first its shape, then rules across fields.

mod findings;
mod naming;
mod rules;
mod suggest;
mod walk;

pub(crate) use findings::Findings;
pub(crate) use rules::{check_agent_rules, check_config_rules};
pub use suggest::closest;
pub(crate) use walk::check_shape;
