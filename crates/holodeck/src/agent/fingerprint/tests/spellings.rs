//! The parts are equal for every way to name the agent file and its files, and in a copy of the folder.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Component, PathBuf},
};

use pretty_assertions::assert_eq;

use super::*;

/// An agent whose paths are written with `at` before each.
fn agent(at: &str) -> String {
    format!(
        r#"
name: shop
model: {{provider: anthropic, name: sonnet}}
instructions: {{file: "{at}instructions.md"}}
embedding_provider: {{provider: hash}}
claude: {{working_directory: "{at}work", setting_sources: [project], agents: {{helper: {{description: d, prompt_file: "{at}helper.md"}}}},
  hooks: {{Stop: [{{command: "{at}hooks/log.sh", args: ["--to={at}hooks/to.csv"]}}, {{command: "sh", args: ["{at}hooks/log.sh"]}}]}}}}
routing:
  agents: {{directories: [{{path: "{at}specialists"}}]}}
  skills: {{directory: "{at}skills"}}
  legacy: {{command: ["{at}legacy/run.sh", "--map={at}legacy/map.csv"]}}
tools:
  - {{type: function, name: script, description: d, file: "{at}t.py", function: f, parameters: {{}}}}
  - {{type: function, name: program, description: d, command: "{at}bin/check", args: ["{at}rules/a.txt", "--map={at}rules/map.csv"], parameters: {{}},
      env: {{PLACE: "{at}rules/a.txt"}}}}
  - {{type: mcp, name: server, description: d, command: python3, args: ["{at}server/main.py"], env_file: "{at}server.env"}}
  - {{type: prompt, name: prompt, description: d, file: "{at}prompt.txt", parameters: {{x: {{type: string}}}}}}
  - {{type: vectorstore, name: docs, description: d, source: "{at}docs"}}
  - {{type: hierarchical_document, name: pages, description: d, source: "{at}pages/*.md"}}
test_cases:
  - {{name: one, input: q, files: [{{path: "{at}note.txt", type: text}}]}}
"#
    )
}

/// The files, with the parts that must name them.
const FILES: &[(&str, &str)] = &[
    ("helper.md", "claude.agents: helper.md"),
    ("hooks/log.sh", "claude.hooks: hooks/log.sh"),
    ("hooks/to.csv", "claude.hooks: hooks/to.csv"),
    ("work/CLAUDE.md", "claude.setting_sources: work/CLAUDE.md"),
    (
        "work/.claude/agents/a.md",
        "claude.setting_sources: work/.claude/agents/a.md",
    ),
    ("specialists/tf.md", "specialist agent: specialists/tf.md"),
    ("skills/pack/SKILL.md", "skill: skills/pack/SKILL.md"),
    ("skills/pack/run.sh", "skill: skills/pack/run.sh"),
    ("legacy/run.sh", "legacy: legacy/run.sh"),
    ("legacy/map.csv", "legacy: legacy/map.csv"),
    ("t.py", "tool script: t.py"),
    ("beside.py", "tool script: beside.py"),
    ("package/inside.py", "tool script: package/inside.py"),
    ("bin/check", "tool program: bin/check"),
    ("rules/a.txt", "tool program: rules/a.txt"),
    ("rules/map.csv", "tool program: rules/map.csv"),
    ("server/main.py", "tool server: server/main.py"),
    ("server/near.py", "tool server: server/near.py"),
    ("server.env", "tool server: server.env"),
    ("prompt.txt", "tool prompt: prompt.txt"),
    ("docs/a.md", "tool docs: docs/a.md"),
    ("pages/a.md", "tool pages: pages/a.md"),
    ("note.txt", "test case: note.txt"),
];

fn project(at: impl Fn(&Path) -> String) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "instructions.md", "Be kind.");
    for (name, _) in FILES {
        let content = match *name {
            "specialists/tf.md" => "---\nname: tf\ndescription: d\nglobs: [\"*.tf\"]\n---\nBe exact.\n",
            "skills/pack/SKILL.md" => "---\nname: pack\ndescription: d\n---\nPack.\n",
            "server.env" => "SIZE=3\n",
            "t.py" => "def f(): return 1\n",
            _ => "x = 1\n",
        };
        write(folder.path(), name, content);
    }
    write(folder.path(), "agent.yaml", &agent(&at(folder.path())));
    folder
}

