//! Translates the MCP servers of the YAML into the Claude CLI's `--mcp-config` document.
//!
//! Servers must not inherit the credentials of the CLI.

use std::{fmt, path::Path};

use holodeck_model::{
    Code, Diagnostic, Env, McpTool, McpTransport, ServerNeed, env, reserved_server_keys, server_key,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};

use crate::launch::{self, placed, placed_argument};

/// Variables that give the CLI's children access to its message socket.
const CLI_SECRETS: [&str; 2] = ["CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN"];

/// The CLI ignores smaller limits.
const SHORTEST_MS: u64 = 1000;

/// The MCP servers of an agent in the format of `--mcp-config`. Contains secrets: `Debug` shows names only.
pub struct ClaudeServers {
    /// The servers, in the order of the YAML.
    pub servers: Vec<ClaudeServer>,
    /// Settings that were left out or have no effect, by name.
    pub warnings: Vec<Diagnostic>,
}

/// One MCP server.
pub struct ClaudeServer {
    /// The tool's name in the YAML.
    pub tool: String,
    /// The CLI's name for it: its tools are `mcp__<name>__…`, and its status is reported under this name.
    pub name: String,
    /// Whether the run must fail without it.
    pub need: ServerNeed,
    /// The only tools of the server that the agent may call, from `config.allowed_tools`.
    pub allowed_tools: Option<Vec<String>>,
    config: Value,
}

impl ClaudeServers {
    /// Translates `tools`. Relative commands, and arguments that begin with `./` or `../`, are relative to the YAML
    /// file that contains them, or to `base_dir` if that file is unknown. `blank` are variables of the CLI's
    /// environment, such as model credentials, that no server may inherit unless the YAML sets them. Every problem is
    /// reported.
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
            taken: reserved_server_keys(),
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

    /// The document for `--mcp-config`. It contains secrets: write it to a file that only its owner can read.
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
            // HoloDeck connects to it (`McpTool::needs_own_client`).
            McpTransport::Websocket => return None,
        };
        self.warn_of_unused(tool);
        Some(ClaudeServer {
            tool: tool.name.clone(),
            name: self.free_name(&tool.name),
            need: tool.need(),
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

    /// The server's environment beyond the CLI's own: blanks, the user's home instead of the CLI's private one, then
    /// the YAML's variables.
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
            // The CLI turns them into commands for people.
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

    /// A name that the CLI accepts and no other server has.
    fn free_name(&mut self, name: &str) -> String {
        let free = server_key(name, &mut self.taken);
        if free != name {
            self.warn(
                Code::IgnoredForProvider,
                format!(
                    "the Claude CLI does not accept an MCP server named `{name}`: its tools are named `mcp__{free}__…`"
                ),
            );
        }
        free
    }

    fn warn(&mut self, code: Code, message: String) {
        self.warnings.push(Diagnostic::warning(code, message));
    }
}

/// The CLI replaces `${NAME}` in this document from its own environment, which contains credentials. Substitution has
/// already happened here, so a `${` is literal and is written as a reference that yields `$` before a brace.
fn literal(text: &str) -> String {
    text.replace("${", "${HOLODECK_:-$}{")
}

fn add_timeout(config: &mut Map<String, Value>, tool: &McpTool) {
    if let Some(limit) = tool.configured_time_limit() {
        let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        config.insert("timeout".to_owned(), milliseconds.max(SHORTEST_MS).into());
    }
}

#[cfg(test)]
mod tests;
