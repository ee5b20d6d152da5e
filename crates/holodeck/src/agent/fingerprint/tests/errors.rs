//! Whatever exists and cannot be read is an error, and never counts as missing.

use std::{fs, os::unix::fs::symlink};

use pretty_assertions::assert_eq;

use super::*;

/// A kind of file: the YAML that names it, the file, and the field of the error.
struct Kind {
    yaml: &'static str,
    file: &'static str,
    field: &'static str,
}

const HEAD: &str = "name: a\nmodel: {provider: anthropic, name: m}\ninstructions: {inline: Hi}\n\
                    embedding_provider: {provider: hash}\n";

const KINDS: &[Kind] = &[
    Kind {
        yaml: "tools: [{type: function, name: t, description: d, file: t.py, function: f, parameters: {}}]",
        file: "t.py",
        field: "tools.0.file",
    },
    Kind {
        yaml: "tools: [{type: function, name: t, description: d, file: t.py, function: f, parameters: {}}]",
        file: "beside.py",
        field: "tools.0.file",
    },
    Kind {
        yaml: "tools: [{type: function, name: t, description: d, command: ./check, parameters: {}}]",
        file: "check",
        field: "tools.0.command",
    },
    Kind {
        yaml: "tools: [{type: function, name: t, description: d, command: python3, args: [-u, run.py], parameters: {}}]",
        file: "run.py",
        field: "tools.0.args.1",
    },
    Kind {
        yaml: "tools: [{type: mcp, name: t, description: d, command: python3, args: [server.py]}]",
        file: "server.py",
        field: "tools.0.args.0",
    },
    Kind {
        yaml: "tools: [{type: mcp, name: t, description: d, command: node, args: [\"--map=map.csv\"]}]",
        file: "map.csv",
        field: "tools.0.args.0",
    },
    Kind {
        yaml: "tools: [{type: mcp, name: t, description: d, command: python3, args: [-m, pack.mod]}]",
        file: "pack/mod.py",
        field: "tools.0.args.1",
    },
    Kind {
        yaml: "tools: [{type: mcp, name: t, description: d, command: node, env_file: own.env}]",
        file: "own.env",
        field: "tools.0.env_file",
    },
    Kind {
        yaml: "tools: [{type: prompt, name: t, description: d, file: p.txt, parameters: {x: {type: string}}}]",
        file: "p.txt",
        field: "tools.0.file",
    },
    Kind {
        yaml: "tools: [{type: vectorstore, name: t, description: d, source: docs}]",
        file: "docs/a.md",
        field: "tools.0.source",
    },
    Kind {
        yaml: "tools: [{type: hierarchical_document, name: t, description: d, source: a.md}]",
        file: "a.md",
        field: "tools.0.source",
    },
    Kind {
        yaml: "claude: {agents: {helper: {description: d, prompt_file: helper.md}}}",
        file: "helper.md",
        field: "claude.agents.helper.prompt_file",
    },
    Kind {
        yaml: "claude: {hooks: {Stop: [{command: ./hook}]}}",
        file: "hook",
        field: "claude.hooks.Stop.0.command",
    },
    Kind {
        yaml: "claude: {hooks: {PreToolUse: [{command: sh}, {command: python3, args: [-u, hook.py]}]}}",
        file: "hook.py",
        field: "claude.hooks.PreToolUse.1.args.1",
    },
    Kind {
        yaml: "claude: {setting_sources: [project]}",
        file: "CLAUDE.md",
        field: "claude.setting_sources",
    },
    Kind {
        yaml: "claude: {setting_sources: [local]}",
        file: ".claude/settings.local.json",
        field: "claude.setting_sources",
    },
    Kind {
        yaml: "claude: {setting_sources: [project]}",
        file: ".claude/skills/s/SKILL.md",
        field: "claude.setting_sources",
    },
    Kind {
        yaml: "test_cases: [{name: one, input: q, files: [{path: note.txt, type: text}]}]",
        file: "note.txt",
        field: "test_cases.0.files.0.path",
    },
    Kind {
        yaml: "test_cases: [{name: one, turns: [{input: q}, {input: r, files: [{path: turn.txt, type: text}]}]}]",
        file: "turn.txt",
        field: "test_cases.0.turns.1.files.0.path",
    },
    Kind {
        yaml: "routing: {agents: {directories: [{path: agents}]}}",
        file: "agents/a.md",
        field: "routing.agents.directories",
    },
    Kind {
        yaml: "routing: {skills: {directory: skills}}",
        file: "skills/s/script.sh",
        field: "routing.skills.directory",
    },
    Kind {
        yaml: "routing: {legacy: {command: [./prog, data.txt]}}",
        file: "prog",
        field: "routing.legacy.command.0",
    },
    Kind {
        yaml: "routing: {legacy: {command: [./prog, data.txt]}}",
        file: "data.txt",
        field: "routing.legacy.command.1",
    },
    Kind {
        yaml: "routing: {legacy: {agent: old/agent.yaml}}",
        file: "old/beside.py",
        // A field of the other file.
        field: "tools.0.file",
    },
];

