//! `holodeck init`: the files it writes, and that the project passes its tests.

use crate::project::{Project, assert_output, correct_server};

#[test]
fn a_new_project_is_whole_and_runs() {
    let server = correct_server();
    let project = Project::empty();
    let ran = project
        .run(&[
            "init",
            "my-agent",
            "--provider",
            "openai",
            "--endpoint",
            &server.url(),
            "--model",
            "test-model",
        ])
        .exits(0);
    assert_output!(ran);
    for file in [
        "agent.yaml",
        "instructions/system-prompt.md",
        "schemas/agent.schema.json",
        ".gitignore",
        ".env.example",
        "README.md",
    ] {
        assert!(project.path("my-agent").join(file).is_file(), "{file}");
    }
    assert!(!project.path("my-agent/recordings").exists());
    // An empty line would end the table.
    let readme = project.read("my-agent/README.md");
    assert!(
        readme.contains("instructed to do |\n| `.env.example`"),
        "{readme}"
    );
    assert!(!project.read("my-agent/agent.yaml").contains("replay"));
    let ran = project.run(&["validate", "my-agent/agent.yaml"]).exits(0);
    assert!(ran.stdout.starts_with("no problems"), "{}", ran.stdout);
    project
        .run(&["test", "my-agent/agent.yaml", "--filter", "*l*s*m*"])
        .exits(0)
        .says("1 of 1 passed (100 %)");
    let requests = server.finish();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].texts("system")[0].starts_with("You answer questions."));
}

#[test]
fn every_provider_gives_a_project_that_validates() {
    let project = Project::empty();
    for (name, more) in [
        ("ollama", &[][..]),
        ("anthropic", &[]),
        ("openai", &[]),
        ("azure_openai", &["--endpoint", "https://x.openai.azure.com"]),
        ("ollama", &["--model", "a: \"strange\" # name"]),
    ] {
        let dir = format!("a-{name}-{}", more.len());
        let mut args = vec!["init", &dir, "--provider", name];
        args.extend(more);
        project.run(&args).exits(0);
        assert_valid(&project, &dir);
        insta::with_settings!({snapshot_suffix => &dir}, {
            insta::assert_snapshot!(project.read(&format!("{dir}/agent.yaml")));
        });
    }
}

fn assert_valid(project: &Project, dir: &str) {
    let agent = format!("{dir}/agent.yaml");
    let mut command = project.command(&["validate", "--json", &agent]);
    for variable in ["BRAVE_API_KEY", "GITHUB_PERSONAL_ACCESS_TOKEN", "DATABASE_URL"] {
        command.env(variable, "value");
    }
    let ran = crate::project::CommandOutput::of(&command.output().unwrap()).exits(0);
    assert_eq!(ran.json()["ok"], true, "{}", ran.stdout);
}

#[test]
fn every_template_takes_every_option_of_0_7_1() {
    let project = Project::empty();
    for template in ["conversational", "research", "customer-support"] {
        for store in ["in-memory", "postgres", "qdrant", "chromadb"] {
            let dir = format!("{template}-{store}");
            let ran = project
                .run(&[
                    "init",
                    "--name",
                    &dir,
                    "--template",
                    template,
                    "--llm",
                    "anthropic",
                    "--vectorstore",
                    store,
                    "--evals",
                    "rag-faithfulness,rag-answer_relevancy,rag-context_precision,rag-context_recall",
                    "--mcp",
                    "brave-search,memory,sequentialthinking,filesystem,github,postgres",
                    "--description",
                    "Says \"what\": it is",
                    "--author",
                    "Ada # L.",
                    "--non-interactive",
                ])
                .exits(0)
                .says("holodeck validate");
            assert!(!ran.stderr.contains("replays"), "{}", ran.stderr);
            assert!(!project.path(&dir).join("recordings").exists());
            assert_valid(&project, &dir);
            let ignored = template != "research";
            assert_eq!(ran.stderr.contains("`--vectorstore` has no effect"), ignored);
        }
    }
    insta::assert_snapshot!(project.read("research-postgres/agent.yaml"));
    insta::assert_snapshot!(project.read("research-postgres/.env.example"));
}

