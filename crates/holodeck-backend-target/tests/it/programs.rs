//! Programs and functions: what they answer, what they print beside it, and every way in which they misbehave.

use std::{fs, path::PathBuf};

use holodeck_backend_api::{AgentBackend as _, BackendError, TokenUsage};
use holodeck_model::{CommandTarget, FunctionTarget, TargetConfig};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{ask, backend};

/// A folder of a test, which is deleted at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("holodeck-target-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A Python program.
fn python(script: &str, fields: &Value) -> TargetConfig {
    let mut config = json!({"command": "python3", "args": ["-c", script]});
    config
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    TargetConfig::Command(serde_json::from_value::<CommandTarget>(config).unwrap())
}

fn function(file: &str, name: &str) -> TargetConfig {
    TargetConfig::Function(
        serde_json::from_value::<FunctionTarget>(json!({"file": file, "function": name})).unwrap(),
    )
}

#[tokio::test]
async fn a_program_reads_a_question_and_prints_its_answer() {
    let script = r#"
import json, sys
q = json.load(sys.stdin)
print("noise", file=sys.stderr)
print(json.dumps({"text": q["input"].upper(), "tool_calls": [{"name": "f", "arguments": {"n": len(q["messages"])}}],
    "usage": {"input_tokens": 3, "output_tokens": 2}, "finish_reason": "stop", "retrieval_context": []}))
"#;
    let result = ask(&python(script, &json!({})), "hi").await.unwrap();
    assert_eq!(result.response, "HI");
    assert_eq!(result.tool_calls[0].arguments, json!({"n": 1}));
    assert_eq!(result.token_usage, Some(TokenUsage::new(3, 2)));
    assert_eq!(result.passages, Some(Vec::new()));
}

#[tokio::test]
async fn a_program_may_print_plain_text() {
    let result = ask(
        &python("print('  two\\nlines  ')", &json!({"output": "text"})),
        "?",
    )
    .await
    .unwrap();
    assert_eq!(result.response, "  two\nlines  ");
}

#[tokio::test]
async fn a_program_sees_only_harmless_variables_and_its_own() {
    let script = "import json, os; print(json.dumps({'text': ','.join(sorted(n for n in os.environ if n in ('OWN', 'PATH', 'CARGO')))}))";
    let result = ask(&python(script, &json!({"env": {"OWN": "1"}})), "?")
        .await
        .unwrap();
    assert_eq!(result.response, "OWN,PATH");
}

#[tokio::test]
async fn a_program_that_misbehaves_is_an_error_and_never_an_answer() {
    let cases = [
        ("print('log'); print('{\"text\": \"x\"}')", "it printed no JSON"),
        ("pass", "it printed nothing"),
        ("print('[1]')", "JSON that is no object"),
        ("print('{\"text\": 3}')", "is a number and not a text"),
        ("print('{\"answer\": \"x\"}')", "matches nothing"),
        (
            "print('{\"error\": \"no stock\"}')",
            "reported an error: no stock",
        ),
        (
            "print('{\"text\": \"x\"}'); import sys; sys.exit(3)",
            "exit code 3",
        ),
        (
            "print('{\"text\": \"x\"}', flush=True); import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "killed by SIGKILL",
        ),
        ("raise ValueError('boom')", "ValueError: boom"),
        (
            "import sys; sys.stdout.buffer.write(b'{\"text\": \"\\xff\"}')",
            "no UTF-8",
        ),
        (
            "import sys\nwhile True: sys.stdout.write('x' * 65536)",
            "wrote more than",
        ),
    ];
    for (script, problem) in cases {
        let error = ask(&python(script, &json!({})), "?").await.unwrap_err();
        let text = error.explanation().text();
        assert!(text.contains(problem), "{script}: {text}");
    }
    let missing = python("", &json!({"command": "no-such-program"}));
    let error = ask(&missing, "?").await.unwrap_err();
    assert!(error.to_string().contains("not found"), "{error}");
}

/// Whether a process with this id still runs.
fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim_start()
            .starts_with('Z')
    })
}