/// The other files that a project needs.
const OTHERS: &[(&str, &str)] = &[
    ("t.py", "def f(): return 1\n"),
    ("old/t.py", "def f(): return 1\n"),
    ("docs/other.md", "x"),
    ("agents/other.md", "---\nname: other\ndescription: d\n---\nx\n"),
    ("skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\nx\n"),
    (
        "old/agent.yaml",
        "name: b\nmodel: {provider: openai, name: m}\ninstructions: {inline: Hi}\n\
      tools: [{type: function, name: t, description: d, file: t.py, function: f, parameters: {}}]\n",
    ),
];

fn content(file: &str) -> String {
    match file {
        "agents/a.md" => "---\nname: a\ndescription: d\n---\nx\n".to_owned(),
        "t.py" => "def f(): return 1\n".to_owned(),
        "own.env" => "SIZE=1\n".to_owned(),
        ".claude/settings.local.json" => "{}".to_owned(),
        _ => "x = 1\n".to_owned(),
    }
}

fn project(kind: &Kind) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "agent.yaml", &format!("{HEAD}{}\n", kind.yaml));
    for (name, content) in OTHERS {
        write(folder.path(), name, content);
    }
    write(folder.path(), kind.file, &content(kind.file));
    folder
}

#[test]
fn a_file_that_changes_is_another_identity_and_one_that_cannot_be_read_an_error() {
    for kind in KINDS {
        let folder = project(kind);
        let file = folder.path().join(kind.file);
        let all = || parts_of(&folder.path().join("agent.yaml"), &[]);
        let shown = format!("{} of {}", kind.file, kind.yaml);
        let before = all().unwrap();
        fs::write(&file, format!("{}# more\n", content(kind.file))).unwrap();
        assert_ne!(all().unwrap(), before, "changed: {shown}");
        // As the superuser every mode can be read, so other obstacles replace the file.
        let breaks: [(&str, &dyn Fn()); 3] = [
            ("a link to nothing", &|| symlink("not-there", &file).unwrap()),
            ("a loop of links", &|| {
                symlink(file.file_name().unwrap(), &file).unwrap();
            }),
            ("a folder", &|| fs::create_dir(&file).unwrap()),
        ];
        for (obstacle, break_it) in breaks {
            fs::remove_file(&file).unwrap();
            break_it();
            let shown = format!("{obstacle} instead of {shown}");
            let load = crate::load::load(
                &folder.path().join("agent.yaml"),
                &VARIABLES.iter().copied().collect(),
            );
            // What loading refuses has exit code 2, too.
            if load.agent.is_some() {
                match all() {
                    Err(error) => {
                        assert_eq!(error.pointer, kind.field, "{shown}: {error}");
                        assert!(error.at.is_some(), "{shown}: {error}");
                    }
                    // A folder here is one more folder with files, or an argument that names a folder.
                    Ok(parts) => {
                        assert_eq!(obstacle, "a folder", "{shown}");
                        assert_ne!(parts, before, "{shown}");
                    }
                }
            }
            if obstacle == "a folder" {
                fs::remove_dir(&file).unwrap();
            } else {
                fs::remove_file(&file).unwrap();
            }
            fs::write(&file, content(kind.file)).unwrap();
        }
        assert_eq!(all().unwrap(), before, "{shown}");
        fs::remove_file(&file).unwrap();
        // A missing file is another identity, too; whether it may be missing is for others to decide.
        if let Ok(parts) = all_unless_refused(folder.path()) {
            assert_ne!(parts, before, "missing: {shown}");
        }
    }
}