#[test]
fn values_that_are_unknown_are_warned_of_and_left_out() {
    let project = Project::empty();
    let ran = project
        .run(&[
            "init",
            "a",
            "--template",
            "research",
            "--vectorstore",
            "weaviate",
            "--evals",
            "rag-nonsense,rag-faithfulness",
            "--mcp",
            "memory,slack",
        ])
        .exits(0);
    for (flag, value) in [
        ("--vectorstore", "weaviate"),
        ("--evals", "rag-nonsense"),
        ("--mcp", "slack"),
    ] {
        let warning = format!("warning: `{flag} {value}` is unknown and left out; the values are `");
        assert!(ran.stderr.contains(&warning), "{}", ran.stderr);
    }
    let yaml = project.read("a/agent.yaml");
    assert!(
        yaml.contains("metric_type: faithfulness") && yaml.contains("name: memory"),
        "{yaml}"
    );
    for unknown in ["weaviate", "nonsense", "slack"] {
        assert!(!yaml.contains(unknown), "{yaml}");
    }
    assert_valid(&project, "a");
}

#[test]
fn an_address_that_is_none_creates_nothing() {
    let project = Project::empty();
    for endpoint in ["localhost:8000", "https://RESOURCE.openai.azure.com"] {
        project
            .run(&["init", "a", "--provider", "azure_openai", "--endpoint", endpoint])
            .exits(2)
            .says("is not an endpoint");
        assert!(!project.path("a").exists());
    }
}

#[test]
fn what_python_leaves_behind_is_not_for_git() {
    let project = Project::empty();
    project
        .run(&["init", "a", "--template", "customer-support"])
        .exits(0);
    assert!(
        project
            .read("a/.gitignore")
            .lines()
            .any(|line| line == "__pycache__/")
    );
}

#[test]
fn metrics_that_judge_passages_need_some() {
    let project = Project::empty();
    for (template, evals, lacks) in [
        (
            "conversational",
            "rag-faithfulness,rag-answer_relevancy,rag-context_recall",
            true,
        ),
        ("customer-support", "rag-context_precision", true),
        ("conversational", "rag-answer_relevancy", false),
        ("research", "rag-faithfulness", false),
    ] {
        let dir = format!("{template}-{lacks}");
        let ran = project
            .run(&["init", &dir, "--template", template, "--evals", evals])
            .exits(0)
            // The recordings of the templates have no answers of judges.
            .says(&format!("`cd {dir} && holodeck test` asks the model"));
        assert!(!project.path(&dir).join("recordings").exists());
        assert!(!ran.stderr.contains("replays"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("holodeck validate"), "{}", ran.stderr);
        assert_eq!(
            ran.stderr.contains("nothing retrieves passages"),
            lacks,
            "{}",
            ran.stderr
        );
    }
    let ran = project
        .run(&[
            "init",
            "b",
            "--evals",
            "rag-faithfulness,rag-answer_relevancy,rag-context_recall",
        ])
        .exits(0);
    ran.says("nothing retrieves passages for `faithfulness`, `contextual_recall`: add");
}

#[test]
fn what_is_there_is_not_overwritten_unasked() {
    let project = Project::empty();
    project.write("mine/agent.yaml", "precious");
    let ran = project.run(&["init", "mine"]).exits(2);
    assert_output!(ran);
    assert_eq!(project.read("mine/agent.yaml"), "precious");
    assert!(!project.path("mine/.gitignore").exists());
    project.run(&["init", "mine", "--force"]).exits(0);
    assert_ne!(project.read("mine/agent.yaml"), "precious");
}

#[test]
fn the_current_folder_can_be_the_project() {
    let project = Project::empty();
    project.write(".gitignore", "mine\n");
    let ran = project.run(&["init", "."]).exits(0);
    assert_output!(ran);
    assert_eq!(project.read(".gitignore"), "mine\n");
    assert!(project.read("agent.yaml").contains("\nname: work\n"));
    project.run(&["test"]).exits(0).says("4 passed");

    let project = Project::empty();
    project.write("2024 plans/.gitignore", "");
    let mut here = project.command(&["init", "."]);
    here.current_dir(project.path("2024 plans"));
    crate::project::CommandOutput::of(&here.output().unwrap())
        .exits(2)
        .says("`holodeck init . --name NAME`");
    let mut here = project.command(&["init", ".", "--name", "plans"]);
    here.current_dir(project.path("2024 plans"));
    crate::project::CommandOutput::of(&here.output().unwrap()).exits(0);
    assert!(project.read("2024 plans/agent.yaml").contains("\nname: plans\n"));
}

#[test]
fn invalid_names_are_refused() {
    let project = Project::empty();
    for bad in ["../up", "2fast", "a b", ""] {
        project
            .run(&["init", bad])
            .exits(2)
            .says("is not a valid agent name");
    }
    project
        .run(&["init", "a", "--provider", "azure_openai"])
        .exits(2)
        .says("needs `--endpoint`");
    project
        .run(&["init"])
        .exits(2)
        .says("the name of the agent is missing");
}
