//! Agents of YAML files on the real Claude Code CLI, talking to a scripted Messages API on loopback.

mod files;
mod from_yaml;
mod http;
mod mcp;
mod patterns;
mod setup;
mod signing_in;
mod subagents;
mod telemetry;
mod user_settings;
mod ways_around;
