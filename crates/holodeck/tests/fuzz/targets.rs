//! The fuzz targets: functions over bytes that must not panic, hang or use unbounded memory, and that return a
//! fingerprint of their outcome.

use std::{
    fmt::Debug,
    hash::BuildHasher as _,
    path::Path,
    sync::{Arc, LazyLock},
};

use futures::FutureExt as _;
use holodeck_backend_api::{ModelCalls as _, ModelDelta, ModelRequest};
use holodeck_backend_claude::replay;
use holodeck_backend_openai::HttpModelCalls;
use holodeck_cassette::{Cassette, Replayer};
use holodeck_http::{HttpClient, HttpOptions, SseDecoder, decode_sse};
use holodeck_model::{AgentsConfig, Env, MemoryFiles, Redactor};
use holodeck_orchestrator::{AgentRegistry, AgentSelector, SelectionTask};
use holodeck_runs::Journal;
use holodeck_yaml::{Load, load_agent, load_agent_doc};
use serde_json::json;
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Fixtures with this extension are seeds too.
    pub(crate) extension: &'static str,
    /// Tokens of the language.
    pub(crate) words: &'static [&'static str],
    pub(crate) run: fn(&[u8]) -> Outcome,
}

/// A fingerprint of what happened.
pub(crate) type Outcome = u64;

pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: "agent",
        extension: "yaml",
        words: YAML,
        run: agent,
    },
    Target {
        name: "cases",
        extension: "yaml",
        words: YAML,
        run: cases,
    },
    Target {
        name: "instructions",
        extension: "md",
        words: YAML,
        run: instructions,
    },
    Target {
        name: "agent-doc",
        extension: "md",
        words: AGENT_DOC,
        run: agent_doc,
    },
    Target {
        name: "sse",
        extension: "sse",
        words: SSE,
        run: sse,
    },
    Target {
        name: "answer",
        extension: "sse",
        words: ANSWER,
        run: answer,
    },
    Target {
        name: "cassette",
        extension: "jsonl",
        words: JSON,
        run: cassette,
    },
    Target {
        name: "journal",
        extension: "jsonl",
        words: JSON,
        run: journal,
    },
    Target {
        name: "stream-json",
        extension: "jsonl",
        words: STREAM_JSON,
        run: stream_json,
    },
];

const YAML: &[&str] = &[
    "- ",
    ": ",
    "? ",
    "\n",
    "\n  ",
    "\n---\n",
    "\n...\n",
    "&a ",
    "*a",
    "<<: *a\n",
    "[",
    "]",
    "{",
    "}",
    ",",
    "|\n",
    ">-\n",
    "'",
    "\"",
    "\\",
    "# ",
    "!!str ",
    "!!map ",
    "!x ",
    "%YAML 1.1\n",
    "\u{feff}",
    "\r\n",
    "${A}",
    "${A:-b}",
    "$${A}",
    "${",
    "~",
    "null",
    "yes",
    "0x1f",
    "010",
    "1_000",
    "1:30",
    "1e400",
    ".nan",
    "-.inf",
    "99999999999999999999",
    "2024-01-01",
    "name: a\n",
    "model: {provider: openai, name: m}\n",
    "instructions: {inline: i}\n",
    "test_cases:\n- input: q\n",
    "evaluations: {metrics: []}\n",
    "type: standard",
    "metric: regex",
    "value: \"(a*)*b\"",
    "expected_tools: [a]",
    "tools:\n- {type: function, name: f, description: d, file: f.py, function: f}\n",
    "turns:\n- input: q\n",
    "é",
    "日",
];

const AGENT_DOC: &[&str] = &[
    "---\n",
    "name: a\n",
    "description: b: c\n",
    "tools: Read, Bash(git:*), (\n",
    "triggers: [a, b c]\n",
    "globs: \"**/*.{rs\"\n",
    "boosts: {keywords: [a], amount: 1}\n",
    "\n## Triggers\n- ",
    "\n## Focus Areas\n- **A**: b, c\n",
    "\n## Boundaries\n**Will:**\n- ",
    "\n### Will Not\n",
    "```\n",
    "\r\n",
    "\u{feff}",
];

