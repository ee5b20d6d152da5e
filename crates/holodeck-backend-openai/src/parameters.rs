//! Translates the model settings of the YAML into request parameters, also for reasoning models, which refuse some of
//! them.

use std::collections::BTreeMap;

use holodeck_backend_api::AnswerWishes;
use holodeck_model::{Effort, Location, ModelConfig, OpenAiConfig};
use serde_json::{Map, Value, json};

use crate::{dialect::echo, number_odds};

/// The parameters of a request besides messages, tools and response format.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    /// The parameters as sent.
    pub(crate) body: Map<String, Value>,
    /// Whether they are those of a reasoning model.
    pub(crate) reasoning: bool,
    /// The notice about changes to them.
    pub(crate) notice: Option<String>,
    /// The places of the parameters' fields in the YAML.
    places: BTreeMap<&'static str, Location>,
}

/// The field of the YAML that each parameter comes from.
const FIELDS: [(&str, &str); 8] = [
    ("temperature", "model.temperature"),
    ("top_p", "model.top_p"),
    ("max_tokens", "model.max_tokens"),
    ("max_completion_tokens", "model.max_tokens"),
    ("reasoning_effort", "openai.effort"),
    ("response_format", "response_format"),
    ("tools", "tools"),
    ("stop", "model.stop"),
];

impl Parameters {
    /// Looks up the place of each field.
    pub(crate) fn locate_fields(&mut self, locate: impl Fn(&str) -> Option<Location>) {
        let places = FIELDS
            .iter()
            .filter_map(|(_, field)| Some((*field, locate(field)?)));
        self.places = places.collect();
    }

    pub(crate) fn of(model: &ModelConfig, openai: Option<&OpenAiConfig>) -> Self {
        let reasoning = model.reasoning.unwrap_or_else(|| is_reasoning(&model.name));
        let mut body = Map::new();
        let mut omitted = Vec::new();
        for (name, value) in [("temperature", model.temperature), ("top_p", model.top_p)] {
            match value {
                Some(_) if reasoning => omitted.push(name),
                Some(value) => {
                    body.insert(name.to_owned(), json!(value));
                }
                None => {}
            }
        }
        if let Some(max) = model.max_tokens {
            body.insert(limit_name(reasoning).to_owned(), json!(max));
        }
        if !model.stop.is_empty() {
            body.insert("stop".to_owned(), json!(model.stop));
        }
        if let Some(effort) = openai.and_then(|openai| openai.effort) {
            body.insert("reasoning_effort".to_owned(), json!(effort_name(effort)));
        }
        Self {
            body,
            reasoning,
            notice: notice(&model.name, reasoning, &omitted, model.max_tokens.is_some()),
            places: BTreeMap::new(),
        }
    }

    /// The parameters of an answer for which a client has wishes: the smaller limit counts.
    pub(crate) fn with(&self, wishes: &AnswerWishes) -> Map<String, Value> {
        let mut body = self.body.clone();
        if let Some(wished) = wishes.max_tokens {
            let name = limit_name(self.reasoning);
            let own = body.get(name).and_then(Value::as_u64);
            let limit = own.map_or(u64::from(wished), |own| own.min(wished.into()));
            body.insert(name.to_owned(), json!(limit));
        }
        if !wishes.stop.is_empty() {
            // The answer ends at each of the agent's, too.
            let own = body.get("stop").and_then(Value::as_array);
            let mut stop = own.cloned().unwrap_or_default();
            stop.extend(wishes.stop.iter().map(|text| Value::from(text.as_str())));
            body.insert("stop".to_owned(), Value::Array(stop));
        }
        body
    }

    /// The place of a parameter that the endpoint refused, as the last line of an error, and a hint.
    pub(crate) fn explain(&self, parameter: &str) -> Option<(String, Option<&'static str>)> {
        // Servers may name a part, such as `response_format.json_schema.schema`.
        let name = parameter.split(['.', '[']).next().unwrap_or_default();
        let (_, field) = FIELDS.iter().find(|(parameter, _)| *parameter == name)?;
        let place = match self.places.get(field) {
            Some(place) => format!("\n  set at {place} (`{field}`)"),
            None => format!("\n  set by `{field}`"),
        };
        let hint = match name {
            "temperature" | "top_p" | "max_tokens" => {
                "remove it, or set `model.reasoning: true` if this is a reasoning model"
            }
            "max_completion_tokens" => "remove it, or set `model.reasoning: false`",
            "reasoning_effort" => "remove it; this model does not support `openai.effort`",
            "tools" => "this model does not support tools; choose another model",
            _ => return Some((place, None)),
        };
        Some((place, Some(hint)))
    }
}

/// Converts a request for another model, which may or may not be a reasoning model.
pub(crate) fn adapt_to(model: &str, body: &Value) -> Value {
    let mut body = body.clone();
    echo::strip(&mut body);
    let reasoning = is_reasoning(model);
    if let Some(map) = body.as_object_mut() {
        if reasoning {
            for name in [
                "temperature",
                "top_p",
                number_odds::LOG_PROBS,
                number_odds::TOP_LOG_PROBS,
            ] {
                map.shift_remove(name);
            }
        }
        if let Some(max) = map.shift_remove(limit_name(!reasoning)) {
            map.insert(limit_name(reasoning).to_owned(), max);
        }
    }
    body
}

/// Whether the name of a model belongs to a family of reasoning models.
fn is_reasoning(name: &str) -> bool {
    // Routers put the vendor first: `openai/o3-mini`.
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let family = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    ["o1", "o3", "o4", "gpt-5"].into_iter().any(family)
}

