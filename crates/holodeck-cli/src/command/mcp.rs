//! `holodeck mcp`: searches the registry of MCP servers; lists, adds and removes the servers in the YAML files; logs in to them.

mod login;

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use holodeck::{
    ListedServer, RegistryError, RegistryServer, ServerFile, ServerLogin, ServersError, list_servers,
    model::{Env, JsonMap, McpTransport, closest},
    registry,
    reports::format::printable,
    runs::ExitCode,
    yaml::EditError,
};
use serde_json::{Value, json};

use crate::{
    failure::{Failure, Problem},
    terminal::{Terminal, Verbosity},
};

/// Flags of `holodeck mcp`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    command: McpCommand,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    /// Search the registry of MCP servers.
    Search(SearchArgs),
    /// List the agent's MCP servers and the file that defines each.
    List(ListArgs),
    /// Add an MCP server from the registry to the agent file.
    Add(AddArgs),
    /// Remove an MCP server from the agent file.
    Remove(RemoveArgs),
    /// Log in to an MCP server that requires OAuth.
    Login(login::LoginArgs),
    /// Remove a login, and revoke its token if the authorization server offers that.
    Logout(login::LogoutArgs),
}

#[derive(Debug, clap::Args)]
struct SearchArgs {
    /// A part of the server's name; all servers if absent.
    #[arg(value_name = "QUERY", default_value = "", hide_default_value = true)]
    query: String,
    /// List at most N servers.
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// Write one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// The agent file. Default: `agent.yaml` if it exists.
    #[arg(long, value_name = "AGENT")]
    agent: Option<PathBuf>,
    /// List only the servers in `~/.holodeck/config.yaml`.
    #[arg(short, long, conflicts_with = "agent")]
    global: bool,
    /// List the servers of the agent, the project and `~/.holodeck/config.yaml` (the default).
    #[arg(long, conflicts_with = "global")]
    all: bool,
    /// Write one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Selects the file to change.
#[derive(Debug, clap::Args)]
struct TargetArgs {
    /// The agent file.
    #[arg(long, value_name = "AGENT", default_value = "agent.yaml")]
    agent: PathBuf,
    /// Change `~/.holodeck/config.yaml` instead, for all agents.
    #[arg(short, long, conflicts_with = "agent")]
    global: bool,
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// The server's name in the registry, as shown by `holodeck mcp search`.
    #[arg(value_name = "SERVER")]
    server: String,
    #[command(flatten)]
    target: TargetArgs,
    /// The server's version. Default: the newest.
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// How to connect to the server. Default: the first usable transport.
    #[arg(long, value_name = "TRANSPORT")]
    transport: Option<TransportArg>,
    /// The server's name in the YAML. Default: a part of its name in the registry.
    #[arg(long, value_name = "NAME", value_parser = tool_name)]
    name: Option<String>,
}

#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// The server's name in the YAML.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TransportArg {
    /// As a child process.
    Stdio,
    /// Over streamable HTTP.
    Http,
    /// Over HTTP with server-sent events.
    Sse,
}

pub(crate) fn run(args: &McpArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    match &args.command {
        McpCommand::Search(args) => search(args, terminal),
        McpCommand::List(args) => list(args, terminal),
        McpCommand::Add(args) => add(args, terminal),
        McpCommand::Remove(args) => remove(args, terminal),
        McpCommand::Login(args) => login::login(args, terminal),
        McpCommand::Logout(args) => login::logout(args, terminal),
    }
}

fn search(args: &SearchArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let env = environment(Path::new("agent.yaml"))?;
    let registry = registry(&env).map_err(problem)?;
    let found = super::build_runtime()?
        .block_on(registry.search(&args.query, args.limit.into()))
        .map_err(|error| problem(error.into()))?;
    if args.json {
        let servers: Vec<_> = found.iter().map(as_json).collect();
        terminal.write_indented_json(json!({"query": args.query, "servers": servers}))?;
        return Ok(exit_code(!found.is_empty()));
    }
    for server in &found {
        let mut transports: Vec<&str> = server
            .forms
            .iter()
            .filter_map(|form| transport_word(form.transport))
            .collect();
        transports.dedup();
        let deprecated = if server.deprecated { "  deprecated" } else { "" };
        terminal.write_data(&format!(
            "{}  {}  {}{deprecated}\n    {}\n",
            sanitize(&server.name),
            sanitize(&server.version),
            transports.join(", "),
            sanitize(&server.description)
        ))?;
    }
    if found.is_empty() {
        terminal.write_message(&format!("no server name contains `{}`\n", args.query));
    } else if terminal.verbosity() > Verbosity::Quiet {
        terminal.write_message("\nhint: `holodeck mcp add SERVER` adds one to the agent file\n");
    }
    Ok(exit_code(!found.is_empty()))
}

