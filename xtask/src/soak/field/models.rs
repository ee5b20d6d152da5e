//! Real programs between an agent and a model: the proxy of LiteLLM in front of a scripted model, and the small local model.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use serde_json::json;

use super::child::{Listening, free_port};
use super::{Outcome, Tested, store, version_of};
use crate::local_model::{self, MODEL_ID};
use crate::served::{Profile, build};
use crate::{host, services};

/// The proxy loads hundreds of modules before it listens.
const PATIENCE: Duration = Duration::from_mins(4);

/// The key of requests, which the proxy asks for.
const KEY: &str = "sk-field";

/// Cases that need the tool, an answer in a form, a judge and plain text.
const TOOLS: &str = "\
name: tools
model: {provider: openai, name: m, endpoint: \"ENDPOINT\", api_key: sk-field, max_tokens: 50}
instructions: {inline: Answer briefly.}
tools:
  - {type: function, name: weather, description: The weather of a city., command: ./weather.sh, parameters: {city: {type: string}}}
test_cases:
  - name: weather
    input: Weather in Paris and Rome?
    expected_tools: [weather]
    evaluations: [{metric: contains, value: sunny}]
";

const FORMAT: &str = "\
name: format
model: {provider: openai, name: m, endpoint: \"ENDPOINT\", api_key: sk-field, max_tokens: 50}
instructions: {inline: Answer briefly.}
response_format: {type: object, properties: {days: {type: integer}}, required: [days]}
test_cases:
  - {name: days, input: How long?, evaluations: [{metric: contains, value: '30'}]}
";

const PLAIN: &str = "\
name: plain
model: {provider: openai, name: MODEL, endpoint: \"ENDPOINT\", api_key: sk-field, max_tokens: 40, temperature: 0}
instructions: {inline: Answer briefly.}
test_cases:
  - {name: greeting, input: Say hello., evaluations: [{metric: regex, value: '\\w'}]}
";

/// The programs, in the order of the outcomes.
pub(super) fn programs() -> Vec<String> {
    vec![
        format!(
            "LiteLLM proxy {}, in front of a scripted model",
            services::LITELLM
        ),
        format!("{MODEL_ID} on llama.cpp (node-llama-cpp, `xtask/local-model`)"),
    ]
}

pub(in crate::soak) fn check() -> Result<()> {
    let program = build(Profile::Dev)?;
    let mut outcomes = [litellm(&program)?, local(&program)?];
    for (outcome, name) in outcomes.iter_mut().zip(programs()) {
        outcome.program = name;
    }
    store("models", &outcomes)
}

/// The model behind the proxy.
fn scripted(request: &ReceivedRequest) -> Reply {
    let has_results = request.messages().iter().any(|message| message["role"] == "tool");
    if request.body.get("response_format").is_some() {
        return Reply::openai_error(
            400,
            "This model does not support response format `json_schema`.",
            None,
            None,
        );
    }
    if request.body.get("tools").is_some() && !has_results {
        return Reply::nothing()
            .and_reasoning("I need the weather.")
            .and_tool_call("call_1", "weather", "{\"city\": \"Paris\"}")
            .and_tool_call("call_2", "weather", "{\"city\": \"Rome\"}")
            .in_pieces(4);
    }
    if has_results {
        return Reply::text("It is sunny in both.");
    }
    let asks_for_days = request.texts("user").iter().any(|text| text.contains("How long"));
    Reply::text(if asks_for_days { "{\"days\": 30}" } else { "Hello." })
}

/// The proxy in front of the scripted model.
fn litellm(program: &Path) -> Result<Outcome> {
    let model = ModelServer::answering(scripted);
    let proxy = start_proxy(&model.url())?;
    let endpoint = format!("{}/v1", proxy.url());
    let mut works = Vec::new();
    let mut adapted = Vec::new();
    for (agent, what) in [
        (TOOLS, "2 parallel tool calls"),
        (FORMAT, "structured answers"),
        (PLAIN, "text"),
    ] {
        let agent = agent.replace("ENDPOINT", &endpoint).replace("MODEL", "m");
        let tested = test(program, &agent).with_context(|| what)?;
        tested
            .ensure_passed()
            .with_context(|| format!("{what}; the proxy said:\n{}", proxy.log()))?;
        if agent.contains("weather.sh") {
            let cities: Vec<_> = tested.calls().into_iter().map(|(_, city, ..)| city).collect();
            let wanted = [json!({"city": "Paris"}), json!({"city": "Rome"})];
            ensure!(cities == wanted, "the calls are {cities:?}: {:#}", tested.case);
        }
        tested.ensure_usage().with_context(|| what)?;
        works.push(what.to_owned());
        adapted.extend(tested.adapted());
    }
    works.push("usage".to_owned());
    drop(proxy);
    model.finish();
    Ok(Outcome {
        program: String::new(),
        over: "",
        spoke: String::new(),
        on: version_of("python3"),
        works,
        adapted,
    })
}

fn start_proxy(upstream: &str) -> Result<Listening> {
    let python = services::litellm()?;
    let folder = tempfile::tempdir()?;
    let config = json!({
        "model_list": [{"model_name": "m", "litellm_params": {
            "model": "openai/m", "api_base": format!("{upstream}/v1"), "api_key": "sk-upstream",
        }}],
        "general_settings": {"master_key": KEY},
    });
    // JSON is YAML.
    let file = folder.path().join("config.yaml");
    fs::write(&file, config.to_string())?;
    let port = free_port()?;
    let mut command = host::command(&python);
    // Not by its script, which holds the place where it was installed.
    command
        .arg(python.with_file_name("litellm"))
        .arg("--config")
        .arg(&file)
        .args(["--host", "127.0.0.1", "--port", &port.to_string()])
        // It must ask only the scripted model.
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .env("LITELLM_TELEMETRY", "False")
        .env_remove("DATABASE_URL")
        .env_remove("LITELLM_MASTER_KEY");
    Listening::start(command, folder, port, PATIENCE)
}

/// The local model, which refuses tools and formats.
fn local(program: &Path) -> Result<Outcome> {
    let server = local_model::Server::start(0)?;
    let endpoint = server.endpoint.clone();
    let plain = PLAIN.replace("ENDPOINT", &endpoint).replace("MODEL", MODEL_ID);
    let tested = test(program, &plain)?;
    tested.ensure_passed()?;
    tested.ensure_usage()?;
    // The model is too small to be right; but the refusal of the format must be answered by the other form.
    let format = FORMAT
        .replace("ENDPOINT", &endpoint)
        .replace("name: m,", &format!("name: {MODEL_ID},"));
    let tested = test(program, &format)?;
    let adapted = tested.adapted();
    ensure!(
        adapted == ["response_format"],
        "adapted: {adapted:?} in {:#}\n{}",
        tested.case,
        tested.stderr
    );
    Ok(Outcome {
        program: String::new(),
        over: "",
        spoke: String::new(),
        on: format!("Node {}", version_of("node")),
        works: ["text", "usage"].map(str::to_owned).to_vec(),
        adapted,
    })
}

fn test(program: &Path, agent: &str) -> Result<Tested> {
    let folder = tempfile::tempdir()?;
    let tool = folder.path().join("weather.sh");
    fs::write(&tool, "#!/bin/sh\necho sunny\n")?;
    host::run(host::command("chmod").arg("755").arg(&tool))?;
    Tested::new(program, folder.path(), agent, &[])
}
