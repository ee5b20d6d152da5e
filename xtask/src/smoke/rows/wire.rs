//! Assumptions about the frames on the wire and their fields.

use super::{Area, published, row};

pub(super) const HANDSHAKE: Area = Area {
    title: "Handshake and control requests",
    about: "`initialize` and its answer, and the requests that may follow at any time.",
    rows: &[
        published("initialize.hooks", "SDKControlInitializeRequest", "hooks"),
        published("initialize.agents", "SDKControlInitializeRequest", "agents"),
        published(
            "initialize.sdkMcpServers",
            "SDKControlInitializeRequest",
            "sdkMcpServers",
        ),
        published(
            "initialize.sdkMcpServerManifests",
            "SDKControlInitializeRequest",
            "sdkMcpServerManifests",
        ),
        published(
            "initialize.sdkMcpServerConfigs",
            "SDKControlInitializeRequest",
            "sdkMcpServerConfigs",
        ),
        published(
            "initialize.forwardSubagentText",
            "SDKControlInitializeRequest",
            "forwardSubagentText",
        ),
        row("initialize.commands", "array").types("SDKControlInitializeResponse", "commands"),
        row("initialize.agents", "array").types("SDKControlInitializeResponse", "agents"),
        row("initialize.models", "array").types("SDKControlInitializeResponse", "models"),
        row("initialize.account", "object").types("SDKControlInitializeResponse", "account"),
        row("initialize.account.apiKeySource", "string").types("AccountInfo", "apiKeySource"),
        row("initialize.claude_code_version", "string")
            .older("absent")
            .types("SDKControlInitializeResponse", "claude_code_version"),
        row("initialize.pid", "number"),
        row("initialize.current_permission_mode", "string").older("absent"),
        row("initialize.session_state", "string").older("absent"),
        row("initialize.capabilities", "array").older("absent"),
        row("initialize.sdk_mcp_manifests_parked", "parked")
            .older("absent")
            .types("SDKControlInitializeResponse", "sdk_mcp_manifests_parked"),
        row("control interrupt", "success").types("SDKControlInterruptRequest", "interrupt"),
        row("interrupt.still_queued", "array")
            .older("absent")
            .types("SDKControlInterruptResponse", "still_queued"),
        row("control set_model", "success, requests to the model: 1")
            .older("success, requests to the model: 0")
            .types("SDKControlSetModelRequest", "set_model"),
        row("model asked after set_model", "claude-haiku-4-5"),
        row("control set_max_thinking_tokens", "success")
            .types("SDKControlSetMaxThinkingTokensRequest", "set_max_thinking_tokens"),
        row("control mcp_status", "success").types("SDKControlMcpStatusRequest", "mcp_status"),
        row("mcp_status.mcpServers", "array"),
        row("mcp_status.name", "string")
            .older("absent")
            .types("McpServerStatus", "name"),
        row("mcp_status.status", "string")
            .older("absent")
            .types("McpServerStatus", "status"),
        row("control get_context_usage", "success")
            .types("SDKControlGetContextUsageRequest", "get_context_usage"),
        row("control get_session_cost", "success")
            .types("SDKControlGetSessionCostRequest", "get_session_cost"),
        row("control get_binary_version", "success")
            .types("SDKControlGetBinaryVersionRequest", "get_binary_version"),
        row("control list_models", "success")
            .older("error: Unsupported control request subtype: list_models")
            .types("SDKControlListModelsRequest", "list_models"),
        row("control no_such_request", "error unsupported_request")
            .older("error: Unsupported control request subtype: no_such_request"),
        published("control_request.request_id", "SDKControlRequest", "request_id"),
        published("control_response success", "ControlResponse", "success"),
        published("control_response error", "ControlErrorResponse", "error"),
        published(
            "control_cancel_request",
            "SDKControlCancelRequest",
            "control_cancel_request",
        ),
        published(
            "control mcp_set_servers",
            "SDKControlMcpSetServersRequest",
            "mcp_set_servers",
        ),
        published(
            "control mcp_reconnect",
            "SDKControlMcpReconnectRequest",
            "mcp_reconnect",
        ),
    ],
};

