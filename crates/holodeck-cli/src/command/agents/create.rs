//! `holodeck agents new`: the file of a new agent.

use std::{fs, io::Write as _, path::Path};

use holodeck::{
    definition,
    model::{AgentDoc, io_reason},
    runs::ExitCode,
    yaml::LoadedAgent,
};

use crate::{
    failure::{Failure, Problem},
    terminal::Terminal,
};

/// How many tools a new agent has.
const TOOLS: usize = 3;

/// Returns an error if no agent can have this name.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    let starts = name.starts_with(|character: char| character.is_ascii_alphanumeric());
    if !starts || !name.chars().all(is_name) || name.len() > AgentDoc::MAX_NAME {
        let message = format!("`{name}` is not a name for an agent");
        let hint = format!("use letters, digits, `-` and `_`, at most {}", AgentDoc::MAX_NAME);
        return Err(Problem::config(message).with_hint(hint).into());
    }
    Ok(())
}

/// Writes the file of an agent with a name that it can have.
pub(super) fn run(
    folder: &Path,
    own: Option<&LoadedAgent>,
    name: &str,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let path = folder.join(format!("{name}.md"));
    let created = fs::create_dir_all(folder).and_then(|()| fs::File::create_new(&path));
    let mut file = created.map_err(|error| {
        let shown = path.display();
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            Problem::config(format!("`{shown}` exists already"))
        } else {
            Problem::config(format!("`{shown}` cannot be created: {}", io_reason(&error)))
        }
    })?;
    file.write_all(scaffold(name, &tools(own)).as_bytes())
        .map_err(|error| {
            Problem::execution(format!(
                "`{}` cannot be written: {}",
                path.display(),
                io_reason(&error)
            ))
        })?;
    terminal.write_message(&format!("created {}\n", path.display()));
    terminal.write_message(
        "\nhint: describe the agent and its triggers, then try `holodeck agents select \"a task\" --explain`\n",
    );
    Ok(ExitCode::Passed)
}

/// Tools that the agent has: a file with others would not validate clean.
fn tools(own: Option<&LoadedAgent>) -> Vec<String> {
    let built_in = ["Read", "Grep", "Glob"].map(str::to_owned);
    let Some(own) = own else {
        return built_in.into();
    };
    let doc = AgentDoc {
        tools: Some(built_in.clone().into()),
        ..AgentDoc::default()
    };
    if definition(&doc, Some(&own.agent)).1.is_empty() {
        return built_in.into();
    }
    let names = own.config.tools.iter().map(|tool| tool.name().to_owned());
    names.take(TOOLS).collect()
}

/// A file that loads as it is and shows every section.
fn scaffold(name: &str, tools: &[String]) -> String {
    let tools = if tools.is_empty() {
        String::new()
    } else {
        format!("tools: {}\n", tools.join(", "))
    };
    let words = name.replace(['-', '_'], " ");
    format!(
        "---\n\
         name: {name}\n\
         description: What this agent is for, in one sentence\n\
         {tools}\
         category: development\n\
         commands: []\n\
         ---\n\n\
         ## Triggers\n\
         - {words}\n\n\
         ## Behavioral Mindset\n\
         How the agent approaches a task.\n\n\
         ## Focus Areas\n\
         - **Area**: keyword, another keyword\n\n\
         ## Key Actions\n\
         1. What it does first\n\n\
         ## Outputs\n\
         - What it returns\n\n\
         ## Boundaries\n\
         **Will:**\n\
         - What it does without asking\n\n\
         **Will Not:**\n\
         - What it never does\n"
    )
}
