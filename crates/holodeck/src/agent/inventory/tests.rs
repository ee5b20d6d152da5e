//! Tests that every model and file of a run is found once, with its role and its place in the YAML.

use std::{fs, os::unix::fs::PermissionsExt as _};

use holodeck_model::{Env, Occasion};
use holodeck_validators::CheckState;
use pretty_assertions::assert_eq;

use super::*;
use crate::{OpenError, OpenOptions, RunInputs, TestOptions, agent::open::CheckedAgent, protected_files};

/// Each model has another name, so that a place that is taken for another one shows.
const AGENT: &str = r#"
name: a
model: {provider: openai, name: own}
instructions: {inline: Hi}
embedding_provider: {provider: hash}
routing: {legacy: {backend: {provider: openai, name: fallback}}}
evaluations:
  model: {provider: openai, name: shared}
  metrics:
    - {type: geval, name: clear, criteria: c}
    - {type: geval, name: exact, criteria: c, model: {provider: openai, name: single}}
    - {type: geval, name: jury, criteria: c, judges: [{provider: openai, name: first}, {provider: anthropic, name: second}]}
    - {type: geval, name: "off", criteria: c, enabled: false, model: {provider: openai, name: never}}
quality_loop: {scorer: {metrics: [exact], judge: {criteria: c, model: {provider: openai, name: loop}}}}
tools:
  - {type: prompt, name: near, description: d, template: "{{ x }}", parameters: {x: {type: string}}, model: {name: prompted}}
  - {type: prompt, name: far, description: d, template: "{{ x }}", parameters: {x: {type: string}}, model: {name: far, endpoint: "http://127.0.0.1:9"}}
  - {type: hierarchical_document, name: docs, description: d, source: docs, enable_reranking: true,
     reranker_model: {provider: openai, name: ranker}, context_model: {provider: openai, name: writer}}
  - {type: hierarchical_document, name: plain, description: d, source: docs, contextual_embeddings: false,
     reranker_model: {provider: openai, name: never}, context_model: {provider: openai, name: never}}
test_cases:
  - {name: asked, input: q, evaluations: [{type: geval, name: own, criteria: c, model: {provider: openai, name: of_case}}]}
  - {name: played, user: {goal: g, model: {provider: openai, name: player}}}
  - {name: default, user: {goal: g}}
"#;

fn load(yaml: &str) -> (tempfile::TempDir, holodeck_yaml::LoadedAgent) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("docs")).unwrap();
    fs::write(folder.path().join("docs/a.md"), "a").unwrap();
    fs::write(folder.path().join("agent.yaml"), yaml).unwrap();
    let load = crate::load::load(&folder.path().join("agent.yaml"), &Env::empty());
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    (folder, agent)
}

fn rows(inventory: &Inventory) -> Vec<(ModelRole, &str, &str)> {
    let models = inventory.models().iter();
    models
        .map(|used| (used.role, used.pointer.as_str(), used.config.name.as_str()))
        .collect()
}

#[test]
fn every_model_has_its_role_and_its_own_place() {
    use ModelRole::*;
    let (_folder, agent) = load(AGENT);
    let inventory = Inventory::new(&agent, None);
    assert_eq!(
        rows(&inventory),
        [
            (Own, "model", "own"),
            (Judge, "evaluations.model", "shared"),
            (Judge, "evaluations.metrics.1.model", "single"),
            (Judge, "evaluations.metrics.2.judges.0", "first"),
            (Judge, "evaluations.metrics.2.judges.1", "second"),
            (Judge, "test_cases.0.evaluations.0.model", "of_case"),
            (Legacy, "routing.legacy.backend", "fallback"),
            (LoopJudge, "evaluations.metrics.1.model", "single"),
            (LoopJudge, "quality_loop.scorer.judge.model", "loop"),
            (PromptTool, "model", "prompted"),
            (PromptTool, "tools.1.model", "far"),
            (Reranker, "tools.2.reranker_model", "ranker"),
            (ContextWriter, "tools.2.context_model", "writer"),
            (SimulatedUser, "test_cases.1.user.model", "player"),
            (SimulatedUser, "evaluations.model", "shared"),
        ]
    );
    for used in inventory.models() {
        if used.pointer != "model" {
            assert_eq!(inventory.pointer_of(&used.config), used.pointer, "{used:?}");
            assert!(agent.locate(&used.pointer).is_some(), "{}", used.pointer);
        }
    }
    // Of the price list, all but that of the Claude Code CLI.
    let priced: Vec<&str> = inventory.priced_by_list(&ModelRole::PRICED).collect();
    assert!(!priced.contains(&"second") && priced.contains(&"writer") && priced.contains(&"own"));
    assert!(priced.contains(&"fallback"));
}

