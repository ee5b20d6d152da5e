//! Tests of the schemas that are derived from type hints or declared in the YAML.

use holodeck_backend_api::ToolHost;
use holodeck_tools::SetupError;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::agent::Agent;

async fn schema(agent: &Agent, tool: Value) -> Value {
    agent.toolbox(&[tool]).await.unwrap().specs()[0]
        .parameters
        .clone()
}

#[tokio::test]
async fn type_hints_become_a_schema() {
    let agent = Agent::new().file(
        "t.py",
        r#"
import enum
from typing import *
from dataclasses import dataclass

class Filter(TypedDict, total=False):
    city: Required[str]
    limit: int

@dataclass
class Point:
    x: int

def unresolved(a: str, b: "Unknown" = None, c: "int" = object()):
    pass

def hinted(a: str, b: int, c: float, d: bool, e: list[str], g: Dict[str, int], h: Optional[int], i: int | str,
      j: Literal["x", "y"], k: Annotated[str, "an order id"], l: Filter, m: Sequence[float], n: tuple[int, ...], o: Point,
      p, r: int = 5, s: list = [1], t: object = object()) -> str:
    """Not used."""

def open_ended(a, *rest, **more):
    pass

def nothing():
    pass
"#,
    );
    let of = async |function: &str| schema(&agent, json!({"file": "t.py", "function": function})).await;
    insta::assert_json_snapshot!("hinted", of("hinted").await);
    let properties = of("unresolved").await["properties"].clone();
    assert_eq!(
        properties,
        json!({"a": {"type": "string"}, "b": {"default": null}, "c": {"type": "integer"}})
    );
    assert_eq!(
        of("open_ended").await,
        json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": true})
    );
    assert_eq!(
        of("nothing").await,
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false})
    );
}

#[tokio::test]
async fn parameters_of_the_yaml_are_required_by_default() {
    let tool = json!({"command": "true", "parameters": {
        "id": {"type": "string"},
        "limit": {"type": "integer", "default": 3},
        "note": {"type": "string", "optional": true},
        "page": {"type": "integer", "required": false},
        "must": {"type": "integer", "default": 1, "required": true},
        "nested": {"type": "object", "properties": {"a": {}}, "required": ["a"]},
    }});
    let schema = schema(&Agent::new(), tool).await;
    assert_eq!(schema["required"], json!(["id", "must", "nested"]));
    assert_eq!(schema["properties"]["page"], json!({"type": "integer"}));
    assert_eq!(schema["properties"]["note"], json!({"type": "string"}));
    assert_eq!(schema["properties"]["nested"]["required"], json!(["a"]));
}

#[tokio::test]
async fn the_problems_of_every_tool_are_reported() {
    let errors = Agent::new()
        .toolbox(&[
            json!({"name": "a", "command": "true"}),
            json!({"name": "a", "command": "true"}),
            json!({"name": "b", "file": "x.py"}),
            json!({"name": "c", "file": "x.py", "function": "f", "command": "true"}),
            json!({"name": "d", "command": "true", "parameters": {"x": {"type": "text"}}}),
        ])
        .await
        .err()
        .unwrap();
    let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(messages[0], "two tools are named `a`");
    assert_eq!(
        messages[1],
        "tool `b` needs either `file` and `function` or `command`"
    );
    assert_eq!(
        messages[2],
        "tool `c` needs either `file` and `function` or `command`"
    );
    assert!(
        messages[3].starts_with("the parameters of tool `d` are not a valid JSON Schema: "),
        "{}",
        messages[3]
    );
    assert!(matches!(errors[3], SetupError::Schema { .. }));
}
