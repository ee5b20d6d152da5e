#![doc = include_str!("../README.md")]

mod agents;
mod answer_format;
mod answers;
mod approvals;
mod ask;
mod asker;
mod attached_files;
mod backends;
mod calibrate;
mod calibrated;
mod chat;
mod checkout_env;
mod claude;
mod compare;
mod conversion;
mod dry_run;
mod edited_file;
mod environment;
mod event_store;
mod fingerprint;
mod git;
mod graders;
pub mod index;
mod inputs;
mod inventory;
mod judge_steps;
mod judges;
mod live;
mod load;
mod matrix;
mod mcp;
mod model_pool;
mod open;
mod prices;
mod probe;
mod prompts;
mod quality;
mod recorded_case;
mod routed;
mod sampling;
mod saved_case;
mod serve;
mod servers;
mod targets;
mod telemetry;
mod test;
mod tool_arguments;
mod trial_tools;
mod turn_key;
mod unsupported;

pub use agents::{
    Abstention, AgentFolder, Confusion, LoadedAgents, RoutingReport, RoutingResult, agent_folders,
    definition, evaluate_routing, load_agents, load_own_agents, load_task_file, snapshot_files,
};
pub use answers::{AnswerError, AnswerSource, Answers, redactor};
pub use approvals::{PolicyApprover, approval_policy, protected_files};
pub use ask::{AskError, ask, ask_with_index_progress};
pub use attached_files::file_vault;
pub use backends::{Specialist, ToolSetupError};
pub use calibrate::{CalibrateError, PreparedCalibration, prepare_calibration};
pub use calibrated::{UncalibratedJudges, UncalibratedMetric};
pub use chat::{Chat, ChatOptions, attached_file};
pub use compare::{CompareError, Compared, compare_runs};
pub use conversion::convert_documents_with;
pub use dry_run::{DryRun, Estimate, RerankedTool};
pub use environment::{EnvironmentError, environment};
pub use event_store::{OpenEventsError, event_store_path, open_event_store, open_events};
pub use fingerprint::IdentityError;
pub use holodeck_backend_api as backend_api;
pub use holodeck_cassette::CassetteError;
pub use holodeck_chat as conversation;
pub use holodeck_documents as documents;
pub use holodeck_events as events;
pub use holodeck_mcp_bridge::{Registry, RegistryError, RegistryServer, Unusable};
pub use holodeck_model as model;
pub use holodeck_orchestrator as orchestrator;
pub use holodeck_process as processes;
pub use holodeck_reports as reports;
pub use holodeck_runner as runner;
pub use holodeck_runs as runs;
pub use holodeck_validators::{Check, CheckState};
pub use holodeck_yaml as yaml;
pub use inputs::{RunInputs, is_recording};
pub use judge_steps::{JUDGE_STEPS, JudgeStepsError, derive_judge_steps};
pub use live::ask_briefly;
pub use load::{check_equal_cases, doctor, load, load_combination};
pub use matrix::{ShardGroups, shards_by_combination};
pub use open::{OpenAgent, OpenError, OpenOptions, Preparing};
pub use quality::LoopSetupError;
pub use recorded_case::{RecordedCase, RecordedCaseError, recorded_case};
pub use routed::{
    EXECUTION_FIELD, LoadedSkills, MAX_DELEGATION, RoutedAgent, RoutedError, RoutedExecution, RoutedOptions,
    RoutedPlan, RoutingOverrides, execution_json, is_routed, load_own_skills, new_session_id,
};
pub use saved_case::{SaveCaseError, SavedCase, save_conversation};
pub use serve::{ServeError, ServeFlags, Server};
pub use servers::{ListedServer, ServerFile, ServerScope, ServersError, list_servers, registry};
pub use targets::{RefusedTarget, check_target, target_reason};
pub use test::{
    MatrixGroup, PrepareError, PreparedMerge, PreparedRegrade, PreparedTest, TestError, TestOptions,
    prepare_merge, prepare_regrade, prepare_test,
};
pub use unsupported::UnsupportedParts;