#[test]
fn a_run_without_cases_uses_no_judge_and_a_run_of_one_case_only_its_own() {
    let (_folder, agent) = load(AGENT);
    assert_eq!(
        rows(&Inventory::new(&agent, Some(&[]))),
        [(ModelRole::Own, "model", "own")]
    );
    let names = |planned: &[usize]| {
        let inventory = Inventory::new(&agent, Some(planned));
        let names = inventory.models().iter().map(|used| used.config.name.clone());
        names.collect::<Vec<_>>()
    };
    assert!(names(&[0]).contains(&"of_case".to_owned()) && !names(&[0]).contains(&"player".to_owned()));
    assert!(!names(&[1]).contains(&"of_case".to_owned()) && names(&[1]).contains(&"player".to_owned()));
}

/// Whether a model is the agent's own has one answer, for judges and for users. A judge that is written is the same one
/// whatever the agent's model is.
#[test]
fn the_own_model_is_warned_about_wherever_it_is_written() {
    let own = "{provider: openai, name: own}";
    let other = "{provider: openai, name: other}";
    let warnings = |evaluations: &str, metric: &str, user: &str| {
        let (_folder, agent) = load(&format!(
            "name: a\nmodel: {own}\ninstructions: {{inline: Hi}}\n\
             evaluations: {{{evaluations} metrics: [{{type: geval, name: clear, criteria: c{metric}}}]}}\n\
             test_cases: [{{name: one, user: {{goal: g{user}}}}}]\n"
        ));
        let inventory = Inventory::new(&agent, None);
        (
            inventory.warn_own_judge().is_some(),
            inventory.warn_own_user().is_some(),
            inventory.judges_with_agent(),
        )
    };
    let (shared, metric) = (
        |model| format!("model: {model},"),
        |model| format!(", model: {model}"),
    );
    assert_eq!(warnings("", "", ""), (true, true, true));
    assert_eq!(warnings(&shared(own), "", ""), (true, true, false));
    assert_eq!(warnings(&shared(other), "", ""), (false, false, false));
    assert_eq!(warnings(&shared(other), &metric(own), ""), (true, false, false));
    assert_eq!(
        warnings("", &metric(other), &metric(other)),
        (false, false, false)
    );
    assert_eq!(warnings(&shared(other), "", &metric(own)), (false, true, false));
}

