//! `holodeck init`: writes a project whose tests can be run immediately.

mod choices;
mod lenient;
mod project;
mod wizard;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use holodeck::{
    model::{io_reason, printable},
    runs::ExitCode,
};

use self::{
    choices::{Eval, Provider, Server, Store, Template},
    lenient::{Choice, Lenient, names},
    project::{Files, Plan},
};
use crate::{
    failure::{Failure, Problem},
    terminal::{Terminal, Verbosity},
};

const MAX_NAME_LEN: usize = 64;

/// Flags of `holodeck init`.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// The folder to create, and the agent's name; `.` uses the current folder.
    #[arg(value_name = "DIR")]
    folder: Option<String>,
    /// The agent's name, if it differs from the folder's.
    #[arg(long)]
    name: Option<String>,
    /// The kind of agent to start from. Default: `conversational`.
    #[arg(long, value_enum)]
    template: Option<Template>,
    /// The provider of the model. Default: `ollama`.
    #[arg(long, alias = "llm", value_enum)]
    provider: Option<Provider>,
    /// The model; for `azure_openai`, the deployment.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The endpoint of the model; any OpenAI-compatible server.
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// A description of the agent, in a sentence.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The author of the agent.
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// Where the template `research` keeps its index. Default: `in-memory`.
    #[arg(long, value_parser = Lenient::<Store>::default(), value_name = "STORE")]
    vectorstore: Option<Choice<Store>>,
    /// Add metrics that a model judges, separated by commas.
    #[arg(long, value_parser = Lenient::<Eval>::default(), value_name = "METRICS", value_delimiter = ',')]
    evals: Vec<Choice<Eval>>,
    /// Add MCP servers, separated by commas.
    #[arg(long, value_parser = Lenient::<Server>::default(), value_name = "SERVERS", value_delimiter = ',')]
    mcp: Vec<Choice<Server>>,
    /// Do not ask questions, even on a terminal.
    #[arg(long)]
    non_interactive: bool,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
}

impl InitArgs {
    /// The values that are left out, each with those that there are.
    fn unknown_values(&self) -> Vec<String> {
        let left_out = |flag: &str, value: &str, known: String| {
            format!("`{flag} {value}` is unknown and left out; the values are {known}")
        };
        let stores = self.vectorstore.iter().filter_map(Choice::unknown);
        let stores = stores.map(|value| left_out("--vectorstore", value, names::<Store>()));
        let evals = self.evals.iter().filter_map(Choice::unknown);
        let evals = evals.map(|value| left_out("--evals", value, names::<Eval>()));
        let servers = self.mcp.iter().filter_map(Choice::unknown);
        let servers = servers.map(|value| left_out("--mcp", value, names::<Server>()));
        stores.chain(evals).chain(servers).collect()
    }
}

/// Checks that an endpoint is a URL, and no placeholder.
fn check_endpoint(endpoint: &str) -> Result<(), Problem> {
    let problem = |why: &str, hint: String| {
        Err(Problem::config(format!("`{}` is not an endpoint: {why}", printable(endpoint))).with_hint(hint))
    };
    let text = endpoint.trim();
    let is_variable = text.starts_with("${");
    let lower = text.to_ascii_lowercase();
    let rest = ["http://", "https://"]
        .into_iter()
        .find_map(|scheme| lower.strip_prefix(scheme));
    match rest {
        None if is_variable => Ok(()),
        None if text.contains("://") => problem(
            "it must begin with `http://` or `https://`",
            "write the address of a server".to_owned(),
        ),
        None => {
            let is_local = ["localhost", "127.", "[::1]"]
                .into_iter()
                .any(|host| lower.starts_with(host));
            let scheme = if is_local { "http" } else { "https" };
            problem(
                "it has no `http://` or `https://`",
                format!("write `--endpoint {scheme}://{}`", printable(text)),
            )
        }
        Some(host) if host.starts_with("resource.") => problem(
            "`RESOURCE` is a placeholder for the name of your resource",
            "the Azure portal shows the address of the resource under \"Keys and Endpoint\"".to_owned(),
        ),
        Some(host) if host.trim_matches('/').is_empty() => {
            problem("it names no server", "write the address of a server".to_owned())
        }
        Some(_) => Ok(()),
    }
}

