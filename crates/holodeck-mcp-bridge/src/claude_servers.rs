use std::{fmt, path::Path};

use holodeck_model::{Code, Diagnostic, Env, McpTool, McpTransport, env, server_key, taken_server_keys};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};

use crate::launch::{self, placed, placed_argument};

/// Variables the CLI gives its children beside its own environment and that open its message socket to them.
const CLI_SECRETS: [&str; 2] = ["CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN"];

/// Below that the CLI ignores a limit.
const SHORTEST_MS: u64 = 1000;

/// The MCP servers of an agent in the form that `--mcp-config` takes. Holds secrets: `Debug` shows names only.
pub struct ClaudeServers {
    /// The servers, in the order of the YAML.
    pub servers: Vec<ClaudeServer>,
    /// What was left out or has no effect, each named.
    pub warnings: Vec<Diagnostic>,
}

/// One MCP server.
pub struct ClaudeServer {
    /// The tool's name in the YAML.
    pub tool: String,
    /// The name the CLI knows it by: `mcp__<name>__…` are its tools, and its status is told under it.
    pub name: String,
    /// Whether a run without it is pointless.
    pub need: ServerNeed,
    /// The only tools of it that the agent may call, from `config.allowed_tools`.
    pub allowed_tools: Option<Vec<String>>,
    config: Value,
}

/// What it means that a server does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerNeed {
    /// An error.
    Required,
    /// A warning: the tool says `required: false`.
    Optional,
}

impl ServerNeed {
    pub(crate) fn of(tool: &McpTool) -> Self {
        if tool.required {
            Self::Required
        } else {
            Self::Optional
        }
    }
}

impl ClaudeServers {
    /// Translates `tools`. Relative commands, and arguments that begin with `./` or `../`, are relative to the YAML file
    /// that has them, or to `base_dir` if that is not known. `blank` are variables of the CLI's own environment, such as model credentials,
    /// that no server may inherit; one that the YAML sets itself is kept. Every problem is reported.
    pub fn translate(
        tools: &[&McpTool],
        base_dir: &Path,
        env: &Env,
        blank: &[&str],
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut translation = Translation {
            base_dir,
            env,
            blank,
            taken: taken_server_keys(),
            warnings: Vec::new(),
            errors: Vec::new(),
        };
        let servers: Vec<ClaudeServer> = tools.iter().filter_map(|tool| translation.server(tool)).collect();
        if translation.errors.is_empty() {
            Ok(Self {
                servers,
                warnings: translation.warnings,
            })
        } else {
            Err(translation.errors)
        }
    }

    /// The document for `--mcp-config`. It holds secrets: write it to a file that only its owner reads.
    pub fn document(&self) -> SecretString {
        let servers: Map<String, Value> = self
            .servers
            .iter()
            .map(|server| (server.name.clone(), server.config.clone()))
            .collect();
        json!({ "mcpServers": servers }).to_string().into()
    }
}

impl fmt::Debug for ClaudeServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.servers).finish()
    }
}

impl fmt::Debug for ClaudeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaudeServer")
            .field("name", &self.name)
            .field("need", &self.need)
            .finish_non_exhaustive()
    }
}

struct Translation<'a> {
    base_dir: &'a Path,
    env: &'a Env,
    blank: &'a [&'a str],
    taken: Vec<String>,
    warnings: Vec<Diagnostic>,
    errors: Vec<Diagnostic>,
}