/// A model of each role that needs a key: its role, the block of the YAML that has it, and what an agent without a key
/// of its own needs for it.
const KEYED: [(ModelRole, &str, &str); 9] = [
    (
        ModelRole::Judge,
        "evaluations.model",
        "evaluations: {model: MODEL, metrics: [{type: geval, name: clear, criteria: c, evaluation_steps: [s]}]}",
    ),
    (
        ModelRole::Judge,
        "test_cases.0.conversation_evaluations.0.judges.0",
        "test_cases: [{name: one, turns: [{input: q}], conversation_evaluations: [{type: goal_success, goal: g, judges: [MODEL]}]}]",
    ),
    (
        ModelRole::LoopJudge,
        "quality_loop.scorer.judge.model",
        "quality_loop: {scorer: {judge: {criteria: c, model: MODEL}}}",
    ),
    (
        ModelRole::SimulatedUser,
        "test_cases.0.user.model",
        "test_cases: [{name: one, user: {goal: g, model: MODEL}}]",
    ),
    (
        ModelRole::PromptTool,
        "tools.0.model",
        "tools: [{type: prompt, name: near, description: d, template: x, parameters: {x: {type: string}}, model: MODEL}]",
    ),
    (
        ModelRole::Reranker,
        "tools.0.reranker_model",
        "embedding_provider: {provider: hash}\n\
         tools: [{type: hierarchical_document, name: kb, description: d, source: docs, contextual_embeddings: false, \
         enable_reranking: true, reranker_model: MODEL}]",
    ),
    (
        ModelRole::ContextWriter,
        "tools.0.context_model",
        "embedding_provider: {provider: hash}\n\
         tools: [{type: hierarchical_document, name: kb, description: d, source: docs, context_model: MODEL}]",
    ),
    (
        ModelRole::Embedder,
        "embedding_provider",
        "embedding_provider: MODEL\n\
         tools: [{type: vectorstore, name: kb, description: d, source: docs}]",
    ),
    (
        ModelRole::Embedder,
        "embedding_provider",
        "embedding_provider: MODEL\ntool_filtering: {enabled: true, search_method: semantic}",
    ),
];

const PROVIDERS: [(&str, &str, &str); 3] = [
    ("openai", "", "OPENAI_API_KEY"),
    (
        "azure_openai",
        ", endpoint: \"http://127.0.0.1:9\"",
        "AZURE_OPENAI_API_KEY",
    ),
    ("anthropic", "", "ANTHROPIC_API_KEY"),
];

fn open(agent: &holodeck_yaml::LoadedAgent, env: &Env, occasion: Occasion) -> Result<(), OpenError> {
    CheckedAgent::check(agent.clone(), env, occasion, OpenOptions::default(), None).map(drop)
}

/// Nothing is opened, indexed or asked before every key is there: the check has no runtime in which it could.
#[test]
fn a_missing_key_of_any_model_is_found_before_the_run_with_its_place() {
    for (role, pointer, rest) in KEYED {
        for (provider, more, variable) in PROVIDERS {
            let is_absent = match role {
                ModelRole::Embedder => provider == "anthropic",
                // With an endpoint it is a server with `/rerank`.
                ModelRole::Reranker => provider == "azure_openai",
                _ => false,
            };
            if is_absent {
                continue;
            }
            let model = format!("{{provider: {provider}, name: special{more}}}");
            let yaml = format!(
                "name: a\nmodel: {{provider: ollama, name: own}}\ninstructions: {{inline: Hi}}\n{}\n",
                rest.replace("MODEL", &model)
            );
            let (_folder, agent) = load(&yaml);
            let context = format!("{role:?} {provider}: {rest}");
            let Err(OpenError::Backend(error)) = open(&agent, &Env::empty(), Occasion::Test) else {
                panic!("{context}");
            };
            let explanation = error.explanation();
            let expected = format!("the {role} `special`: ");
            assert!(
                explanation.message.starts_with(&expected),
                "{context}: {explanation}"
            );
            let hint = explanation.hint.unwrap_or_default();
            assert!(hint.contains(variable), "{context}: {hint}");
            let (place, block) = (explanation.place.unwrap(), agent.locate(pointer).unwrap());
            assert_eq!(place.line, block.line, "{context}");
            // With the key nothing is missing, and the doctor says the same of both.
            let env: Env = [(variable, "k")].into_iter().collect();
            assert!(open(&agent, &env, Occasion::Test).is_ok(), "{context}");
            let states = |env: &Env| -> Vec<CheckState> {
                let checks = checks(&agent, env).into_iter();
                checks.map(|check| check.state).collect()
            };
            assert_eq!(states(&Env::empty()), [CheckState::Missing], "{context}");
            assert_eq!(states(&env), [CheckState::Ok], "{context}");
            // A conversation needs the models of the agent, and not those of tests.
            let needed = ModelRole::OF_AGENT.contains(&role);
            assert_eq!(
                open(&agent, &Env::empty(), Occasion::Chat).is_err(),
                needed,
                "{context}"
            );
        }
    }
}

