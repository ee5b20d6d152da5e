//! The user's logins to MCP servers.

use std::path::Path;

use holodeck_mcp_bridge::Logins;
use holodeck_model::{Env, McpTool, McpTransport, shell_word, shown_path};

/// The logins of the user; `None` without a home directory.
pub fn logins(env: &Env) -> Option<Logins> {
    env.user_dir()
        .map(|folder| Logins::new(folder.join("mcp-logins")))
}

/// Whether HoloDeck has a login to a server, whose token no other client gets.
pub(crate) fn has_login(server: &McpTool, env: &Env) -> bool {
    let url = server
        .url
        .as_ref()
        .filter(|_| server.transport != McpTransport::Stdio && !server.has_own_token());
    url.is_some_and(|url| logins(env).is_some_and(|logins| logins.has(url)))
}

/// The arguments of `holodeck mcp login NAME` that name an agent.
pub(crate) fn login_arguments(agent: &Path) -> String {
    let agent = shown_path(agent);
    if agent == Path::new("agent.yaml") {
        String::new()
    } else {
        format!(" --agent {}", shell_word(&agent.display().to_string()))
    }
}
