#![doc = include_str!("../README.md")]

mod agent;
mod chat;
mod commands;
pub mod deploy;
mod import;
pub mod index;
mod load;
mod serve;
mod test;

pub use agent::answers::{AnswerError, AnswerSource, Answers};
pub use agent::approvals::{PolicyApprover, approval_policy, protected_files};
pub use agent::ask::{AskError, ask, ask_with_index_progress};
pub use agent::backends::Specialist;
pub use agent::environment::{EnvironmentError, environment};
pub use agent::fingerprint::IdentityError;
pub use agent::inputs::{RunInputs, is_recording};
pub use agent::live::ask_briefly;
pub use agent::logins::logins;
pub use agent::open::{OpenAgent, OpenError, OpenOptions};
pub use agent::secrets::{redactor, shared_environment};
pub use agent::servers::{
    ListedServer, ServerFile, ServerLogin, ServerScope, ServersError, list_servers, registry,
};
pub use agent::targets::{RefusedTarget, check_target, target_reason};
pub use agent::tools::{Preparing, ToolSetupError};
pub use agent::unsupported::UnsupportedParts;
pub use chat::attached_files::file_vault;
pub use chat::event_store::{OpenEventsError, event_store_path, open_event_store, open_events};
pub use chat::stored_conversations::AgentConversations;
pub use chat::{Chat, ChatOptions, attached_file};
pub use commands::agents::{
    Abstention, AgentFolder, Confusion, LoadedAgents, RoutingReport, RoutingResult, TaskRouting,
    agent_folders, definition, load_agents, load_own_agents, load_task_file, missing_agent_folders,
    snapshot_files,
};
pub use commands::quality::LoopSetupError;
pub use commands::routed::{
    LOOP_STEP, MAX_DELEGATION, PlannedQuestion, RoutedAgent, RoutedError, RoutedExecution, RoutedOptions,
    RoutedPlan, RoutingOverrides, execution_json, is_routed, new_session_id,
};
pub use commands::skills::{LoadedSkills, load_own_skills};
pub use holodeck_backend_api as backend_api;
pub use holodeck_cassette::CassetteError;
pub use holodeck_chat as conversation;
pub use holodeck_documents as documents;
pub use holodeck_events as events;
pub use holodeck_events::EXECUTION_FIELD;
pub use holodeck_import::{Finding as ImportFinding, FindingKind, Import};
pub use holodeck_mcp_bridge::{
    LoggedIn, LoggedOut, LoginError, LoginNews, LoginRequest, Registry, RegistryError, RegistryServer,
    Unusable, log_in, log_out,
};
pub use holodeck_model as model;
pub use holodeck_orchestrator as orchestrator;
pub use holodeck_process as processes;
pub use holodeck_reports as reports;
pub use holodeck_runner as runner;
pub use holodeck_runs as runs;
pub use holodeck_validators::{Check, CheckState};
pub use holodeck_view as view;
pub use holodeck_yaml as yaml;
pub use import::{ImportFailure, ImportedTool, import_tests};
pub use index::conversion::convert_documents_with;
pub use load::fixes::fix;
pub use load::{check_equal_cases, doctor, is_agent_file, load, load_combination, require_what_runs_need};
pub use serve::{ServeError, ServeFlags, Server};
pub use test::calibrate::{CalibrateError, PreparedCalibration, prepare_calibration};
pub use test::calibrated::{UncalibratedJudges, UncalibratedMetric};
pub use test::case_files::AgentCaseFiles;
pub use test::compare::{CompareError, Compared, StoredRuns, compare_runs, stored_runs};
pub use test::dry_run::{DryRun, Estimate, RerankedTool};
pub use test::judge_steps::{JUDGE_STEPS, JudgeStepsError, derive_judge_steps};
pub use test::matrix::{ShardGroups, shards_by_combination};
pub use test::prepare::{
    MatrixGroup, PrepareError, PreparedMerge, PreparedRegrade, PreparedTest, TestError, TestOptions,
    prepare_merge, prepare_regrade, prepare_test,
};
pub use test::recorded_case::{RecordedCase, RecordedCaseError, recorded_case};
pub use test::saved_case::{SaveCaseError, SavedCase, save_conversation};