const SSE: &[&str] = &[
    "data: ",
    "data:",
    "data",
    "event: x",
    "id: 1",
    "retry: 9",
    ": c",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\r\r",
    "\u{feff}",
    "{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}",
    "[DONE]",
    "\u{2028}",
    "é",
];

const ANSWER: &[&str] = &[
    "data: ",
    "\n\n",
    "[DONE]",
    "event: error\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "null",
    "1e999",
    "\\ud800",
    "\"choices\":",
    "\"delta\":",
    "\"content\":",
    "\"message\":",
    "\"reasoning\":",
    "\"refusal\":",
    "\"usage\":",
    "\"tool_calls\":",
    "\"index\":",
    "\"id\":",
    "\"function\":",
    "\"arguments\":",
    "\"name\":",
    "\"type\":",
    "\"finish_reason\":\"stop\"",
    "\"error\":",
    "\"code\":",
    "[{\"type\":\"text\",\"text\":\"a\"}]",
];

const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    "\"\"",
    "null",
    "true",
    "-1",
    "0.5",
    "1e999",
    "18446744073709551615",
    "4294967296",
    "\\u0000",
    "\\ud800",
    "{\"case\":",
    "{\"end\":",
    "\"index\":",
    "\"holodeck_journal\":3",
    "\"holodeck_cassette\":2",
    "\"selected\":{\"first\":3}",
    "é",
];

const STREAM_JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "\n",
    "null",
    "true",
    "1e999",
    "\\ud83d",
    "\\ude00",
    "{\"type\":\"stream_event\",\"event\":",
    "{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"content\":[",
    "{\"type\":\"user\",\"message\":{\"content\":[",
    "{\"type\":\"result\",\"subtype\":\"success\"",
    "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}\n",
    "{\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}}\n",
    "{\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\"}}}\n",
    "{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}}\n",
    "{\"type\":\"content_block_stop\"}}\n",
    "{\"type\":\"message_stop\"}}\n",
    "{\"type\":\"text\",\"text\":\"a\"}",
    "{\"type\":\"thinking\",\"thinking\":\"a\",\"signature\":\"s\"}",
    "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"StructuredOutput\",\"input\":{}}",
    "{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"a\"}",
    "]}}\n",
    "\"parent_tool_use_id\":\"t\"",
    "\"usage\":{\"input_tokens\":18446744073709551615}",
    "\"structured_output\":{}",
    "\"is_error\":true",
    "\"subtype\":\"error_during_execution\"",
    "\"api_error_status\":529",
];

/// An agent's file: every problem has a place in it, and there is an agent exactly if no problem is an error.
fn agent(bytes: &[u8]) -> Outcome {
    load(&MemoryFiles::new().with("agent.yaml", bytes))
}

/// A file of test cases.
fn cases(bytes: &[u8]) -> Outcome {
    let agent =
        "{name: a, model: {provider: openai, name: m}, instructions: {inline: i}, test_cases_file: c.yaml}";
    load(&MemoryFiles::new().with("agent.yaml", agent).with("c.yaml", bytes))
}

/// Instructions with front matter.
fn instructions(bytes: &[u8]) -> Outcome {
    let agent = "{name: a, model: {provider: openai, name: m}, instructions: {file: i.md}}";
    load(&MemoryFiles::new().with("agent.yaml", agent).with("i.md", bytes))
}

/// A specialist agent, also as a file of Claude Code, and what is selected with it.
fn agent_doc(bytes: &[u8]) -> Outcome {
    let load = |path: &str| {
        let files = MemoryFiles::new().with(path, bytes);
        let (doc, load) = load_agent_doc(Path::new(path), false, &files);
        assert!(doc.is_none() || !load.has_errors());
        (doc, load.diagnostics.len())
    };
    let (doc, problems) = load("x.md");
    let claude = load(".claude/agents/x.md").1;
    let selected = doc.map(|doc| {
        let text = doc.body.clone();
        let (registry, _) = AgentRegistry::new(vec![doc]);
        let selector = AgentSelector::new(&registry, &AgentsConfig::default(), 0.5);
        let selection = selector.select(&SelectionTask {
            text,
            ..SelectionTask::default()
        });
        assert!((0.0..=1.0).contains(&selection.confidence));
        (selection.selected_by, selector.review(&registry).len().min(3))
    });
    outcome(&(selected, problems.min(5), claude.min(5)))
}

