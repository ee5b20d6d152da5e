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

/// The functions of a file, by which endpoints refused whole agents.
const BARE: &str = r#"
import dataclasses, datetime, decimal, enum, pathlib, uuid
import collections.abc as abc
from collections import deque
from typing import *

class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

class Odd(enum.Enum):
    FIRST = (1, 2)

@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
    color: Color = Color.RED
    tags: set = dataclasses.field(default_factory=set)

class Pair(NamedTuple):
    a: int
    b: Level = Level.LOW

class Opts(TypedDict, total=False):
    tags: list
    point: Point

def bare(a: list, b: set, c: tuple = (), d: Optional[list] = None, e: List = [], f: Dict[str, list] = {},
         g: Tuple[int, int] = (1, 2), o: Opts = {}, x: Any = None, q: deque = None, s: abc.Sequence = (),
         t: Tuple[int, Color] = None, n: frozenset = None, u: Set[Color] = None):
    return sorted((name, repr(value)) for name, value in locals().items() if value is not None)

def records(p: Point, pair: Pair, many: List[Point] = []):
    return [repr(p), repr(pair), repr(many)]

def choices(c: Color, l: Level, odd: Odd, lit: Literal["a", Color.BLUE], u: Union[Level, str, None] = Level.HIGH):
    return [repr(c), repr(l), repr(odd), repr(lit), repr(u)]

def texts(d: datetime.date, t: datetime.datetime, n: decimal.Decimal, p: pathlib.Path, u: uuid.UUID):
    return [repr(d), repr(t), repr(n), type(p).__name__[-4:], repr(u)]

def pieces(q: str = ""):
    yield "a"
    yield Color.RED

async def later():
    yield {"set": {2, 1}}

def values():
    yield from [Point(1), Pair(2), Odd.FIRST, decimal.Decimal("1.5"), pathlib.PurePosixPath("/a"), map(str, [1])]
"#;

#[tokio::test]
async fn every_hint_becomes_a_complete_schema() {
    let agent = Agent::new().file("t.py", BARE);
    for function in ["bare", "records", "choices", "texts"] {
        let found = schema(&agent, json!({"file": "t.py", "function": function})).await;
        insta::assert_json_snapshot!(format!("complete_{function}"), found);
        assert_eq!(holodeck_model::complete_tool_schema(found.clone()), found);
    }
}

#[tokio::test]
async fn functions_get_the_values_that_their_hints_promise() {
    let agent = Agent::new().file("t.py", BARE);
    let call = async |function: &str, arguments: Value| {
        let tool = json!({"file": "t.py", "function": function});
        agent.call(tool, arguments).await.text
    };
    let bare = json!({"a": [1], "b": ["x"], "c": [2], "d": null, "g": [3, 4], "o": {"tags": [], "point": {"x": 1}},
        "q": [5], "s": [6], "t": [7, "blue"], "n": [8], "u": ["red"]});
    let found = [
        call("bare", bare).await,
        call(
            "records",
            json!({"p": {"x": 1, "color": "blue", "tags": ["t"]}, "pair": {"a": 2, "b": 2}, "many": [{"x": 3}]}),
        )
        .await,
        call("records", json!({"p": {"x": 1, "z": 2}, "pair": {"a": 2}})).await,
        call("choices", json!({"c": "red", "l": 2, "odd": "FIRST", "lit": "blue", "u": "text"})).await,
        call("choices", json!({"c": "red", "l": 1, "odd": "FIRST", "lit": "a", "u": 1})).await,
        call("choices", json!({"c": "green", "l": 1, "odd": "FIRST", "lit": "a"})).await,
        call(
            "texts",
            json!({"d": "2026-01-02", "t": "2026-01-02T03:04:05Z", "n": 1.5, "p": "/a",
                "u": "12345678-1234-5678-1234-567812345678"}),
        )
        .await,
        call("pieces", json!({})).await,
        call("later", json!({})).await,
        call("values", json!({})).await,
    ];
    insta::assert_snapshot!(found.join("\n"));
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

#[tokio::test]
async fn a_parameter_that_has_no_name_for_callers_keeps_its_default_beside_others() {
    let source = "def f(a=3, b=4, /, c=5):\n    return [a, b, c]\n\ndef g(a, b=4, /):\n    return [a, b]\n";
    let agent = Agent::new().file("p.py", source);
    for (function, arguments, wanted) in [
        ("f", json!({}), "[3, 4, 5]"),
        ("f", json!({"b": 9}), "[3, 9, 5]"),
        ("f", json!({"c": 8}), "[3, 4, 8]"),
        ("f", json!({"c": 8, "a": 1}), "[1, 4, 8]"),
        ("g", json!({"a": 1}), "[1, 4]"),
    ] {
        let tool = json!({"file": "p.py", "function": function});
        assert_eq!(
            agent.call(tool, arguments.clone()).await.text,
            wanted,
            "{function} {arguments}"
        );
    }
    let tool = json!({"file": "p.py", "function": "g"});
    let refused = agent.call(tool, json!({"b": 2})).await.text;
    assert!(refused.contains("\"a\" is a required property"), "{refused}");
}
