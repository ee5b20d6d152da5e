//! `holodeck approvals`: the questions about tool calls that wait for a person, answered from any terminal.

use clap::{Subcommand, ValueEnum};
use holodeck::{
    events::{AlwaysApproved, ApprovalAnswer, ApprovalInfo, EventStore, Resolution, StoreError},
    model::{events::ApprovalScope, printable, remembered_calls},
    runs::ExitCode,
};
use serde_json::{Value, json};

use super::{
    build_runtime, load,
    sessions::{StoreArgs, no_conversations, open_existing},
};
use crate::{
    failure::{Failure, Problem},
    render::{call_arguments, dim, strong, whole_arguments},
    terminal::Terminal,
};

/// Flags of `holodeck approvals`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    place: StoreArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the questions that wait, the oldest first.
    List,
    /// Let a call run.
    Approve {
        /// The id of the question.
        id: String,
        /// How long the approval counts.
        #[arg(long, value_enum, default_value_t = Scope::Once)]
        scope: Scope,
    },
    /// Do not let a call run; the agent continues without it.
    Reject {
        /// The id of the question.
        id: String,
        /// Why; the model reads it.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// End the answer instead: the agent does not continue.
        #[arg(long)]
        terminate: bool,
    },
    /// List and revoke what a person approved for all conversations.
    Always {
        #[command(subcommand)]
        action: AlwaysAction,
    },
}

#[derive(Debug, Subcommand)]
enum AlwaysAction {
    /// List the tools that are always approved for the agent.
    List,
    /// Ask about a tool again, from the next message on.
    Revoke {
        /// The tool, as it is listed.
        tool: String,
        /// Only what this user approved; without it, what any user did.
        #[arg(long)]
        user: Option<String>,
    },
}

/// How long an approval counts.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    /// For this call.
    Once,
    /// For further calls of the tool in this conversation.
    Session,
    /// For further calls of the tool in all conversations with the agent.
    Always,
}

pub(crate) fn run(args: &ApprovalsArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    build_runtime()?.block_on(async {
        let store = open_existing(&args.place).await?;
        if let Action::Always { action } = &args.action {
            let agent = agent_name(&args.place, terminal)?;
            let Some(store) = store else {
                return match action {
                    AlwaysAction::List => list_always(&[], args.place.json, terminal),
                    AlwaysAction::Revoke { .. } => Err(no_conversations(&args.place).into()),
                };
            };
            return always(&*store, &agent, action, args.place.json, terminal).await;
        }
        let Some(answer) = args.action.answer() else {
            let waiting = match store {
                Some(store) => store
                    .approvals(None, None)
                    .await
                    .map_err(|error| failed(&error))?,
                None => Vec::new(),
            };
            return list(&waiting, args.place.json, terminal);
        };
        let store = store.ok_or_else(|| no_conversations(&args.place))?;
        // A person who can open the file may answer for the user of the conversation.
        let asked = store.approval(&answer.approval_id).await;
        let owner = asked
            .map_err(|error| failed(&error))?
            .and_then(|asked| asked.owner);
        store
            .resolve_approval(answer.by(owner.as_deref()))
            .await
            .map_err(|error| failed(&error))?;
        terminal.write_message("answered\n");
        Ok(ExitCode::Passed)
    })
}

impl Action {
    /// The answer to give, unless the questions are listed.
    fn answer(&self) -> Option<ApprovalAnswer> {
        Some(match self {
            Self::List | Self::Always { .. } => return None,
            Self::Approve { id, scope } => {
                let mut answer = ApprovalAnswer::new(id, Resolution::Approve);
                answer.scope = match scope {
                    Scope::Once => ApprovalScope::Once,
                    Scope::Session => ApprovalScope::Session,
                    Scope::Always => ApprovalScope::Always,
                };
                answer
            }
            Self::Reject {
                id,
                reason,
                terminate,
            } => {
                let decision = if *terminate {
                    Resolution::Terminate
                } else {
                    Resolution::Reject
                };
                let mut answer = ApprovalAnswer::new(id, decision);
                answer.reason.clone_from(reason);
                answer
            }
        })
    }
}

