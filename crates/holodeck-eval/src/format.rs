//! The schema that the answer of a judge must match.

use holodeck_model::json_kind;
use serde_json::{Value, json};

use crate::{JUDGE_INSTRUCTIONS, USER_INSTRUCTIONS};

/// Up to this range, the possible scores are listed.
const MAX_LISTED: u32 = 100;

/// The form of the answer of a judge, or of a model that plays a user. There are few, so that a backend per form can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VerdictFormat {
    /// `{reason, score}` with a whole score in this range.
    Score {
        /// The lowest score.
        min: u32,
        /// The highest score.
        max: u32,
    },
    /// `{items: [text]}`: steps, claims or statements.
    Items,
    /// `{verdicts: [{number, verdict: yes|no|idk, reason}]}`: one for each numbered item.
    Verdicts,
    /// `{statements: [{statement, verdict: yes|no, reason}]}`.
    Statements,
    /// `{evidence: [{turn, effect: contributed|hindered, quote}], reason, score}` with a whole score from 0.
    Goal {
        /// The highest score.
        max: u32,
    },
    /// `{reason, improvements: [text], score, unachievable}` with a whole score from 0 to 100.
    Quality,
    /// `{message, status}`: the next message of a simulated user.
    UserMessage,
    /// [`Score`](Self::Score) without a reason.
    BareScore {
        /// The lowest score.
        min: u32,
        /// The highest score.
        max: u32,
    },
    /// [`Verdicts`](Self::Verdicts) without reasons.
    BareVerdicts,
    /// [`Statements`](Self::Statements) without reasons.
    BareStatements,
    /// [`Goal`](Self::Goal) without a reason.
    BareGoal {
        /// The highest score.
        max: u32,
    },
}

impl VerdictFormat {
    /// The system prompt of a model that answers in this form.
    pub fn instructions(self) -> &'static str {
        match self {
            Self::UserMessage => USER_INSTRUCTIONS,
            _ => JUDGE_INSTRUCTIONS,
        }
    }

    /// This form, where a reason is asked for only if `include`.
    pub fn with_reason(self, include: bool) -> Self {
        match self {
            _ if include => self,
            Self::Score { min, max } => Self::BareScore { min, max },
            Self::Verdicts => Self::BareVerdicts,
            Self::Statements => Self::BareStatements,
            Self::Goal { max } => Self::BareGoal { max },
            _ => self,
        }
    }

    /// Why the score in an answer of this form is none; `None` if it is one, or the form has no score.
    pub fn invalid_score(self, answer: &Value) -> Option<String> {
        let (min, max) = match self {
            Self::Score { min, max } | Self::BareScore { min, max } => (min, max),
            Self::Goal { max } | Self::BareGoal { max } => (0, max),
            Self::Quality => (0, MAX_LISTED),
            Self::Items
            | Self::Verdicts
            | Self::BareVerdicts
            | Self::Statements
            | Self::BareStatements
            | Self::UserMessage => return None,
        };
        let score = answer.as_object()?.get("score").unwrap_or(&Value::Null);
        match score.as_f64() {
            Some(number) if (f64::from(min)..=f64::from(max)).contains(&number) => None,
            Some(number) => Some(format!("the score {number} is not between {min} and {max}")),
            None => Some(format!("`score` is {}, not a number", json_kind(score))),
        }
    }

    /// The JSON Schema.
    pub fn schema(self) -> Value {
        let text = json!({"type": "string"});
        let is_bare = matches!(
            self,
            Self::BareScore { .. } | Self::BareVerdicts | Self::BareStatements | Self::BareGoal { .. }
        );
        let object = |title: &str, mut properties: Value| {
            if let (true, Some(properties)) = (is_bare, properties.as_object_mut()) {
                properties.shift_remove("reason");
            }
            let required: Vec<&String> = properties
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name)
                .collect();
            let mut schema = json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            });
            if let (false, Some(schema)) = (title.is_empty(), schema.as_object_mut()) {
                schema.insert("title".to_owned(), json!(title));
            }
            schema
        };
        let list = |items: Value| json!({"type": "array", "items": items});
        match self {
            Self::Score { min, max } | Self::BareScore { min, max } => {
                // A list is enforced by every endpoint with structured answers, bounds are not; long lists are refused.
                let score = if max - min <= MAX_LISTED {
                    json!({"type": "integer", "enum": (min..=max).collect::<Vec<u32>>()})
                } else {
                    json!({"type": "integer", "minimum": min, "maximum": max})
                };
                object("score", json!({"reason": text, "score": score}))
            }
            Self::Quality => object(
                "quality",
                json!({
                    "reason": text,
                    "improvements": list(text.clone()),
                    "score": {"type": "integer", "enum": (0..=MAX_LISTED).collect::<Vec<u32>>()},
                    "unachievable": {"type": "boolean"},
                }),
            ),
            Self::Items => object("items", json!({"items": list(text)})),
            Self::Verdicts | Self::BareVerdicts => {
                let verdict = json!({"type": "string", "enum": ["yes", "no", "idk"]});
                let item = json!({"number": {"type": "integer"}, "reason": text, "verdict": verdict});
                object("verdicts", json!({"verdicts": list(object("", item))}))
            }
            Self::Statements | Self::BareStatements => {
                let verdict = json!({"type": "string", "enum": ["yes", "no"]});
                let item = json!({"reason": text, "statement": text, "verdict": verdict});
                object("statements", json!({"statements": list(object("", item))}))
            }
            Self::Goal { max } | Self::BareGoal { max } => {
                let effect = json!({"type": "string", "enum": ["contributed", "hindered"]});
                let item = json!({"effect": effect, "quote": text, "turn": {"type": "integer"}});
                let score = json!({"type": "integer", "enum": (0..=max).collect::<Vec<u32>>()});
                object(
                    "goal",
                    json!({"evidence": list(object("", item)), "reason": text, "score": score}),
                )
            }
            Self::UserMessage => {
                let status = json!({"type": "string", "enum": ["continue", "goal_reached", "gave_up"]});
                object("user_message", json!({"message": text, "status": status}))
            }
        }
    }
}