fn list(args: &ListArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let agent = args.agent.as_deref().unwrap_or(Path::new("agent.yaml"));
    let env = environment(agent)?;
    let mut files = Vec::new();
    if !args.global {
        if args.agent.is_some() && !agent.exists() {
            return Err(missing_file(agent).into());
        }
        files.extend([ServerFile::of_agent(agent), ServerFile::beside(agent)]);
    }
    files.extend(ServerFile::of_user(&env).ok());
    let servers = list_servers(&files, &env).map_err(problem)?;
    if args.json {
        let servers: Vec<_> = servers.iter().map(listed_as_json).collect();
        terminal.write_indented_json(json!({ "servers": servers }))?;
        return Ok(ExitCode::Passed);
    }
    if servers.is_empty() {
        terminal.write_message("no MCP servers\n");
        return Ok(ExitCode::Passed);
    }
    let width =
        |text: fn(&ListedServer) -> &str| servers.iter().map(|server| text(server).chars().count()).max();
    let names = width(|server| &server.name).unwrap_or_default();
    let transports = width(|server| &server.transport).unwrap_or_default();
    let logins = width(login_word).unwrap_or_default();
    for server in &servers {
        let shadowed = if server.shadowed {
            "  (another server with this name is used)"
        } else {
            ""
        };
        terminal.write_data(&format!(
            "{:names$}  {:transports$}  {:logins$}  {}\n{:names$}  {}, {}{shadowed}\n",
            sanitize(&server.name),
            sanitize(&server.transport),
            login_word(server),
            sanitize(&server.target),
            "",
            server.scope.as_str(),
            server.path.display(),
        ))?;
        match &server.login {
            ServerLogin::Unknown(reason) => terminal.write_message(&format!(
                "warning: whether there is a login to `{}` is not known: {}\n",
                sanitize(&server.name),
                sanitize(reason)
            )),
            ServerLogin::LoggedIn(login) if terminal.verbosity() > Verbosity::Normal => {
                let scopes = sanitize(&login.scopes.join(" "));
                terminal.write_data(&format!(
                    "{:names$}  at {}, for {scopes}\n",
                    "",
                    sanitize(&login.issuer)
                ))?;
            }
            _ => {}
        }
    }
    Ok(ExitCode::Passed)
}

/// The column about the login of a server.
fn login_word(server: &ListedServer) -> &str {
    match &server.login {
        ServerLogin::None => "no login",
        ServerLogin::LoggedIn(_) => "logged in",
        ServerLogin::Unknown(_) => "unknown",
        _ => "-",
    }
}

/// The login of a server; `null` if it has none to have.
fn login_as_json(login: &ServerLogin) -> Value {
    match login {
        ServerLogin::None => json!({"state": "none"}),
        ServerLogin::LoggedIn(login) => json!({
            "state": "logged_in",
            "issuer": login.issuer,
            "scopes": login.scopes,
            "expires_at": login.expires_at,
            "renews": login.renews,
        }),
        ServerLogin::Unknown(reason) => json!({"state": "unknown", "reason": reason}),
        _ => Value::Null,
    }
}

fn add(args: &AddArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let env = environment(&args.target.agent)?;
    let file = args.target.file(&env)?;
    let registry = registry(&env).map_err(problem)?;
    let runtime = super::build_runtime()?;
    let server = runtime.block_on(registry.server(&args.server, args.version.as_deref()));
    let server = match server {
        Err(error @ RegistryError::NotFound { .. }) => {
            let last = args.server.rsplit('/').next().unwrap_or(&args.server);
            let similar = runtime.block_on(registry.search(last, 5)).unwrap_or_default();
            let names: Vec<_> = similar
                .iter()
                .map(|server| format!("`{}`", sanitize(&server.name)))
                .collect();
            let problem = Problem::config(error.to_string());
            return Err(match names.as_slice() {
                [] => problem.with_hint("`holodeck mcp search` lists servers"),
                names => problem.with_hint(format!("did you mean {}?", names.join(", "))),
            }
            .into());
        }
        server => server.map_err(|error| problem(error.into()))?,
    };
    let name = args.name.clone().unwrap_or_else(|| server.short_name());
    let tool = server
        .tool(&name, args.transport.map(TransportArg::transport))
        .map_err(|reasons| unusable(&server, &reasons))?;
    file.add(&tool).map_err(problem)?;
    let target = if let Some(url) = tool.get("url").and_then(Value::as_str) {
        url.to_owned()
    } else {
        command_line(&tool)
    };
    terminal.write_message(&format!(
        "added `{name}` to {}: {}\n",
        file.path().display(),
        sanitize(&target)
    ));
    if server.deprecated {
        terminal.write_message("warning: its authors marked it as deprecated\n");
    }
    let needed = variables(&tool);
    if !needed.is_empty() {
        terminal.write_message(&format!(
            "\nhint: the server needs {}; set it in the shell or in `.env` beside the agent file\n",
            needed.join(", ")
        ));
    }
    Ok(ExitCode::Passed)
}

