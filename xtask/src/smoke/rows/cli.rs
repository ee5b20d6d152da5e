//! How the CLI is started: its options, its permissions, its environment.

use super::{Area, published, row};

pub(super) const BINARY: Area = Area {
    title: "The binary",
    about: "What is installed and how it answers.",
    rows: &[
        row("--version", "2.1.330 (Claude Code)").older("2.1.197 (Claude Code)"),
        row("bytes of the binary", "381121040").older("245517112"),
        row(
            "stream-json without --verbose",
            "exit 1: Error: When using --print, --output-format=stream-json requires --verbose",
        ),
        row(
            "an unknown option",
            "exit 1: error: unknown option '--no-such-option'",
        ),
        row(
            "--json-schema that is invalid JSON",
            "exit 1: Error: --json-schema is not valid JSON: JSON Parse error: Expected '}'",
        ),
        row("a line that is invalid JSON", "exit 1"),
        row(
            "an empty line, a list, an unknown type, an unasked answer",
            "overlooked",
        ),
        row("end of input", "exit 0"),
        row("frames after the end of input", "none"),
        row("exit code after an error result", "1"),
    ],
};

pub(super) const OPTIONS: Area = Area {
    title: "Options",
    about: "The arguments it is started with, and what they come to in the request to the model or in the result.",
    rows: &[
        row("--system-prompt-file", "You are under test.").types("Options", "systemPrompt"),
        row("system blocks before it", "2"),
        row("--append-system-prompt", "appended"),
        row("--model MODEL", "claude-sonnet-4-5").types("Options", "model"),
        row("--model sonnet", "claude-sonnet-5-5").older("claude-sonnet-5"),
        row("--effort low", "low").types("Options", "effort"),
        row("--thinking disabled", "disabled").types("Options", "thinking"),
        row("--thinking adaptive", "adaptive").types("ThinkingAdaptive", "adaptive"),
        row("--max-thinking-tokens 3000", "budget_tokens 3000").types("Options", "maxThinkingTokens"),
        row("set_max_thinking_tokens 2000", "thinking.budget_tokens 2000")
            .types("SDKControlSetMaxThinkingTokensRequest", "max_thinking_tokens"),
        row(
            "--max-turns exceeded",
            "error_max_turns, is_error true, max_turns",
        )
        .types("Options", "maxTurns"),
        row(
            "--max-turns exceeded: errors[0]",
            "Reached maximum number of turns (1)",
        ),
        row("the turn after it", "success, is_error false, completed"),
        row(
            "--max-budget-usd exceeded",
            "error_max_budget_usd, is_error true, budget_exhausted",
        )
        .older("error_max_budget_usd, is_error true, absent")
        .types("Options", "maxBudgetUsd"),
        row("--tools \"\"", "the model is offered mcp__holodeck__echo").types("Options", "tools"),
        row("--tools \"Bash,Read\"", "the model is offered Bash, Read"),
        row("--tools Agent", "the model is offered Agent"),
        row("--tools Agent: system/init.tools", "Task"),
        row("--allowedTools \"Bash(echo *)\"", "fine, unasked").types("Options", "allowedTools"),
        row(
            "--disallowedTools \"Bash(rm *)\", in a compound command",
            "is_error true, unasked, the file is there",
        )
        .types("Options", "disallowedTools"),
        row("--setting-sources= and CLAUDE.md", "not read").types("Options", "settingSources"),
        row("--json-schema", "the model is offered StructuredOutput").types("Options", "outputFormat"),
        row("input of StructuredOutput", "the schema"),
        row("--session-id=UUID", "this id").types("Options", "sessionId"),
        row("--resume=ID", "this id, with its history").types("Options", "resume"),
        row("--fork-session", "a new id, with its history").types("Options", "forkSession"),
        row(
            "--resume of an unknown id: result",
            "error_during_execution, is_error true, absent",
        ),
        row(
            "--resume of an unknown id",
            "exit 1: No conversation found with session ID: 6f1c0a52-9b0e-4b8e-8f57-0d1b2a3c4d5f",
        ),
        row("--no-session-persistence", "nothing is kept").types("Options", "persistSession"),
    ],
};

