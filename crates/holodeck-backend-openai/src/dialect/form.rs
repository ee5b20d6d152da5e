//! The forms of one request. A server may refuse a part of it: the part is left out or sent in another way, and what the
//! server then answers is remembered. Only the form on the wire changes, never the messages, the tools or the values of
//! limits.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};

use super::{Refusal, call_ids, echo};
use crate::number_odds;

/// A part of a request in another form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// The schema of the answer is in the system prompt.
    FormatInInstructions,
    /// Log-probabilities are not asked for.
    WithoutLogProbs,
    /// Fields of earlier answers that only their server understands do not go back.
    WithoutProviderFields,
    /// The ids of tool calls are nine letters and digits.
    PlainCallIds,
    /// The limit of tokens has its other name.
    OtherLimit,
    /// Usage is not asked for.
    WithoutStreamOptions,
    /// The answer comes as a whole.
    Whole,
}

/// The changes of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form(BTreeSet<Change>);

/// The names of the limit of tokens.
const LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

impl Change {
    /// In the order in which they are tried.
    const ALL: [Self; 7] = [
        Self::FormatInInstructions,
        Self::WithoutLogProbs,
        Self::WithoutProviderFields,
        Self::PlainCallIds,
        Self::OtherLimit,
        Self::WithoutStreamOptions,
        Self::Whole,
    ];

    /// Whether the request has the part.
    fn applies(self, body: &Value, form: &Form) -> bool {
        match self {
            Self::FormatInInstructions => body.get("response_format").is_some(),
            Self::WithoutLogProbs => body.get(number_odds::LOG_PROBS).is_some(),
            Self::WithoutProviderFields => echo::has_fields(body),
            Self::PlainCallIds => call_ids::has_other_form(body),
            Self::OtherLimit => LIMITS.iter().any(|name| body.get(*name).is_some()),
            Self::WithoutStreamOptions => !form.is_whole(),
            Self::Whole => true,
        }
    }

    /// Whether the error names the part.
    fn is_named(self, refusal: &Refusal, body: &Value) -> bool {
        match self {
            Self::FormatInInstructions => {
                refusal.names("response_format", &["response_format", "json_schema"])
            }
            Self::WithoutLogProbs => {
                refusal.names(number_odds::LOG_PROBS, &["logprob"])
                    || refusal.names(number_odds::TOP_LOG_PROBS, &[])
            }
            Self::WithoutProviderFields => {
                let param = refusal.param.as_deref().unwrap_or_default().to_lowercase();
                echo::is_named(body, &refusal.text) || echo::is_named(body, &param)
            }
            Self::PlainCallIds => refusal.names_an_id() || call_ids::are_named(body, &refusal.text),
            Self::OtherLimit => {
                let [one, other] = LIMITS;
                let sent = if body.get(one).is_some() { one } else { other };
                // A value that is refused names the limit as well.
                let both = LIMITS.iter().all(|name| refusal.text.contains(name));
                both || (refusal.names(sent, &[sent]) && refusal.is_about_unknown_fields())
            }
            Self::WithoutStreamOptions => {
                refusal.names("stream_options", &["stream_options", "include_usage"])
            }
            Self::Whole => refusal.names_streaming(),
        }
    }

    /// Whether it is tried without being named: servers refuse these in every wording.
    fn is_tried_unnamed(self) -> bool {
        matches!(
            self,
            Self::FormatInInstructions | Self::WithoutLogProbs | Self::WithoutProviderFields
        )
    }

