//! Tests that every part of an agent that shapes its answers changes the fingerprint, under the name of that part.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use holodeck_cassette::digest;
use holodeck_model::ToolConfig;
use holodeck_retrieval::FileManifest;
use pretty_assertions::assert_eq;

use super::*;
use crate::AnswerSource;

const AGENT: &str = r#"
name: shop
model: {provider: openai, name: m, temperature: 0.5}
instructions: {file: instructions.md}
response_format: form.json
embedding_provider: {provider: hash}
execution: {llm_timeout: 20}
tools:
  - {type: function, name: orders, description: d, file: tools/orders.py, function: f, parameters: {},
     env: {MODE: strict, API_TOKEN: first-token}}
  - {type: function, name: check, description: d, command: ./bin/check, args: [./rules.txt, --map=map.csv, ./store, shop.db], parameters: {}}
  - {type: mcp, name: garden, description: d, command: python3, args: [-m, plants.garden, "--key", "${GARDEN_TOKEN}"],
     env_file: garden.env, headers: {}}
  - {type: prompt, name: sum_up, description: d, file: prompt.txt, parameters: {text: {type: string}}}
  - {type: vectorstore, name: kb, description: d, source: docs}
  - {type: function, name: mocked, description: d, file: mocked.py, function: f, parameters: {}, mock: "yes"}
test_cases:
  - {name: one, input: q, files: [{path: note.txt, type: text}]}
  - {name: two, turns: [{input: q, files: [{path: turn.txt, type: text}]}]}
"#;

const FILES: &[(&str, &str)] = &[
    ("agent.yaml", AGENT),
    ("instructions.md", "Be kind."),
    (
        "form.json",
        r#"{"type": "object", "properties": {"n": {"type": "integer"}}}"#,
    ),
    ("tools/orders.py", "def f(): return 1\n"),
    ("tools/helper.py", "x = 1\n"),
    ("tools/deep/er.py", "x = 1\n"),
    ("tools/__pycache__/c.py", "x = 1\n"),
    ("tools/.hidden/h.py", "x = 1\n"),
    ("tools/env/pyvenv.cfg", ""),
    ("tools/env/lib.py", "x = 1\n"),
    ("tools/readme.md", "x"),
    ("bin/check", "#!/bin/sh\n"),
    ("rules.txt", "none"),
    ("map.csv", "a,b"),
    ("store/file.txt", "x"),
    ("shop.db", "SQLite format 3\0 and rows"),
    ("plants/garden.py", "x = 1\n"),
    ("plants/rose.py", "x = 1\n"),
    ("garden.env", "# the garden\nSIZE=3\nAPI_KEY=first-key\n"),
    ("prompt.txt", "Sum up {{ text }}."),
    ("docs/a.md", "A"),
    ("mocked.py", "def f(): return 1\n"),
    ("note.txt", "n"),
    ("turn.txt", "t"),
    ("config.yaml", "{}\n"),
];

fn write(folder: &Path, name: &str, content: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in FILES {
        write(folder.path(), name, content);
    }
    folder
}

const VARIABLES: &[(&str, &str)] = &[
    ("OPENAI_API_KEY", "not-a-real-key-1"),
    ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"),
    ("GARDEN_TOKEN", "garden-token-1"),
    ("UNRELATED", "1"),
];

fn parts(folder: &Path, variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    parts_of(&folder.join("agent.yaml"), variables).unwrap()
}

fn parts_of(agent: &Path, variables: &[(&str, &str)]) -> Result<BTreeMap<String, String>, IdentityError> {
    let env: Env = VARIABLES.iter().chain(variables).copied().collect();
    let load = crate::load::load(agent, &env);
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    let answers = Answers::open(&AnswerSource::Live, None, &agent, &env).unwrap();
    let parts = fingerprint(&agent, &env, &answers);
    parts.map_err(|error| error.located(|field| agent.locate(field)))
}

fn differing_parts(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let all: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = all
        .into_iter()
        .filter(|part| before.get(*part) != after.get(*part));
    changed.cloned().collect()
}

