//! Files that are not there, wherever a command names one: the message says it in words, not in those of the system.

use pretty_assertions::assert_eq;

use crate::project::{Project, TWO_CASES, agent};

/// Commands with the names of things that are not there.
const COMMANDS: &[&str] = &[
    "validate absent.yaml",
    "doctor absent.yaml",
    "run absent.yaml Hi",
    "chat absent.yaml --once Hi",
    "chat --once Hi --attach absent.txt",
    "chat --once Hi --replay absent.jsonl",
    "chat --from absent:1 --once Hi",
    "serve absent.yaml",
    "serve --replay absent.jsonl",
    "test absent.yaml",
    "test --prices absent.json",
    "test --replay absent.jsonl",
    "test --report json=absent/../agent.yaml/report.json",
    "test resume absent",
    "test regrade absent",
    "test merge absent.jsonl",
    "test compare absent.json other.json",
    "test compare agent.yaml/a.json agent.yaml/b.json",
    "test calibrate --labels absent.csv --metric x",
    "index build absent.yaml",
    "events check absent.jsonl",
    "events check absent/events.jsonl",
    "events check .",
    "events --agent absent.yaml stats x",
    "import promptfoo absent.yaml -o out",
    "import deepeval absent.json -o out",
    "import table absent.csv -o out",
    "agents eval absent.yaml",
    "mcp list --agent absent.yaml",
    "mcp remove x --agent absent.yaml",
    "sessions --agent absent.yaml list",
    "init agent.yaml/below",
];

#[test]
fn what_is_not_there_is_said_in_words() {
    let project = Project::with(&agent("http://127.0.0.1:9", TWO_CASES));
    let mut raw = Vec::new();
    let mut named = 0;
    for line in COMMANDS {
        let args: Vec<&str> = line.split(' ').collect();
        let ran = project.run(&args);
        let all = ran.all();
        assert!(
            ran.code.is_some_and(|code| code != 0) || line.contains("list"),
            "{line}: {all}"
        );
        named += usize::from(all.contains("absent") || all.contains("agent.yaml"));
        let words = ["os error", "entity not found", "ErrorKind", "Os {"];
        if words.iter().any(|word| all.contains(word)) {
            raw.push(format!("{line}: {all}"));
        }
    }
    assert_eq!(raw, Vec::<String>::new());
    assert!(named + 4 >= COMMANDS.len(), "{named} of {}", COMMANDS.len());
}
