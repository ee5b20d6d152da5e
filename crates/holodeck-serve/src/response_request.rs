//! Reads a request for a response of OpenAI's interface. Each field has an effect, is refused by name, or is one of those
//! that belong to the agent and are only checked.

use holodeck_backend_api::{AnswerWishes, HistoryItem, Image};
use serde_json::{Map, Value, json};

use crate::{
    completion_request::{Conversation, refused},
    openai_fields::{Fields, Kind, Refused},
    problem::{Problem, Result},
};

/// A request for a response.
pub(crate) struct Wanted {
    /// The name of the agent.
    pub(crate) model: String,
    pub(crate) history: Vec<HistoryItem>,
    pub(crate) message: String,
    pub(crate) images: Vec<Image>,
    pub(crate) wishes: AnswerWishes,
    pub(crate) stream: bool,
    /// The response that it continues.
    pub(crate) previous: Option<String>,
    /// Whether the answer is kept, so that another request can continue it.
    pub(crate) store: bool,
}

/// Settings of the model, which are the agent's own, and notes of the client about its request.
const WITHOUT_EFFECT: [(&str, Kind); 14] = [
    ("temperature", Kind::Number),
    ("top_p", Kind::Number),
    ("user", Kind::Text),
    ("safety_identifier", Kind::Text),
    ("prompt_cache_key", Kind::Text),
    ("prompt_cache_retention", Kind::Text),
    ("metadata", Kind::Object),
    ("service_tier", Kind::Text),
    ("reasoning", Kind::Object),
    ("truncation", Kind::Text),
    ("parallel_tool_calls", Kind::Flag),
    ("max_tool_calls", Kind::Count),
    ("stream_options", Kind::Object),
    ("context_management", Kind::List),
];

const OWN_TOOLS: &str = "the agent has its own tools";

const REFUSED: [Refused; 7] = [
    refused("tools", Kind::List, &[], OWN_TOOLS),
    refused("tool_choice", Kind::TextOrObject, &["auto", "none"], OWN_TOOLS),
    refused(
        "background",
        Kind::Flag,
        &[],
        "an answer ends with its request; use `stream`",
    ),
    refused(
        "conversation",
        Kind::TextOrObject,
        &[],
        "use `previous_response_id`",
    ),
    refused("prompt", Kind::Object, &[], "the agent has its own instructions"),
    refused("include", Kind::List, &[], "answers have no further parts"),
    refused(
        "top_logprobs",
        Kind::Count,
        &[],
        "answers have no log probabilities",
    ),
];

impl Wanted {
    pub(crate) fn read(body: Map<String, Value>) -> Result<Self> {
        let mut fields = Fields::new(body);
        let model = fields.text("model")?;
        let model = model.ok_or_else(|| fields.invalid("model", "is missing: the name of the agent"))?;
        fields.refuse(&REFUSED)?;
        fields.ignore(&WITHOUT_EFFECT)?;
        let max_tokens = fields.count("max_output_tokens")?;
        if max_tokens == Some(0) {
            return Err(fields.invalid("max_output_tokens", "must be at least 1"));
        }
        let wishes = AnswerWishes {
            max_tokens,
            format: read_format(&mut fields)?,
            ..AnswerWishes::default()
        };
        let stream = fields.flag("stream")?.unwrap_or_default();
        let store = fields.flag("store")?.unwrap_or(true);
        let previous = fields.text("previous_response_id")?;
        let instructions = fields.text("instructions")?;
        let messages = match fields.take("input", Kind::TextOrList)? {
            None => return Err(fields.invalid("input", "is missing")),
            Some(Value::Array(items)) => items
                .into_iter()
                .enumerate()
                .map(read_item)
                .collect::<Result<_>>()?,
            Some(text) => vec![json!({ "role": "user", "content": text })],
        };
        let Conversation {
            history,
            message,
            images,
        } = Conversation::read_from("input", instructions, messages)?;
        if previous.is_some() && !history.is_empty() {
            let why = "`input` has one message where `previous_response_id` names those before";
            return Err(Problem::invalid(why).about("input"));
        }
        Ok(Self {
            model,
            history,
            message,
            images,
            wishes,
            stream,
            previous,
            store,
        })
    }
}

/// A message of `input`; other items belong to tools that the client has not.
fn read_item((at, item): (usize, Value)) -> Result<Value> {
    let place = format!("input[{at}]");
    let kind = item.get("type").filter(|kind| !kind.is_null());
    if kind.is_some_and(|kind| kind != "message") {
        let place = format!("{place}.type");
        return Err(Problem::invalid(format!("`{place}` must be `message`")).about(place));
    }
    Ok(item)
}

/// The form of the answer in the words of chat completions, unless it is text.
fn read_format(fields: &mut Fields) -> Result<Option<Value>> {
    let Some(mut text) = fields.object("text")? else {
        return Ok(None);
    };
    text.ignore(&[("verbosity", Kind::Text)])?;
    let Some(mut format) = text.take("format", Kind::Object)? else {
        return Ok(None);
    };
    let kind = format
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    match kind.as_str() {
        "text" => Ok(None),
        "json_object" => Ok(Some(json!({ "type": "json_object" }))),
        "json_schema" if format.get("schema").is_some_and(Value::is_object) => {
            if let Some(format) = format.as_object_mut() {
                format.shift_remove("type");
                format.entry("name").or_insert_with(|| "answer".into());
            }
            Ok(Some(json!({ "type": "json_schema", "json_schema": format })))
        }
        _ => Err(text.invalid(
            "format",
            "must have the `type` `text`, `json_object` or, with a `schema`, `json_schema`",
        )),
    }
}
