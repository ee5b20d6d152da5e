use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An enum of words that keeps a word it does not know.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// A word this version does not know, kept as it came.
            Other(String),
        }

        impl $name {
            /// The word in JSON.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(word) => word,
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match word.as_str() {
                    $($word => Self::$variant,)*
                    _ => Self::Other(word),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }
    };
}

words! {
    /// What became of an event when it left the process.
    PersistenceState {
        /// It is not part of the content; nothing has to be kept of it.
        Transient = "transient",
        /// A later event decides about it.
        Pending = "pending",
        /// It was stored before anybody saw it.
        Persisted = "persisted",
        /// In recordings of the original only.
        Queued = "queued",
        /// In recordings of the original only.
        Failed = "failed",
    }
}

words! {
    /// Why a model stopped writing.
    StopReason {
        /// It was done.
        EndTurn = "end_turn",
        /// It waits for tools.
        ToolUse = "tool_use",
        /// It hit the token limit.
        MaxTokens = "max_tokens",
        /// A stop sequence.
        StopSequence = "stop_sequence",
        /// It paused, or was made to.
        PauseTurn = "pause_turn",
        /// It refused, or a filter did.
        Refusal = "refusal",
    }
}

impl StopReason {
    /// The word for a message that was cut off before it was complete.
    pub const ABORTED: &str = "aborted";

    /// A message that was cut off before it was complete.
    pub fn aborted() -> Self {
        Self::Other(Self::ABORTED.to_owned())
    }

    /// Whether the message was cut off.
    pub fn is_aborted(&self) -> bool {
        matches!(self, Self::Other(word) if word == Self::ABORTED)
    }
}

words! {
    /// How a run that did not break ended.
    CompleteReason {
        /// The agent answered.
        Success = "success",
        /// The agent ended badly, for instance with a refusal.
        Error = "error",
        /// It used all the model calls it may make.
        MaxTurns = "max_turns",
        /// A person stopped it.
        UserCancelled = "user_cancelled",
    }
}

words! {
    /// What was decided about an approval.
    Decision {
        /// The call may run.
        Approved = "approved",
        /// It may run with other arguments.
        Modified = "modified",
        /// It may not run.
        Rejected = "rejected",
        /// It may not run, and the run ends.
        Terminated = "terminated",
        /// Nobody answered in time.
        Expired = "expired",
        /// The question was taken back.
        Cancelled = "cancelled",
    }
}

words! {
    /// How much an approval matters.
    Priority {
        /// Little.
        Low = "low",
        /// It changes things.
        Medium = "medium",
        /// It destroys things, or changes many.
        High = "high",
    }
}

words! {
    /// Who made a tool call's id.
    IdSource {
        /// The provider sent none, so it was made here.
        Minted = "minted",
    }
}

words! {
    /// Why a message is only a part of one.
    Interruption {
        /// A person stopped the run.
        UserCancelled = "user_cancelled",
        /// The run broke.
        Error = "error",
        /// The host died.
        Crash = "crash",
    }
}