impl Translation<'_> {
    fn server(&mut self, tool: &McpTool) -> Option<ClaudeServer> {
        let config = match tool.transport {
            McpTransport::Stdio => self.stdio(tool)?,
            McpTransport::Sse => self.remote(tool, "sse")?,
            McpTransport::Http => self.remote(tool, "http")?,
            McpTransport::Websocket => {
                self.warn(
                    Code::IgnoredForProvider,
                    format!(
                        "MCP server `{}` is left out: the Claude CLI has no transport `websocket`",
                        tool.name
                    ),
                );
                return None;
            }
        };
        self.warn_of_unused(tool);
        Some(ClaudeServer {
            tool: tool.name.clone(),
            name: self.free_name(&tool.name),
            need: ServerNeed::of(tool),
            allowed_tools: if tool.load_tools {
                launch::allowed_tools(tool)
            } else {
                Some(Vec::new())
            },
            config,
        })
    }

    fn stdio(&mut self, tool: &McpTool) -> Option<Value> {
        let Some(command) = &tool.command else {
            let message = format!("MCP server `{}` has no `command`", tool.name);
            self.errors.push(Diagnostic::error(Code::MissingField, message));
            return None;
        };
        let variables = self.variables(tool)?;
        let base = launch::base(command, self.base_dir);
        let args: Vec<String> = tool
            .args
            .iter()
            .map(|argument| literal(&placed_argument(argument, base)))
            .collect();
        let mut config = Map::new();
        config.insert("type".to_owned(), "stdio".into());
        config.insert(
            "command".to_owned(),
            literal(&placed(command.as_str(), base)).into(),
        );
        config.insert("args".to_owned(), args.into());
        config.insert("env".to_owned(), variables.into());
        add_timeout(&mut config, tool);
        Some(Value::Object(config))
    }

    fn remote(&mut self, tool: &McpTool, kind: &str) -> Option<Value> {
        let Some(url) = &tool.url else {
            let message = format!("MCP server `{}` has no `url`", tool.name);
            self.errors.push(Diagnostic::error(Code::MissingField, message));
            return None;
        };
        let mut config = Map::new();
        config.insert("type".to_owned(), kind.into());
        config.insert("url".to_owned(), literal(url).into());
        if !tool.headers.is_empty() {
            let headers: Map<String, Value> = tool
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), literal(value.expose_secret()).into()))
                .collect();
            config.insert("headers".to_owned(), headers.into());
        }
        add_timeout(&mut config, tool);
        Some(Value::Object(config))
    }

    /// What the server's process gets over the CLI's own environment: blanks, the user's home instead of the CLI's
    /// private one, then what the YAML gives it.
    fn variables(&mut self, tool: &McpTool) -> Option<Map<String, Value>> {
        let own = match launch::variables(tool, self.env) {
            Ok(own) => own,
            Err(problems) => {
                self.errors.extend(problems);
                return None;
            }
        };
        let mut variables = Map::new();
        let mut set = |name: &str, value: &str| variables.insert(name.to_owned(), literal(value).into());
        for name in self.blank.iter().chain(&CLI_SECRETS) {
            set(name, "");
        }
        if let Some(home) = self.env.get(env::HOME) {
            set(env::HOME, home);
        }
        for (name, value) in &own {
            set(name, value.expose_secret());
        }
        Some(variables)
    }

    fn warn_of_unused(&mut self, tool: &McpTool) {
        let stdio = tool.transport == McpTransport::Stdio;
        let unused: Vec<&str> = [
            ("`encoding`", tool.encoding.is_some()),
            ("`sse_read_timeout`", tool.sse_read_timeout.is_some()),
            ("`terminate_on_close`", tool.terminate_on_close.is_some()),
            // The CLI makes commands for people of them.
            ("`load_prompts`", tool.load_prompts == Some(true)),
            ("`command`", !stdio && tool.command.is_some()),
            ("`args`", !stdio && !tool.args.is_empty()),
            ("`env`", !stdio && !tool.env.is_empty()),
            ("`env_file`", !stdio && tool.env_file.is_some()),
            ("`url`", stdio && tool.url.is_some()),
            ("`headers`", stdio && !tool.headers.is_empty()),
        ]
        .into_iter()
        .filter_map(|(name, is_set)| is_set.then_some(name))
        .collect();
        if !unused.is_empty() {
            let message = format!(
                "MCP server `{}`: {} {} no effect on a Claude agent with this transport",
                tool.name,
                unused.join(", "),
                if unused.len() == 1 { "has" } else { "have" },
            );
            self.warn(Code::NoEffect, message);
        }
    }

    /// A name that the CLI takes and no other server has.
    fn free_name(&mut self, name: &str) -> String {
        let free = server_key(name, &mut self.taken);
        if free != name {
            self.warn(
                Code::IgnoredForProvider,
                format!(
                    "the Claude CLI can't have an MCP server `{name}`: its tools are named `mcp__{free}__…`"
                ),
            );
        }
        free
    }

    fn warn(&mut self, code: Code, message: String) {
        self.warnings.push(Diagnostic::warning(code, message));
    }
}

/// The CLI replaces `${NAME}` in this document from its own environment, which holds credentials. What arrives here
/// has been resolved: a `${` in it is meant literally, and written as a reference that gives `$` before a brace.
fn literal(text: &str) -> String {
    text.replace("${", "${HOLODECK_:-$}{")
}

fn add_timeout(config: &mut Map<String, Value>, tool: &McpTool) {
    if let Some(limit) = tool.written_time_limit() {
        let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        config.insert("timeout".to_owned(), milliseconds.max(SHORTEST_MS).into());
    }
}

#[cfg(test)]
mod tests;
