//! `holodeck mcp login` and `holodeck mcp logout`: the user's access to MCP servers that require OAuth.

use std::{ffi::OsStr, path::PathBuf, time::Duration};

use holodeck::{
    LoggedIn, LoggedOut, LoginError, LoginNews, LoginRequest, log_in, log_out, logins,
    model::{Env, McpTool, ToolConfig, closest, env},
    processes::{BASE_VARIABLES, ChildEnv, ProcessSpec, start_and_leave, which},
    runs::ExitCode,
    yaml::LoadedAgent,
};

use super::sanitize;
use crate::{
    command::{build_runtime, load, parse_seconds},
    failure::{Failure, Problem},
    interrupt::Interrupts,
    terminal::{Terminal, Verbosity},
};

/// The variables with which a program finds the user's browser.
const BROWSER_VARIABLES: [&str; 8] = [
    "BROWSER",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_CURRENT_DESKTOP",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_TYPE",
];

#[derive(Debug, clap::Args)]
pub(super) struct LoginArgs {
    /// The server's name in the YAML.
    #[arg(value_name = "NAME")]
    name: String,
    /// The agent file.
    #[arg(long, value_name = "AGENT", default_value = "agent.yaml")]
    agent: PathBuf,
    /// Print the page of the authorization server instead of opening it in a browser.
    #[arg(long)]
    no_browser: bool,
    /// How long to wait for the browser, in seconds. Default: 600.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(super) struct LogoutArgs {
    /// The server's name in the YAML.
    #[arg(value_name = "NAME")]
    name: String,
    /// The agent file.
    #[arg(long, value_name = "AGENT", default_value = "agent.yaml")]
    agent: PathBuf,
}

pub(super) fn login(args: &LoginArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let env = super::environment(&args.agent)?;
    let agent = load(&args.agent, &env, terminal)?;
    let tool = server(&agent, &args.name)?;
    let logins = logins(&env).ok_or_else(no_home)?;
    let mut interrupts = Interrupts::listen()?;
    let (sender, mut news) = tokio::sync::mpsc::unbounded_channel();
    let tell = move |news: LoginNews| {
        // The receiver lives as long as the login.
        let _ = sender.send(news);
    };
    let done = build_runtime()?.block_on(async {
        let request = LoginRequest {
            tool,
            env: &env,
            patience: args.timeout,
        };
        let mut login = log_in(&logins, request, &tell);
        loop {
            tokio::select! {
                biased;
                stop = interrupts.next() => return Err(Failure::from(stop.problem())),
                Some(news) = news.recv() => show(&news, args, &env, terminal)?,
                done = &mut login => return done.map_err(|error| problem(&error).into()),
            }
        }
    })?;
    while let Ok(news) = news.try_recv() {
        show(&news, args, &env, terminal)?;
    }
    terminal.write_message(&logged_in(&args.name, &done));
    if terminal.verbosity() > Verbosity::Normal {
        terminal.write_message(&format!("the token is in {}\n", done.path.display()));
    }
    Ok(ExitCode::Passed)
}

fn logged_in(name: &str, done: &LoggedIn) -> String {
    let scopes = match done.scopes.as_slice() {
        [] => String::new(),
        scopes => format!(", for {}", sanitize(&scopes.join(" "))),
    };
    let end = match (done.renews, done.expires_at) {
        (true, _) => "; it is renewed when it ends",
        (false, Some(_)) => "; it is not renewed when it ends, so log in again then",
        (false, None) => "",
    };
    format!(
        "logged in to `{name}` at {}{scopes}{end}\n",
        sanitize(&done.issuer)
    )
}

pub(super) fn logout(args: &LogoutArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let env = super::environment(&args.agent)?;
    let agent = load(&args.agent, &env, terminal)?;
    let tool = server(&agent, &args.name)?;
    let logins = logins(&env).ok_or_else(no_home)?;
    let done = build_runtime()?.block_on(log_out(&logins, tool, &env));
    let Some(done) = done.map_err(|error| problem(&error))? else {
        terminal.write_message(&format!("there is no login to `{}`\n", args.name));
        return Ok(ExitCode::Passed);
    };
    terminal.write_message(&logged_out(&args.name, &done));
    Ok(ExitCode::Passed)
}

