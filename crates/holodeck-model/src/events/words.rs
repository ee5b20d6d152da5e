//! Enumerations in events whose unknown words, from newer versions, are preserved.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An enum of words that preserves an unknown word.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// A word unknown to this version, unchanged.
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

        /// A word; the known ones are examples, because readers accept others.
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "examples": [$($word,)*] })
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
    /// Whether an event was stored when it was delivered.
    PersistenceState {
        /// It is not part of the content and need not be stored.
        Transient = "transient",
        /// A later event decides about it.
        Pending = "pending",
        /// It was stored before it was delivered.
        Persisted = "persisted",
        /// Only in recordings of the older contract.
        Queued = "queued",
        /// Only in recordings of the older contract.
        Failed = "failed",
    }
}

words! {
    /// Why a model stopped writing, in the word of its provider; [`StopReason::family`] says what the word means.
    StopReason {
        /// It finished.
        EndTurn = "end_turn",
        /// It called tools.
        ToolUse = "tool_use",
        /// It reached the token limit.
        MaxTokens = "max_tokens",
        /// It produced a stop sequence.
        StopSequence = "stop_sequence",
        /// It paused or was paused.
        PauseTurn = "pause_turn",
        /// It refused, or a filter did.
        Refusal = "refusal",
    }
}

words! {
    /// How a run ended that did not fail.
    CompleteReason {
        /// The agent answered.
        Success = "success",
        /// The agent did not answer, for instance because it refused.
        Error = "error",
        /// It reached the limit of model calls.
        MaxTurns = "max_turns",
        /// A person stopped it.
        UserCancelled = "user_cancelled",
    }
}

words! {
    /// The decision about an approval.
    Decision {
        /// The call may run.
        Approved = "approved",
        /// It may run with other arguments.
        Modified = "modified",
        /// It may not run.
        Rejected = "rejected",
        /// It may not run, and the run ends.
        Terminated = "terminated",
        /// No decision arrived in time.
        Expired = "expired",
        /// The request was cancelled.
        Cancelled = "cancelled",
    }
}

words! {
    /// How long an approval counts.
    ApprovalScope {
        /// For the call that was asked about.
        Once = "once",
        /// For the tool, in this session.
        Session = "session",
        /// For the tool, in every session of its owner with this agent.
        Always = "always",
    }
}

words! {
    /// How urgent an approval is.
    Priority {
        /// Low urgency.
        Low = "low",
        /// The call changes something.
        Medium = "medium",
        /// The call deletes something or changes in bulk.
        High = "high",
    }
}

words! {
    /// Where the id of a tool call comes from.
    IdSource {
        /// The provider sent none, so it was generated here.
        Minted = "minted",
    }
}

words! {
    /// Why a message is incomplete.
    Interruption {
        /// A person stopped the run.
        UserCancelled = "user_cancelled",
        /// The run failed.
        Error = "error",
        /// The process crashed.
        Crash = "crash",
    }
}
