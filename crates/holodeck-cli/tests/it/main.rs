//! Tests of the binary from outside: its output, its files and its exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests"
)]

mod agent_files;
mod agents;
mod always_approved;
mod answers;
mod bad_input;
mod calibrate;
mod calibrated;
mod calibrated_conversations;
mod calibration_replay;
mod case_language;
mod changed_agents;
mod changes;
mod chat;
mod chat_cases;
mod chat_rerankers;
mod ci_templates;
mod claude;
mod code_graders;
mod compare;
mod conversation_metrics;
mod conversations;
mod convert;
mod deciders;
mod decisions;
mod deploy;
mod deploy_manifests;
mod dialects;
mod doctor;
mod documentation;
mod echoed_fields;
mod elicitation;
mod endings;
mod executors;
mod exit_codes;
mod files;
mod filtering;
mod foreign_clients;
mod forged_journals;
mod generated;
mod guide;
mod history;
mod identity;
mod imports;
mod index;
mod ingestion;
mod init;
mod interrupt;
mod judge_answers;
mod judge_usage;
mod judge_votes;
mod judges;
mod legacy;
mod log_probs;
mod logins;
mod lookups;
mod lost_files;
mod masked_recordings;
mod matrix;
mod mcp;
mod messages;
mod mistakes;
mod mocks;
mod model_selection;
mod outputs;
mod pages;
mod processes;
mod project;
mod prompts;
mod quality_loop;
mod quality_tests;
mod reports;
mod restrictions;
mod resume;
mod retrieval;
mod routing;
mod run;
mod run_records;
mod sampling;
mod secrets;
mod serve;
mod serve_clients;
mod serve_faults;
mod serve_liveness;
mod serve_log;
mod serve_operation;
mod servers;
mod sessions;
mod sharding;
mod similar;
mod stores;
mod surface;
mod survivors;
mod target_parity;
mod target_vars;
mod targets;
mod templates;
mod terminal;
mod tool_names;
mod trial_servers;
mod trials;
mod validate;
mod verdicts;
mod view;
mod watch;
mod which_run;
mod wizard;
mod yaml_checks;
