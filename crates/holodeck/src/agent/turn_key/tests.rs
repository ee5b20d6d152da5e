//! Tests that the key of a recorded Claude turn contains everything that shapes the answer, and no secret.

use std::fs;

use holodeck_model::Env;
use holodeck_yaml::LoadedAgent;
use pretty_assertions::assert_eq;

use super::*;

/// A folder with an agent and these files.
fn agent(yaml: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, LoadedAgent) {
    let folder = tempfile::tempdir().unwrap();
    let head = "name: a\nmodel: {provider: anthropic, name: sonnet}\ninstructions: {inline: Be kind.}\n";
    let yaml = format!("{head}{yaml}");
    for (name, content) in files.iter().copied().chain([("agent.yaml", yaml.as_str())]) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let load = crate::load::load(&folder.path().join("agent.yaml"), &Env::empty());
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    (folder, agent)
}

fn key_in_test(agent: &LoadedAgent) -> Value {
    turn_key(agent, Occasion::Test, SideEffectGate::Closed)
        .unwrap()
        .content
}

#[test]
fn unset_fields_are_left_out() {
    let (_folder, plain) = agent("", &[]);
    assert_eq!(key_in_test(&plain), json!({"instructions": "Be kind."}));
    let (_folder, same) = agent("claude: {max_concurrent_sessions: 3, cli_path: ./claude}\n", &[]);
    assert_eq!(key_in_test(&same), key_in_test(&plain));
}

/// A recording stays as it is when a hook is added: its model sees nothing of it.
#[test]
fn programs_that_observe_are_no_part_of_the_key() {
    let (_folder, plain) = agent("", &[]);
    let (folder, observed) = agent(
        "claude: {hooks: {Stop: [{command: ./log.sh, args: [to.txt]}]}}\n",
        &[("log.sh", "one"), ("to.txt", "one")],
    );
    assert_eq!(key_in_test(&observed), key_in_test(&plain));
    fs::write(folder.path().join("log.sh"), "two").unwrap();
    assert_eq!(key_in_test(&observed), key_in_test(&plain));
}

#[test]
fn tools_that_may_change_something_count_where_they_are_available() {
    let (_folder, agent) = agent(
        "claude: {bash: {enabled: true}, file_system: {read: true}}\n",
        &[],
    );
    let tools = |mode, gate| turn_key(&agent, mode, gate).unwrap().content["builtin_tools"].clone();
    let reading = json!(["Read", "Glob", "Grep"]);
    let all = json!(["Read", "Glob", "Grep", "Bash"]);
    assert_eq!(tools(Occasion::Test, SideEffectGate::Closed), reading);
    assert_eq!(tools(Occasion::Test, SideEffectGate::Open), all);
    assert_eq!(tools(Occasion::Run, SideEffectGate::Closed), all);
}

#[test]
fn the_key_has_the_names_of_secrets_but_not_their_values() {
    let (_folder, agent) = agent(
        "tools: [{type: mcp, name: s, description: d, command: node, env: {API_TOKEN: not-a-real-token}}]\n",
        &[],
    );
    let key = key_in_test(&agent);
    assert_eq!(key["tools"][0]["env"], json!({"API_TOKEN": "***"}));
}

#[test]
fn files_behind_tools_and_agents_and_settings_have_digests() {
    let (folder, agent) = agent(
        "embedding_provider: {provider: hash}\n\
         claude: {setting_sources: [project], agents: {helper: {description: d, prompt_file: helper.md}}}\n\
         tools:\n\
         \x20 - {type: vectorstore, name: many, description: d, source: many}\n\
         \x20 - {type: vectorstore, name: web, description: d, source: \"https://example.com/a.html\"}\n\
         \x20 - {type: vectorstore, name: mocked, description: d, source: few, mock: nothing}\n\
         \x20 - {type: hierarchical_document, name: few, description: d, source: few}\n\
         \x20 - {type: function, name: run, description: d, command: cat, parameters: {}}\n",
        &[
            ("few/a.md", "A"),
            ("few/b.md", "B"),
            ("helper.md", "Help."),
            ("CLAUDE.md", "Be brief."),
            ("many/0.md", "0"),
        ],
    );
    for number in 1..40 {
        fs::write(folder.path().join(format!("many/{number}.md")), "n").unwrap();
    }
    let before = key_in_test(&agent)["files"].clone();
    insta::assert_json_snapshot!(before);
    fs::write(folder.path().join("many/39.md"), "other").unwrap();
    fs::remove_file(folder.path().join("few/b.md")).unwrap();
    let after = key_in_test(&agent)["files"].clone();
    assert_ne!(before["many"], after["many"]);
    assert_eq!(after["few"].as_object().unwrap().len(), 1);
    assert_eq!(before["claude.agents"], after["claude.agents"]);
}

#[test]
fn files_that_runs_write_are_not_documents() {
    let (folder, agent) = agent(
        "embedding_provider: {provider: hash}\n\
         tools: [{type: vectorstore, name: all, description: d, source: .}]\n",
        &[("a.md", "A")],
    );
    let before = key_in_test(&agent);
    assert_eq!(before["files"]["all"].as_object().unwrap().len(), 1, "{before}");
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("results/a/run.json", "{}");
    write("tapes/c.jsonl", "{\"holodeck_cassette\":1}\n{}\n");
    assert_eq!(key_in_test(&agent), before);
    write("b.md", "B");
    assert_ne!(key_in_test(&agent), before);
}