pub(super) const SESSION: Area = Area {
    title: "Prompts and sessions",
    about: "Its input, how turns are connected, and how a process is reused.",
    rows: &[
        published("user.message", "SDKUserMessage", "message"),
        published("user.parent_tool_use_id", "SDKUserMessage", "parent_tool_use_id"),
        published("user.session_id", "SDKUserMessage", "session_id"),
        published("user.uuid", "SDKUserMessage", "uuid"),
        row("the prompt is the last text", "What is 2+2?"),
        row("client_composed: /command", "delivered as text")
            .older("taken as a command")
            .types("SDKUserMessage", "client_composed"),
        row("client_composed: @file", "delivered as text")
            .older("the file is read in")
            .types("SDKUserMessage", "client_composed"),
        row("@file without client_composed", "the file is read in"),
        row("an image in the content", "reaches the model"),
        row("two turns: session_id", "stays"),
        row("two turns: history", "the model sees the first turn"),
        row("/clear: result", "success, is_error false, absent, num_turns 0"),
        row("/clear: conversation_reset", "sent")
            .older("absent")
            .types("SDKConversationResetMessage", "new_conversation_id"),
        row("/clear: requests to the model", "0"),
        row("/clear: session_id", "changes"),
        row("/clear: answers in the history after it", "0"),
        row("/clear: handshakes after it", "0"),
    ],
};

pub(super) const MESSAGES: Area = Area {
    title: "Messages",
    about: "Its output in a turn, field by field.",
    rows: &[
        row(
            "order of frames in a turn",
            "system/init, message_start, content_block_start, content_block_delta, assistant, content_block_stop, content_block_start, content_block_delta, assistant, content_block_stop, message_delta, message_stop, result",
        ),
        row("system/init.session_id", "string").types("SDKSystemMessage", "session_id"),
        row("system/init.cwd", "string").types("SDKSystemMessage", "cwd"),
        row("system/init.tools", "array").types("SDKSystemMessage", "tools"),
        row("system/init.mcp_servers", "array").types("SDKSystemMessage", "mcp_servers"),
        row("system/init.model", "string").types("SDKSystemMessage", "model"),
        row("system/init.permissionMode", "string").types("SDKSystemMessage", "permissionMode"),
        row("system/init.apiKeySource", "string").types("SDKSystemMessage", "apiKeySource"),
        row("system/init.claude_code_version", "string").types("SDKSystemMessage", "claude_code_version"),
        row("system/init.slash_commands", "array").types("SDKSystemMessage", "slash_commands"),
        row("system/init.capabilities", "array")
            .older("absent")
            .types("SDKSystemMessage", "capabilities"),
        row("system/init.mcp_servers[].name", "string"),
        row("system/init.mcp_servers[].status", "string"),
        row("capability sdk_mcp_manifests", "named").older("absent"),
        row("system/status.status", "requesting").types("SDKStatusMessage", "status"),
        row("stream_event.event", "object").types("SDKPartialAssistantMessage", "event"),
        row("stream_event.parent_tool_use_id", "null")
            .types("SDKPartialAssistantMessage", "parent_tool_use_id"),
        row("stream_event.ttft_ms", "number").types("SDKPartialAssistantMessage", "ttft_ms"),
        row(
            "stream_event.event.delta.type",
            "thinking_delta, signature_delta, text_delta",
        ),
        row("assistant.message", "object").types("SDKAssistantMessage", "message"),
        row("assistant.message.id", "string"),
        row("assistant.message.content", "array"),
        row("assistant.message.stop_reason", "null"),
        row("assistant.message.usage", "object"),
        row("assistant.parent_tool_use_id", "null").types("SDKAssistantMessage", "parent_tool_use_id"),
        row("assistant.session_id", "string").types("SDKAssistantMessage", "session_id"),
        row("assistant.uuid", "string").types("SDKAssistantMessage", "uuid"),
        row("assistant frames of one message", "2, one per block"),
        row("message.id of these frames", "the same"),
        row("user (tool result).message.content", "array").types("SDKUserMessage", "message"),
        row("user (tool result).message.content[].tool_use_id", "string"),
        row("user (tool result).message.content[].content", "array"),
        row("user (tool result).tool_use_result", "array").types("SDKUserMessage", "tool_use_result"),
        row("user (tool result).tool_result_meta", "array").older("absent"),
        row("user (tool result).parent_tool_use_id", "null").types("SDKUserMessage", "parent_tool_use_id"),
        row("is_error of a good Bash result", "false"),
    ],
};