/// A server with `/rerank` gets no key of the environment, which belongs to another server.
#[test]
fn a_server_that_reranks_needs_a_key_in_the_yaml() {
    let yaml = |key: &str| {
        format!(
            "name: a\nmodel: {{provider: ollama, name: own}}\ninstructions: {{inline: Hi}}\n\
             embedding_provider: {{provider: hash}}\n\
             tools: [{{type: hierarchical_document, name: kb, description: d, source: docs, contextual_embeddings: false, \
             enable_reranking: true, reranker_model: {{provider: azure_openai, name: r, endpoint: \"http://127.0.0.1:9\"{key}}}}}]\n"
        )
    };
    let env: Env = [("AZURE_OPENAI_API_KEY", "k")].into_iter().collect();
    let (_folder, agent) = load(&yaml(""));
    assert!(open(&agent, &env, Occasion::Run).is_err());
    assert_eq!(checks(&agent, &env)[0].state, CheckState::Missing);
    let (_folder, agent) = load(&yaml(", api_key: k"));
    assert!(open(&agent, &Env::empty(), Occasion::Run).is_ok());
    let check = &checks(&agent, &Env::empty())[0];
    assert_eq!(check.found, "`tools.0.reranker_model.api_key` is set");
}

/// A mock answers instead of the tool, so its models need no key.
#[test]
fn the_models_of_a_mock_need_no_key() {
    let (_folder, agent) = load(
        "name: a\nmodel: {provider: ollama, name: own}\ninstructions: {inline: Hi}\n\
         embedding_provider: {provider: openai, name: e}\n\
         tools: [{type: vectorstore, name: kb, description: d, source: docs, mock: {result: [x]}}]\n",
    );
    assert!(open(&agent, &Env::empty(), Occasion::Run).is_ok());
    assert_eq!(checks(&agent, &Env::empty()).len(), 0);
}

/// The credentials of every model are masked, and not only those of the agent's own.
#[test]
fn a_credential_of_any_model_is_masked() {
    let legacy = (
        ModelRole::Legacy,
        "routing.legacy.backend",
        "routing: {legacy: {backend: MODEL}}",
    );
    for (role, _, rest) in KEYED.into_iter().chain([legacy]) {
        if role == ModelRole::Embedder {
            continue;
        }
        let model = "{provider: anthropic, name: special, auth_provider: oauth_token}";
        let (_folder, agent) = load(&format!(
            "name: a\nmodel: {{provider: ollama, name: own}}\ninstructions: {{inline: Hi}}\n{}\n",
            rest.replace("MODEL", model)
        ));
        let env: Env = [("CLAUDE_CODE_OAUTH_TOKEN", "sesame-open-4711")]
            .into_iter()
            .collect();
        let masked = crate::redactor(&agent, &env);
        let text = masked.text("it is sesame-open-4711");
        assert!(!text.contains("sesame"), "{role:?}: {text}");
    }
}

const NAMING: &str = r#"
name: a
model: {provider: anthropic, name: own}
instructions: {inline: Hi}
embedding_provider: {provider: hash}
claude:
  agents: {helper: {description: d, prompt_file: helper.md}}
  setting_sources: [project]
  hooks: {Stop: [{command: ./hook.sh, args: [hook.csv]}], PreToolUse: [{command: python3, args: [hook.py]}]}
routing:
  agents: {directories: [{path: specialists}]}
  skills: {directory: skills}
  legacy: {command: [python3, legacy.py, --table=legacy.csv]}
