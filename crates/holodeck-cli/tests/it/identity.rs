//! The identity of an agent, however its file and the files of its tools are named.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{changes::GARDEN, project::Project};

/// Three tools whose files are in the folder of the agent file, each with a module beside it.
fn agent(url: &str, at: &str) -> String {
    format!(
        "name: shop\nmodel: {{provider: openai, name: m, endpoint: \"{url}\"}}\ninstructions: {{inline: Sell.}}\n\
         tools:\n\
         \x20 - {{type: function, name: price, description: d, file: {at}t.py, function: price, parameters: {{}}}}\n\
         \x20 - {{type: function, name: stock, description: d, command: python3, args: [{at}run.py], parameters: {{}}}}\n\
         \x20 - {{type: mcp, name: garden, description: d, command: python3, args: [{at}server.py]}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases: [{{name: one, input: How much?, ground_truth: \"7\", expected_tools: [price]}}]\n"
    )
}

fn files() -> [(&'static str, &'static str); 4] {
    [
        (
            "t.py",
            "from beside import PRICE\ndef price():\n    return PRICE\n",
        ),
        ("beside.py", "PRICE = 7\n"),
        ("run.py", "print('{}')\n"),
        ("server.py", GARDEN),
    ]
}

/// A model that asks for the price and answers with it.
fn seller() -> ModelServer {
    ModelServer::answering(|request| {
        let messages = request.messages();
        match messages[messages.len() - 1]["role"].as_str() {
            Some("tool") => Reply::text(messages[messages.len() - 1]["content"].as_str().unwrap()),
            _ => Reply::tool_call("c1", "price", &json!({})),
        }
    })
}

fn project(server: &ModelServer, at: &str) -> Project {
    let project = Project::with(&agent(&server.url(), at));
    for (name, content) in files() {
        project.write(name, content);
    }
    project
}

/// The identity in the newest journal below `folder`.
fn identity(folder: &Path) -> BTreeMap<String, String> {
    let mut journals: Vec<_> = fs::read_dir(folder.join(".holodeck/runs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    journals.sort();
    let journal = fs::read_to_string(journals.last().unwrap()).unwrap();
    let head: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    let agent = head.pointer("/agent").or_else(|| head.pointer("/run/agent"));
    serde_json::from_value(agent.unwrap().clone()).unwrap()
}

#[test]
fn every_way_to_name_the_agent_file_gives_the_same_identity_with_every_file() {
    let server = seller();
    let first = project(&server, "");
    first.run(&["test", "agent.yaml"]).exits(0);
    let expected = identity(&first.dir());
    for tool in ["price", "stock", "garden"] {
        for (file, _) in files() {
            let part = format!("tool {tool}: {file}");
            assert!(expected.contains_key(&part), "{part} of {:#?}", expected.keys());
        }
    }
    for at in ["", "./"] {
        let project = project(&server, at);
        let absolute = project.path("agent.yaml").display().to_string();
        for (way, from) in [
            ("agent.yaml", project.dir()),
            ("./agent.yaml", project.dir()),
            ("../work/agent.yaml", project.dir()),
            ("work/agent.yaml", project.path("..")),
            (absolute.as_str(), project.path("../home")),
        ] {
            let mut command = project.command(&["test", way]);
            let output = command.current_dir(from).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{way}: {stderr}");
            assert_eq!(identity(&project.dir()), expected, "{at}: {way}");
        }
    }
    let own = project(&server, "");
    let at = format!("{}/", own.dir().display());
    own.write("agent.yaml", agent(&server.url(), &at));
    own.run(&["test"]).exits(0);
    assert_eq!(identity(&own.dir()), expected);
}

#[test]
fn a_changed_module_beside_a_tool_is_another_recording() {
    for file in ["beside.py", "run.py", "server.py"] {
        let server = seller();
        let project = project(&server, "");
        project.run(&["test", "--record", "tape.jsonl"]).exits(0);
        project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
        let old = project.read(file);
        project.write(file, format!("{old}# changed\n"));
        let output = project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
        assert!(output.stderr.contains(file), "{file}: {}", output.stderr);
    }
}

#[test]
fn a_file_that_cannot_be_read_ends_the_run_with_its_place_before_anything_is_asked() {
    let server = seller();
    let project = project(&server, "");
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    let asked = server.requests().len();
    fs::remove_file(project.path("beside.py")).unwrap();
    symlink("nowhere.py", project.path("beside.py")).unwrap();
    for args in [
        vec!["test"],
        vec!["test", "--replay", "tape.jsonl"],
        vec!["test", "--record", "new.jsonl"],
    ] {
        let output = project.run(&args).exits(2);
        for part in [
            "beside.py",
            "a link leads to nothing",
            "`tools.0.file`",
            "agent.yaml:5:",
            "hint",
        ] {
            assert!(
                output.stderr.contains(part),
                "{args:?}: {part}: {}",
                output.stderr
            );
        }
    }
    assert_eq!(server.requests().len(), asked);
}
