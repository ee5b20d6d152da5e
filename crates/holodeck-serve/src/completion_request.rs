//! Reads a request for a chat completion. Each field has an effect, is refused by name, or is one of those that belong to
//! the agent and are only checked.

use holodeck_backend_api::{AnswerWishes, HistoryItem, Image};
use serde_json::{Map, Value};

use crate::{
    ServedAgent,
    openai_fields::{Fields, Kind, Refused},
    picture::read_picture,
    problem::{Problem, Result},
};

/// A request for an answer, as OpenAI clients send it.
pub(crate) struct Wanted {
    /// The name of the agent.
    pub(crate) model: String,
    /// The messages before.
    pub(crate) history: Vec<HistoryItem>,
    pub(crate) message: String,
    pub(crate) images: Vec<Image>,
    pub(crate) wishes: AnswerWishes,
    pub(crate) stream: bool,
    /// Whether the last piece of a stream has the usage.
    pub(crate) with_usage: bool,
}

/// Settings of the model, which are the agent's own, and notes of the client about its request.
pub(crate) const WITHOUT_EFFECT: [(&str, Kind); 16] = [
    ("temperature", Kind::Number),
    ("top_p", Kind::Number),
    ("presence_penalty", Kind::Number),
    ("frequency_penalty", Kind::Number),
    ("seed", Kind::Whole),
    ("user", Kind::Text),
    ("safety_identifier", Kind::Text),
    ("prompt_cache_key", Kind::Text),
    ("prompt_cache_retention", Kind::Text),
    ("metadata", Kind::Object),
    ("store", Kind::Flag),
    ("service_tier", Kind::Text),
    ("reasoning_effort", Kind::Text),
    ("verbosity", Kind::Text),
    ("parallel_tool_calls", Kind::Flag),
    ("prediction", Kind::Object),
];

const OWN_TOOLS: &str = "the agent has its own tools";

const REFUSED: [Refused; 10] = [
    refused("tools", Kind::List, &[], OWN_TOOLS),
    refused("functions", Kind::List, &[], OWN_TOOLS),
    refused("tool_choice", Kind::TextOrObject, &["auto", "none"], OWN_TOOLS),
    refused("function_call", Kind::TextOrObject, &["auto", "none"], OWN_TOOLS),
    refused("web_search_options", Kind::Object, &[], OWN_TOOLS),
    refused("logprobs", Kind::Flag, &[], "answers have no log probabilities"),
    refused(
        "top_logprobs",
        Kind::Count,
        &[],
        "answers have no log probabilities",
    ),
    refused("logit_bias", Kind::Object, &[], "the agent's model has no biases"),
    refused("audio", Kind::Object, &[], "answers are text"),
    refused("modalities", Kind::List, &[], "answers are text"),
];

pub(crate) const fn refused(
    name: &'static str,
    kind: Kind,
    allowed: &'static [&'static str],
    why: &'static str,
) -> Refused {
    Refused {
        name,
        kind,
        allowed,
        why,
    }
}

impl Wanted {
    pub(crate) fn read(body: Map<String, Value>) -> Result<Self> {
        let mut fields = Fields::new(body);
        let model = fields.text("model")?;
        let model = model.ok_or_else(|| fields.invalid("model", "is missing: the name of the agent"))?;
        let messages = fields.list("messages")?;
        let messages = messages.ok_or_else(|| fields.invalid("messages", "is missing"))?;
        let stream = fields.flag("stream")?.unwrap_or_default();
        let mut with_usage = false;
        if let Some(mut options) = fields.object("stream_options")? {
            with_usage = options.flag("include_usage")?.unwrap_or_default();
            options.ignore(&[("include_obfuscation", Kind::Flag)])?;
        }
        if fields.count("n")?.is_some_and(|n| n != 1) {
            return Err(fields.invalid("n", "must be 1"));
        }
        let wishes = AnswerWishes {
            max_tokens: read_limit(&mut fields)?,
            stop: read_stop(&mut fields)?,
            format: read_format(&mut fields)?,
        };
        if fields
            .list("modalities")?
            .is_some_and(|words| words.iter().any(|word| word != "text"))
        {
            return Err(fields.invalid("modalities", "is not accepted: answers are text"));
        }
        fields.refuse(&REFUSED)?;
        fields.ignore(&WITHOUT_EFFECT)?;
        let Conversation {
            history,
            message,
            images,
        } = Conversation::read(messages)?;
        Ok(Self {
            model,
            history,
            message,
            images,
            wishes,
            stream,
            with_usage,
        })
    }
}