fn load(files: &MemoryFiles) -> Outcome {
    let env: Env = [("A", "a: [b")].into_iter().collect();
    let Load {
        agent,
        diagnostics,
        sources,
    } = load_agent(Path::new("agent.yaml"), &env, files);
    let errors = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .count();
    assert_eq!(
        agent.is_some(),
        errors == 0,
        "an agent must be loaded exactly if there are no errors; {errors} errors: {diagnostics:?}"
    );
    for diagnostic in &diagnostics {
        let places = diagnostic.labels.iter().map(|label| &label.location);
        for place in places.chain(&diagnostic.primary) {
            let Some(text) = sources.get(&place.path) else {
                continue;
            };
            let slice = text.get(place.span.start..place.span.end);
            assert!(slice.is_some(), "{place} is not in the text: {diagnostic:?}");
            assert!(place.line > 0 && place.column > 0, "{diagnostic:?}");
        }
    }
    let mut codes: Vec<String> = diagnostics
        .iter()
        .map(|diagnostic| format!("{:?}", diagnostic.code))
        .collect();
    codes.sort();
    codes.dedup();
    outcome(&codes)
}

/// A stream of events: the events do not depend on how the bytes are split.
fn sse(bytes: &[u8]) -> Outcome {
    let whole = decode_sse(bytes);
    let mut decoder = SseDecoder::new(usize::MAX);
    let mut events = Vec::new();
    let size = bytes.first().map_or(1, |byte| usize::from(*byte % 7) + 1);
    for piece in bytes.chunks(size) {
        decoder
            .push(piece, &mut events)
            .unwrap_or_else(|_| panic!("the decoder has no limit"));
    }
    events.extend(decoder.finish());
    assert_eq!(events, whole);
    let shapes: Vec<_> = events
        .iter()
        .take(6)
        .map(|event| (event.event.len().min(1), event.data.len().min(3)))
        .collect();
    outcome(&shapes)
}

/// A model's streamed answer.
fn answer(bytes: &[u8]) -> Outcome {
    static CALLS: LazyLock<HttpModelCalls> = LazyLock::new(model_calls);
    let deltas = match CALLS.decode(bytes) {
        Ok(deltas) => deltas,
        Err(error) => return outcome(&words(&error.to_string())),
    };
    let finishes = |delta: &ModelDelta| matches!(delta, ModelDelta::Finish { .. });
    assert!(
        deltas.last().is_some_and(finishes),
        "an answer without an end: {deltas:?}"
    );
    let kinds: Vec<_> = deltas.iter().take(8).map(std::mem::discriminant).collect();
    outcome(&kinds)
}

fn model_calls() -> HttpModelCalls {
    let agent = "{name: a, model: {provider: openai, name: m, api_key: k}, instructions: {inline: i}}";
    let files = MemoryFiles::new().with("agent.yaml", agent);
    let Some(agent) = load_agent(Path::new("agent.yaml"), &Env::empty(), &files).agent else {
        panic!("the agent of the target does not load");
    };
    let client = HttpClient::new(&HttpOptions::default());
    let client = client.unwrap_or_else(|error| panic!("no client: {error}"));
    let Some(model) = &agent.config.model else {
        panic!("the agent of the target has no model");
    };
    let calls = HttpModelCalls::for_agent(client, &agent, model, "model", None, &Env::empty());
    calls.unwrap_or_else(|error| panic!("no endpoint: {error}"))
}