quality_loop: {enabled: true, scorer: {signals: {tests: "./signal.sh 'signal data.txt'", lint: "missing-linter --all"}}}
evaluations:
  metrics:
    - {type: code, grader: "shared:check", name: shared}
tools:
  - {type: function, name: one, description: d, file: one.py, function: f, parameters: {}}
  - {type: function, name: two, description: d, command: ./two.sh, args: [two.txt], parameters: {}}
  - {type: mcp, name: three, description: d, command: node, args: [three.js], env_file: three.env}
  - {type: prompt, name: four, description: d, file: four.md, parameters: {x: {type: string}}}
  - {type: vectorstore, name: five, description: d, source: docs}
test_cases:
  - {name: asked, input: q, files: [{path: sent.txt, type: text}], evaluations: [{type: code, grader: "of_case:check", name: c}]}
  - name: talk
    turns:
      - {input: q, files: [{path: sent_later.txt, type: text}], evaluations: [{type: code, command: ./of_turn.sh, name: t}]}
    conversation_evaluations:
      - {type: code, grader: "of_talk:check", name: k}
      - {type: code, command: python3, args: [talk.py, --labels=labels.csv], name: l}
"#;

/// Files that [`NAMING`] names; those of graders are the exam of a test.
const NAMED: [(&str, bool); 28] = [
    ("helper.md", false),
    ("hook.sh", false),
    ("hook.csv", false),
    ("hook.py", false),
    ("CLAUDE.md", false),
    (".claude/rules/own.md", false),
    ("specialists/one.md", false),
    ("skills/deep/SKILL.md", false),
    ("legacy.py", false),
    ("legacy.csv", false),
    ("signal.sh", false),
    ("signal data.txt", false),
    ("one.py", false),
    ("two.sh", false),
    ("two.txt", false),
    ("three.js", false),
    ("three.env", false),
    ("four.md", false),
    ("sent.txt", false),
    ("sent_later.txt", false),
    ("shared.py", true),
    ("of_case.py", true),
    ("of_turn.sh", true),
    ("of_talk.py", true),
    ("talk.py", true),
    ("labels.csv", true),
    ("judge-steps.json", true),
    ("agent.yaml", true),
];

fn load_naming() -> (tempfile::TempDir, holodeck_yaml::LoadedAgent) {
    let folder = tempfile::tempdir().unwrap();
    let docs = [("docs/a.md", false), ("other.txt", false), ("helpers.py", false)];
    for (name, _) in NAMED.iter().chain(&docs) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = if std::path::Path::new(name)
            .extension()
            .is_some_and(|it| it == "py")
        {
            "def check(context): return f(context)\ndef f(x): return True\n"
        } else {
            "x: 1\n"
        };
        fs::write(path, text).unwrap();
    }
    fs::write(
        folder.path().join("specialists/one.md"),
        "---\nname: one\ndescription: d\n---\nHi\n",
    )
    .unwrap();
    fs::write(
        folder.path().join("skills/deep/SKILL.md"),
        "---\nname: deep\ndescription: d\n---\nHi\n",
    )
    .unwrap();
    fs::write(
        folder.path().join("judge-steps.json"),
        "{\"holodeck_judge_steps\": 1, \"steps\": {}}",
    )
    .unwrap();
    fs::write(folder.path().join("agent.yaml"), NAMING).unwrap();
    let load = crate::load::load(&folder.path().join("agent.yaml"), &Env::empty());
    let agent = load.agent.unwrap_or_else(|| panic!("{:#?}", load.diagnostics));
    (folder, agent)
}

