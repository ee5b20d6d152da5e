//! The inputs of a turn: frames of the CLI, and what happened while its requests were answered.

use holodeck_backend_api::{Approval, ApprovalAsk, ApprovalDecision, CallDetails};
use tokio::sync::oneshot;

use crate::{framing::FramingError, wire::Frame};

/// An input of a turn.
#[derive(Debug)]
pub(crate) enum Incoming {
    Frame(Box<Frame>),
    Decided(Approval),
    Asked(ApprovalAsk),
    Answered {
        call_id: String,
        decision: ApprovalDecision,
    },
    /// A server asks the person; `call` gets the id of the call during which it does, if that is known.
    Elicited {
        ask: Box<ApprovalAsk>,
        server: String,
        call: oneshot::Sender<String>,
    },
    /// The answer to that.
    ElicitationAnswered {
        call_id: String,
        decision: ApprovalDecision,
    },
    /// Details of a call that its result does not contain.
    Details {
        call_id: String,
        details: CallDetails,
    },
    /// An own tool could not be run at all.
    Unavailable {
        call_id: String,
        name: String,
        reason: String,
    },
    Broken(FramingError),
}

impl Incoming {
    /// Whether it belongs to a turn, rather than to the time between two turns.
    pub(crate) fn belongs_to_turn(&self) -> bool {
        match self {
            Self::Frame(frame) => matches!(**frame, Frame::Init(_) | Frame::Result(_) | Frame::Assistant(_)),
            _ => true,
        }
    }
}