/// A cassette, and the search for an answer in it.
fn cassette(bytes: &[u8]) -> Outcome {
    let file = write_file(bytes);
    let cassette = match Cassette::open(file.path()) {
        Ok(cassette) => Arc::new(cassette),
        Err(error) => return outcome(&words(&error.to_string())),
    };
    let _ = cassette.info().describe();
    let replayer = Replayer::new(cassette, Arc::new(Redactor::default()));
    let request = ModelRequest {
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        body: json!({"messages": [{"role": "user", "content": "hello"}]}).into(),
        unit: None,
    };
    let cancel = CancellationToken::new();
    let Some(answer) = replayer.call(&request, &cancel).now_or_never() else {
        panic!("a replay must answer immediately");
    };
    match answer {
        Ok(_) => outcome(&"an answer"),
        Err(error) => outcome(&words(&error.to_string())),
    }
}

/// A journal: if it can be read, it can be resumed without losing anything.
fn journal(bytes: &[u8]) -> Outcome {
    let file = write_file(bytes);
    let journal = match Journal::open(file.path()) {
        Ok(journal) => journal,
        Err(error) => return outcome(&words(&error.to_string())),
    };
    let read = |journal: &Journal| -> Vec<_> {
        let units = 0..journal.plan().len();
        units
            .map(|unit| {
                let answer = journal.unit(unit).map(Result::ok);
                (answer, journal.verdict(unit).map(Result::ok))
            })
            .collect()
    };
    let before = read(&journal);
    let finished = journal.finished();
    if journal.is_without_chain() {
        return outcome(&"a journal without digests");
    }
    let again = journal
        .reopen()
        .unwrap_or_else(|error| panic!("a journal that was opened cannot be reopened: {error}"));
    assert_eq!(read(&again), before);
    assert_eq!(again.finished(), finished);
    let found: Vec<_> = before
        .iter()
        .take(8)
        .map(|(_, verdict)| {
            verdict
                .as_ref()
                .map(|verdict| verdict.as_ref().map(|grade| grade.state))
        })
        .collect();
    outcome(&found)
}

/// The output of the Claude Code CLI: the events do not depend on how the bytes are split.
fn stream_json(bytes: &[u8]) -> Outcome {
    let output = extract_cli_output(bytes);
    let whole = replay(&output, usize::MAX);
    let size = bytes.first().map_or(1, |byte| usize::from(*byte % 7) + 1);
    let pieces = replay(&output, size);
    assert_eq!(pieces.events, whole.events);
    assert_eq!(pieces.endings, whole.endings);
    assert_eq!(pieces.errors, whole.errors);
    let kinds: Vec<_> = whole.events.iter().take(8).map(std::mem::discriminant).collect();
    let ending = whole.endings.first().map(|ending| words(ending).len());
    outcome(&(kinds, whole.endings.len().min(3), ending, whole.unread.min(3)))
}

/// Extracts the lines of the CLI from recordings, which wrap each line in an object with a time.
fn extract_cli_output(bytes: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let message = br#""dir":"out","msg":"#;
        let at = line.windows(message.len()).position(|window| window == message);
        match at.map(|at| &line[at + message.len()..]) {
            Some([message @ .., b'}', b'\n']) => {
                output.extend_from_slice(message);
                output.push(b'\n');
            }
            _ => output.extend_from_slice(line),
        }
    }
    output
}

/// Writes the bytes to a temporary file, in memory if possible.
fn write_file(bytes: &[u8]) -> NamedTempFile {
    let memory = Path::new("/dev/shm");
    let file = if memory.is_dir() {
        NamedTempFile::new_in(memory)
    } else {
        NamedTempFile::new()
    };
    let file = file.unwrap_or_else(|error| panic!("no temporary file: {error}"));
    std::fs::write(file.path(), bytes).unwrap_or_else(|error| panic!("no temporary file: {error}"));
    file
}

/// The first words of a message without numbers and names, so that similar failures have the same outcome.
pub(crate) fn words(message: &str) -> Vec<&str> {
    let words = message.split_whitespace();
    words
        .filter(|word| word.chars().all(|character| character.is_ascii_alphabetic()))
        .take(5)
        .collect()
}

pub(crate) fn outcome(value: &impl Debug) -> Outcome {
    std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().hash_one(format!("{value:?}"))
}