pub(super) const RESULTS: Area = Area {
    title: "Results",
    about: "How a turn ends: subtype, `is_error`, terminal reason.",
    rows: &[
        row("normal end: result", "success, is_error false, completed").types("SDKResultSuccess", "success"),
        row("normal end: result.result", "It is four.").types("SDKResultSuccess", "result"),
        row("result.duration_ms", "number").types("SDKResultSuccess", "duration_ms"),
        row("result.duration_api_ms", "number").types("SDKResultSuccess", "duration_api_ms"),
        row("result.ttft_ms", "number").types("SDKResultSuccess", "ttft_ms"),
        row("result.num_turns", "number").types("SDKResultSuccess", "num_turns"),
        row("result.total_cost_usd", "number").types("SDKResultSuccess", "total_cost_usd"),
        row("result.usage", "object").types("SDKResultSuccess", "usage"),
        row("result.modelUsage", "object").types("SDKResultSuccess", "modelUsage"),
        row("result.permission_denials", "array").types("SDKResultSuccess", "permission_denials"),
        row("result.stop_reason", "string").types("SDKResultSuccess", "stop_reason"),
        row("result.terminal_reason", "string").types("SDKResultSuccess", "terminal_reason"),
        row("result.session_id", "string").types("SDKResultSuccess", "session_id"),
        row("result.queued_turn_count", "number")
            .older("absent")
            .types("SDKResultSuccess", "queued_turn_count"),
        row("result.result_index", "number")
            .older("absent")
            .types("SDKResultSuccess", "result_index"),
        row("result.usage counts", "30, 7, 20, 10"),
        row("result.modelUsage[].inputTokens", "number").types("ModelUsage", "inputTokens"),
        row("result.modelUsage[].outputTokens", "number").types("ModelUsage", "outputTokens"),
        row("result.modelUsage[].cacheReadInputTokens", "number").types("ModelUsage", "cacheReadInputTokens"),
        row("result.modelUsage[].cacheCreationInputTokens", "number")
            .types("ModelUsage", "cacheCreationInputTokens"),
        row("result.modelUsage[].costUSD", "number").types("ModelUsage", "costUSD"),
        row("result (error).errors", "array").types("SDKResultError", "errors"),
        published(
            "result.subtype error_max_turns",
            "SDKResultError",
            "error_max_turns",
        ),
        published(
            "result.subtype error_max_budget_usd",
            "SDKResultError",
            "error_max_budget_usd",
        ),
        published(
            "result.subtype error_during_execution",
            "SDKResultError",
            "error_during_execution",
        ),
        published(
            "result.subtype error_max_structured_output_retries",
            "SDKResultError",
            "error_max_structured_output_retries",
        ),
        published("terminal_reason completed", "TerminalReason", "completed"),
        published("terminal_reason api_error", "TerminalReason", "api_error"),
        published("terminal_reason max_turns", "TerminalReason", "max_turns"),
        published(
            "terminal_reason budget_exhausted",
            "TerminalReason",
            "budget_exhausted",
        ),
        published(
            "terminal_reason aborted_streaming",
            "TerminalReason",
            "aborted_streaming",
        ),
        published("terminal_reason aborted_tools", "TerminalReason", "aborted_tools"),
        published(
            "terminal_reason structured_output_retry_exhausted",
            "TerminalReason",
            "structured_output_retry_exhausted",
        ),
        row(
            "interrupt: result",
            "error_during_execution, is_error true, aborted_streaming",
        ),
        row(
            "API error: result",
            "success, is_error true, api_error, api_error_status 400",
        )
        .older("success, is_error true, completed, api_error_status 400")
        .types("SDKResultSuccess", "api_error_status"),
        row("API error: assistant.error", "unknown").types("SDKAssistantMessage", "error"),
        row("API error: assistant.message.model", "<synthetic>"),
        row("API error 400: requests", "3").older("1"),
        row("result.structured_output", "{\"answer\":4}").types("SDKResultSuccess", "structured_output"),
        row("result.result beside it", "{\"answer\":4}"),
        row("structured output: requests after the valid call", "0"),
        row(
            "structured output never called",
            "success, is_error false, completed, structured_output absent",
        ),
        row("nudges for structured output", "1"),
        row(
            "structured output never valid",
            "error_max_structured_output_retries, is_error true, structured_output_retry_exhausted",
        )
        .older("error_max_structured_output_retries, is_error true, absent"),
        row("401 is retried", "401 authentication_failed, attempt 1 of 1"),
        row("system/api_retry.attempt", "number").types("SDKAPIRetryMessage", "attempt"),
        row("system/api_retry.max_retries", "number").types("SDKAPIRetryMessage", "max_retries"),
        row("system/api_retry.retry_delay_ms", "number").types("SDKAPIRetryMessage", "retry_delay_ms"),
        row("system/api_retry.error_status", "number").types("SDKAPIRetryMessage", "error_status"),
        row("system/api_retry.error", "string").types("SDKAPIRetryMessage", "error"),
        row(
            "a stream that breaks off",
            "success, is_error false, completed, 1 assistant frame",
        ),
        row("a stream that breaks off: error_status", "null"),
        row(
            "retries used up",
            "success, is_error true, api_error, api_error_status 529",
        )
        .older("success, is_error true, completed, api_error_status 529"),
    ],
};

