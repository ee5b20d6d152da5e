//! The body of a request to a model. The definitions of tools are most of it where an agent has many, and the same in
//! each request: they are kept and written as JSON once.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The field of a body with the definitions of tools.
const TOOLS: &str = "tools";

/// The definitions of the tools that a model is offered, in the form of its endpoint.
#[derive(Debug)]
pub struct ToolDefinitions {
    list: Vec<Value>,
    json: OnceLock<serde_json::Result<String>>,
}

impl ToolDefinitions {
    /// These definitions.
    pub fn new(list: Vec<Value>) -> Self {
        Self {
            list,
            json: OnceLock::new(),
        }
    }

    /// Whether no tool is offered.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The JSON array of them.
    ///
    /// # Errors
    /// If a value cannot be written as JSON.
    pub fn json(&self) -> Result<&str, &serde_json::Error> {
        let json = self.json.get_or_init(|| serde_json::to_string(&self.list));
        json.as_ref().map(String::as_str)
    }
}

/// The body of a request: messages, tools, response format, parameters. It is read as one JSON object, and shared, because
/// a conversation can be long.
#[derive(Clone, Debug)]
pub struct RequestBody {
    own: Arc<Value>,
    tools: Option<Arc<ToolDefinitions>>,
    /// With the tools, once someone reads it.
    whole: OnceLock<Arc<Value>>,
}

impl RequestBody {
    /// The body `own`, a JSON object, with these tools in addition, unless it has its own.
    pub fn with_tools(own: Value, tools: Arc<ToolDefinitions>) -> Self {
        let adds = !tools.is_empty() && own.get(TOOLS).is_none();
        Self {
            tools: adds.then_some(tools),
            ..own.into()
        }
    }

    /// The body without the shared tools.
    pub fn own(&self) -> &Value {
        &self.own
    }

    /// The shared tools, if there are any.
    pub fn tools(&self) -> Option<&ToolDefinitions> {
        self.tools.as_deref()
    }

    /// The same tools with another body `own`.
    #[must_use]
    pub fn with_own(&self, own: Value) -> Self {
        Self {
            tools: self.tools.clone(),
            ..own.into()
        }
    }

    /// The whole body, to change it.
    pub fn make_mut(&mut self) -> &mut Value {
        if let Some(tools) = self.tools.take() {
            self.own = self.whole.take().unwrap_or_else(|| join(&self.own, &tools));
        }
        self.whole = OnceLock::new();
        Arc::make_mut(&mut self.own)
    }
}

/// The object `own` with the tools.
fn join(own: &Value, tools: &ToolDefinitions) -> Arc<Value> {
    let mut whole = own.clone();
    if let Some(fields) = whole.as_object_mut() {
        fields.insert(TOOLS.to_owned(), Value::Array(tools.list.clone()));
    }
    Arc::new(whole)
}

impl Deref for RequestBody {
    type Target = Value;

    fn deref(&self) -> &Value {
        match &self.tools {
            Some(tools) => self.whole.get_or_init(|| join(&self.own, tools)),
            None => &self.own,
        }
    }
}

impl From<Value> for RequestBody {
    fn from(own: Value) -> Self {
        Self {
            own: Arc::new(own),
            tools: None,
            whole: OnceLock::new(),
        }
    }
}

impl PartialEq for RequestBody {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Serialize for RequestBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RequestBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::{RequestBody, ToolDefinitions};

    fn with_tools() -> RequestBody {
        let tools = ToolDefinitions::new(vec![json!({"name": "find"})]);
        RequestBody::with_tools(json!({"messages": ["a"], "seed": 1}), Arc::new(tools))
    }

    #[test]
    fn a_body_with_shared_tools_is_read_written_and_compared_as_one_object() {
        let whole = json!({"messages": ["a"], "seed": 1, "tools": [{"name": "find"}]});
        let body = with_tools();
        assert_eq!(*body, whole);
        assert_eq!(serde_json::to_value(&body).unwrap(), whole);
        assert_eq!(body, RequestBody::from(whole));
        assert_ne!(body, RequestBody::from(body.own().clone()));
    }

    #[test]
    fn what_is_changed_is_the_whole_body() {
        for is_read_before in [false, true] {
            let mut body = with_tools();
            if is_read_before {
                assert!(body.get("tools").is_some());
            }
            body.make_mut()["tools"][0]["name"] = json!("seek");
            body.make_mut()["seed"] = json!(2);
            let changed = json!({"messages": ["a"], "seed": 2, "tools": [{"name": "seek"}]});
            assert_eq!((&*body, body.own()), (&changed, &changed));
            assert!(body.tools().is_none());
        }
    }

    #[test]
    fn the_tools_stay_with_another_body_and_none_is_not_an_empty_list() {
        let other = with_tools().with_own(json!({"seed": 3}));
        assert_eq!(*other, json!({"seed": 3, "tools": [{"name": "find"}]}));
        let none = RequestBody::with_tools(json!({"seed": 4}), Arc::new(ToolDefinitions::new(Vec::new())));
        assert_eq!(*none, json!({"seed": 4}));
        let tools = Arc::new(ToolDefinitions::new(vec![json!({"name": "find"})]));
        let own = RequestBody::with_tools(json!({"tools": []}), tools);
        assert_eq!((&*own, own.tools().is_none()), (&json!({"tools": []}), true));
    }
}