fn logged_out(name: &str, done: &LoggedOut) -> String {
    let Some(reason) = &done.not_revoked else {
        return format!("logged out of `{name}`\n");
    };
    let issuer = match &done.issuer {
        Some(issuer) => format!(" at {}", sanitize(issuer)),
        None => String::new(),
    };
    format!(
        "logged out of `{name}`\nnote: the token was removed here, but may still be valid{issuer}: {}\n",
        sanitize(reason)
    )
}

fn show(news: &LoginNews, args: &LoginArgs, env: &Env, terminal: &mut Terminal) -> Result<(), Failure> {
    match news {
        LoginNews::Open { url, issuer } => {
            let issuer = sanitize(issuer);
            let opened = !args.no_browser && open(url, env);
            let how = if opened { "a browser was asked to open" } else { "open" };
            terminal.write_message(&format!(
                "to log in to `{}` at {issuer}, {how} this page on this machine (Ctrl-C ends the login):\n",
                args.name
            ));
            // Its challenge and its state look like secrets and are none; with a mask the page would be another one.
            terminal.write_raw(&format!("{}\n", sanitize(url)))?;
        }
        LoginNews::ForeignAnswer => terminal.write_message(
            "warning: an answer with the state of another login was ignored; still waiting for the right one\n",
        ),
        LoginNews::MalformedAnswer(reason) => {
            terminal.write_message(&format!("warning: an answer was ignored: {reason}\n"));
        }
        LoginNews::SecondAnswer => {
            terminal.write_message("warning: a second answer was ignored; only the first one counts\n");
        }
    }
    Ok(())
}

/// Opens a page in the user's browser, if there is a screen for one.
fn open(url: &str, env: &Env) -> bool {
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| env.non_blank(name).is_some());
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else if has_screen {
        "xdg-open"
    } else {
        return false;
    };
    let variables: Vec<&str> = BASE_VARIABLES.iter().chain(&BROWSER_VARIABLES).copied().collect();
    // A file that came with the agent must not choose the program.
    let of_user = |name: &str| env.get(name).filter(|_| env.file_of(name).is_none());
    let variables = ChildEnv::inherit(&variables, of_user);
    let path = of_user(env::PATH).map(OsStr::new);
    let Some(path) = which(opener, path) else {
        return false;
    };
    start_and_leave(&ProcessSpec::new(path, variables).args([url])).is_ok()
}

fn server<'a>(agent: &'a LoadedAgent, name: &str) -> Result<&'a McpTool, Problem> {
    let servers = || {
        agent.config.tools.iter().filter_map(|tool| match tool {
            ToolConfig::Mcp(tool) => Some(tool),
            _ => None,
        })
    };
    servers().find(|server| server.name == name).ok_or_else(|| {
        let problem = Problem::config(format!("the agent has no MCP server `{name}`"));
        let names: Vec<&str> = servers().map(|server| server.name.as_str()).collect();
        match (closest(name, names.iter().copied()), names.as_slice()) {
            (Some(close), _) => problem.with_hint(format!("did you mean `{close}`?")),
            (None, []) => problem.with_hint("`--agent AGENT` names another file"),
            (None, names) => problem.with_hint(format!("its servers are `{}`", names.join("`, `"))),
        }
    })
}

fn no_home() -> Problem {
    Problem::config("`HOME` is not set, so there is no `~/.holodeck` to keep a login in")
}

fn problem(error: &LoginError) -> Problem {
    let message = error.to_string();
    match error {
        LoginError::NotRemote(_) | LoginError::Address(_) | LoginError::Insecure(_) => {
            Problem::config(message)
        }
        LoginError::OwnHeader(_) => Problem::config(message).with_hint("remove it, or go without a login"),
        LoginError::NoRegistration(_) => Problem::config(message).with_hint(
            "register an application there with the redirect address `http://127.0.0.1/callback`, and set \
             `oauth.client_id` of the server in the YAML",
        ),
        LoginError::Listen { port: Some(_), .. } => {
            Problem::execution(message).with_hint("`oauth.redirect_port` names the port; end what uses it")
        }
        _ => Problem::execution(message),
    }
}