fn limit_name(reasoning: bool) -> &'static str {
    if reasoning {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        // Its highest level.
        Effort::XHigh | Effort::Max => "xhigh",
    }
}

/// A notice about the parameters that are changed for a reasoning model.
fn notice(model: &str, reasoning: bool, omitted: &[&str], limited: bool) -> Option<String> {
    let mut changes = Vec::new();
    if !omitted.is_empty() {
        let verb = if omitted.len() == 1 { "is" } else { "are" };
        changes.push(format!("`{}` {verb} not sent", omitted.join("` and `")));
    }
    if reasoning && limited {
        changes.push("`max_tokens` is sent as `max_completion_tokens`".to_owned());
    }
    (!changes.is_empty()).then(|| format!("`{model}` is a reasoning model: {}", changes.join(", ")))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn parameters(model: &Value, openai: Option<&Value>) -> Parameters {
        let model = serde_json::from_value(model.clone()).unwrap();
        let openai = openai.map(|value| serde_json::from_value(value.clone()).unwrap());
        Parameters::of(&model, openai.as_ref())
    }

    #[test]
    fn the_smaller_limit_counts_and_wishes_change_nothing_else() {
        for (own, wished, sent) in [
            (None, None, None),
            (Some(9), None, Some(9)),
            (None, Some(5), Some(5)),
            (Some(9), Some(5), Some(5)),
            (Some(5), Some(9), Some(5)),
        ] {
            for (name, key) in [("gpt-4o", "max_tokens"), ("o3-mini", "max_completion_tokens")] {
                let model = json!({"provider": "openai", "name": name, "max_tokens": own});
                let wishes = AnswerWishes {
                    max_tokens: wished,
                    ..AnswerWishes::default()
                };
                let body = parameters(&model, None).with(&wishes);
                assert_eq!(
                    body.get(key).and_then(Value::as_u64),
                    sent,
                    "{name} {own:?} {wished:?}"
                );
                assert_eq!(body.len(), usize::from(sent.is_some()));
            }
        }
        let wishes = AnswerWishes {
            stop: vec!["a".to_owned(), "b".to_owned()],
            ..AnswerWishes::default()
        };
        let model = json!({"provider": "openai", "name": "gpt-4o", "temperature": 0.5});
        assert_eq!(
            Value::Object(parameters(&model, None).with(&wishes)),
            json!({"temperature": 0.5, "stop": ["a", "b"]})
        );
        let model = json!({"provider": "openai", "name": "gpt-4o", "stop": ["own"]});
        for (wishes, sent) in [
            (wishes, json!({"stop": ["own", "a", "b"]})),
            (AnswerWishes::default(), json!({"stop": ["own"]})),
        ] {
            assert_eq!(Value::Object(parameters(&model, None).with(&wishes)), sent);
        }
    }

    #[test]
    fn nothing_is_sent_that_the_yaml_does_not_set() {
        let bare = parameters(&json!({"provider": "openai", "name": "gpt-4o"}), None);
        assert_eq!((Value::Object(bare.body), bare.notice), (json!({}), None));
        let set = parameters(
            &json!({"provider": "openai", "name": "gpt-4o", "temperature": 0.0, "top_p": 0.5, "max_tokens": 9}),
            Some(&json!({"effort": "max"})),
        );
        assert_eq!(
            Value::Object(set.body),
            json!({"temperature": 0.0, "top_p": 0.5, "max_tokens": 9, "reasoning_effort": "xhigh"})
        );
        assert_eq!(set.notice, None);
    }

    #[test]
    fn a_reasoning_model_gets_its_own_limit_and_no_sampling() {
        let model = json!({"provider": "openai", "name": "o3-mini", "temperature": 0.2, "top_p": 1.0, "max_tokens": 9});
        let found = parameters(&model, None);
        assert_eq!(Value::Object(found.body), json!({"max_completion_tokens": 9}));
        assert_eq!(
            found.notice.unwrap(),
            "`o3-mini` is a reasoning model: `temperature` and `top_p` are not sent, \
             `max_tokens` is sent as `max_completion_tokens`"
        );
        let mut marked = model.clone();
        marked["reasoning"] = json!(false);
        assert!(parameters(&marked, None).body.contains_key("temperature"));
        marked["name"] = json!("my-deployment");
        marked["reasoning"] = json!(true);
        assert!(!parameters(&marked, None).body.contains_key("temperature"));
    }

    #[test]
    fn families_of_reasoning_models() {
        for name in [
            "o1",
            "o1-preview",
            "o3-mini",
            "o4-mini",
            "gpt-5",
            "gpt-5.1",
            "GPT-5-mini",
            "openai/o3",
        ] {
            assert!(is_reasoning(name), "{name}");
        }
        for name in ["gpt-4o", "o10-x", "o1x", "olmo", "gpt-50", "my-o1"] {
            assert!(!is_reasoning(name), "{name}");
        }
    }

    #[test]
    fn a_request_is_adapted_to_the_fallback() {
        let body = json!({"messages": [], "temperature": 0.2, "max_tokens": 5});
        assert_eq!(
            adapt_to("o3", &body),
            json!({"messages": [], "max_completion_tokens": 5})
        );
        assert_eq!(adapt_to("gpt-4o-mini", &body), body);
        let reasoning = json!({"max_completion_tokens": 5});
        assert_eq!(adapt_to("gpt-4o", &reasoning), json!({"max_tokens": 5}));
    }
}
