//! Reads the frames about the process itself: its start, servers, retries and subagents.

use serde_json::{Map, Value};

use super::{
    Frame,
    fields::{Fields as _, maps, texts},
};

/// The start of a turn. Written after each message of the host, not at the start of the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Init {
    pub(crate) session_id: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) tools: Vec<String>,
    pub(crate) mcp_servers: Vec<McpServer>,
    pub(crate) permission_mode: Option<String>,
    pub(crate) api_key_source: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) capabilities: Vec<String>,
}

/// A tool server in the CLI's view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct McpServer {
    pub(crate) name: String,
    /// `connected`, `failed`, `pending`, `needs-auth`, `disabled`.
    pub(crate) status: String,
    pub(crate) error: Option<String>,
}

impl McpServer {
    /// Parses a server of `init` or of the answer to `mcp_status`.
    pub(crate) fn read(mut body: Map<String, Value>) -> Self {
        Self {
            name: body.take_text("name").unwrap_or_default(),
            status: body.take_text("status").unwrap_or_default(),
            error: body.take_text("error"),
        }
    }
}

/// A request to the model failed and will be retried.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ApiRetry {
    pub(crate) attempt: u64,
    pub(crate) max_retries: u64,
    pub(crate) delay_ms: Option<f64>,
    /// Absent if there was no connection.
    pub(crate) status: Option<u16>,
    pub(crate) error: Option<String>,
}

/// The end of an attempt to shorten the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Compaction {
    /// A summary took its place.
    Done {
        /// Tokens before.
        before: Option<u64>,
        /// Tokens afterwards. Only in newer CLIs.
        after: Option<u64>,
    },
    /// It stayed as it was.
    Failed {
        /// The CLI's word for it.
        result: String,
        /// The CLI's own text.
        error: Option<String>,
    },
}

/// A change in the state of a subagent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskChange {
    Started {
        task_id: String,
        call_id: Option<String>,
        /// Whether the turn may end before the subagent.
        in_background: bool,
    },
    Ended {
        task_id: String,
        call_id: Option<String>,
    },
    /// All subagents that run in the background now.
    Running { task_ids: Vec<String> },
}

pub(super) fn read(mut body: Map<String, Value>) -> Frame {
    let subtype = body.take_text("subtype").unwrap_or_default();
    match subtype.as_str() {
        "init" => Frame::Init(Init {
            session_id: body.take_text("session_id"),
            model: body.take_text("model"),
            tools: texts(body.take_list("tools")),
            mcp_servers: maps(body.take_list("mcp_servers"))
                .into_iter()
                .map(McpServer::read)
                .collect(),
            permission_mode: body.take_text("permissionMode"),
            api_key_source: body.take_text("apiKeySource"),
            version: body.take_text("claude_code_version"),
            capabilities: texts(body.take_list("capabilities")),
        }),
        "api_retry" => Frame::ApiRetry(ApiRetry {
            attempt: body.number("attempt").unwrap_or_default(),
            max_retries: body.number("max_retries").unwrap_or_default(),
            delay_ms: body.float("retry_delay_ms"),
            status: body.status("error_status"),
            error: body.take_text("error"),
        }),
        "model_fallback" => Frame::ModelFallback {
            from: body.take_text("original_model"),
            to: body.take_text("fallback_model"),
            text: body.take_text("content"),
        },
        "compact_boundary" => {
            let details = body.take_map("compact_metadata").unwrap_or_default();
            Frame::Compaction(Compaction::Done {
                before: details.number("pre_tokens"),
                after: details.number("post_tokens"),
            })
        }
        "status" => match body.take_text("compact_result") {
            Some(result) if result != "success" => Frame::Compaction(Compaction::Failed {
                result,
                error: body.take_text("compact_error"),
            }),
            _ => Frame::System { subtype, body },
        },
        "permission_denied" => Frame::PermissionDenied {
            tool_name: body.take_text("tool_name"),
            call_id: body.take_text("tool_use_id"),
            message: body.take_text("message"),
        },
        "session_state_changed" => match body.take_text("state") {
            Some(state) => Frame::SessionState(state),
            None => Frame::System { subtype, body },
        },
        "task_started" => Frame::Task(TaskChange::Started {
            task_id: body.take_text("task_id").unwrap_or_default(),
            call_id: body.take_text("tool_use_id"),
            in_background: body.flag("is_backgrounded"),
        }),
        "task_notification" => Frame::Task(TaskChange::Ended {
            task_id: body.take_text("task_id").unwrap_or_default(),
            call_id: body.take_text("tool_use_id"),
        }),
        "background_tasks_changed" => Frame::Task(TaskChange::Running {
            task_ids: maps(body.take_list("tasks"))
                .into_iter()
                .filter_map(|mut task| task.take_text("task_id"))
                .collect(),
        }),
        _ => Frame::System { subtype, body },
    }
}