#[test]
fn the_program_of_every_command_line_is_checked() {
    let (folder, agent) = load_naming();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let make = |path: &std::path::Path| {
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    make(&bin.join("python3"));
    let env: Env = [("PATH", bin.to_str().unwrap())].into_iter().collect();
    let states = || {
        let checks = super::programs(&agent, &env).into_iter();
        checks
            .map(|check| (check.subject, check.state))
            .collect::<Vec<_>>()
    };
    let row = |pointer: &str, state| (format!("program of `{pointer}`"), state);
    let legacy = row("routing.legacy.command", CheckState::Ok);
    // In the order of the events.
    let python = row("claude.hooks.PreToolUse.0", CheckState::Ok);
    let hook = |state| row("claude.hooks.Stop.0", state);
    let linter = row("quality_loop.scorer.signals.lint", CheckState::Missing);
    // The script is there, and cannot be executed.
    let tests = |state| row("quality_loop.scorer.signals.tests", state);
    assert_eq!(
        states(),
        [
            python.clone(),
            hook(CheckState::Missing),
            legacy.clone(),
            tests(CheckState::Missing),
            linter.clone()
        ]
    );
    make(&folder.path().join("signal.sh"));
    make(&folder.path().join("hook.sh"));
    assert_eq!(
        states(),
        [
            python,
            hook(CheckState::Ok),
            legacy,
            tests(CheckState::Ok),
            linter
        ]
    );
    let missing: Vec<String> = super::missing_programs(&agent, &env).collect();
    let [missing] = &missing[..] else {
        panic!("{missing:?}")
    };
    assert!(
        missing.contains("signals.lint") && missing.contains("missing-linter"),
        "{missing}"
    );
}

#[test]
fn no_output_overwrites_a_file_that_the_yaml_names() {
    let (folder, agent) = load_naming();
    let inputs = RunInputs::new(&agent, &Env::empty(), &TestOptions::default());
    for (name, _) in NAMED {
        assert!(inputs.contains(&folder.path().join(name)), "{name}");
    }
    assert!(inputs.searches(&folder.path().join("docs/a.md")));
    assert!(!inputs.contains(&folder.path().join("docs/a.md")));
    for name in ["other.txt", "helpers.py"] {
        assert!(!inputs.contains(&folder.path().join(name)), "{name}");
    }
}

#[test]
fn an_agent_must_not_touch_its_exam_wherever_the_yaml_names_it() {
    let (folder, agent) = load_naming();
    let env = Env::empty();
    let is_protected = |occasion, name: &str| {
        let protected = protected_files(&agent, &env, occasion);
        protected.contains(&folder.path().join(name))
    };
    for (name, is_exam) in NAMED {
        // Variables of servers are never the agent's to read, and programs that run unasked never to write.
        let always = name == "three.env" || name.starts_with("hook");
        assert_eq!(is_protected(Occasion::Test, name), is_exam || always, "{name}");
        assert_eq!(is_protected(Occasion::Chat, name), always, "{name}");
    }
    for name in ["other.txt", "helpers.py", "."] {
        assert!(!is_protected(Occasion::Test, name), "{name}");
    }
}

/// Each file that shapes answers is part of the agent's identity, by its name and its owner, and each of a grader of that
/// of its check.
#[test]
fn every_file_that_the_yaml_names_is_part_of_an_identity() {
    let (folder, agent) = load_naming();
    let answers = crate::Answers::open(&crate::AnswerSource::Live, None, &agent, &Env::empty()).unwrap();
    let parts = || {
        let parts = crate::agent::fingerprint::fingerprint(&agent, &Env::empty(), &answers).unwrap();
        let graders = crate::test::graders::grader_files(&agent).unwrap();
        (parts, graders)
    };
    let before = parts();
    for (name, is_exam) in NAMED
        .iter()
        .filter(|(name, _)| !["agent.yaml", "judge-steps.json"].contains(name))
    {
        let path = folder.path().join(name);
        let old = fs::read(&path).unwrap();
        fs::write(&path, [old.as_slice(), b"changed\n"].concat()).unwrap();
        let after = parts();
        // Those of graders are parts of their checks; a script counts for those beside it, too.
        if *is_exam {
            assert_ne!(before.1, after.1, "{name}");
        } else {
            assert_ne!(before.0, after.0, "{name}");
        }
        fs::write(&path, old).unwrap();
    }
}
