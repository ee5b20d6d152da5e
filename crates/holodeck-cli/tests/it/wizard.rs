//! The questions of `init` and `config init`, on a terminal.

use pretty_assertions::assert_eq;

use crate::{
    project::{CommandOutput, Project},
    terminal::OnTerminal,
};

#[test]
fn enter_takes_the_defaults_and_the_project_passes() {
    let project = Project::empty();
    let mut terminal = OnTerminal::start(&project, &["init", "my-agent"]);
    terminal.until("Template [conversational]: ");
    terminal.types("\n");
    terminal.until("Provider [ollama]: ");
    terminal.types("\n");
    terminal.until("Model [llama3.2]: ");
    terminal.types("\n");
    let (code, shown) = terminal.ends();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("my-agent/agent.yaml"), "{shown}");
    assert!(shown.contains("cd my-agent && holodeck test"), "{shown}");
    project
        .run(&["test", "my-agent/agent.yaml"])
        .exits(0)
        .says("4 of 4 passed (100 %)");
}

#[test]
fn answers_are_numbers_or_names_and_wrong_ones_are_asked_again() {
    let project = Project::empty();
    let mut terminal = OnTerminal::start(&project, &["init"]);
    terminal.until("Name [my-agent]: ");
    terminal.types("2fast\n");
    terminal.until("does not start with a letter");
    terminal.types("helper\n");
    terminal.until("Template [conversational]: ");
    terminal.types("reserch\n");
    terminal.until("did you mean `research`?");
    terminal.types("9\n");
    terminal.until("type a number from 1 to 3, or a name");
    terminal.types("2\n");
    terminal.until("Provider [ollama]: ");
    terminal.types("azure_openai\n");
    terminal.until("Endpoint [https://RESOURCE.openai.azure.com]: ");
    terminal.types("\n");
    terminal.until("is a placeholder for the name of your resource");
    terminal.types("mine.openai.azure.com\n");
    terminal.until("--endpoint https://mine.openai.azure.com");
    terminal.types("https://mine.openai.azure.com\n");
    terminal.until("Model [gpt-4o-mini]: ");
    terminal.types("my-deployment\n");
    let (code, shown) = terminal.ends();
    assert_eq!(code, Some(0), "{shown}");
    let yaml = project.read("helper/agent.yaml");
    for line in [
        "name: helper\n",
        "provider: azure_openai\n",
        "name: my-deployment\n",
        "endpoint: https://mine.openai.azure.com\n",
        "name: library ",
    ] {
        assert!(yaml.contains(line), "{line} in {yaml}");
    }
    assert!(!project.path("helper/recordings").exists());
}

#[test]
fn an_end_of_the_input_writes_nothing() {
    let project = Project::empty();
    let mut terminal = OnTerminal::start(&project, &["init", "my-agent"]);
    terminal.until("Template [conversational]: ");
    terminal.types("\u{4}");
    terminal.until("nothing was written");
    assert_eq!(terminal.ends().0, Some(130));
    assert!(!project.path("my-agent").exists());
}

#[test]
fn flags_answer_their_questions() {
    let project = Project::empty();
    let all = [
        "init",
        "a",
        "--template",
        "research",
        "--llm",
        "openai",
        "--model",
        "m",
    ];
    let quiet = ["init", "b", "--non-interactive"];
    for args in [&all[..], &quiet] {
        let (code, shown) = OnTerminal::start(&project, args).ends();
        assert_eq!(code, Some(0), "{shown}");
        assert!(!shown.contains("]: "), "{shown}");
    }
}

#[test]
fn settings_are_written_for_all_agents_or_for_those_of_a_folder() {
    let project = Project::empty();
    project
        .run(&["config", "init"])
        .exits(2)
        .says("`--global` writes for all agents");
    let ran = project.run(&["config", "init", "--project"]).exits(0);
    assert_eq!(ran.stdout, "config.yaml\n");
    project
        .run(&["config", "init", "-p"])
        .exits(2)
        .says("overwrite it with `--force`");
    project.write("config.yaml", "old: true\n");
    project.run(&["config", "init", "-p", "--force"]).exits(0);
    project.run(&["init", "."]).exits(0);
    let ran = project.run(&["validate", "-v"]).exits(0);
    assert!(ran.stdout.starts_with("no problems"), "{}", ran.stdout);
    assert!(ran.stdout.contains("config.yaml"), "{}", ran.stdout);

    let mut terminal = OnTerminal::start(&project, &["config", "init"]);
    terminal.until("Settings for [global]: ");
    terminal.types("\n");
    let (code, shown) = terminal.ends();
    assert_eq!(code, Some(0), "{shown}");
    let home = project.dir().parent().unwrap().join("home/.holodeck/config.yaml");
    assert!(home.is_file());
    let elsewhere = CommandOutput::of(&project.command(&["validate"]).output().unwrap()).exits(0);
    assert!(
        elsewhere.stdout.starts_with("no problems"),
        "{}",
        elsewhere.stdout
    );
}

#[test]
fn every_field_of_the_sample_config_is_valid() {
    // Uncommented, every field must be accepted.
    let project = Project::empty();
    project.run(&["config", "init", "-p"]).exits(0);
    let sample = project.read("config.yaml");
    let settings: String = sample
        .lines()
        .map(|line| match line.trim_start().strip_prefix("# ") {
            Some(field) if field.starts_with(' ') || is_block(field) => format!("{field}\n"),
            Some(field) if field.starts_with("parallel") => format!("  {field}\n"),
            Some(_) => "\n".to_owned(),
            None => format!("{line}\n"),
        })
        .collect();
    assert!(settings.contains("\nmcp_servers:\n"), "{settings}");
    project.write("config.yaml", settings);
    project.run(&["init", "."]).exits(0);
    let mut validate = project.command(&["validate"]);
    validate
        .env("OPENAI_API_KEY", "value")
        .env("DATABASE_URL", "value");
    let ran = CommandOutput::of(&validate.output().unwrap()).exits(0);
    assert!(ran.stdout.starts_with("no problems"), "{}", ran.stdout);
}

fn is_block(line: &str) -> bool {
    line.ends_with(':') && !line.contains(' ')
}
