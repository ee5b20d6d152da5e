//! The differences between OpenAI-compatible servers. It tests for behaviour, never for the name of a vendor.

mod call_ids;
pub(crate) mod echo;
mod form;
mod refusal;

pub(crate) use form::{Attempts, Form, Learnt};
pub(crate) use refusal::Refusal;