/// A relative path from the working directory of the test.
fn relative(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    let path = path.canonicalize().unwrap();
    let shared = here.components().zip(path.components());
    let shared = shared.take_while(|(one, other)| one == other).count();
    let up = here.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

#[test]
fn every_spelling_and_a_copy_have_equal_parts_that_name_every_file() {
    let inside = |_: &Path| String::new();
    let dotted = |_: &Path| "./".to_owned();
    let absolute = |folder: &Path| format!("{}/", folder.display());
    let first = project(inside);
    let expected = parts(first.path(), &[]);
    for (file, part) in FILES {
        assert!(expected.contains_key(*part), "{file}: {:#?}", expected.keys());
    }
    let folders = [project(inside), project(dotted), project(absolute)];
    for (number, folder) in folders.iter().enumerate() {
        let links = tempfile::tempdir().unwrap();
        let link = links.path().join("link");
        symlink(folder.path(), &link).unwrap();
        let ways = [
            folder.path().join("agent.yaml"),
            folder.path().join("./work/../agent.yaml"),
            relative(&folder.path().join("agent.yaml")),
            Path::new(".").join(relative(&folder.path().join("agent.yaml"))),
            link.join("agent.yaml"),
        ];
        for way in ways {
            assert_eq!(
                parts_of(&way, &[]).unwrap(),
                expected,
                "{number}: {}",
                way.display()
            );
        }
    }
    // A change of any of the files is named, and nothing else.
    let folder = &folders[1];
    for (file, part) in FILES {
        let old = fs::read_to_string(folder.path().join(file)).unwrap();
        write(folder.path(), file, &format!("{old}# changed\n"));
        let changed = differing_parts(&expected, &parts(folder.path(), &[]));
        assert!(changed.contains(&(*part).to_owned()), "{file}: {changed:?}");
        let is_about = |part: &String| part.ends_with(file);
        assert!(changed.iter().all(is_about), "{file}: {changed:?}");
        write(folder.path(), file, &old);
    }
}

#[test]
fn the_agent_file_may_be_inside_an_installed_package() {
    let folder = project(|_| String::new());
    let expected = parts(folder.path(), &[]);
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("venv/node_modules/shop");
    fs::create_dir_all(&inner).unwrap();
    write(outer.path(), "venv/pyvenv.cfg", "");
    for (name, _) in FILES
        .iter()
        .chain([&("instructions.md", ""), &("agent.yaml", "")])
    {
        let content = fs::read_to_string(folder.path().join(name)).unwrap();
        write(&inner, name, &content);
    }
    assert_eq!(parts(&inner, &[]), expected);
}

#[test]
fn globs_of_selection_count_by_the_files_they_match() {
    let folder = project(|_| String::new());
    let before = parts(folder.path(), &[]);
    write(folder.path(), "work/readme.txt", "x");
    assert_eq!(parts(folder.path(), &[]), before);
    write(folder.path(), "work/main.tf", "x");
    let after = parts(folder.path(), &[]);
    assert_eq!(differing_parts(&before, &after), ["files that `globs` match"]);
}

#[test]
fn routing_evidence_and_their_variables_count() {
    let folder = project(|_| String::new());
    let before = parts(folder.path(), &[]);
    for (variable, value) in [
        ("HOLODECK_ROUTING_ENABLED", "no"),
        ("HOLODECK_ROUTING_COMMANDS", ""),
    ] {
        let after = parts(folder.path(), &[(variable, value)]);
        assert_eq!(differing_parts(&before, &after), [format!("variable {variable}")]);
    }
    let yaml = agent("");
    for (change, part) in [
        ("routing:\n  min_confidence: 0.4", "routing"),
        ("routing:\n  commands: [run]", "routing"),
        ("routing:\n  fallback: {after_side_effects: allow}", "routing"),
        ("evidence: {require_tests: true}\nrouting:", "evidence"),
    ] {
        write(folder.path(), "agent.yaml", &yaml.replacen("routing:", change, 1));
        assert_eq!(
            differing_parts(&before, &parts(folder.path(), &[])),
            [part],
            "{change}"
        );
    }
    // Defaults that are written out.
    let written = "routing:\n  enabled: true\n  min_confidence: 0.5\n  chain: [sdk, skills, legacy]";
    write(
        folder.path(),
        "agent.yaml",
        &yaml.replacen("routing:", written, 1),
    );
    assert_eq!(parts(folder.path(), &[]), before);
}

#[test]
fn an_agent_of_legacy_counts_with_all_its_parts_and_those_of_its_own_legacy() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = |legacy: &str, tool: &str| {
        format!(
            "name: a\nmodel: {{provider: openai, name: m}}\ninstructions: {{inline: Hi}}\n\
             tools: [{{type: function, name: t, description: d, file: {tool}, function: f, parameters: {{}}}}]\n\
             routing: {{legacy: {{agent: {legacy}}}}}\n"
        )
    };
    write(folder.path(), "agent.yaml", &yaml("second/agent.yaml", "t.py"));
    write(
        folder.path(),
        "second/agent.yaml",
        &yaml("../third.yaml", "own.py"),
    );
    let third = yaml("", "third/t.py").replace("routing: {legacy: {agent: }}\n", "");
    write(folder.path(), "third.yaml", &third);
    for file in ["t.py", "second/own.py", "second/near.py", "third/t.py"] {
        write(folder.path(), file, "def f(): return 1\n");
    }
    let before = parts(folder.path(), &[]);
    for (file, part) in [
        ("second/near.py", "legacy agent: tool t: near.py"),
        ("third/t.py", "legacy agent: legacy agent: tool t: third/t.py"),
    ] {
        write(folder.path(), file, "def f(): return 2\n");
        let changed = differing_parts(&before, &parts(folder.path(), &[]));
        assert!(changed.contains(&part.to_owned()), "{changed:?}");
        write(folder.path(), file, "def f(): return 1\n");
    }
    write(folder.path(), "third.yaml", &third.replace("name: m", "name: n"));
    assert_eq!(
        differing_parts(&before, &parts(folder.path(), &[])),
        ["legacy agent: legacy agent: model"]
    );
}