/// The smaller of the two limits that a client may send.
fn read_limit(fields: &mut Fields) -> Result<Option<u32>> {
    let mut smallest: Option<u32> = None;
    for name in ["max_tokens", "max_completion_tokens"] {
        let limit = fields.count(name)?;
        if limit == Some(0) {
            return Err(fields.invalid(name, "must be at least 1"));
        }
        smallest = smallest.into_iter().chain(limit).min();
    }
    Ok(smallest)
}

fn read_stop(fields: &mut Fields) -> Result<Vec<String>> {
    let wrong =
        |fields: &Fields| fields.invalid("stop", "must be a text or up to four texts, none of them empty");
    let texts = match fields.take("stop", Kind::TextOrList)? {
        None => Vec::new(),
        Some(Value::Array(texts)) => texts,
        Some(text) => vec![text],
    };
    if texts.len() > 4 {
        return Err(wrong(fields));
    }
    let texts: Option<Vec<String>> = texts
        .into_iter()
        .map(|text| text.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
        .collect();
    texts.ok_or_else(|| wrong(fields))
}

/// The form of the answer, unless it is text.
fn read_format(fields: &mut Fields) -> Result<Option<Value>> {
    let Some(format) = fields.take("response_format", Kind::Object)? else {
        return Ok(None);
    };
    let has_schema = format.pointer("/json_schema/schema").is_none_or(Value::is_object)
        && format.pointer("/json_schema/name").is_some_and(Value::is_string);
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(format)),
        Some("json_schema") if has_schema => Ok(Some(format)),
        Some("json_schema") => {
            Err(fields.invalid("response_format", "needs `json_schema` with `name` and `schema`"))
        }
        _ => Err(fields.invalid(
            "response_format",
            "has a `type` that is none of `text`, `json_object` and `json_schema`",
        )),
    }
}

/// Refuses the wishes that the agent can't follow, and leaves out those that its own settings include.
pub(crate) fn check_wishes(agent: &ServedAgent, wishes: &mut AnswerWishes, limit: &str) -> Result<()> {
    let refuse = |name: &str, why: &str| {
        Err(Problem::invalid(format!("`{name}` is not accepted: {why}")).about(name.to_owned()))
    };
    let settings = agent.answers;
    if settings.has_format && wishes.format.is_some() {
        return refuse("response_format", "the agent's answers have a form of their own");
    }
    if settings.follows_wishes {
        return Ok(());
    }
    if wishes.format.is_some() {
        return refuse(
            "response_format",
            "the agent's model can't be given a form for one answer",
        );
    }
    if !wishes.stop.is_empty() {
        return refuse("stop", "the agent's model can't be stopped at a text");
    }
    if let Some(wished) = wishes.max_tokens.take()
        && settings.max_tokens.is_none_or(|own| wished < own)
    {
        return refuse(
            limit,
            "the agent's model has no limit for one answer; leave it out",
        );
    }
    Ok(())
}

/// The conversation so far, and the message to answer.
#[derive(Default)]
pub(crate) struct Conversation {
    pub(crate) history: Vec<HistoryItem>,
    pub(crate) message: String,
    pub(crate) images: Vec<Image>,
}

impl Conversation {
    /// Reads messages, the last of which is one of the user. A history has no pictures: those of earlier messages are
    /// shown with the last one.
    pub(crate) fn read(messages: Vec<Value>) -> Result<Self> {
        Self::read_from("messages", None, messages)
    }

