//! The data types of HoloDeck: the configuration of an agent, the records and reports of a run, diagnostics with their
//! places, the names of tools, and the masking of secrets.
//!
//! `holodeck-yaml` reads the configuration from files; its result is a [`ResolvedAgent`]. Nothing here is asynchronous,
//! uses the network, or reads the process environment.

mod agent_doc;
mod agent_folders;
mod answer_row;
mod approval;
mod call_details;
mod call_paths;
mod case;
mod claude_models;
mod cli_version;
mod clock;
mod code;
mod config;
mod deciders;
mod diagnostic;
mod endpoint;
pub mod env;
pub mod events;
mod evidence;
mod execution;
mod files;
mod hex;
mod identity;
mod input;
mod json_depth;
mod json_kind;
mod json_mend;
mod json_strict;
mod label;
pub mod long_integers;
mod occasion;
mod origin;
mod partial;
mod printable;
mod real_path;
pub mod redact;
mod report;
mod resolved;
mod settings;
mod shard;
mod shell;
mod skill_doc;
mod source;
mod substitute;
mod suggest;
mod tool_names;
mod tool_pattern;
mod tool_schema;
mod usage;
mod value;

pub use agent_doc::{
    AgentDoc, AgentDocPlaces, AgentMode, Boost, FocusArea, RouteFuture, RoutingCase, TaskRoute, TaskRouter,
    Tier,
};
pub use agent_folders::{AgentFolders, TEMPORARY_PREFIX, Zone};
pub use answer_row::AnswerRow;
pub use approval::{
    ApprovalContext, ApprovalPolicy, PolicyCall, PolicyDecision, PolicyRuling, Presence, RulingBasis,
    SideEffectGate,
};
pub use call_details::{CallDetails, CallRefusal, Passage};
pub use call_paths::{
    AskReason, CallPath, PathAccess, join_path, named_paths, path_access, remembered_approval,
    remembered_calls, tools_with_paths,
};
pub use case::{
    CaseContent, CaseId, CaseIdentity, InvalidCaseId, Opinion, UnitKey, equal_cases, identify_cases,
    is_later_trial, is_repeated_unit, match_cases, recorded_trial_name, recorded_without_loop,
    trial_case_name,
};
pub use claude_models::{ClaudeModel, ClaudeModels, NoEffect, Reasoning, claude_model_id};
pub use cli_version::CliVersion;
pub use clock::{Clock, SystemClock};
pub use code::Code;
pub use config::*;
pub use deciders::{
    CaseDeciders, CheckIdentities, CheckIdentity, CheckReads, Decider, DerivedSteps, Difference, Digest,
    Digests, GraderFiles, TRIALS_RULE, check_label, describe_differences,
};
pub use diagnostic::{Diagnostic, Location, Severity, Span};
pub use endpoint::{EndpointConfig, EndpointError, EndpointRoute, ModelEndpoint, hint_for_missing_key};
pub use env::Env;
pub use evidence::Evidence;
pub use execution::{
    CHAT_COMMANDS, Command, CommandContext, CommandRequest, CommandResult, ExecutionAttempt, Executor,
    ExecutorRecord, IterationRecord, PLAIN_COMMAND, RESERVED_FIELDS, RoutingDecision, TerminationReason,
};
pub use files::{
    DiskFiles, FileKind, Files, MemoryFiles, absolute_path, create_private_folder, io_reason, near_file,
    private_file, shown_path,
};
pub use hex::{hex, hex_prefix};
pub use identity::{ConfigPart, IDENTITY_FORMAT, NamePath, canonical, digest_json};
pub use input::{
    NotText, decode_text, lines_with_ends, open_input, read_text_input, same_length_lines, unix_lines,
};
pub use json_depth::{JSON_LEVELS, cut_deep_json, is_deep_json, json_levels};
pub use json_kind::json_kind;
pub use json_mend::{mend_json, mend_json_by, tighten_json};
pub use json_strict::{UniqueKeys, parse_deciding, parse_json_strictly};
pub use label::{LabelledCall, LabelledContent, LabelledItem, LabelledTurn};
pub use occasion::Occasion;
pub use origin::AllowedOrigin;
pub use partial::Partial;
pub use printable::{is_hidden, printable, printable_json};
pub use real_path::resolve_links;
pub use redact::{RedactedStream, Redactor, variable_secrets, without_digests, without_digests_in};
pub use report::*;
pub use resolved::{InstructionsSource, Need, ResolvedAgent, ResolvedInstructions, Unsupported};
pub use settings::{ExecutionSettings, Layer, Setting};
pub use shard::{Shard, ShardError, ShardPart};
pub use shell::shell_word;
pub use skill_doc::SkillDoc;
pub use source::{Source, Sources};
pub use substitute::{UnreplacedVariable, is_kept_dollar, substitute, unreplaced_variables};
pub use suggest::closest;
pub use tool_names::{
    DeclaredTool, HOLODECK_SERVER, NameMatch, ServerAccess, ToolAccess, ToolIdentity, ToolKind, ToolNames,
    ToolOrigin, UnresolvedName, mcp_tool_name, mcp_tool_names, reserved_server_keys, server_key,
    shorten_tool_name, without_pattern,
};
pub use tool_pattern::{CallPattern, ToolPattern};
pub use tool_schema::complete_tool_schema;
pub use usage::{Spent, TokenUsage, UsageMetadata};
pub use value::{
    CliText, Decimal, Glob, JsonMap, OneOrMany, PathBases, PathGlob, PathRef, Pattern, SecretMap,
    has_lost_digits, python_str,
};