    /// Whether a refusal that does not name it may be about it. Almost every conversation with calls has ids of another form,
    /// and every request a limit or a stream: these are changed only where the error names nothing else.
    fn may_be_meant(self, refusal: &Refusal, body: &Value) -> bool {
        let names_nothing = refusal.param.is_none() && !refusal.names_part_of(body);
        let is_about_fields = refusal.is_about_the_request() && refusal.is_about_unknown_fields();
        match self {
            Self::FormatInInstructions => {
                refusal.is_vague() && !refusal.is_about_another_field(body, &["response_format"])
            }
            Self::WithoutLogProbs => {
                let own = [number_odds::LOG_PROBS, number_odds::TOP_LOG_PROBS];
                refusal.is_vague() && !refusal.is_about_another_field(body, &own)
            }
            Self::WithoutProviderFields => {
                // A place in a message that is not its content.
                refusal.is_vague()
                    && !refusal.is_about_another_field(body, &["messages"])
                    && !refusal.names("content", &[])
            }
            Self::PlainCallIds => refusal.is_vague() && refusal.is_about_the_request() && names_nothing,
            Self::OtherLimit | Self::WithoutStreamOptions => {
                refusal.is_vague() && names_nothing && (refusal.is_bare() || is_about_fields)
            }
            Self::Whole => refusal.is_bare() || refusal.lacks_the_method(),
        }
    }

    /// The part that changes, by its name in a request.
    pub(crate) fn part(self) -> &'static str {
        match self {
            Self::FormatInInstructions => "response_format",
            Self::WithoutLogProbs => number_odds::LOG_PROBS,
            Self::WithoutProviderFields => "provider_fields",
            Self::PlainCallIds => "tool_call_id",
            Self::OtherLimit => "max_tokens",
            Self::WithoutStreamOptions => "stream_options",
            Self::Whole => "stream",
        }
    }

    /// The change for people.
    pub(crate) fn note(self) -> &'static str {
        match self {
            Self::FormatInInstructions => {
                "the endpoint does not support `response_format`; the schema is sent to the model as instructions"
            }
            Self::WithoutLogProbs => {
                "the endpoint gives no log-probabilities; scores are the numbers that the model wrote"
            }
            Self::WithoutProviderFields => {
                "the endpoint refuses the fields of its own earlier messages; they are not sent back"
            }
            Self::PlainCallIds => {
                "the endpoint refuses the ids of earlier tool calls; it gets ids of nine letters and digits"
            }
            Self::OtherLimit => "the endpoint knows `model.max_tokens` by its other name",
            Self::WithoutStreamOptions => {
                "the endpoint does not accept `stream_options`; usage is what it reports unasked"
            }
            Self::Whole => "the endpoint does not stream; each answer arrives as a whole",
        }
    }

    fn apply(self, body: &mut Value) {
        let Some(fields) = body.as_object_mut() else {
            return;
        };
        match self {
            Self::FormatInInstructions => {
                let format = fields.shift_remove("response_format");
                let schema = format
                    .as_ref()
                    .and_then(|format| format.pointer("/json_schema/schema"));
                if let Some(schema) = schema {
                    add_instructions(body, &instructions(schema));
                }
            }
            Self::WithoutLogProbs => {
                for name in [number_odds::LOG_PROBS, number_odds::TOP_LOG_PROBS] {
                    fields.shift_remove(name);
                }
            }
            Self::WithoutProviderFields => echo::strip(body),
            Self::PlainCallIds => call_ids::shorten(body),
            Self::OtherLimit => {
                let [one, other] = LIMITS;
                let (sent, new) = if fields.contains_key(one) {
                    (one, other)
                } else {
                    (other, one)
                };
                if let Some(limit) = fields.shift_remove(sent) {
                    fields.insert(new.to_owned(), limit);
                }
            }
            // Of the transport.
            Self::WithoutStreamOptions | Self::Whole => {}
        }
    }
}

/// The text for the system prompt in place of `response_format`.
fn instructions(schema: &Value) -> String {
    format!(
        "Answer with one JSON value that satisfies this JSON Schema, and with nothing else: no explanation, no code \
         fence.\n{schema}"
    )
}