/// Polls until a process has ended.
async fn until_ended(pid: &str) {
    while runs(pid) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_program_that_hangs_ends_with_its_children_at_the_time_limit() {
    let folder = Folder::new("hangs");
    let pids = folder.file("pids", "");
    let script = format!(
        "import os, time\nif os.fork() == 0: pass\nopen({pids:?}, 'a').write(str(os.getpid()) + '\\n')\ntime.sleep(1000)"
    );
    for keep_alive in [false, true] {
        fs::write(&pids, "").unwrap();
        let target = python(&script, &json!({"timeout": 2.0, "keep_alive": keep_alive}));
        let error = ask(&target, "?").await.unwrap_err();
        assert!(matches!(error, BackendError::Timeout { .. }), "{error:?}");
        let started = fs::read_to_string(&pids).unwrap();
        assert_eq!(started.lines().count(), 2, "{started}");
        for pid in started.lines() {
            until_ended(pid).await;
        }
    }
}

const ECHO: &str = r#"
import json, os, sys
for line in sys.stdin:
    q = json.loads(line)
    print(json.dumps({"id": q["id"], "text": q["input"] + " " + str(os.getpid())}), flush=True)
"#;

#[tokio::test]
async fn a_kept_program_answers_many_conversations_unless_each_has_its_own() {
    for (fresh, processes) in [(None, 1), (Some("case"), 2)] {
        let backend = backend(&python(ECHO, &json!({"keep_alive": true, "fresh": fresh})));
        let mut answers = Vec::new();
        for _ in 0..2 {
            let mut session = backend.create_session().await.unwrap();
            for message in ["a", "b"] {
                answers.push(session.send(message).await.unwrap().response);
            }
            session.close().await.unwrap();
        }
        let mut pids: Vec<&str> = answers
            .iter()
            .map(|answer| answer.split_once(' ').unwrap().1)
            .collect();
        assert_eq!(pids[0], pids[1], "one conversation has one process");
        pids.dedup();
        assert_eq!(pids.len(), processes);
        backend.teardown().await.unwrap();
        for pid in pids {
            until_ended(pid).await;
        }
    }
}

#[tokio::test]
async fn a_kept_program_that_misbehaves_is_replaced_for_the_next_message() {
    let cases = [
        ("print('log', flush=True)", "a line that is no JSON"),
        ("print(json.dumps({'text': 'x'}), flush=True)", "has no `id`"),
        (
            "print(json.dumps({'id': q['id'] + 1, 'text': 'x'}), flush=True)",
            "with the id 2 instead of 1",
        ),
        ("sys.exit(4)", "exit code 4"),
        (
            "sys.stdout.write('{\"id\": 1'); sys.stdout.flush(); sys.exit(0)",
            "ended without an answer",
        ),
    ];
    for (misbehave, problem) in cases {
        let script = format!(
            "import json, os, sys\nfor line in sys.stdin:\n    q = json.loads(line)\n    if q['input'] == 'bad': {misbehave}\n    else: print(json.dumps({{'id': q['id'], 'text': 'good'}}), flush=True)"
        );
        let backend = backend(&python(&script, &json!({"keep_alive": true})));
        let error = backend.invoke_once("bad", &[]).await.unwrap_err();
        assert!(error.to_string().contains(problem), "{misbehave}: {error}");
        assert_eq!(backend.invoke_once("good", &[]).await.unwrap().response, "good");
    }
}

#[tokio::test]
async fn functions_in_both_languages_answer_alike() {
    let folder = Folder::new("functions");
    let py = folder.file(
        "agent.py",
        r#"
import os, sys
print("loaded")
async def coroutine(input, messages, vars=None):
    print("noise"); os.system("echo more noise"); sys.stdout.flush()
    return {"text": input.upper(), "tool_calls": [{"name": "f", "arguments": {"n": len(messages)}}]}
def text(request): return request["input"] + "!"
def error(input): raise KeyError("no stock")
def odd(prompt): return prompt
def wrong(): return 3
def nothing(): pass
"#,
    );
    let js = folder.file(
        "agent.mjs",
        r#"
console.log("loaded");
export async function coroutine({ input, messages }) {
  console.log("noise"); process.stdout.write("more noise\n");
  return { text: input.toUpperCase(), tool_calls: [{ name: "f", arguments: { n: messages.length } }] };
}
export function text(request) { return request.input + "!"; }
export function error() { throw new Error("no stock"); }
export function wrong() { return 3; }
export function nothing() {}
"#,
    );
    for file in [&py, &js] {
        let result = ask(&function(file, "coroutine"), "hi").await.unwrap();
        assert_eq!(result.response, "HI", "{file}");
        assert_eq!(result.tool_calls[0].arguments, json!({"n": 1}), "{file}");
        assert_eq!(
            ask(&function(file, "text"), "hi").await.unwrap().response,
            "hi!",
            "{file}"
        );
        for (name, problem) in [
            ("error", "no stock"),
            ("absent", "no function `absent`"),
            ("wrong", "matches nothing"),
            ("nothing", ""),
        ] {
            let error = ask(&function(file, name), "hi").await.unwrap_err().to_string();
            assert!(
                error.contains(problem) && error.contains(name),
                "{file} {name}: {error}"
            );
        }
    }
    let error = ask(&function(&py, "error"), "hi").await.unwrap_err().to_string();
    assert!(
        error.contains("KeyError") && error.contains("agent.py:8"),
        "{error}"
    );
    let error = ask(&function(&py, "odd"), "hi").await.unwrap_err().to_string();
    assert!(
        error.contains("a parameter `prompt`; the names are `input`"),
        "{error}"
    );
}

#[tokio::test]
async fn decimals_and_moments_become_texts_with_all_their_digits() {
    let folder = Folder::new("decimals");
    let file = folder.file(
        "agent.py",
        r#"
import dataclasses, datetime, decimal, pathlib, uuid

@dataclasses.dataclass
class Price:
    amount: decimal.Decimal

def exact(input):
    values = {
        "n": decimal.Decimal(input),
        "price": Price(decimal.Decimal("1.10")),
        "day": datetime.date(2026, 1, 2),
        "path": pathlib.PurePosixPath("/a"),
    }
    return {"text": "x", "tool_calls": [{"name": "f", "arguments": values}]}

def unknown(): return {"text": object()}
"#,
    );
    for digits in ["0.1000000000000000000", "12345678901234567890.5", "1E+400"] {
        let result = ask(&function(&file, "exact"), digits).await.unwrap();
        let expected = json!({"n": digits, "price": {"amount": "1.10"}, "day": "2026-01-02", "path": "/a"});
        assert_eq!(result.tool_calls[0].arguments, expected);
    }
    let error = ask(&function(&file, "unknown"), "")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("the function returned a object"), "{error}");
}

#[tokio::test]
async fn a_function_is_loaded_once_and_keeps_what_it_learnt() {
    let folder = Folder::new("state");
    let file = folder.file(
        "agent.py",
        "n = 0\ndef count(input):\n    global n\n    n += 1\n    return str(n)\n",
    );
    let backend = backend(&function(&file, "count"));
    let answers = [
        backend.invoke_once("a", &[]).await,
        backend.invoke_once("b", &[]).await,
    ];
    let answers: Vec<String> = answers
        .into_iter()
        .map(|answer| answer.unwrap().response)
        .collect();
    assert_eq!(answers, ["1", "2"]);
}
