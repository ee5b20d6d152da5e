//! The YAML language of HoloDeck: its types, its loader, and what is wrong with a file.
//!
//! [`load_agent`] reads an agent file with its layers and reports every problem at once, each at its place.
//! Nothing here is asynchronous, uses the network, or reads the process environment.

mod approval;
mod call_details;
mod case;
mod check;
mod code;
mod config;
mod diagnostic;
mod edit;
mod endpoint;
pub mod env;
pub mod events;
mod files;
mod input;
mod json_mend;
mod load;
mod loaded;
mod printable;
mod redact;
mod report;
mod schema;
mod settings;
mod shape;
mod source;
mod tool_names;
mod usage;
mod value;
mod yaml;

pub use approval::{ApprovalContext, ApprovalPolicy, Occasion, PolicyDecision, Presence, SideEffectGate};
pub use call_details::{CallDetails, CallRefusal, Passage};
pub use case::{
    CaseContent, CaseId, CaseIdentity, InvalidCaseId, UnitKey, equal_cases, identify_cases, match_cases,
};
pub use check::closest;
pub use code::Code;
pub use config::*;
pub use diagnostic::{Diagnostic, Label, Location, Severity, Span};
pub use edit::{EditError, add_item, list_items, remove_item};
pub use endpoint::{EndpointConfig, EndpointError, EndpointOrigin, EndpointRoute, ModelEndpoint};
pub use env::Env;
pub use files::{DiskFiles, FileKind, Files, MemoryFiles, create_private_folder, private_file};
pub use input::{open_input, read_input, read_text_input};
pub use json_mend::mend_json;
pub use load::{Load, load_agent};
pub use loaded::{InstructionsSource, LoadedAgent, Need, ResolvedInstructions, Unsupported};
pub use printable::{printable, printable_json};
pub use redact::{RedactedStream, Redactor, variable_secrets};
pub use report::*;
pub use schema::{config_json_schema, json_schema};
pub use settings::{ExecutionSettings, Layer, Setting};
pub use source::{Source, Sources};
pub use tool_names::{
    HOLODECK_SERVER, Resolved, ServerAccess, SideEffects, ToolAccess, ToolIdentity, ToolKind, ToolNames,
    ToolOrigin, UnresolvedName, bounded, mcp_tool_name, server_key, taken_server_keys,
};
pub use usage::TokenUsage;
pub use value::{Glob, JsonMap, OneOrMany, PathRef, Pattern, PatternError, SecretMap, python_str};
