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
async fn a_decimal_keeps_its_digits_or_is_refused() {
    let source = "import decimal\ndef f(n: decimal.Decimal = decimal.Decimal('0.10')):\n    return n\n\n\
                  def listed(n: decimal.Decimal):\n    yield n\n\ndef named(n: decimal.Decimal):\n    return {'n': n}\n";
    let agent = Agent::new().file("d.py", source);
    let tool = |function: &str| json!({"file": "d.py", "function": function});
    assert_eq!(
        schema(&agent, tool("f")).await["properties"]["n"]["default"],
        json!("0.10")
    );
    assert_eq!(agent.call(tool("f"), json!({})).await.text, "0.10");
    for digits in [
        "0.1000000000000000000",
        "100.00",
        "9.99999999999999999999",
        "-0.00",
        "1E+400",
    ] {
        for function in ["f", "listed", "named"] {
            let text = agent.call(tool(function), json!({"n": digits})).await.text;
            assert!(text.contains(digits), "{function}: {text}");
        }
    }
    // As a number they came here with other digits, or with none to spare.
    for number in [
        "0.12345678901234567890",
        "1234567890123456.7",
        "0.30000000000000004",
    ] {
        let number: Value = serde_json::from_str(number).unwrap();
        let text = agent.call(tool("f"), json!({"n": number})).await.text;
        assert!(text.contains("send it as a text"), "{number}: {text}");
    }
    for text in ["ten", "NaN", "1_000", " 1", "1,5", ""] {
        let refused = agent.call(tool("f"), json!({"n": text})).await.text;
        assert!(refused.contains("`n`"), "{text}: {refused}");
    }
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

/// A hint, a value as models write it, and the value that the function gets, as Python shows it.
const SCALARS: &[(&str, &str, &str)] = &[
    ("int", "5", "5"),
    ("int", "5.0", "5"),
    ("int", "-7.0", "-7"),
    ("int", "12345678901234567", "12345678901234567"),
    ("float", "5", "5.0"),
    ("float", "2.5", "2.5"),
    ("bool", "true", "True"),
    ("str", "\"5.0\"", "'5.0'"),
    ("Union[int, str]", "5.0", "5"),
    ("Union[str, int]", "5.0", "5"),
    ("Union[int, float]", "5.0", "5.0"),
    ("Union[float, int]", "5", "5"),
    ("Union[int, float]", "2.5", "2.5"),
    ("Any", "5.0", "5.0"),
    ("Level", "2", "<Level.HIGH: 2>"),
    ("Level", "2.0", "<Level.HIGH: 2>"),
    ("Color", "\"red\"", "<Color.RED: 'red'>"),
    ("Number", "5.0", "5"),
    ("Annotated[int, 'a number']", "5.0", "5"),
    ("decimal.Decimal", "0.1", "Decimal('0.1')"),
    ("decimal.Decimal", "5", "Decimal('5')"),
    (
        "decimal.Decimal",
        "0.123456789012345",
        "Decimal('0.123456789012345')",
    ),
    (
        "decimal.Decimal",
        "18446744073709551615",
        "Decimal('18446744073709551615')",
    ),
    ("decimal.Decimal", "\"1.10\"", "Decimal('1.10')"),
    (
        "decimal.Decimal",
        "\"-12345678901234567890.12345678901234567890\"",
        "Decimal('-12345678901234567890.12345678901234567890')",
    ),
    ("Union[decimal.Decimal, str]", "\"0.10\"", "Decimal('0.10')"),
    ("Union[decimal.Decimal, str]", "\"many\"", "'many'"),
];

/// The same for keys, which are texts in JSON.
const KEYS: &[(&str, &str, &str)] = &[
    ("str", "5", "'5'"),
    ("int", "5", "5"),
    ("int", "-5", "-5"),
    ("int", "5.0", "5"),
    ("int", "12345678901234567890", "12345678901234567890"),
    ("float", "0.5", "0.5"),
    ("bool", "true", "True"),
    ("bool", "False", "False"),
    ("Level", "2", "<Level.HIGH: 2>"),
    ("Level", "HIGH", "<Level.HIGH: 2>"),
    ("Color", "red", "<Color.RED: 'red'>"),
    ("Color", "RED", "<Color.RED: 'red'>"),
    ("Literal[1, 2]", "2", "2"),
    ("Union[int, str]", "2", "2"),
    ("Union[int, str]", "x", "'x'"),
    ("decimal.Decimal", "0.10", "Decimal('0.10')"),
    ("datetime.date", "2026-01-02", "datetime.date(2026, 1, 2)"),
    ("Any", "5", "'5'"),
];

const CLASSES: &str = r#"
import collections, dataclasses, datetime, decimal, enum
from typing import *

Number = NewType("Number", int)

class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

@dataclasses.dataclass
class Scaled:
    value: int
    factor: dataclasses.InitVar[int]
    offset: dataclasses.InitVar[int] = 1
    kind: ClassVar[str] = "scaled"
    total: int = dataclasses.field(init=False, default=0)

    def __post_init__(self, factor, offset):
        self.total = self.value * factor + offset
"#;

/// Every hint and value alone and within every container.
fn hinted_values() -> Vec<(String, String, String)> {
    let mut all: Vec<(String, String, String)> = Vec::new();
    let mut add = |hint: String, sent: String, got: String| all.push((hint, sent, got));
    for (hint, sent, got) in SCALARS {
        add((*hint).to_owned(), (*sent).to_owned(), (*got).to_owned());
        add(format!("Optional[{hint}]"), (*sent).to_owned(), (*got).to_owned());
        add(
            format!("List[{hint}]"),
            format!("[{sent}, {sent}]"),
            format!("[{got}, {got}]"),
        );
        add(
            format!("Tuple[{hint}, ...]"),
            format!("[{sent}]"),
            format!("({got},)"),
        );
        add(
            format!("Tuple[str, {hint}]"),
            format!("[\"a\", {sent}]"),
            format!("('a', {got})"),
        );
        add(format!("Set[{hint}]"), format!("[{sent}]"), format!("{{{got}}}"));
        add(
            format!("Dict[str, {hint}]"),
            format!("{{\"k\": {sent}}}"),
            format!("{{'k': {got}}}"),
        );
        add(
            format!("List[Dict[str, List[{hint}]]]"),
            format!("[{{\"k\": [{sent}]}}]"),
            format!("[{{'k': [{got}]}}]"),
        );
    }
    for (hint, sent, got) in KEYS {
        add(
            format!("Dict[{hint}, int]"),
            format!("{{\"{sent}\": 3.0}}"),
            format!("{{{got}: 3}}"),
        );
        add(
            format!("List[Mapping[{hint}, List[int]]]"),
            format!("[{{\"{sent}\": [3.0]}}]"),
            format!("[{{{got}: [3]}}]"),
        );
        add(
            format!("Counter[{hint}]"),
            format!("{{\"{sent}\": 3.0}}"),
            format!("Counter({{{got}: 3}})"),
        );
    }
    for (hint, sent, got) in [
        ("collections.Counter", "{\"a\": 2.0}", "Counter({'a': 2})"),
        (
            "collections.OrderedDict",
            "{\"a\": 2.0}",
            "OrderedDict([('a', 2.0)])",
        ),
        (
            "DefaultDict[str, int]",
            "{\"a\": 2.0}",
            "defaultdict(None, {'a': 2})",
        ),
        (
            "Scaled",
            "{\"value\": 3.0, \"factor\": 2.0}",
            "Scaled(value=3, total=7)",
        ),
        (
            "List[Scaled]",
            "[{\"value\": 3, \"factor\": 2, \"offset\": 0.0}]",
            "[Scaled(value=3, total=6)]",
        ),
    ] {
        add(hint.to_owned(), sent.to_owned(), got.to_owned());
    }
    all
}

#[tokio::test]
async fn every_hint_within_every_container_gets_the_value_that_it_promises() {
    let values = hinted_values();
    let hints = values.iter().enumerate();
    let hints: Vec<String> = hints
        .map(|(number, (hint, ..))| format!("a{number}: {hint}"))
        .collect();
    let source = format!(
        "{CLASSES}\ndef f({}):\n    return [repr(value) for value in locals().values()]\n",
        hints.join(", ")
    );
    let agent = Agent::new().file("t.py", &source);
    let sent = values.iter().enumerate();
    let sent: Vec<String> = sent
        .map(|(number, (_, sent, _))| format!("\"a{number}\": {sent}"))
        .collect();
    let arguments: Value = serde_json::from_str(&format!("{{{}}}", sent.join(", "))).unwrap();
    let tool = json!({"file": "t.py", "function": "f"});
    let reply = agent.call(tool, arguments).await.text;
    let got: Vec<String> = serde_json::from_str(&reply).unwrap_or_else(|error| panic!("{error}: {reply}"));
    assert_eq!(got.len(), values.len());
    // Versions of Python show an ordered dictionary in one of two forms.
    let newer = |got: &str| got.replace("OrderedDict({'a': 2.0})", "OrderedDict([('a', 2.0)])");
    let wrong: Vec<_> = values
        .iter()
        .zip(got)
        .filter(|((_, _, right), got)| newer(got) != *right)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
