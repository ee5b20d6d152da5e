//! The events of a backend that are not recorded, with the reason.

use serde::{Deserialize, Serialize};

/// An event of a backend that is not recorded because it would break an invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ignored {
    /// A call whose id is already known.
    RepeatedCall {
        /// Its id.
        id: String,
    },
    /// A second result of a call.
    RepeatedResult {
        /// The call.
        id: String,
    },
    /// A result without its call.
    ResultWithoutCall {
        /// The call.
        id: String,
    },
    /// A second question while one is open.
    RepeatedAsk {
        /// The call.
        id: String,
    },
    /// A question without the id of its call.
    AskWithoutId,
    /// A question about a call that has its result.
    AskAfterResult {
        /// The call.
        id: String,
    },
    /// An answer without a question.
    AnswerWithoutAsk {
        /// The call.
        id: String,
    },
    /// An event after the end.
    AfterEnd,
}

impl Ignored {
    /// The id of the call that it is about.
    pub(crate) fn id_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::RepeatedCall { id }
            | Self::RepeatedResult { id }
            | Self::ResultWithoutCall { id }
            | Self::RepeatedAsk { id }
            | Self::AskAfterResult { id }
            | Self::AnswerWithoutAsk { id } => Some(id),
            Self::AskWithoutId | Self::AfterEnd => None,
        }
    }
}
