//! The tables of foreign names agree with the language: every row leads to a field, a metric or a provider of the language, and
//! every line that is to be written loads.

use std::{collections::HashSet, path::Path};

use holodeck_model::{Diagnostic, Env, MemoryFiles, Severity};

use super::*;
use crate::load_agent;

const HEAD: &str = "name: a\nmodel: {provider: openai, name: m, endpoint: \"http://127.0.0.1:9\"}\n\
                    instructions: {inline: Hi}\n";

fn diagnostics(text: &str) -> Vec<Diagnostic> {
    let files = MemoryFiles::new().with("agent.yaml", text);
    load_agent(Path::new("agent.yaml"), &Env::empty(), &files).diagnostics
}

/// A name with no field beside it.
fn alone(tree: &Tree) -> Beside<'_> {
    Beside { tree, mapping: None }
}

/// The errors about the shape of a file.
fn shape_errors(text: &str) -> Vec<String> {
    let errors = diagnostics(text)
        .into_iter()
        .filter(|it| it.severity == Severity::Error);
    let errors = errors.filter(|it| {
        // Files that examples name are not there.
        !it.code.id().starts_with("HD06") && !it.code.id().starts_with("HD05")
    });
    errors.map(|it| format!("{} {:?}", it.message, it.help)).collect()
}

/// A file with a field in the mapping that a row is about, after the fields that belong there.
fn file_with(row: &ForeignField, line: &str) -> String {
    let without = |lines: &str, field: &str| -> String {
        let kept = lines
            .lines()
            .filter(|line| !line.starts_with(&format!("{field}:")));
        kept.flat_map(|line| {
            [
                line, "
",
            ]
        })
        .collect()
    };
    match row.beside {
        "test_cases" => format!("{}{line}\n", without(HEAD, row.ours)),
        "provider" => {
            let fields = [
                ("provider", "provider: openai"),
                ("name", "name: m"),
                ("endpoint", "endpoint: \"http://127.0.0.1:9\""),
            ];
            let fields: Vec<&str> = fields
                .iter()
                .filter(|(name, _)| *name != row.ours)
                .map(|(_, line)| *line)
                .collect();
            let fields: String = fields
                .iter()
                .chain([&line])
                .flat_map(|line| ["  ", line, "\n"])
                .collect();
            format!("name: a\ninstructions: {{inline: Hi}}\nmodel:\n{fields}")
        }
        "side_effects" => format!(
            "{HEAD}tools:\n- type: function\n  name: t\n  description: d\n  file: t.py\n  function: t\n  {line}\n"
        ),
        "count" => format!("{HEAD}test_cases:\n- input: q\n  expected_tools:\n  - name: t\n    {line}\n"),
        "ground_truth" | "vars" | "min_score" | "trials" | "messages" => {
            let input = if row.ours == "input" { "" } else { "  input: q\n" };
            format!("{HEAD}test_cases:\n- expected_tools_order: strict\n{input}  {line}\n")
        }
        "criteria" => format!("{HEAD}evaluations:\n  metrics:\n  - type: geval\n    name: n\n    {line}\n"),
        "threshold" => {
            format!("{HEAD}evaluations:\n  metrics:\n  - type: standard\n    metric: f1\n    {line}\n")
        }
        "max_distance" => {
            format!("{HEAD}evaluations:\n  metrics:\n  - type: standard\n    metric: contains\n    {line}\n")
        }
        other => panic!("a file for `{other}`"),
    }
}