/// Writes a project.
pub(crate) fn run(args: &InitArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    if terminal.verbosity() > Verbosity::Quiet {
        for warning in args.unknown_values() {
            terminal.write_message(&format!("warning: {}\n", printable(&warning)));
        }
    }
    let is_interactive = !args.non_interactive && terminal.is_interactive();
    let plan = if is_interactive {
        let mut show = |text: &str| terminal.write_message(text);
        wizard::complete(args, &mut io::stdin().lock(), &mut show)?
    } else {
        plan(args)?
    };
    let files = plan.files();
    let existing = write_all(&plan.dir, &files, args.force)?;
    let paths: Vec<_> = files
        .iter()
        .filter(|file| !existing.contains(&file.path))
        .map(|file| plan.display_path(file.path))
        .collect();
    terminal.write_data(&format!("{}\n", paths.join("\n")))?;
    terminal.flush()?;
    if terminal.verbosity() > Verbosity::Quiet {
        let store = args.vectorstore.as_ref().and_then(Choice::known);
        if store.is_some() && plan.template != Template::Research {
            let template = plan.template.as_str();
            terminal.write_message(&format!(
                "warning: `--vectorstore` has no effect: the template `{template}` does not search documents\n"
            ));
        }
        for path in existing {
            terminal.write_message(&format!("note: `{path}` exists and was not changed\n"));
        }
        terminal.write_message(&next_steps(&plan));
    }
    Ok(ExitCode::Passed)
}

/// Plans the project from the arguments alone.
fn plan(args: &InitArgs) -> Result<Plan, Problem> {
    let folder = args.folder.as_deref().or(args.name.as_deref());
    let Some(folder) = folder else {
        return Err(Problem::config("the name of the agent is missing")
            .with_hint("`holodeck init NAME`; `holodeck init .` uses the current folder"));
    };
    let provider = args.provider.unwrap_or(Provider::Ollama);
    if provider == Provider::AzureOpenai && args.endpoint.is_none() {
        return Err(Problem::config("provider `azure_openai` needs `--endpoint`")
            .with_hint("use `https://RESOURCE.openai.azure.com`"));
    }
    if let Some(endpoint) = &args.endpoint {
        check_endpoint(endpoint)?;
    }
    Ok(Plan {
        dir: PathBuf::from(folder),
        name: name(folder, args.name.as_deref())?,
        template: args.template.unwrap_or(Template::Conversational),
        provider,
        model: args
            .model
            .clone()
            .unwrap_or_else(|| provider.default_model().to_owned()),
        endpoint: args.endpoint.clone(),
        description: args.description.clone(),
        author: args.author.clone(),
        store: args
            .vectorstore
            .as_ref()
            .and_then(Choice::known)
            .unwrap_or(Store::InMemory),
        evals: args.evals.iter().filter_map(Choice::known).collect(),
        servers: args.mcp.iter().filter_map(Choice::known).collect(),
    })
}

/// The agent's name: the given one, or that of the folder.
fn name(folder: &str, given: Option<&str>) -> Result<String, Problem> {
    if folder != "." {
        check_name(folder)?;
        let name = given.unwrap_or(folder);
        check_name(name)?;
        return Ok(name.to_owned());
    }
    if let Some(name) = given {
        check_name(name)?;
        return Ok(name.to_owned());
    }
    let here = env::current_dir().map_err(|error| {
        Problem::execution(format!("cannot find the current folder: {}", io_reason(&error)))
    })?;
    let name = here.file_name().unwrap_or_default().to_string_lossy();
    check_name(&name).map_err(|problem| problem.with_hint("`holodeck init . --name NAME` sets the name"))?;
    Ok(name.into_owned())
}