fn agent_name(place: &StoreArgs, terminal: &mut Terminal) -> Result<String, Failure> {
    let env = holodeck::environment(&place.agent).map_err(Problem::from)?;
    Ok(load(&place.agent, &env, terminal)?.config.name.clone())
}

async fn always(
    store: &dyn EventStore,
    agent: &str,
    action: &AlwaysAction,
    json: bool,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let owner = match action {
        AlwaysAction::List => None,
        AlwaysAction::Revoke { user, .. } => user.as_deref(),
    };
    let approved = store.always_approved(agent, owner).await;
    let approved = approved.map_err(|error| failed(&error))?;
    let AlwaysAction::Revoke { tool, .. } = action else {
        return list_always(&approved, json, terminal);
    };
    let mut revoked = 0;
    for approved in approved {
        if remembered_calls(&approved.tool).0 == tool {
            let done = store.revoke_always(approved).await;
            revoked += usize::from(done.map_err(|error| failed(&error))?);
        }
    }
    if revoked == 0 {
        let problem = Problem::config(format!("the tool `{}` is not always approved", printable(tool)));
        return Err(problem
            .with_hint("`holodeck approvals always list` lists those that are")
            .into());
    }
    if json {
        terminal.write_json(json!({ "revoked": revoked }))?;
    } else {
        terminal.write_message("revoked\n");
    }
    Ok(ExitCode::Passed)
}

fn list_always(
    approved: &[AlwaysApproved],
    json: bool,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    if json {
        let all: Vec<Value> = approved
            .iter()
            .map(|approved| {
                let (tool, digest) = remembered_calls(&approved.tool);
                json!({
                    "agent": approved.agent,
                    "tool": tool,
                    "toolDigest": digest,
                    "user": approved.owner,
                })
            })
            .collect();
        terminal.write_json(Value::Array(all))?;
        return Ok(ExitCode::Passed);
    }
    if approved.is_empty() {
        terminal.write_message("no tool is always approved\n");
    }
    for approved in approved {
        let (tool, _) = remembered_calls(&approved.tool);
        let user = approved
            .owner
            .as_deref()
            .map_or_else(String::new, |user| format!("  user {}", printable(user)));
        terminal.write_data(&format!("{}{}\n", strong(&printable(tool)), dim(&user)))?;
    }
    Ok(ExitCode::Passed)
}

fn failed(error: &StoreError) -> Problem {
    match error {
        StoreError::ScopeNotAllowed { .. } => {
            Problem::config(error.to_string()).with_hint("`approvals.scopes` in the agent's YAML limits them")
        }
        StoreError::ApprovalNotFound { .. } => {
            Problem::config(error.to_string()).with_hint("`holodeck approvals list` lists those that wait")
        }
        StoreError::AlreadyResolved { .. } | StoreError::Expired { .. } => {
            Problem::new(ExitCode::Failed, error.to_string())
        }
        _ => Problem::execution(error.to_string()),
    }
}

fn list(waiting: &[ApprovalInfo], json: bool, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    if json {
        terminal.write_json(serde_json::to_value(waiting).map_err(std::io::Error::from)?)?;
        return Ok(ExitCode::Passed);
    }
    if waiting.is_empty() {
        terminal.write_message("no question waits\n");
    }
    for approval in waiting {
        let arguments = approval
            .request
            .args
            .as_ref()
            .map(call_arguments)
            .unwrap_or_default();
        let tool = printable(&approval.request.tool_name).into_owned();
        let about = format!(
            "  {} · session {}",
            approval.request.approval_id, approval.session_id
        );
        let whole = approval.request.args.as_ref().and_then(whole_arguments);
        let whole = whole.map_or_else(String::new, |whole| format!("  {whole}\n"));
        terminal.write_data(&format!(
            "{} {arguments}\n{whole}{}\n",
            strong(&tool),
            dim(&about)
        ))?;
    }
    Ok(ExitCode::Passed)
}
