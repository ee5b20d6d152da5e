use crate::project::{Project, assert_seen, knowing};

#[test]
fn a_new_project_is_whole_and_runs() {
    let server = knowing();
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
    assert_seen!(ran);
    for file in [
        "agent.yaml",
        "instructions/system-prompt.md",
        "schemas/agent.schema.json",
        ".gitignore",
        ".env.example",
    ] {
        assert!(project.path("my-agent").join(file).is_file(), "{file}");
    }
    let ran = project.run(&["validate", "my-agent/agent.yaml"]).exits(0);
    assert!(!ran.stdout.contains("error"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("warning"), "{}", ran.stdout);
    project
        .run(&["test", "my-agent/agent.yaml"])
        .exits(0)
        .says("2 cases: 2 passed");
    let requests = server.finish();
    assert_eq!(requests.len(), 2);
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
        let ran = project
            .run(&["validate", "--json", &format!("{dir}/agent.yaml")])
            .exits(0);
        assert_eq!(ran.json()["ok"], true);
        insta::with_settings!({snapshot_suffix => &dir}, {
            insta::assert_snapshot!(project.read(&format!("{dir}/agent.yaml")));
        });
    }
}

#[test]
fn what_is_there_is_not_overwritten_unasked() {
    let project = Project::empty();
    project.write("mine/agent.yaml", "precious");
    let ran = project.run(&["init", "mine"]).exits(2);
    assert_seen!(ran);
    assert_eq!(project.read("mine/agent.yaml"), "precious");
    assert!(!project.path("mine/.gitignore").exists());
    project.run(&["init", "mine", "--force"]).exits(0);
    assert_ne!(project.read("mine/agent.yaml"), "precious");
}

#[test]
fn a_name_is_a_name() {
    let project = Project::empty();
    for bad in ["../up", "2fast", "a b", ""] {
        project
            .run(&["init", bad])
            .exits(2)
            .says("can't be the name of an agent");
    }
    project
        .run(&["init", "a", "--provider", "azure_openai"])
        .exits(2)
        .says("needs `--endpoint`");
}
