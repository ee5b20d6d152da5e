use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use holodeck::{model, runner::ExitCode};

use crate::{
    failure::{Failure, Problem},
    terminal::{Terminal, Verbosity},
};

const AGENT: &str = include_str!("../../templates/agent.yaml");
const PROMPT: &str = include_str!("../../templates/system-prompt.md");
const GITIGNORE: &str = include_str!("../../templates/gitignore");
const ENV_EXAMPLE: &str = include_str!("../../templates/env.example");

const LONGEST_NAME: usize = 64;

/// Flags of `holodeck init`.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// The agent's name, and the folder it is put into.
    #[arg(value_name = "NAME", required_unless_present = "name")]
    folder: Option<String>,
    /// As the argument NAME.
    #[arg(long, conflicts_with = "folder", hide = true)]
    name: Option<String>,
    /// Who serves the model.
    #[arg(long, alias = "llm", value_enum, default_value = "ollama")]
    provider: Provider,
    /// The model; for `azure_openai`, the deployment.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Where the model is served; any server compatible with OpenAI.
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// What the agent does, in a sentence.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Who writes the agent.
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// Overwrite files that are there.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    former: FormerArgs,
}

/// Flags of 0.7.1 that have no effect here.
#[derive(Debug, clap::Args)]
struct FormerArgs {
    #[arg(long, hide = true)]
    template: Option<String>,
    #[arg(long, hide = true)]
    vectorstore: Option<String>,
    #[arg(long, hide = true)]
    evals: Option<String>,
    #[arg(long, hide = true)]
    mcp: Option<String>,
    /// Nothing is ever asked.
    #[arg(long, hide = true)]
    non_interactive: bool,
}

impl FormerArgs {
    /// The flags that ask for something else than what is written.
    fn ignored(&self) -> Vec<&'static str> {
        let template = self.template.as_deref().filter(|name| *name != "conversational");
        let flags = [
            ("`--template`", template.is_some()),
            ("`--vectorstore`", self.vectorstore.is_some()),
            ("`--evals`", self.evals.is_some()),
            ("`--mcp`", self.mcp.is_some()),
        ];
        flags
            .into_iter()
            .filter_map(|(flag, is_set)| is_set.then_some(flag))
            .collect()
    }
}

impl InitArgs {
    fn name(&self) -> &str {
        self.folder
            .as_deref()
            .or(self.name.as_deref())
            .unwrap_or_default()
    }
}

/// Providers that this version can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Provider {
    /// OpenAI, or with `--endpoint` any server compatible with it.
    Openai,
    /// Azure OpenAI; needs `--endpoint`.
    #[value(name = "azure_openai")]
    AzureOpenai,
    /// Ollama on this machine, or with `--endpoint` elsewhere.
    Ollama,
    /// Claude, through the Claude Code CLI.
    Anthropic,
}

impl Provider {
    fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::AzureOpenai => "azure_openai",
            Self::Ollama => "ollama",
            Self::Anthropic => "anthropic",
        }
    }

    fn usual_model(self) -> &'static str {
        match self {
            Self::Openai | Self::AzureOpenai => "gpt-4o-mini",
            Self::Ollama => "llama3.2",
            Self::Anthropic => "sonnet",
        }
    }

    /// What stands where the endpoint would, if none is given.
    fn usual_endpoint(self) -> &'static str {
        match self {
            Self::Openai => "  # endpoint: http://localhost:8000   # any server compatible with OpenAI\n",
            Self::AzureOpenai | Self::Anthropic => "",
            Self::Ollama => {
                "  # endpoint: http://localhost:11434  # where Ollama listens unless told otherwise\n"
            }
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Openai => "OPENAI_API_KEY=",
            Self::AzureOpenai => "AZURE_OPENAI_API_KEY=",
            Self::Ollama => "# Ollama takes no key.",
            Self::Anthropic => "ANTHROPIC_API_KEY=",
        }
    }
}

/// A project that runs.
pub(crate) fn run(args: &InitArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    check_name(args.name())?;
    if args.provider == Provider::AzureOpenai && args.endpoint.is_none() {
        return Err(Problem::config("provider `azure_openai` needs `--endpoint`")
            .with_hint("it is `https://RESOURCE.openai.azure.com`")
            .into());
    }
    let dir = PathBuf::from(args.name());
    let files = files(args);
    if !args.force {
        refuse_to_overwrite(&dir, &files)?;
    }
    for (path, text) in &files {
        let path = dir.join(path);
        write(&path, text)
            .map_err(|error| Problem::execution(format!("writing `{}`: {error}", path.display())))?;
    }
    let mut text = format!("{}\n", dir.join("agent.yaml").display());
    if terminal.verbosity() >= Verbosity::Verbose {
        let paths: Vec<_> = files.iter().map(|(path, _)| dir.join(path)).collect();
        text = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join("\n");
        text.push('\n');
    }
    terminal.data(&text)?;
    terminal.flush()?;
    if terminal.verbosity() > Verbosity::Quiet {
        let ignored = args.former.ignored();
        if !ignored.is_empty() {
            let verb = if ignored.len() == 1 { "has" } else { "have" };
            let flags = ignored.join(", ");
            terminal.talk(&format!(
                "warning: {flags} {verb} no effect; edit `agent.yaml` instead\n"
            ));
        }
        terminal.talk(&next_steps(args));
    }
    Ok(ExitCode::Passed)
}