fn all_unless_refused(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let env: Env = VARIABLES.iter().copied().collect();
    match crate::load::load(&folder.join("agent.yaml"), &env).agent {
        Some(_) => parts_of(&folder.join("agent.yaml"), &[]).map_err(|error| error.to_string()),
        None => Err("refused".to_owned()),
    }
}

#[test]
fn a_folder_of_an_identity_that_cannot_be_read_is_an_error() {
    let cases = [
        (
            "tools: [{type: vectorstore, name: t, description: d, source: docs}]",
            "docs",
        ),
        ("routing: {agents: {directories: [{path: agents}]}}", "agents"),
        ("routing: {skills: {directory: skills}}", "skills"),
    ];
    for (yaml, name) in cases {
        let kind = Kind {
            yaml,
            file: "t.py",
            field: "",
        };
        let folder = project(&kind);
        let part = folder.path().join(name);
        fs::remove_dir_all(&part).unwrap();
        symlink(name, &part).unwrap();
        let load = crate::load::load(
            &folder.path().join("agent.yaml"),
            &VARIABLES.iter().copied().collect(),
        );
        if load.agent.is_some() {
            let error = parts_of(&folder.path().join("agent.yaml"), &[]).unwrap_err();
            assert_eq!(error.path, part, "{error}");
        }
    }
}

#[test]
fn the_error_has_the_file_its_field_and_the_place() {
    let folder = project(&KINDS[1]);
    let file = folder.path().join("beside.py");
    fs::remove_file(&file).unwrap();
    symlink("not-there", &file).unwrap();
    let error = parts_of(&folder.path().join("agent.yaml"), &[]).unwrap_err();
    let agent = folder.path().join("agent.yaml");
    assert_eq!(
        error.to_string(),
        format!(
            "`{}` belongs to what shapes the answers (`tools.0.file`), but cannot be read: a link leads to nothing \
             ({}:5:57)",
            file.display(),
            agent.display(),
        )
    );
}

#[test]
fn arguments_that_are_no_paths_are_not_files() {
    let long = "x".repeat(10_000);
    let kind = Kind {
        yaml: "tools: [{type: mcp, name: t, description: d, command: node, args: [\"agent.yaml/x\", LONG, \"\", \"a\\tb\"]}]",
        file: "t.py",
        field: "",
    };
    let folder = project(&kind);
    let yaml = fs::read_to_string(folder.path().join("agent.yaml")).unwrap();
    write(folder.path(), "agent.yaml", &yaml.replace("LONG", &long));
    let parts = parts(folder.path(), &[]);
    assert!(parts.keys().all(|part| !part.starts_with("tool t:")), "{parts:?}");
}

#[test]
fn a_recording_that_cannot_be_read_is_an_error() {
    let folder = project(&KINDS[0]);
    let env: Env = VARIABLES.iter().copied().collect();
    let load = crate::load::load(&folder.path().join("agent.yaml"), &env);
    let agent = load.agent.unwrap();
    for (name, make) in [
        (
            "folder",
            &(|path: &Path| fs::create_dir(path).unwrap()) as &dyn Fn(&Path),
        ),
        ("loop", &|path| symlink(path, path).unwrap()),
        ("missing", &|_| {}),
    ] {
        let tape = folder.path().join(format!("{name}.jsonl"));
        make(&tape);
        let answers = Answers::open(&AnswerSource::Replay(tape), None, &agent, &env);
        assert!(answers.is_err(), "{name}");
    }
}
