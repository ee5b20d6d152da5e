//! Lists, adds and removes the MCP servers of agent files and configuration files.

use std::{
    io,
    path::{Path, PathBuf},
};

use holodeck_http::{HttpClient, HttpOptions};
use holodeck_mcp_bridge::{LoggedIn, REGISTRY_URL, Registry, RegistryError};
use holodeck_model::{Env, JsonMap, Redactor, env, io_reason, read_text_input, substitute};
use holodeck_yaml::{EditError, add_item, list_items, remove_item};
use serde_json::Value;

use crate::agent::{edited_file::replace_text, logins::logins};

/// The size limit of a file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A file that names MCP servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFile {
    path: PathBuf,
    scope: ServerScope,
}

/// The agents that can use a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerScope {
    /// One agent.
    Agent,
    /// The agents of a folder.
    Project,
    /// All agents of the user.
    User,
}

impl ServerScope {
    /// The name of the scope.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// A server that a file names, as it is written there.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedServer {
    /// Its name.
    pub name: String,
    /// Its transport: `stdio`, `http`, `sse` or `websocket`.
    pub transport: String,
    /// Its command line or URL.
    pub target: String,
    /// Its name in the registry, if it comes from the registry.
    pub registry_name: Option<String>,
    /// The file.
    pub path: PathBuf,
    /// The agents that can use it.
    pub scope: ServerScope,
    /// Whether a file with higher precedence has a server of the same name.
    pub shadowed: bool,
    /// Whether the user is logged in to it.
    pub login: ServerLogin,
}

/// Whether the user is logged in to a server. It has no token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerLogin {
    /// It has no login: it is a program, or the YAML gives it a token.
    NotUsed,
    /// There is none. The server may not need one.
    None,
    /// There is one.
    LoggedIn(LoggedIn),
    /// It cannot be found out.
    Unknown(String),
}

impl ServerLogin {
    /// The login to a server as a file names it.
    fn of(item: &JsonMap, env: &Env) -> Self {
        let has_own_token = item
            .get("headers")
            .and_then(Value::as_object)
            .is_some_and(|headers| {
                let mut names = headers.keys();
                names.any(|name| name.eq_ignore_ascii_case("authorization"))
            });
        let transport = item.get("transport").and_then(Value::as_str);
        let url = item.get("url").and_then(Value::as_str);
        let Some(url) = url.filter(|_| !has_own_token && transport != Some("stdio")) else {
            return Self::NotUsed;
        };
        let Some(logins) = logins(env) else {
            return Self::None;
        };
        let replaced = substitute(url, env);
        if let Some(missing) = replaced.as_ref().and_then(|replaced| replaced.missing.first()) {
            return Self::Unknown(format!("`{missing}` is not set"));
        }
        match logins.of(replaced.as_ref().map_or(url, |replaced| &replaced.text)) {
            Ok(Some(login)) => Self::LoggedIn(login),
            Ok(None) => Self::None,
            Err(error) => Self::Unknown(error.to_string()),
        }
    }
}

/// Why servers can't be listed or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServersError {
    /// A file can't be read or written.
    #[error("`{path}`: {}", io_reason(source))]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A file can't be changed.
    #[error("`{path}`: {source}")]
    Edit {
        /// The file.
        path: String,
        /// Why.
        source: EditError,
    },
    /// The name belongs to another tool.
    #[error("`{name}` in `{path}` is a tool of type `{kind}`, not an MCP server")]
    NotAServer {
        /// The tool.
        name: String,
        /// The file.
        path: String,
        /// Its type.
        kind: String,
    },
    /// The user has no home directory.
    #[error("`HOME` is not set, so there is no `~/.holodeck`")]
    NoHome,
    /// The registry.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The HTTP client can't be set up.
    #[error("{0}")]
    Http(#[from] holodeck_http::SetupError),
}

/// The registry of MCP servers: the official one, or another that `HOLODECK_MCP_REGISTRY_URL` names.
pub fn registry(env: &Env) -> Result<Registry, ServersError> {
    let options = HttpOptions::from_variables(|name| env.get(name).map(str::to_owned));
    let base = env
        .non_blank(env::HOLODECK_MCP_REGISTRY_URL)
        .unwrap_or(REGISTRY_URL);
    Ok(Registry::new(HttpClient::new(&options)?, base)?)
}