pub(super) const TOOLS: Area = Area {
    title: "In-process tools, MCP servers, subagents",
    about: "What the host offers, what a file names, what runs below.",
    rows: &[
        row(
            "--mcp-config FILE: system/init.mcp_servers",
            "broken failed, everything connected, holodeck connected",
        )
        .types("Options", "mcpServers"),
        published("--strict-mcp-config", "Options", "strictMcpConfig"),
        row("tools of MCP servers with --tools \"\"", "offered"),
        row("results of both servers", "Echo: hi, echo: ho"),
        row(
            "handshake of an in-process server, named in --mcp-config",
            "initialize ×1, notifications/initialized ×1, tools/list ×1",
        )
        .older("initialize ×2, notifications/initialized ×2, tools/list ×2")
        .types("McpSdkServerConfig", "sdk"),
        row("handshake of an in-process server, given its manifest", "none")
            .older("initialize ×1, notifications/initialized ×1, tools/list ×1"),
        row("protocolVersion asked of an in-process server", "2025-11-25"),
        row("mcp_message.server_name", "string").types("SDKControlMcpMessageRequest", "server_name"),
        row("mcp_message.message", "object").types("SDKControlMcpMessageRequest", "message"),
        row("tools/call _meta claudecode/toolUseId", "string"),
        row("result of an in-process tool", "reaches the model"),
        row("initialize.agents{}.prompt", "its system prompt").types("AgentDefinition", "prompt"),
        row("frames with parent_tool_use_id", "assistant, user"),
        row("forwardSubagentText", "Seven.").types("Options", "forwardSubagentText"),
        row("assistant (subagent).subagent_type", "string").types("SDKAssistantMessage", "subagent_type"),
        row("assistant (subagent).agent_id", "string")
            .older("absent")
            .types("SDKAssistantMessage", "agent_id"),
        row("system/task_started.task_id", "string").types("SDKTaskStartedMessage", "task_id"),
        row("system/task_started.tool_use_id", "string").types("SDKTaskStartedMessage", "tool_use_id"),
        row("system/task_started.description", "string").types("SDKTaskStartedMessage", "description"),
        row("system/task_started.subagent_type", "string").types("SDKTaskStartedMessage", "subagent_type"),
        row("system/task_notification.task_id", "string").types("SDKTaskNotificationMessage", "task_id"),
        row("system/task_notification.tool_use_id", "string")
            .types("SDKTaskNotificationMessage", "tool_use_id"),
        row("system/task_notification.status", "string").types("SDKTaskNotificationMessage", "status"),
        row("system/task_notification.summary", "string").types("SDKTaskNotificationMessage", "summary"),
        row("results after the first", "0"),
    ],
};
