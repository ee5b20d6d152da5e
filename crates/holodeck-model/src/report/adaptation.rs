//! The parts of requests to models that were sent in another form than usual.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of the requests to a model that its endpoint refused, so that it is sent in another form.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Adaptation {
    /// The URL of the endpoint, without secrets.
    pub endpoint: String,
    /// The model in these requests.
    pub model: String,
    /// The part, by its name in a request, such as `response_format`.
    pub part: String,
    /// The change, for people; lowercase, no full stop.
    pub note: String,
}