/// The parts that must differ after a change of a file, of a text in `agent.yaml` or of a variable.
#[test]
fn each_part_that_shapes_an_answer_is_named() {
    let folder = project();
    let before = parts(folder.path(), &[]);
    let files: &[(&str, &[&str])] = &[
        ("instructions.md", &["instructions"]),
        // Python finds the modules of `-m` in the working directory, which is the agent's folder.
        (
            "tools/orders.py",
            &["tool garden: tools/orders.py", "tool orders: tools/orders.py"],
        ),
        (
            "tools/helper.py",
            &["tool garden: tools/helper.py", "tool orders: tools/helper.py"],
        ),
        (
            "tools/deep/er.py",
            &["tool garden: tools/deep/er.py", "tool orders: tools/deep/er.py"],
        ),
        (
            "tools/new.py",
            &["tool garden: tools/new.py", "tool orders: tools/new.py"],
        ),
        ("tools/__pycache__/c.py", &[]),
        ("tools/.hidden/h.py", &[]),
        ("tools/env/lib.py", &[]),
        ("tools/readme.md", &[]),
        ("bin/check", &["tool check: bin/check"]),
        ("rules.txt", &["tool check: rules.txt"]),
        ("map.csv", &["tool check: map.csv"]),
        ("store/file.txt", &[]),
        ("plants/garden.py", &["tool garden: plants/garden.py"]),
        ("plants/rose.py", &["tool garden: plants/rose.py"]),
        ("prompt.txt", &["tool sum_up: prompt.txt"]),
        ("docs/a.md", &["tool kb: docs/a.md"]),
        ("docs/b.md", &["tool kb: docs/b.md"]),
        ("mocked.py", &["tool garden: mocked.py"]),
        ("note.txt", &["test case: note.txt"]),
        ("turn.txt", &["test case: turn.txt"]),
    ];
    for (file, named) in files {
        let old = fs::read_to_string(folder.path().join(file));
        let changes = format!("{}# changed = 2\n", old.as_deref().unwrap_or_default());
        write(folder.path(), file, &changes);
        assert_eq!(
            differing_parts(&before, &parts(folder.path(), &[])),
            *named,
            "{file}"
        );
        match old {
            Ok(old) => write(folder.path(), file, &old),
            Err(_) => fs::remove_file(folder.path().join(file)).unwrap(),
        }
    }
    let texts: &[(&str, &str, &str, &[&str])] = &[
        ("form.json", "integer", "string", &["response_format"]),
        ("agent.yaml", "name: m,", "name: n,", &["model"]),
        ("agent.yaml", "temperature: 0.5", "temperature: 0.6", &["model"]),
        ("agent.yaml", "temperature: 0.5", "temperature: 0.5, rpm: 60", &[]),
        ("agent.yaml", "llm_timeout: 20", "llm_timeout: 30", &[]),
        (
            "agent.yaml",
            "llm_timeout: 20",
            "allow_private_urls: true",
            &["execution.allow_private_urls"],
        ),
        (
            "agent.yaml",
            "name: kb, description: d",
            "name: kb, description: e",
            &["tool kb"],
        ),
        (
            "agent.yaml",
            "provider: hash",
            "provider: ollama, name: e",
            &["embedding_provider"],
        ),
        ("agent.yaml", "mock: \"yes\"", "mock: \"no\"", &["tool mocked"]),
        (
            "agent.yaml",
            "MODE: strict",
            "MODE: loose",
            &["tool orders: variable MODE"],
        ),
        ("agent.yaml", "first-token", "second-token", &[]),
        (
            "agent.yaml",
            "API_TOKEN: first-token",
            "OTHER_TOKEN: first-token",
            &[
                "tool orders",
                "tool orders: variable API_TOKEN",
                "tool orders: variable OTHER_TOKEN",
            ],
        ),
        (
            "agent.yaml",
            "temperature: 0.5",
            "temperature: 0.5, api_key: not-a-real-key-2",
            &["model"],
        ),
        (
            "agent.yaml",
            "temperature: 0.5",
            "temperature: 0.5, endpoint: \"http://127.0.0.1:8/v1\"",
            &["model.endpoint"],
        ),
        ("garden.env", "SIZE=3", "SIZE=4", &["tool garden: garden.env"]),
        ("garden.env", "first-key", "second-key", &[]),
        ("agent.yaml", "input: q,", "input: r,", &[]),
    ];
    for (file, from, to, named) in texts {
        let old = fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(old.contains(from), "{from}");
        write(folder.path(), file, &old.replace(from, to));
        assert_eq!(
            differing_parts(&before, &parts(folder.path(), &[])),
            *named,
            "{to}"
        );
        write(folder.path(), file, &old);
    }
    let variables: &[(&str, &[&str])] = &[
        ("OPENAI_BASE_URL", &["variable OPENAI_BASE_URL"]),
        ("OPENAI_API_KEY", &[]),
        ("GARDEN_TOKEN", &[]),
        ("UNRELATED", &[]),
    ];
    for (name, named) in variables {
        let after = parts(folder.path(), &[(name, "http://127.0.0.1:7/other")]);
        assert_eq!(differing_parts(&before, &after), *named, "{name}");
    }
    assert_eq!(parts(folder.path(), &[]), before);
}