    /// Reads the messages of the field `place`, with a text that comes before them.
    pub(crate) fn read_from(place: &str, before: Option<String>, messages: Vec<Value>) -> Result<Self> {
        let mut conversation = Self::default();
        // What a client puts beside the agent's own instructions belongs to the next message of the user.
        let mut preface: Vec<String> = before.into_iter().collect();
        for (at, message) in messages.into_iter().enumerate() {
            let mut message = Fields::of(message, &format!("{place}[{at}]"))?;
            message.ignore(&[("name", Kind::Text), ("id", Kind::Text), ("status", Kind::Text)])?;
            let role = message.text("role")?.unwrap_or_default();
            match role.as_str() {
                "system" | "developer" => preface.push(conversation.text_of(&mut message, &role)?),
                "user" => {
                    preface.push(conversation.text_of(&mut message, &role)?);
                    let text = std::mem::take(&mut preface).join("\n\n");
                    conversation.history.push(HistoryItem::user(text));
                }
                "assistant" => {
                    message.refuse(&[
                        refused("tool_calls", Kind::List, &[], OWN_TOOLS),
                        refused("function_call", Kind::Object, &[], OWN_TOOLS),
                        refused("audio", Kind::Object, &[], "messages are text"),
                    ])?;
                    let text = conversation.text_of(&mut message, &role)?;
                    conversation.history.push(HistoryItem::assistant(text));
                }
                "" => return Err(message.invalid("role", "is missing")),
                other => {
                    return Err(message.invalid("role", &format!("must not be `{}`", other.escape_debug())));
                }
            }
        }
        match conversation.history.pop() {
            Some(HistoryItem::User { text }) if preface.is_empty() => conversation.message = text,
            _ => {
                let why = "must end with a message of the user";
                return Err(Problem::invalid(format!("`{place}` {why}")).about(place));
            }
        }
        Ok(conversation)
    }

    fn text_of(&mut self, message: &mut Fields, role: &str) -> Result<String> {
        let place = message.place("content");
        let refusal = message.text("refusal")?;
        match message.take("content", Kind::TextOrList)? {
            Some(Value::String(text)) => Ok(text),
            Some(Value::Array(parts)) => {
                let mut texts = Vec::new();
                for (at, part) in parts.into_iter().enumerate() {
                    let part = Fields::of(part, &format!("{place}[{at}]"))?;
                    texts.extend(self.read_part(part, role)?);
                }
                Ok(texts.join("\n"))
            }
            _ if role == "assistant" => Ok(refusal.unwrap_or_default()),
            _ => Err(message.invalid("content", "is missing")),
        }
    }

    /// The text of a part, unless it is a picture.
    fn read_part(&mut self, mut part: Fields, role: &str) -> Result<Option<String>> {
        let kind = part.text("type")?.unwrap_or_default();
        match (kind.as_str(), role) {
            ("text" | "input_text" | "output_text", _) => {
                let text = part.text("text")?;
                text.map(Some).ok_or_else(|| part.invalid("text", "is missing"))
            }
            ("refusal", "assistant") => part.text("refusal"),
            ("image_url", "user") => {
                let mut image = part
                    .object("image_url")?
                    .ok_or_else(|| part.invalid("image_url", "is missing"))?;
                image.take("detail", Kind::Text)?;
                self.images.push(read_picture(&mut image, "url")?);
                Ok(None)
            }
            ("input_image", "user") => {
                part.take("detail", Kind::Text)?;
                self.images.push(read_picture(&mut part, "image_url")?);
                Ok(None)
            }
            ("", _) => Err(part.invalid("type", "is missing")),
            (other, _) => Err(part.invalid(
                "type",
                &format!(
                    "must be a text or, in a message of the user, a picture, found `{}`",
                    other.escape_debug()
                ),
            )),
        }
    }
}
