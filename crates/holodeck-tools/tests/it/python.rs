//! Tests of Python functions as tools: results, failures, parameters and a missing interpreter.

use holodeck_backend_api::{ToolError, ToolOutput};
use holodeck_tools::SetupError;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::agent::Agent;

const FILE: &str = r#"
import os, sys, subprocess, dataclasses
from neighbour import PREFIX

print("loading")

@dataclasses.dataclass
class Point:
    x: int

def greet(name: str, times: int = 1):
    print("printed")
    sys.stdout.write("written")
    os.write(1, b"raw")
    subprocess.run(["echo", "child"])
    return PREFIX + " ".join([name] * times)

async def later(value):
    import asyncio
    await asyncio.sleep(0)
    return {"value": value, "é": [1, None, True]}

def kinds(which: str):
    return {"none": None, "list": [1, "a"], "object": Point(3), "nan": float("nan"), "text": '"quoted"', "empty": "", "half": "\ud800"}[which]

def fails(how: str):
    if how == "raise":
        raise ValueError("no order\nwith that id")
    if how == "bare":
        raise KeyError
    if how == "exit":
        sys.exit(3)
    if how == "die":
        print("last words", file=sys.stderr)
        os._exit(7)

def only(a, /, b, *, c):
    return [a, b, c]

def where():
    return os.getcwd() + " " + str(sorted(k for k in os.environ if "KEY" in k))

number = 7
"#;

fn agent() -> Agent {
    Agent::new()
        .file("tools/orders.py", FILE)
        .file("tools/neighbour.py", "PREFIX = '> '")
}

fn tool(function: &str) -> Value {
    json!({"file": "tools/orders.py", "function": function})
}

#[tokio::test]
async fn printed_text_is_not_part_of_the_result() {
    let output = agent()
        .call(tool("greet"), json!({"name": "Zoë", "times": 2}))
        .await;
    assert_eq!(output, ToolOutput::ok("> Zoë Zoë"));
}

#[tokio::test]
async fn async_functions_are_awaited() {
    let output = agent().call(tool("later"), json!({"value": 1.5})).await;
    assert_eq!(output, ToolOutput::ok(r#"{"value": 1.5, "é": [1, null, true]}"#));
}

#[tokio::test]
async fn text_stays_text_and_the_rest_is_json_or_str() {
    let agent = agent();
    for (which, expected) in [
        ("none", "null"),
        ("list", r#"[1, "a"]"#),
        ("object", "Point(x=3)"),
        ("nan", "nan"),
        ("text", r#""quoted""#),
        ("empty", ""),
        ("half", "\\ud800"),
    ] {
        assert_eq!(
            agent.call(tool("kinds"), json!({"which": which})).await,
            ToolOutput::ok(expected),
            "{which}"
        );
    }
}

#[tokio::test]
async fn a_failing_function_is_a_result_with_the_last_line_of_its_traceback() {
    let agent = agent();
    for (how, expected) in [
        ("raise", "ValueError: no order\nwith that id"),
        ("bare", "KeyError"),
        ("exit", "SystemExit: 3"),
    ] {
        assert_eq!(
            agent.call(tool("fails"), json!({"how": how})).await,
            ToolOutput::error(expected)
        );
    }
    let died = agent.call(tool("fails"), json!({"how": "die"})).await;
    assert!(died.is_error);
    assert!(
        died.text.starts_with("ended without a result, exit code 7: "),
        "{}",
        died.text
    );
    assert!(died.text.ends_with("last words"), "{}", died.text);
}

#[tokio::test]
async fn every_kind_of_parameter_is_filled() {
    let output = agent().call(tool("only"), json!({"a": 1, "b": 2, "c": 3})).await;
    assert_eq!(output, ToolOutput::ok("[1, 2, 3]"));
}

#[tokio::test]
async fn it_runs_beside_the_agent_without_keys() {
    let agent = agent();
    let folder = agent.path().canonicalize().unwrap();
    assert_eq!(
        agent.call(tool("where"), json!({})).await.text,
        format!("{} []", folder.display())
    );
}

#[tokio::test]
async fn a_function_that_can_not_be_run_is_unavailable() {
    let agent = agent()
        .file("broken.py", "import no_such_package")
        .file("wrong.py", "def f(:\n  pass");
    for (file, function, expected) in [
        ("gone.py", "f", "not found"),
        (
            "broken.py",
            "f",
            "ModuleNotFoundError: No module named 'no_such_package' (broken.py, line 1)",
        ),
        ("wrong.py", "f", "SyntaxError: invalid syntax (wrong.py, line 1)"),
        (
            "tools/orders.py",
            "gone",
            "LookupError: no function `gone` in orders.py",
        ),
        (
            "tools/orders.py",
            "number",
            "LookupError: `number` in orders.py is not a function",
        ),
    ] {
        // With `parameters` the file is not read before the call; without them the problem is reported at setup.
        let tool = json!({"file": file, "function": function, "parameters": {}});
        let error = agent.try_call(tool, json!({})).await.unwrap_err();
        assert!(
            matches!(&error, ToolError::Unavailable { reason, .. } if reason.ends_with(expected)),
            "{error:?}"
        );
        let errors = agent
            .toolbox(&[json!({"file": file, "function": function})])
            .await
            .err()
            .unwrap();
        assert!(
            matches!(errors.as_slice(), [SetupError::Introspection { reason, .. }] if reason.ends_with(expected)),
            "{errors:?}"
        );
    }
}

#[tokio::test]
async fn a_missing_python_is_named() {
    let mut agent = agent();
    agent.env.set("PATH", "/nowhere");
    let tool = json!({"file": "tools/orders.py", "function": "where", "parameters": {}});
    let error = agent.try_call(tool, json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "tool `tool` could not be run: `python3` not found on the PATH, and Python function tools need it"
    );
}