#[test]
fn folders_databases_and_devices_in_arguments_are_only_noted() {
    let folder = project();
    let before = parts(folder.path(), &[]);
    assert_eq!(before["tool check: store"], "a folder");
    assert_eq!(before["tool check: shop.db"], "a database");
    write(folder.path(), "shop.db", "SQLite format 3\0 and more rows");
    assert_eq!(parts(folder.path(), &[]), before);
    fs::remove_file(folder.path().join("shop.db")).unwrap();
    assert_eq!(
        differing_parts(&before, &parts(folder.path(), &[])),
        ["tool check: shop.db"]
    );
}

#[test]
fn many_files_have_one_digest() {
    let folder = project();
    for number in 0..40 {
        write(folder.path(), &format!("docs/{number}.md"), "n");
    }
    let before = parts(folder.path(), &[]);
    write(folder.path(), "docs/39.md", "m");
    assert_eq!(
        differing_parts(&before, &parts(folder.path(), &[])),
        ["tool kb: all files"]
    );
}

#[test]
fn a_document_that_did_not_change_is_not_read_again() {
    let folder = project();
    write(folder.path(), "docs/tape.txt", "{\"holodeck_cassette\":2}\n");
    let env: Env = VARIABLES.iter().copied().collect();
    let load = crate::load::load(&folder.path().join("agent.yaml"), &env);
    let agent = load.agent.unwrap();
    let tool = agent
        .config
        .tools
        .iter()
        .find(|tool| tool.name() == "kb")
        .unwrap();
    let ToolConfig::Vectorstore(kb) = tool else {
        panic!("{tool:?}")
    };
    let stored = crate::index::manifest(&agent, tool);
    let documents = |hours: u64| {
        let now = SystemTime::now() + Duration::from_hours(hours);
        files::documents(&kb.source, false, &agent, FileManifest::open(&stored, now)).unwrap()
    };
    let found = documents(1);
    assert_eq!(found, [("docs/a.md".to_owned(), digest(b"A"))].into());
    // A wrong digest in the manifest shows which files are read.
    let manifest = fs::read_to_string(&stored).unwrap();
    let mut manifest: Value = serde_json::from_str(&manifest).unwrap();
    let other = "0".repeat(64);
    for file in manifest["files"].as_object_mut().unwrap().values_mut() {
        file["digest"] = json!(other);
    }
    fs::write(&stored, manifest.to_string()).unwrap();
    assert_eq!(documents(2)["docs/a.md"], format!("sha256:{}", &other[..32]));
    write(folder.path(), "docs/a.md", "B");
    assert_eq!(documents(3)["docs/a.md"], digest(b"B"));
}

mod errors;
mod spellings;
mod table;
mod user_settings;
