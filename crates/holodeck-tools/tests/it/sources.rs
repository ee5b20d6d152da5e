//! Tools that are added and removed while an agent runs, as by an MCP server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use holodeck_backend_api::{
    RequestPlace, SideEffects, Tool, ToolCx, ToolError, ToolHost as _, ToolOutput, ToolSource, ToolSpec,
};
use holodeck_tools::Toolbox;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::agent::call;

/// A tool that returns the name of its source.
struct NamedTool {
    spec: ToolSpec,
    source: &'static str,
}

#[async_trait]
impl Tool for NamedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: Value, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        if self.spec.name == "slow" {
            cx.cancel.cancelled().await;
            return Err(ToolError::Cancelled);
        }
        Ok(ToolOutput::ok(format!("{} of {}", self.spec.name, self.source)))
    }
}

fn tool(source: &'static str, name: &str, parameters: Value) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters,
        side_effects: SideEffects::None,
    };
    Arc::new(NamedTool { spec, source })
}

/// A server whose list of tools can be replaced.
struct Server {
    name: &'static str,
    list: Mutex<(u64, Vec<Arc<dyn Tool>>)>,
}

impl Server {
    fn with(name: &'static str, names: &[&str]) -> Arc<Self> {
        let server = Arc::new(Self {
            name,
            list: Mutex::default(),
        });
        server.set_names(names);
        server
    }

    fn set_names(&self, names: &[&str]) {
        let tools = names
            .iter()
            .map(|name| tool(self.name, name, json!({"type": "object"})));
        self.set_tools(tools.collect());
    }

    fn set_tools(&self, tools: Vec<Arc<dyn Tool>>) {
        let mut list = self.list.lock().unwrap();
        *list = (list.0 + 1, tools);
    }
}

impl ToolSource for Server {
    fn revision(&self) -> u64 {
        self.list.lock().unwrap().0
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.list.lock().unwrap().1.clone()
    }
}

const LIMIT: Duration = Duration::from_secs(30);

fn names(specs: &[ToolSpec]) -> Vec<&str> {
    specs.iter().map(|spec| spec.name.as_str()).collect()
}

async fn call_tool(toolbox: &Toolbox, name: &str, arguments: Value) -> String {
    let output = toolbox.call(&call(name, arguments), ToolCx::default()).await;
    output.unwrap().text
}

#[tokio::test]
async fn added_tools_are_offered_and_called_and_removed_ones_are_not() {
    let server = Server::with("server", &["a", "b"]);
    let mut toolbox = Toolbox::new();
    let own = tool("yaml", "own", json!({"type": "object"}));
    toolbox.add(own, LIMIT).unwrap();
    toolbox.add_source(Arc::clone(&server) as Arc<dyn ToolSource>, LIMIT);
    assert_eq!(names(toolbox.specs()), ["own", "a", "b"]);
    assert_eq!(names(&toolbox.current()), ["own", "a", "b"]);

    server.set_names(&["b", "c"]);
    assert_eq!(names(&toolbox.current()), ["own", "b", "c"]);
    assert_eq!(
        names(&toolbox.specs_for_request(RequestPlace::default())),
        ["own", "b", "c"]
    );
    // The original list does not change.
    assert_eq!(names(toolbox.specs()), ["own", "a", "b"]);
    assert_eq!(call_tool(&toolbox, "c", json!({})).await, "c of server");
    assert_eq!(
        call_tool(&toolbox, "a", json!({})).await,
        "there is no tool `a`; there are `own`, `b`, `c`"
    );
    server.set_names(&[]);
    assert_eq!(names(&toolbox.current()), ["own"]);
}

#[tokio::test]
async fn the_first_of_two_tools_with_the_same_name_is_used() {
    let (one, other) = (
        Server::with("one", &["x", "own"]),
        Server::with("other", &["x", "y"]),
    );
    let mut toolbox = Toolbox::new();
    let own = tool("yaml", "own", json!({"type": "object"}));
    toolbox.add(own, LIMIT).unwrap();
    toolbox.add_source(one.clone(), LIMIT);
    toolbox.add_source(other, LIMIT);
    assert_eq!(names(toolbox.specs()), ["own", "x", "y"]);
    for (name, answer) in [("own", "own of yaml"), ("x", "x of one"), ("y", "y of other")] {
        assert_eq!(call_tool(&toolbox, name, json!({})).await, answer);
    }
    // The tool of the other source is used now.
    one.set_names(&[]);
    assert_eq!(call_tool(&toolbox, "x", json!({})).await, "x of other");
    assert_eq!(names(&toolbox.current()), ["own", "x", "y"]);
}

#[tokio::test]
async fn arguments_are_checked_against_the_current_list() {
    let server = Server::with("server", &["a"]);
    let mut toolbox = Toolbox::new();
    toolbox.add_source(server.clone(), LIMIT);
    assert_eq!(call_tool(&toolbox, "a", json!({"n": "x"})).await, "a of server");
    let strict = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    server.set_tools(vec![tool("server", "a", strict)]);
    let refused = call_tool(&toolbox, "a", json!({"n": "x"})).await;
    assert!(refused.starts_with("invalid arguments"), "{refused}");
    // A server with an invalid schema checks the arguments itself.
    server.set_tools(vec![tool("server", "a", json!({"type": "nonsense"}))]);
    assert_eq!(call_tool(&toolbox, "a", json!({"n": "x"})).await, "a of server");
}

#[tokio::test(start_paused = true)]
async fn a_source_has_its_own_time_limit() {
    let mut toolbox = Toolbox::new();
    toolbox.add_source(Server::with("server", &["slow"]), Duration::from_secs(7));
    assert_eq!(
        call_tool(&toolbox, "slow", json!({})).await,
        "no answer within 7 s"
    );
}
