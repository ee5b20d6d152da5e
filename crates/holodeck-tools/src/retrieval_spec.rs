//! The name and parameters under which the model sees a search, the same for every backend.

use holodeck_backend_api::{SideEffects, ToolSpec};
use serde_json::json;

/// The spec of a search tool: `<name>_search` with a `query`, the same for every kind of search and backend.
pub fn retrieval_spec(name: &str, description: &str) -> ToolSpec {
    ToolSpec {
        name: format!("{name}_search"),
        description: description.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to search for, in words"},
            },
            "required": ["query"],
        }),
        side_effects: SideEffects::None,
    }
}