fn remove(args: &RemoveArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let env = environment(&args.target.agent)?;
    let file = args.target.file(&env)?;
    if !file.path().exists() {
        return Err(missing_file(file.path()).into());
    }
    file.remove(&args.name).map_err(problem)?;
    terminal.write_message(&format!(
        "removed `{}` from {}\n",
        args.name,
        file.path().display()
    ));
    Ok(ExitCode::Passed)
}

impl TargetArgs {
    fn file(&self, env: &Env) -> Result<ServerFile, Failure> {
        if self.global {
            return Ok(ServerFile::of_user(env).map_err(problem)?);
        }
        if !self.agent.exists() {
            return Err(missing_file(&self.agent).into());
        }
        Ok(ServerFile::of_agent(&self.agent))
    }
}

impl TransportArg {
    fn transport(self) -> McpTransport {
        match self {
            Self::Stdio => McpTransport::Stdio,
            Self::Http => McpTransport::Http,
            Self::Sse => McpTransport::Sse,
        }
    }
}

fn environment(agent: &Path) -> Result<Env, Problem> {
    holodeck::environment(agent).map_err(Problem::from)
}

fn exit_code(found: bool) -> ExitCode {
    if found { ExitCode::Passed } else { ExitCode::Failed }
}

fn missing_file(path: &Path) -> Problem {
    Problem::config(format!("`{}` does not exist", path.display()))
        .with_hint("`--agent AGENT` names another file, `--global` means `~/.holodeck/config.yaml`")
}

fn problem(error: ServersError) -> Problem {
    let message = error.to_string();
    match error {
        ServersError::Registry(RegistryError::NotFound { .. }) => Problem::config(message),
        ServersError::Registry(_) => {
            Problem::execution(message).with_hint("`HOLODECK_MCP_REGISTRY_URL` names another registry")
        }
        ServersError::Edit {
            source: EditError::NotFound { name, names, .. },
            ..
        } => {
            let problem = Problem::config(message);
            match closest(&name, names.iter().map(String::as_str)) {
                Some(close) => problem.with_hint(format!("did you mean `{close}`?")),
                None => problem,
            }
        }
        ServersError::Edit {
            source: EditError::Duplicate { .. },
            ..
        } => Problem::config(message).with_hint("`--name NAME` gives it another name"),
        ServersError::Edit {
            source: EditError::NotEditable { .. },
            ..
        } => Problem::config(message).with_hint("change it by hand"),
        ServersError::Http(_) | ServersError::Io { .. } => Problem::execution(message),
        _ => Problem::config(message),
    }
}

fn unusable(server: &RegistryServer, reasons: &[(String, holodeck::Unusable)]) -> Problem {
    let name = sanitize(&server.name);
    let mut problem = Problem::config(match reasons {
        [] => format!("`{name}` does not offer a matching transport"),
        _ => format!("`{name}` cannot be added automatically"),
    });
    for (form, reason) in reasons {
        problem = problem.with_detail(format!("{}: {}", sanitize(form), sanitize(&reason.to_string())));
    }
    problem
}

fn as_json(server: &RegistryServer) -> Value {
    let forms = server
        .forms
        .iter()
        .map(|form| json!({"transport": transport_word(form.transport), "source": form.shown}));
    json!({
        "name": server.name,
        "version": server.version,
        "description": server.description,
        "deprecated": server.deprecated,
        "forms": forms.collect::<Vec<_>>(),
    })
}

fn listed_as_json(server: &ListedServer) -> Value {
    json!({
        "name": server.name,
        "transport": server.transport,
        "target": server.target,
        "registry_name": server.registry_name,
        "scope": server.scope.as_str(),
        "path": server.path,
        "shadowed": server.shadowed,
        "login": login_as_json(&server.login),
    })
}

fn transport_word(transport: Option<McpTransport>) -> Option<&'static str> {
    Some(match transport? {
        McpTransport::Stdio => "stdio",
        McpTransport::Sse => "sse",
        McpTransport::Websocket => "websocket",
        McpTransport::Http => "http",
    })
}

fn command_line(tool: &JsonMap) -> String {
    let command = tool.get("command").and_then(Value::as_str).unwrap_or_default();
    let args = tool.get("args").and_then(Value::as_array).into_iter().flatten();
    let words: Vec<_> = std::iter::once(command)
        .chain(args.filter_map(Value::as_str))
        .collect();
    words.join(" ")
}

/// The environment variables that a tool refers to.
fn variables(tool: &JsonMap) -> Vec<String> {
    let maps = ["env", "headers"]
        .into_iter()
        .filter_map(|key| tool.get(key)?.as_object());
    let values = maps.flat_map(JsonMap::values).filter_map(Value::as_str);
    let names = values.filter_map(|value| value.strip_prefix("${")?.strip_suffix('}'));
    names.map(|name| format!("`{name}`")).collect()
}

/// A foreign text on one line, without control characters.
fn sanitize(text: &str) -> String {
    let one_line: Vec<_> = text.split_whitespace().collect();
    printable(&one_line.join(" ")).into_owned()
}

fn tool_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("must be letters, digits and `_`".to_owned())
    }
}