pub(super) const PERMISSIONS: Area = Area {
    title: "Permission modes and permissions",
    about: "Who may run a tool, and who is asked.",
    rows: &[
        row(
            "choices of --permission-mode",
            "acceptEdits, auto, bypassPermissions, manual, dontAsk, plan",
        )
        .older("acceptEdits, auto, bypassPermissions, default, dontAsk, plan"),
        row("--permission-mode acceptAll", "exit 1"),
        row("--permission-mode without the flag", "default").older("absent"),
        row("control set_permission_mode default", "success").types("PermissionMode", "default"),
        row("control set_permission_mode acceptEdits", "success").types("PermissionMode", "acceptEdits"),
        row("control set_permission_mode plan", "success").types("PermissionMode", "plan"),
        row("control set_permission_mode acceptAll", "error invalid_mode").older("success"),
        published(
            "permission mode bypassPermissions",
            "PermissionMode",
            "bypassPermissions",
        ),
        published("permission mode dontAsk", "PermissionMode", "dontAsk"),
        row("--permission-prompt-tool stdio", "can_use_tool")
            .types("SDKControlPermissionRequest", "can_use_tool"),
        row("can_use_tool.subtype", "string").types("SDKControlPermissionRequest", "subtype"),
        row("can_use_tool.tool_name", "string").types("SDKControlPermissionRequest", "tool_name"),
        row("can_use_tool.input", "object").types("SDKControlPermissionRequest", "input"),
        row("can_use_tool.tool_use_id", "string").types("SDKControlPermissionRequest", "tool_use_id"),
        row("can_use_tool.permission_suggestions", "array")
            .types("SDKControlPermissionRequest", "permission_suggestions"),
        row("can_use_tool: behavior allow", "the tool runs").types("PermissionResult", "updatedInput"),
        row("can_use_tool: behavior deny", "denied by the host").types("PermissionResult", "deny"),
        row(
            "can_use_tool: behavior deny, result",
            "success, is_error false, completed",
        ),
        row(
            "can_use_tool: deny with interrupt, result",
            "error_during_execution, is_error true, aborted_tools",
        )
        .types("PermissionResult", "interrupt"),
        published("updatedPermissions", "PermissionResult", "updatedPermissions"),
        published(
            "updatedPermissions[].type addRules",
            "PermissionUpdate",
            "addRules",
        ),
        published(
            "updatedPermissions[].rules[].toolName",
            "PermissionRuleValue",
            "toolName",
        ),
        published(
            "updatedPermissions[].destination session",
            "PermissionUpdateDestination",
            "session",
        ),
        row("an ask without an approver", "denied"),
        row("system/permission_denied.tool_name", "string")
            .older("absent")
            .types("SDKPermissionDeniedMessage", "tool_name"),
        row("system/permission_denied.tool_use_id", "string")
            .older("absent")
            .types("SDKPermissionDeniedMessage", "tool_use_id"),
        row("system/permission_denied.message", "string")
            .older("absent")
            .types("SDKPermissionDeniedMessage", "message"),
        row("result.permission_denials[].tool_name", "string").types("SDKPermissionDenial", "tool_name"),
        row("result.permission_denials[].tool_use_id", "string").types("SDKPermissionDenial", "tool_use_id"),
        row("result.permission_denials[].tool_input", "object").types("SDKPermissionDenial", "tool_input"),
        row(
            "hook output permissionDecision deny",
            "the reason reaches the model",
        )
        .types("PreToolUseHookSpecificOutput", "permissionDecisionReason"),
        row("hook_callback.callback_id", "string").types("SDKHookCallbackRequest", "callback_id"),
        row("hook_callback.tool_use_id", "string").types("SDKHookCallbackRequest", "tool_use_id"),
        row("hook_callback.input.hook_event_name", "string").types("PreToolUseHookInput", "hook_event_name"),
        row("hook_callback.input.tool_name", "string").types("PreToolUseHookInput", "tool_name"),
        row("hook_callback.input.tool_input", "object").types("PreToolUseHookInput", "tool_input"),
        published(
            "initialize.hooks{}[].hookCallbackIds",
            "SDKHookCallbackMatcher",
            "hookCallbackIds",
        ),
    ],
};

pub(super) const ENVIRONMENT: Area = Area {
    title: "Environment",
    about: "The variables it is started with.",
    rows: &[
        row("ANTHROPIC_API_KEY", "x-api-key"),
        row("ANTHROPIC_AUTH_TOKEN", "/v1/messages with Bearer"),
        row(
            "CLAUDE_CODE_OAUTH_TOKEN",
            "/v1/messages with Bearer, beta oauth-2025-04-20",
        ),
        row("CLAUDE_CODE_USE_BEDROCK", "/model/…/invoke with Bearer"),
        row("CLAUDE_CODE_USE_VERTEX", "…:streamRawPredict without credential"),
        row("CLAUDE_CODE_USE_FOUNDRY", "/v1/messages with x-api-key"),
        row("no credential", "Not logged in · Please run /login"),
        row("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "running, idle, running")
            .types("SDKSessionStateChangedMessage", "requires_action"),
        row(
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
            "success, is_error false, completed",
        ),
        row(
            "OTEL_{METRICS,LOGS,TRACES}_EXPORTER=otlp",
            "/v1/logs, /v1/metrics, /v1/traces",
        ),
        row(
            "telemetry names",
            "claude_code.api_request, claude_code.cost.usage, claude_code.interaction, claude_code.llm_request, claude_code.session.count, claude_code.token.usage, claude_code.user_prompt",
        ),
        row("prompts in telemetry by default", "not exported"),
    ],
};
