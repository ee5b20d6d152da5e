//! How to reach a server of the YAML.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use holodeck_http::{Headers, HttpClient, HttpError, HttpOptions, HttpUrl};
use holodeck_model::{Env, McpTool, McpTransport};
use holodeck_process::{BASE_VARIABLES, ChildEnv, ProcessSpec};
use secrecy::{ExposeSecret as _, SecretString};

use crate::client::{ConnectError, McpOptions};
use crate::launch;
use crate::login::{SHORTEST_SECRET, Tokens, http_client, server_url};

/// In addition to [`BASE_VARIABLES`]: user, shell and terminal, as the protocol's SDKs pass them.
const USER_VARIABLES: &[&str] = &["LOGNAME", "SHELL", "TERM", "USER"];

pub(crate) struct Plan {
    pub(crate) reach: Reach,
    /// Values that must never be shown.
    secrets: Vec<SecretString>,
}

pub(crate) enum Reach {
    Stdio(ProcessSpec),
    Http(Remote),
    Sse(Remote),
    Websocket(Remote),
}

impl Reach {
    /// A server that is no child process.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Stdio(_) => None,
            Self::Http(remote) | Self::Sse(remote) | Self::Websocket(remote) => Some(remote),
        }
    }

    /// The tokens of a server with a login.
    pub(crate) fn tokens(&self) -> Option<&Arc<Tokens>> {
        match &self.remote()?.login {
            Login::Tokens { tokens, .. } => Some(tokens),
            Login::Own => None,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) url: HttpUrl,
    pub(crate) headers: Headers,
    /// Maximum silence of an event stream.
    pub(crate) silence: Option<Duration>,
    pub(crate) at_close: AtClose,
    pub(crate) login: Login,
}

/// Where the token of a remote server comes from.
#[derive(Clone)]
pub(crate) enum Login {
    /// From the YAML.
    Own,
    /// From a login of the user. There may be none yet: it is looked for at each request until there is one.
    Tokens {
        tokens: Arc<Tokens>,
        /// Sends the requests with a token.
        http: HttpClient,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtClose {
    EndSession,
    LeaveSession,
}

impl Plan {
    pub(crate) fn of(tool: &McpTool, options: &McpOptions) -> Result<Self, ConnectError> {
        let (base_dir, env) = (&options.base_dir, &options.env);
        let variables = launch::variables(tool, env).map_err(|problems| {
            let messages: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
            ConnectError::Config(messages.join("; "))
        })?;
        let headers = tool.headers.values();
        let values = variables.iter().map(|(_, value)| value).chain(headers);
        let secrets = values
            .filter(|value| value.expose_secret().trim().len() >= SHORTEST_SECRET)
            .map(|value| value.expose_secret().trim().into())
            .collect();
        let reach = match tool.transport {
            McpTransport::Stdio => Reach::Stdio(command(tool, base_dir, env, &variables)?),
            McpTransport::Http => Reach::Http(remote(tool, options)?),
            McpTransport::Sse => Reach::Sse(remote(tool, options)?),
            McpTransport::Websocket => Reach::Websocket(remote(tool, options)?),
        };
        Ok(Self { reach, secrets })
    }

    /// Text without the values that the YAML gives to the server.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.expose_secret()) {
                text = text.replace(secret.expose_secret(), "***");
            }
        }
        match self.reach.tokens().and_then(|tokens| tokens.masked(&text)) {
            Some(masked) => masked,
            None => text,
        }
    }
}

fn command(
    tool: &McpTool,
    base_dir: &Path,
    env: &Env,
    variables: &[(String, SecretString)],
) -> Result<ProcessSpec, ConnectError> {
    let missing = || ConnectError::Config("`command` is missing".to_owned());
    let command = tool.command.as_ref().ok_or_else(missing)?;
    let folder = absolute(launch::base(command, base_dir));
    let inherited: Vec<&str> = BASE_VARIABLES.iter().chain(USER_VARIABLES).copied().collect();
    let mut child = ChildEnv::inherit(&inherited, |name| env.get(name));
    for (name, value) in variables {
        child.set(name, value.expose_secret());
    }
    let args = tool.args.iter();
    Ok(ProcessSpec::new(launch::placed(command.as_str(), &folder), child)
        .args(args.map(|argument| launch::placed_argument(argument, &folder)))
        .current_dir(folder))
}

fn remote(tool: &McpTool, options: &McpOptions) -> Result<Remote, ConnectError> {
    let wrong = |error: HttpError| ConnectError::Config(error.to_string());
    let missing = || ConnectError::Config("`url` is missing".to_owned());
    let mut headers = Headers::new();
    for (name, value) in &tool.headers {
        headers.insert_secret(name, value).map_err(wrong)?;
    }
    let url = tool.url.as_ref().ok_or_else(missing)?;
    Ok(Remote {
        url: server_url(url).map_err(|error| wrong(error.into()))?,
        headers,
        silence: tool.sse_read_timeout.and_then(launch::seconds),
        at_close: match tool.terminate_on_close {
            Some(false) => AtClose::LeaveSession,
            _ => AtClose::EndSession,
        },
        login: login(tool, url, options)?,
    })
}

fn login(tool: &McpTool, url: &str, options: &McpOptions) -> Result<Login, ConnectError> {
    let Some(logins) = options.logins.as_ref().filter(|_| !tool.has_own_token()) else {
        return Ok(Login::Own);
    };
    let command = format!("holodeck mcp login {}{}", tool.name, options.login_arguments);
    let server = server_url(url).map_err(|error| ConnectError::Config(error.to_string()))?;
    let http = http_client(&options.env).map_err(ConnectError::Config)?;
    Ok(Login::Tokens {
        tokens: Arc::new(Tokens::new(logins.clone(), server, http, command)),
        http: client_with_token(&options.env).map_err(ConnectError::Config)?,
    })
}

/// A client for requests with the token of a login: what decides how servers are reached must not lead it elsewhere.
fn client_with_token(env: &Env) -> Result<HttpClient, String> {
    client_of(|name| env.get(name).filter(|_| env.file_of(name).is_none()))
}

/// A client whose proxies and certificates are those of the variables.
pub(crate) fn client_of<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Result<HttpClient, String> {
    let options = HttpOptions::from_variables(|name| variable(name).map(str::to_owned));
    HttpClient::new(&options).map_err(|error| error.to_string())
}

/// A child's paths must be valid in any working directory; an empty path is the current one.
fn absolute(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    std::path::absolute(path).unwrap_or_else(|_no_working_directory| path.to_owned())
}
