//! Tests that the settings of the user belong to the identity of an agent that reads them, and of no other.

use std::{collections::BTreeMap, fs, path::Path};

use holodeck_model::Env;
use pretty_assertions::assert_eq;

use super::super::settings_of_user;

/// A home with these files below `.claude`.
fn home(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = home.path().join(".claude").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    home
}

fn digests(
    provider: &str,
    sources: &str,
    home: &Path,
) -> Result<BTreeMap<String, String>, super::super::IdentityError> {
    let folder = tempfile::tempdir().unwrap();
    let yaml = format!(
        "name: a\nmodel: {{provider: {provider}, name: m}}\ninstructions: {{inline: Hi}}\nclaude: {{setting_sources: {sources}}}\n"
    );
    fs::write(folder.path().join("agent.yaml"), yaml).unwrap();
    let env: Env = [("HOME", home.display().to_string())].into_iter().collect();
    let agent = crate::load::load(&folder.path().join("agent.yaml"), &env)
        .agent
        .unwrap();
    settings_of_user(&agent, &env)
}

const FILES: [(&str, &str); 4] = [
    ("settings.json", "{\"model\": \"opus\"}"),
    ("CLAUDE.md", "Be brief."),
    ("agents/a.md", "---\nname: a\n---\nA."),
    ("skills/s/SKILL.md", "---\nname: s\n---\nS."),
];

#[test]
fn settings_of_the_user_shape_the_answers_of_an_agent_that_reads_them() {
    let before = digests("anthropic", "[user]", home(&FILES).path()).unwrap();
    let names: Vec<&str> = before.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["CLAUDE.md", "agents/a.md", "settings.json", "skills/s/SKILL.md"]
    );
    // Another home with equal files is equal.
    assert_eq!(
        digests("anthropic", "[all]", home(&FILES).path()).unwrap(),
        before
    );
    for (index, (name, _)) in FILES.iter().enumerate() {
        let mut changed = FILES;
        changed[index].1 = "other";
        assert_ne!(
            digests("anthropic", "[user]", home(&changed).path()).unwrap(),
            before,
            "{name}"
        );
        let mut fewer = FILES.to_vec();
        fewer.remove(index);
        assert_ne!(
            digests("anthropic", "[user]", home(&fewer).path()).unwrap(),
            before,
            "{name}"
        );
    }
    let own = home(&FILES);
    fs::write(own.path().join(".claude/history.jsonl"), "what the CLI writes").unwrap();
    assert_eq!(digests("anthropic", "[user]", own.path()).unwrap(), before);
    for (provider, sources) in [
        ("anthropic", "[]"),
        ("anthropic", "[project, local]"),
        ("openai", "[user]"),
    ] {
        let none = digests(provider, sources, home(&FILES).path()).unwrap();
        assert_eq!(none, BTreeMap::new(), "{provider} {sources}");
    }
    assert_eq!(
        digests("anthropic", "[user]", home(&[]).path()).unwrap(),
        BTreeMap::new()
    );
}