impl ServerFile {
    /// An agent file.
    pub fn of_agent(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            scope: ServerScope::Agent,
        }
    }

    /// The configuration of the user.
    pub fn of_user(env: &Env) -> Result<Self, ServersError> {
        let folder = env.user_dir().ok_or(ServersError::NoHome)?;
        Ok(Self {
            path: config_path(&folder),
            scope: ServerScope::User,
        })
    }

    /// The configuration beside an agent file.
    pub fn beside(agent: &Path) -> Self {
        let folder = agent.parent().unwrap_or(Path::new(""));
        Self {
            path: config_path(folder),
            scope: ServerScope::Project,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The servers in the file; none if it does not exist.
    pub fn servers(&self, env: &Env) -> Result<Vec<ListedServer>, ServersError> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let items = list_items(&self.read()?, self.key()).map_err(|source| self.edit(source))?;
        let servers = items.iter().filter(|item| self.is_server(item));
        Ok(servers.map(|item| self.describe(item, env)).collect())
    }

    /// Adds a server to the file and changes nothing else. A missing configuration file is created.
    pub fn add(&self, tool: &JsonMap) -> Result<(), ServersError> {
        let text = match self.read() {
            Err(ServersError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && self.scope != ServerScope::Agent =>
            {
                String::new()
            }
            text => text?,
        };
        let edited = add_item(&text, self.key(), tool).map_err(|source| self.edit(source))?;
        self.write(&edited)
    }

    /// Removes a server from the file and changes nothing else.
    pub fn remove(&self, name: &str) -> Result<(), ServersError> {
        let text = self.read()?;
        let items = list_items(&text, self.key()).map_err(|source| self.edit(source))?;
        let has_name = |item: &&JsonMap| item.get("name").and_then(Value::as_str) == Some(name);
        if let Some(other) = items.iter().find(has_name)
            && !self.is_server(other)
        {
            let kind = other.get("type").and_then(Value::as_str).unwrap_or_default();
            return Err(ServersError::NotAServer {
                name: name.to_owned(),
                path: self.path.display().to_string(),
                kind: kind.to_owned(),
            });
        }
        let edited = remove_item(&text, self.key(), name).map_err(|source| match source {
            EditError::NotFound { key, name, .. } => {
                let servers = items.iter().filter(|item| self.is_server(item));
                let names = servers.filter_map(|item| Some(item.get("name")?.as_str()?.to_owned()));
                self.edit(EditError::NotFound {
                    key,
                    name,
                    names: names.collect(),
                })
            }
            other => self.edit(other),
        })?;
        self.write(&edited)
    }

    /// `config.yaml` lists only servers; an agent also has other tools.
    fn is_server(&self, item: &JsonMap) -> bool {
        match item.get("type").and_then(Value::as_str) {
            Some(kind) => kind == "mcp",
            None => self.scope != ServerScope::Agent,
        }
    }

    fn key(&self) -> &'static str {
        match self.scope {
            ServerScope::Agent => "tools",
            ServerScope::Project | ServerScope::User => "mcp_servers",
        }
    }

    fn describe(&self, item: &JsonMap, env: &Env) -> ListedServer {
        let login = ServerLogin::of(item, env);
        let mut item = Value::Object(item.clone());
        Redactor::default().configuration(&mut item);
        let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
        let args = item.get("args").and_then(Value::as_array).into_iter().flatten();
        let args = args.map(|arg| arg.as_str().map_or_else(|| arg.to_string(), str::to_owned));
        let command_line = text("command").map(|command| {
            let words: Vec<String> = std::iter::once(command).chain(args).collect();
            words.join(" ")
        });
        ListedServer {
            name: text("name").unwrap_or_default(),
            transport: text("transport").unwrap_or_else(|| "stdio".to_owned()),
            target: text("url").or(command_line).unwrap_or_default(),
            registry_name: text("registry_name"),
            path: self.path.clone(),
            scope: self.scope,
            shadowed: false,
            login,
        }
    }

    fn read(&self) -> Result<String, ServersError> {
        read_text_input(&self.path, MAX_BYTES).map_err(|source| self.io(source))
    }

    fn write(&self, text: &str) -> Result<(), ServersError> {
        replace_text(&self.path, text).map_err(|source| self.io(source))
    }

    fn io(&self, source: io::Error) -> ServersError {
        ServersError::Io {
            path: self.path.display().to_string(),
            source,
        }
    }

    fn edit(&self, source: EditError) -> ServersError {
        ServersError::Edit {
            path: self.path.display().to_string(),
            source,
        }
    }
}

/// The servers of several files, those with the highest precedence first.
pub fn list_servers(files: &[ServerFile], env: &Env) -> Result<Vec<ListedServer>, ServersError> {
    let mut all: Vec<ListedServer> = Vec::new();
    for file in files {
        for mut server in file.servers(env)? {
            server.shadowed = all.iter().any(|other| other.name == server.name);
            all.push(server);
        }
    }
    Ok(all)
}

/// `config.yml` if it exists, else `config.yaml`: the same order as when they are loaded.
fn config_path(folder: &Path) -> PathBuf {
    let short = folder.join("config.yml");
    if short.is_file() {
        short
    } else {
        folder.join("config.yaml")
    }
}
