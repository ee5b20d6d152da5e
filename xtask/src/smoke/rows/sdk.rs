//! Rows that only the SDK's types can show.

use super::{Area, published};

pub(super) const ENTRY: Area = Area {
    title: "Entry points of the SDK",
    about: "What the first plan named from an older SDK, under today’s names. Nothing of this is run: the product speaks to the CLI itself.",
    rows: &[
        published("query()", "query", "prompt"),
        published(
            "ClaudeSDKClient: query() with a stream of messages",
            "query",
            "AsyncIterable",
        ),
        published("ClaudeAgentOptions: Options", "query", "Options"),
        published(
            "tool(name, description, inputSchema, handler)",
            "tool",
            "_inputSchema",
        ),
        published("SdkMcpTool: SdkMcpToolDefinition", "tool", "SdkMcpToolDefinition"),
        published(
            "create_sdk_mcp_server(): createSdkMcpServer()",
            "createSdkMcpServer",
            "CreateSdkMcpServerOptions",
        ),
        published(
            "create_sdk_mcp_server(name, tools)",
            "CreateSdkMcpServerOptions",
            "tools",
        ),
        published(
            "ResultMessage.structured_output",
            "SDKResultSuccess",
            "structured_output",
        ),
        published("session tracking: Query.interrupt()", "Query", "interrupt"),
        published("session tracking: continue", "Options", "continue"),
        published("Options.allowedTools", "Options", "allowedTools"),
        published("Options.disallowedTools", "Options", "disallowedTools"),
        published("Options.permissionMode", "Options", "permissionMode"),
        published("Options.canUseTool", "Options", "canUseTool"),
        published("Options.mcpServers", "Options", "mcpServers"),
        published("Options.agents", "Options", "agents"),
        published("Options.hooks", "Options", "hooks"),
        published("Options.cwd", "Options", "cwd"),
        published("Options.env", "Options", "env"),
        published(
            "Options.includePartialMessages",
            "Options",
            "includePartialMessages",
        ),
        published("Options.fallbackModel", "Options", "fallbackModel"),
        published(
            "Options.pathToClaudeCodeExecutable",
            "Options",
            "pathToClaudeCodeExecutable",
        ),
        published(
            "Options.additionalDirectories",
            "Options",
            "additionalDirectories",
        ),
        published("Options.stderr", "Options", "stderr"),
    ],
};