#[test]
fn every_foreign_field_is_answered_with_the_line_to_write() {
    for row in FIELDS {
        for theirs in row.theirs {
            for spelling in [(*theirs).to_owned(), theirs.to_uppercase()] {
                let text = file_with(row, &format!("{spelling}: x"));
                let line = format!("write `{}`", row.line);
                let found = diagnostics(&text);
                let unknown = found
                    .iter()
                    .find(|it| it.message.contains(&format!("`{spelling}`")));
                let unknown = unknown.unwrap_or_else(|| panic!("{text}\n{found:?}"));
                assert_eq!(
                    unknown.help.as_deref(),
                    Some(line.as_str()),
                    "{text}\n{unknown:?}"
                );
            }
        }
        let text = file_with(row, row.line);
        assert_eq!(shape_errors(&text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn no_row_hides_a_name_of_the_language_or_another_row() {
    let mut seen = HashSet::new();
    for row in FIELDS {
        for theirs in row.theirs {
            assert_eq!(normalise(theirs), *theirs, "{theirs}");
            assert!(
                seen.insert((row.beside, *theirs)),
                "{theirs} beside {} is there twice",
                row.beside
            );
        }
    }
    let mut seen = HashSet::new();
    let names = METRICS.iter().flat_map(|row| row.theirs);
    for theirs in names.chain(PROVIDERS.iter().flat_map(|row| row.theirs)) {
        assert_eq!(normalise(theirs), *theirs);
        seen.insert(*theirs);
    }
    assert!(seen.len() > 60, "{}", seen.len());
}

#[test]
fn every_foreign_metric_and_provider_is_answered_with_a_line_that_loads() {
    for row in METRICS {
        let text = format!(
            "{HEAD}embedding_provider: {{provider: hash}}\nevaluations:\n  metrics:\n  - {}\n",
            row.line
        );
        assert_eq!(shape_errors(&text), Vec::<String>::new(), "{text}");
        for theirs in row.theirs {
            let text = format!("{HEAD}evaluations:\n  metrics:\n  - type: {theirs}\n");
            let found = diagnostics(&text);
            let help = write(row.line);
            assert!(
                found.iter().any(|it| it.help.as_deref() == Some(&help)),
                "{theirs}: {found:?}"
            );
        }
    }
    for row in TOOLS {
        let text = format!(
            "{HEAD}embedding_provider: {{provider: hash}}\ntools:\n- {}\n",
            row.line
        );
        assert_eq!(shape_errors(&text), Vec::<String>::new(), "{text}");
        for theirs in row.theirs {
            let text = format!("{HEAD}tools:\n- {{type: {theirs}, name: t, description: d}}\n");
            let found = diagnostics(&text);
            let help = write(row.line);
            assert!(
                found.iter().any(|it| it.help.as_deref() == Some(&help)),
                "{theirs}: {found:?}"
            );
        }
    }
    for row in PROVIDERS {
        let endpoint = match row.endpoint {
            "" => "https://a.example",
            endpoint => endpoint,
        };
        let text = format!(
            "name: a\ninstructions: {{inline: Hi}}\nmodel: {{provider: {}, name: m, endpoint: \"{endpoint}\"}}\n",
            row.provider
        );
        assert_eq!(shape_errors(&text), Vec::<String>::new(), "{text}");
        for theirs in row.theirs {
            let text =
                format!("name: a\ninstructions: {{inline: Hi}}\nmodel: {{provider: {theirs}, name: m}}\n");
            let found = diagnostics(&text);
            let help = row.help(&alone(&Tree::default()));
            assert!(
                found.iter().any(|it| it.help.as_deref() == Some(&help)),
                "{theirs}: {found:?}"
            );
        }
    }
}

/// The line that is written instead of a metric of another tool.
fn line_of(metric: &str) -> String {
    let text = format!("{HEAD}evaluations:\n  metrics:\n  - {metric}\n");
    let mut helps = diagnostics(&text).into_iter().filter_map(|it| it.help);
    let line = helps.find_map(|help| Some(help.strip_prefix("write `")?.strip_suffix('`')?.to_owned()));
    line.unwrap_or_else(|| panic!("{metric}"))
}

#[test]
fn the_line_for_a_foreign_metric_keeps_what_is_compared_and_the_threshold() {
    let checks = METRICS.iter().filter(|row| takes(row.line, "negate"));
    let negated = checks
        .flat_map(|row| row.theirs)
        .map(|name| format!("not-{name}"));
    let names = METRICS
        .iter()
        .flat_map(|row| row.theirs)
        .map(|name| (*name).to_owned());
    let ours = ["Contains", "not-contains", "not-icontains", "not-regex"].map(str::to_owned);
    let mut kept = 0;
    for theirs in names.chain(negated).chain(ours) {
        let line = line_of(&format!(
            "{{type: {theirs}, value: it's \\d \"so\", threshold: 0.37}}"
        ));
        let is_code = line.contains("type: code");
        assert_eq!(line.contains("threshold: 0.37"), !is_code, "{theirs}: {line}");
        assert_eq!(
            line.matches("threshold: ").count(),
            usize::from(!is_code),
            "{theirs}: {line}"
        );
        kept += usize::from(line.contains("\"it's \\\\d \\\"so\\\"\""));
        let text =
            format!("{HEAD}embedding_provider: {{provider: hash}}\nevaluations:\n  metrics:\n  - {line}\n");
        assert_eq!(shape_errors(&text), Vec::<String>::new(), "{text}");
    }
    assert!(kept > 20, "{kept}");
    // A judge cannot be negated, and the line without it would mean the opposite.
    let negated = format!("{HEAD}evaluations: {{metrics: [{{type: not-llm-rubric, value: rude}}]}}\n");
    let helps: Vec<_> = diagnostics(&negated)
        .into_iter()
        .filter_map(|it| it.help)
        .collect();
    assert!(
        !helps.iter().any(|help| help.contains("type: geval")),
        "{helps:?}"
    );
    // A score of ten or of a hundred is not between 0 and 1.
    assert!(!line_of("{type: not-contains, value: sorry, threshold: 7}").contains('7'));
}

#[test]
fn a_text_to_paste_is_whole_or_left_out() {
    let long = "a ".repeat(150);
    let file = |goal: &str| format!("clerk: {{role: Clerk, goal: {goal}, backstory: Old}}\n");
    let help = |text: &str| diagnostics(text).remove(0).help.unwrap_or_default();
    assert!(help(&file(&long)).contains(long.trim()));
    assert!(help(&file(&long.repeat(3))).contains("inline: \"…\""));
    assert!(help(&file("\"one\\ntwo\"")).contains("inline: \"…\""));
}

#[test]
fn the_messages_of_a_chat_are_instructions_if_the_system_says_them() {
    let head = "name: a\nmodel: {provider: openai, name: m, endpoint: \"http://127.0.0.1:9\"}\n";
    for role in ["system", "developer"] {
        let found = diagnostics(&format!("{head}messages: [{{role: {role}, content: Be kind}}]\n"));
        let errors: Vec<_> = found.iter().filter(|it| it.is_error()).collect();
        let [error] = errors.as_slice() else {
            panic!("{found:#?}")
        };
        assert_eq!(
            error.help.as_deref(),
            Some("write `instructions: {inline: \"Be kind\"}`")
        );
    }
    let found = diagnostics(&format!("{HEAD}messages: [{{role: user, content: Be kind}}]\n"));
    assert!(found.iter().any(|it| {
        it.help
            .as_deref()
            .is_some_and(|help| help.contains("test_cases: ["))
    }));
}

#[test]
fn a_mapping_that_lacks_only_the_right_kind_is_given_the_kind() {
    let help = |text: &str| {
        let found = diagnostics(&format!("{HEAD}{text}\n"));
        found.into_iter().find_map(|it| it.help).unwrap_or_default()
    };
    for (fields, kind) in [
        ("type: python, file: t.py, function: t", "function"),
        ("type: shell, command: ls", "function"),
        ("type: rag, source: docs", "vectorstore"),
        ("type: stdio, command: npx", "mcp"),
        ("type: llm, template: Hi", "prompt"),
    ] {
        let found = help(&format!("tools: [{{name: t, description: d, {fields}}}]"));
        assert_eq!(found, format!("write `type: {kind}`"), "{fields}");
    }
    let of_model = |fields: &str| {
        let found = diagnostics(&format!(
            "name: a\ninstructions: {{inline: Hi}}\nmodel: {{name: m, {fields}}}\n"
        ));
        found.into_iter().find_map(|it| it.help).unwrap_or_default()
    };
    assert!(of_model("provider: groq, endpoint: \"https://a.example\"").contains("`endpoint` stays"));
    assert!(of_model("provider: groq").contains("https://api.groq.com"));
}

#[test]
fn a_foreign_name_of_a_field_that_is_there_is_not_answered_with_a_second_one() {
    let tools = "tools: [{type: function, name: t, description: d, file: t.py, function: t}]\n";
    for (blocks, inline, help) in [
        (
            format!("{tools}mcpServers: {{files: {{command: npx}}}}\n"),
            "here it is `tools`, which is there already",
            "add to `tools`: `- {type: mcp,",
        ),
        (
            "system_prompt: Hi\n".to_owned(),
            "here it is `instructions`, which is there already",
            "write only `instructions: {inline: \"…\"}`",
        ),
    ] {
        let found = diagnostics(&format!("{HEAD}{blocks}"));
        let is_answered = |it: &Diagnostic| {
            it.inline.as_deref() == Some(inline) && it.help.as_deref().is_some_and(|it| it.starts_with(help))
        };
        assert!(found.iter().any(is_answered), "{blocks}: {found:#?}");
    }
}

#[test]
fn a_tool_in_openais_form_is_one_mistake() {
    let tool = "tools: [{type: function, function: {name: w, description: d, parameters: {type: object}}}]\n\
                test_cases: [{input: a, expected_tools: [w]}]\n";
    let found = diagnostics(&format!("{HEAD}{tool}"));
    let found: Vec<_> = found.iter().filter(|it| it.severity != Severity::Note).collect();
    assert_eq!(found.len(), 1, "{found:#?}");
}

#[test]
fn arguments_in_a_schema_are_one_mistake_and_shown_as_they_are_written_here() {
    let tool = "tools:\n- type: function\n  name: w\n  description: d\n  file: w.py\n  function: w\n  parameters:\n    \
                type: object\n    required: [sku]\n    properties: {sku: {type: integer}}\n\
                test_cases: [{input: a, expected_tools: [{name: w, args: {sku: 1}}]}]\n";
    let found = diagnostics(&format!("{HEAD}{tool}"));
    let found: Vec<_> = found
        .iter()
        .filter(|it| it.severity != Severity::Note && it.code != Code::FileNotFound)
        .collect();
    assert_eq!(found.len(), 1, "{found:#?}");
    let help = found[0].help.as_deref().unwrap();
    assert!(help.ends_with("`parameters: {sku: {type: integer}}`"), "{help}");
}

#[test]
fn a_score_out_of_range_is_a_share_of_ten_or_of_a_hundred() {
    for (written, share) in [
        ("80", Some("`0.8`")),
        ("8", Some("`0.8`")),
        ("100", Some("`1`")),
        ("800", None),
    ] {
        let text = format!(
            "{HEAD}evaluations: {{metrics: [{{type: standard, metric: rouge, threshold: {written}}}]}}\n"
        );
        let found = diagnostics(&text);
        let found = found.iter().find(|it| it.code == Code::OutOfRange).unwrap();
        let help = found.help.as_deref().unwrap();
        match share {
            Some(share) => assert!(help.contains(share), "{written}: {help}"),
            None => assert!(!help.contains("write"), "{written}: {help}"),
        }
    }
    let text =
        format!("{HEAD}evaluations: {{metrics: [{{type: standard, metric: rouge, threshold: 80%}}]}}\n");
    let found = diagnostics(&text);
    assert!(
        found.iter().any(|it| it.inline.as_deref() == Some("write `0.8`")),
        "{found:?}"
    );
}

#[test]
fn files_of_agents_of_other_tools_are_recognised() {
    for (text, tool, line) in [
        (
            "agents:\n  root:\n    model: anthropic/claude-x\n    instruction: Be kind\n",
            "docker agent",
            "`model: {provider: anthropic, name: claude-x}`",
        ),
        (
            "guide:\n  role: Guide\n  goal: Help people\n  backstory: Old\n",
            "crewAI",
            "`instructions: {inline: \"Guide. Help people. Old\"}`",
        ),
    ] {
        let found = diagnostics(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains(tool), "{found:?}");
        assert!(found[0].help.as_deref().unwrap().contains(line), "{found:?}");
    }
    for text in ["agents: {root: {name: a}}\n", "guide: {role: Guide}\n"] {
        assert!(diagnostics(text).len() > 1, "{text}");
    }
}

#[test]
fn hyphens_and_negations_of_other_tools_are_understood() {
    for (theirs, line) in [
        ("contains-any", "{type: standard, metric: contains_any}"),
        ("not-contains", "{type: standard, metric: contains, negate: true}"),
        (
            "not-is-json",
            "{type: standard, metric: json_valid, negate: true}",
        ),
        ("icontains", "{type: standard, metric: icontains}"),
        ("starts-with", "{type: standard, metric: starts_with}"),
        (
            "llm-rubric",
            "{type: geval, name: polite, criteria: The answer is polite.}",
        ),
    ] {
        let choices = ["standard", "geval", "rag", "code"].map(str::to_owned);
        assert_eq!(
            choice(theirs, &choices, &alone(&Tree::default())),
            Some(write(line)),
            "{theirs}"
        );
    }
}

#[test]
fn foreign_forms_are_answered_with_the_line_to_write() {
    for (blocks, line) in [
        ("instructions: Be kind", "instructions: {inline: \"Be kind\"}"),
        (
            "instructions: prompts/kind.md",
            "instructions: {file: prompts/kind.md}",
        ),
        ("model: openai:gpt-4o", "model: {provider: openai, name: gpt-4o}"),
        (
            "model: openai:chat:gpt-4o",
            "model: {provider: openai, name: gpt-4o}",
        ),
        (
            "model: anthropic/claude-x",
            "model: {provider: anthropic, name: claude-x}",
        ),
        ("model: gpt-4o", "model: {provider: openai, name: gpt-4o}"),
        (
            "evaluations: {metrics: [contains]}",
            "- {type: standard, metric: contains}",
        ),
        ("evaluations: {metrics: [llm-rubric]}", "- {type: geval,"),
        (
            "evaluations: [{metric: contains}]",
            "evaluations: {metrics: [{type: standard,",
        ),
        ("tools: [stock]", "- {type: function, name: stock,"),
        ("tools: {stock: {file: a.py}}", "tools: [{type: function,"),
        (
            "tools: [{type: function, function: {name: get_weather, parameters: {}}}]",
            "- {type: function, name: get_weather,",
        ),
        (
            "tools: [{type: function, name: w, description: d, file: w.py, function: w, parameters: {type: object}}]",
            "parameters: {city: {type: string}}",
        ),
        ("test_cases: [Hello]", "- {input: \"Hello\"}"),
        ("test_cases: [{turns: [Hello]}]", "- {input: \"Hello\"}"),
        (
            "test_cases: [{input: a, messages: [Hello]}]",
            "- {role: user, content: \"Hello\"}",
        ),
        (
            "test_cases: [{input: a, evaluations: [contains]}]",
            "- {type: standard, metric: contains}",
        ),
        (
            "test_cases: [{input: a, files: [a.txt]}]",
            "- {path: a.txt, type: text}",
        ),
        ("execution: fast", "execution: {"),
        ("mcpServers: {files: {command: npx}}", "tools: [{type: mcp,"),
        ("messages: [{role: user, content: x}]", "test_cases: [{messages:"),
    ] {
        let key = blocks.split(':').next().unwrap();
        let head: String = HEAD
            .lines()
            .filter(|line| !line.starts_with(&format!("{key}:")))
            .flat_map(|line| [line, "\n"])
            .collect();
        let found = diagnostics(&format!("{head}{blocks}\n"));
        let is_answered = |it: &Diagnostic| it.help.as_deref().is_some_and(|help| help.contains(line));
        assert!(found.iter().any(is_answered), "{blocks}: {found:#?}");
    }
}

/// "a mapping" alone helps only those who know the word.
#[test]
fn no_message_asks_for_a_mapping_without_an_example() {
    let agent = &*crate::schema::AGENT;
    let crate::shape::ShapeKind::Record(record) = &agent.get(agent.root).kind else {
        panic!()
    };
    let mut asked = 0;
    for field in record.fields.keys() {
        let head: String = HEAD
            .lines()
            .filter(|line| !line.starts_with(&format!("{field}:")))
            .flat_map(|line| [line, "\n"])
            .collect();
        for value in ["5", "[x]", "{x: [y]}"] {
            for it in diagnostics(&format!("{head}{field}: {value}\n")) {
                if it.message.contains("must be")
                    && it.message.contains("a mapping")
                    && !it.message.contains("found a mapping")
                {
                    asked += 1;
                    assert!(
                        it.help.as_deref().is_some_and(|help| help.contains('{')),
                        "{field}: {it:?}"
                    );
                }
            }
        }
    }
    assert!(asked > 15, "{asked}");
}

#[test]
fn a_whole_configuration_of_promptfoo_is_recognised() {
    for text in [
        "prompts: [Hi]\nproviders: [openai:gpt-4o]\ntests: [{vars: {a: b}}]\n",
        "description: x\nproviders: [a]\ndefaultTest: {assert: []}\ntests: file://t.csv\n",
        "{\"prompts\": [\"a\"], \"providers\": [\"b\"]}",
    ] {
        let found = diagnostics(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0]
                .help
                .as_deref()
                .unwrap()
                .contains("`holodeck import promptfoo agent.yaml`")
        );
    }
    for text in [
        format!("{HEAD}prompts: [a]\nproviders: [b]\n"),
        "providers: [a]\n".to_owned(),
    ] {
        assert!(
            diagnostics(&text)
                .iter()
                .all(|it| !it.message.contains("promptfoo")),
            "{text}"
        );
    }
}
