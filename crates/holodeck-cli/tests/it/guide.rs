//! The first example of `docs/routing.md`, as it is printed there.

use std::{fs, path::Path};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;

use crate::project::{CommandOutput, Project, SECRET};

/// The fenced blocks of the guide in their order, without their fences.
fn blocks() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/routing.md");
    let text = fs::read_to_string(path).unwrap();
    let fenced = text.split("\n```").skip(1).step_by(2);
    let without_language = fenced.map(|block| block.split_once('\n').unwrap().1);
    without_language
        .map(|block| format!("{}\n", block.trim_end()))
        .collect()
}

/// The agent file, the file of the specialist, and each command with what it prints.
pub(crate) struct Example {
    pub(crate) agent: String,
    pub(crate) specialist: String,
    pub(crate) commands: Vec<(Vec<String>, String)>,
}

/// The words of a command line, in which texts are in double quotes.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    let words = parts.flat_map(|(number, part)| {
        if number % 2 == 1 {
            vec![part.to_owned()]
        } else {
            part.split_whitespace().map(str::to_owned).collect()
        }
    });
    words.skip(1).collect()
}

pub(crate) fn example() -> Example {
    let blocks = blocks();
    let [agent, specialist, console, ..] = blocks.as_slice() else {
        panic!("{blocks:?}")
    };
    let commands = console.split("$ ").filter(|command| !command.trim().is_empty());
    let commands = commands.map(|command| {
        let (line, printed) = command.split_once('\n').unwrap();
        (words(line), printed.to_owned())
    });
    Example {
        agent: agent.clone(),
        specialist: specialist.clone(),
        commands: commands.collect(),
    }
}

impl Example {
    /// Writes the files into a project whose agent file is there already.
    pub(crate) fn write(&self, project: &Project) {
        project.write(".claude/agents/code-reviewer.md", &self.specialist);
    }
}

#[test]
fn the_first_example_prints_what_the_guide_shows_and_asks_the_specialist() {
    let example = example();
    let server = ModelServer::answering(|_| Reply::text("src/main.rs:3: an unused variable."));
    let project = Project::with(&example.agent);
    example.write(&project);
    let run = |args: &[&str]| {
        let mut command = project.command(args);
        command
            .env("OPENAI_BASE_URL", server.url())
            .env("OPENAI_API_KEY", SECRET);
        CommandOutput::of(&command.output().unwrap())
    };
    assert_eq!(example.commands.len(), 2);
    for (args, printed) in &example.commands {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ran = run(&args).exits(0);
        // `--explain` writes to stderr.
        assert_eq!(format!("{}{}", ran.stderr, ran.stdout), *printed, "{args:?}");
    }
    let ran = run(&["run", "--command", "review", "look at src/"]).exits(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("src/main.rs:3: an unused variable.\n", "")
    );
    let requests = server.finish();
    let [request] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert!(
        request.texts("system")[0].starts_with("You review code."),
        "{}",
        request.body
    );
    assert_eq!(request.texts("user"), ["look at src/"]);
}