fn next_steps(args: &InitArgs) -> String {
    let mut text = crate::render::hint(&format!(
        "`cd {} && holodeck test` asks the model and checks its answers",
        args.name()
    ));
    let needs = match args.provider {
        Provider::Ollama if args.endpoint.is_none() => format!(
            "Ollama must run and have the model: `ollama pull {}`",
            args.model.as_deref().unwrap_or(args.provider.usual_model())
        ),
        Provider::Ollama => return text,
        Provider::Openai | Provider::AzureOpenai => {
            "the key is read from the environment or `.env`; see `.env.example`".to_owned()
        }
        Provider::Anthropic => {
            "it needs `ANTHROPIC_API_KEY`, in the environment or in `.env`, and the Claude Code CLI: \
                                `npm install -g @anthropic-ai/claude-code`"
                .to_owned()
        }
    };
    text.push_str(&crate::render::hint(&needs));
    text
}

fn check_name(name: &str) -> Result<(), Problem> {
    let problem = |why: &str| {
        Err(
            Problem::config(format!("`{name}` can't be the name of an agent: {why}"))
                .with_hint("a name begins with a letter; letters, digits, `-` and `_` follow, 64 at most"),
        )
    };
    let mut characters = name.chars();
    match characters.next() {
        None => return problem("it is empty"),
        Some(first) if !first.is_ascii_alphabetic() => return problem("it does not begin with a letter"),
        Some(_) => {}
    }
    if let Some(other) = characters.find(|c| !c.is_ascii_alphanumeric() && !"-_".contains(*c)) {
        return problem(&format!("it has `{}`", other.escape_debug()));
    }
    if name.len() > LONGEST_NAME {
        return problem(&format!("it has {} characters", name.len()));
    }
    Ok(())
}

fn files(args: &InitArgs) -> Vec<(&'static str, String)> {
    let endpoint = match &args.endpoint {
        Some(endpoint) => format!("  endpoint: {}\n", scalar(endpoint)),
        None => args.provider.usual_endpoint().to_owned(),
    };
    let model = args.model.as_deref().unwrap_or(args.provider.usual_model());
    let agent = AGENT
        .replace("{{name}}", args.name())
        .replace("{{provider}}", args.provider.as_str())
        .replace("{{endpoint}}\n", &endpoint)
        .replace("{{model}}", &scalar(model));
    let author = args
        .author
        .as_deref()
        .map(|author| format!("author: {}\n", scalar(author)));
    let description = args.description.as_deref().map(scalar);
    let agent = agent
        .replace(
            "{{description}}",
            description.as_deref().unwrap_or("Answers short questions"),
        )
        .replace("{{author}}\n", &author.unwrap_or_default());
    let schema = format!("{:#}\n", model::json_schema());
    vec![
        ("agent.yaml", agent),
        ("instructions/system-prompt.md", PROMPT.to_owned()),
        ("schemas/agent.schema.json", schema),
        (".gitignore", GITIGNORE.to_owned()),
        (
            ".env.example",
            ENV_EXAMPLE.replace("{{key}}", args.provider.key()),
        ),
    ]
}

/// A text as a YAML value: plain where that is surely the same text, else in quotes.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./:".contains(c))
        && !text.ends_with(':')
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if plain {
        text.to_owned()
    } else {
        // What JSON quotes, YAML reads the same.
        serde_json::Value::from(text).to_string()
    }
}

fn refuse_to_overwrite(dir: &Path, files: &[(&str, String)]) -> Result<(), Problem> {
    let there: Vec<_> = files
        .iter()
        .map(|(path, _)| dir.join(path))
        .filter(|path| path.exists())
        .collect();
    if there.is_empty() {
        return Ok(());
    }
    let mut problem = Problem::config(format!("`{}` has an agent already", dir.display()));
    for path in there {
        problem = problem.with_detail(format!("{} is there", path.display()));
    }
    Err(problem.with_hint("choose another name, or overwrite them with `--force`"))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn names_are_names() {
        for good in ["a", "my-agent", "Agent_2"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "2fast", "-a", "a b", "a/b", "..", "ä", "a\u{1b}", &long] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_stay_what_they_are() {
        assert_eq!(scalar("gpt-oss:20b"), "gpt-oss:20b");
        assert_eq!(scalar("http://localhost:8000/v1"), "http://localhost:8000/v1");
        assert_eq!(scalar("no"), "\"no\"");
        assert_eq!(scalar("4: \"x\" # y"), "\"4: \\\"x\\\" # y\"");
        assert_eq!(scalar("${ENDPOINT}"), "\"${ENDPOINT}\"");
    }
}