fn next_steps(plan: &Plan) -> String {
    let cd = if plan.dir == Path::new(".") {
        String::new()
    } else {
        format!("cd {} && ", plan.dir.display())
    };
    let mut text = String::new();
    let mut live = "test";
    if plan.has_recording() {
        text.push_str(&crate::render::hint(&format!(
            "`{cd}holodeck test` replays recorded example answers: no model and no key needed"
        )));
        live = "test --live";
    }
    text.push_str(&crate::render::hint(&format!(
        "`{cd}holodeck {live}` asks the model and checks its answers"
    )));
    if let Some(needs) = plan.provider.needs(&plan.model, plan.endpoint.as_deref()) {
        text.push_str(&crate::render::hint(&needs));
    }
    if let Some(needs) = plan.needs_passages() {
        text.push_str(&crate::render::hint(&needs));
    }
    if !plan.servers.is_empty() || plan.store != Store::InMemory {
        text.push_str(&crate::render::hint(&format!(
            "`{cd}holodeck validate` and `holodeck doctor` show what is missing"
        )));
    }
    text
}

fn check_name(name: &str) -> Result<(), Problem> {
    let problem = |why: &str| {
        Err(
            Problem::config(format!("`{name}` is not a valid agent name: {why}")).with_hint(
                "a name starts with a letter, followed by letters, digits, `-` or `_`, at most 64 characters",
            ),
        )
    };
    let mut characters = name.chars();
    match characters.next() {
        None => return problem("it is empty"),
        Some(first) if !first.is_ascii_alphabetic() => return problem("it does not start with a letter"),
        Some(_) => {}
    }
    if let Some(other) = characters.find(|c| !c.is_ascii_alphanumeric() && !"-_".contains(*c)) {
        return problem(&format!("it contains `{}`", other.escape_debug()));
    }
    if name.len() > MAX_NAME_LEN {
        return problem(&format!("it has {} characters", name.len()));
    }
    Ok(())
}

/// Writes the files. Existing files that may serve more than the agent are never overwritten, but returned.
fn write_all(dir: &Path, files: &Files, force: bool) -> Result<Vec<&'static str>, Problem> {
    let exists = |file: &&project::File| dir.join(file.path).exists();
    let (shared, own): (Vec<_>, Vec<_>) = files.iter().filter(exists).partition(|file| file.is_shared);
    if !force && !own.is_empty() {
        let mut problem = Problem::config(format!("`{}` already contains an agent", dir.display()));
        for file in own {
            problem = problem.with_detail(format!("{} exists", dir.join(file.path).display()));
        }
        return Err(problem.with_hint("choose another name, or overwrite them with `--force`"));
    }
    let existing: Vec<_> = shared.into_iter().map(|file| file.path).collect();
    for file in files.iter().filter(|file| !existing.contains(&file.path)) {
        let path = dir.join(file.path);
        write(&path, &file.text).map_err(|error| {
            Problem::execution(format!(
                "cannot write `{}`: {}",
                path.display(),
                io_reason(&error)
            ))
        })?;
    }
    Ok(existing)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_and_no_placeholder() {
        for good in [
            "http://localhost:8000",
            "https://a.example/v1",
            "HTTPS://A.example",
            "${ENDPOINT}",
        ] {
            assert!(check_endpoint(good).is_ok(), "{good}");
        }
        for (bad, hint) in [
            ("localhost:8000", "http://localhost:8000"),
            ("a.openai.azure.com", "https://a.openai.azure.com"),
            ("https://RESOURCE.openai.azure.com", "portal"),
            ("ftp://a", "address"),
            ("https://", "address"),
        ] {
            let problem = check_endpoint(bad).unwrap_err();
            assert!(problem.hint.unwrap().contains(hint), "{bad}");
        }
    }

    #[test]
    fn names_are_checked() {
        for good in ["a", "my-agent", "Agent_2"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "2fast", "-a", "a b", "a/b", "..", "ä", "a\u{1b}", &long] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