/// Adds a text to the system prompt.
fn add_instructions(body: &mut Value, text: &str) {
    let Some(messages) = body.get_mut("messages").and_then(Value::as_array_mut) else {
        return;
    };
    let role = |message: &Value| message.get("role").and_then(Value::as_str).map(str::to_owned);
    match messages.first_mut() {
        Some(first) if role(first).as_deref() == Some("system") => {
            let before = first.get("content").and_then(Value::as_str).unwrap_or_default();
            let content = format!("{before}\n\n{text}");
            if let Some(first) = first.as_object_mut() {
                first.insert("content".to_owned(), Value::from(content));
            }
        }
        _ => messages.insert(0, json!({"role": "system", "content": text})),
    }
}

impl Form {
    /// Whether the answer is asked for as a whole.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.contains(&Change::Whole)
    }

    /// Whether usage is asked for at the end of a stream.
    pub(crate) fn asks_for_usage(&self) -> bool {
        !self.is_whole() && !self.0.contains(&Change::WithoutStreamOptions)
    }

    /// A request in this form.
    pub(crate) fn apply<'a>(&self, body: &'a Value) -> Cow<'a, Value> {
        let mut body = Cow::Borrowed(body);
        for change in &self.0 {
            if change.applies(&body, self) {
                change.apply(body.to_mut());
            }
        }
        body
    }

    /// The changes of a request.
    pub(crate) fn changes<'a>(&'a self, body: &'a Value) -> impl Iterator<Item = Change> + 'a {
        let changes = self.0.iter().copied();
        changes.filter(|change| change.applies(body, &Self::default()))
    }
}

/// The forms that the models of an endpoint accepted, for the rest of the run.
#[derive(Debug, Default)]
pub(crate) struct Learnt(Mutex<HashMap<String, Form>>);

impl Learnt {
    /// The attempts of a request to `model`, beginning with the form that it accepted last.
    pub(crate) fn attempts(&self, model: &str) -> Attempts {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let form = known.get(model).cloned().unwrap_or_default();
        Attempts {
            kept: form.clone(),
            form,
            tried: BTreeSet::new(),
            last: None,
        }
    }

    /// Remembers a form that was answered.
    pub(crate) fn remember(&self, model: &str, form: &Form) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(model).map_or(!form.0.is_empty(), |known| known != form) {
            known.insert(model.to_owned(), form.clone());
        }
    }
}

/// The attempts of one request, each in another form.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    /// The form of this attempt.
    pub(crate) form: Form,
    /// The changes that are known to be needed.
    kept: Form,
    tried: BTreeSet<Change>,
    last: Option<Refusal>,
}

impl Attempts {
    /// Whether a form is left that is tried although the server does not say what it refuses.
    pub(crate) fn may_change(&self, body: &Value) -> bool {
        let mut changes = Change::ALL.into_iter();
        changes.any(|change| {
            change.is_tried_unnamed()
                && !self.tried.contains(&change)
                && !self.form.0.contains(&change)
                && change.applies(body, &self.form)
        })
    }

    /// Changes to the next form after a refusal; returns whether to ask again.
    pub(crate) fn change(&mut self, refusal: Refusal, body: &Value) -> bool {
        let refusal = refusal.without_quotes(body);
        if self.last.as_ref().is_some_and(|last| *last != refusal) {
            // Another error: the last change helped, and something else is refused too.
            self.kept = self.form.clone();
        }
        let open = |change: &Change| {
            !self.tried.contains(change) && !self.kept.0.contains(change) && change.applies(body, &self.kept)
        };
        let changes = || Change::ALL.into_iter().filter(open);
        let named = changes().find(|change| refusal.may_name() && change.is_named(&refusal, body));
        let unnamed = || changes().find(|change| change.may_be_meant(&refusal, body));
        let Some(change) = named.or_else(unnamed) else {
            return false;
        };
        self.tried.insert(change);
        self.form = self.kept.clone();
        self.form.0.insert(change);
        self.last = Some(refusal);
        true
    }
}

#[cfg(test)]
mod tests;
