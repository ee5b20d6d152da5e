//! Finds every problem of a tree: first in its shape, then with rules across fields.

mod findings;
mod foreign;
mod metric_fields;
mod naming;
mod rules;
mod walk;

pub(crate) use findings::Findings;
pub(crate) use foreign::{field as foreign_field, recognise};
pub(crate) use rules::{check_agent_rules, check_config_rules};
pub(crate) use walk::check_shape;
