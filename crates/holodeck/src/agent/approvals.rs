//! Decides tool calls by the approval policy of the YAML, and finds the folders and files that the policy is about.
//!
//! The approver here never asks a person; it only leaves calls open for one.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use holodeck_backend_api::{ApprovalAsk, ApprovalDecision, Approver, DecidedBy, Ruling, Zone};
use holodeck_model::{
    AgentFolders, ApprovalContext, ApprovalPolicy, Env, Occasion, PathBases, PathGlob, PathRef, PolicyCall,
    PolicyDecision, PolicyRuling, Presence, ResolvedAgent, RulingBasis, SideEffectGate, resolve_links,
};
use holodeck_yaml::LoadedAgent;

use crate::{
    JUDGE_STEPS,
    agent::inventory::{self, FileOwner, Named},
};

/// The approval policy of an agent, with its folders. `protected` are files that it may not touch; see
/// [`protected_files`].
pub fn approval_policy(agent: &ResolvedAgent, protected: &[PathBuf], env: &Env) -> ApprovalPolicy {
    let folders = agent_folders(agent, protected, env);
    ApprovalPolicy::new(&agent.config).with_folders(folders, real_prefix)
}

/// The files that an agent may not touch: HoloDeck's own, and in a test those that the test consists of.
pub fn protected_files(agent: &LoadedAgent, env: &Env, occasion: Occasion) -> Vec<PathBuf> {
    let mut files = own_files(agent, env);
    if occasion == Occasion::Test {
        files.extend(exam_files(agent));
    }
    files
}

/// The pattern with the place that its literal beginning really names.
fn real_prefix(glob: PathGlob) -> PathGlob {
    match real(Path::new(&glob.literal_prefix())) {
        Some(real) => glob.with_real_prefix(&real),
        None => glob,
    }
}

/// The folders of an agent, with their links resolved.
fn agent_folders(agent: &ResolvedAgent, protected: &[PathBuf], env: &Env) -> AgentFolders {
    let claude = agent.config.claude.clone().unwrap_or_default();
    let working = match &claude.working_directory {
        Some(folder) => absolute(&folder.path()),
        None => absolute(&agent.dir),
    };
    let further = claude
        .additional_directories
        .iter()
        .map(|folder| absolute(&folder.path()));
    let inside = std::iter::once(working.clone()).chain(further);
    let temporary = env
        .non_blank("TMPDIR")
        .map_or_else(std::env::temp_dir, PathBuf::from);
    AgentFolders {
        bases: PathBases {
            working_directory: text(&working),
            home: env.home().map(text),
        },
        inside: inside.filter_map(|folder| real(&folder)).collect(),
        protected: protected.iter().flat_map(|file| both(file)).collect(),
        temporary: both(&temporary),
    }
}

/// The files that HoloDeck reads and writes for itself.
fn own_files(agent: &ResolvedAgent, env: &Env) -> Vec<PathBuf> {
    let dir = absolute(&agent.dir);
    let mut files: Vec<PathBuf> = ["results", "baselines", ".holodeck", ".env"]
        .map(|name| dir.join(name))
        .into();
    files.extend(env.user_dir());
    files.extend(agent.execution.replay.value.clone());
    let outputs = inventory::outputs(agent).into_iter();
    let outputs = outputs.flat_map(|output| output.files().map(|file| absolute(&file)).collect::<Vec<_>>());
    // A folder with more in it than outputs is none of HoloDeck's own.
    files.extend(outputs.filter(|file| !dir.starts_with(file)));
    // A program that HoloDeck runs unasked is not the agent's to change.
    let used = inventory::files(agent).into_iter();
    let closed =
        used.filter(|used| matches!(used.named, Named::EnvFile(_)) || matches!(used.owner, FileOwner::Hooks));
    files.extend(closed.flat_map(|used| used.paths()));
    files
}

/// The files that a test consists of.
fn exam_files(agent: &LoadedAgent) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = agent.places.source_files().map(Path::to_owned).collect();
    files.push(agent.path.clone());
    files.push(agent.dir.join(JUDGE_STEPS));
    files.extend(agent.config.test_cases_file.iter().map(PathRef::path));
    // Many cases may have one grader.
    let used = inventory::files(agent).into_iter();
    let graders = used.filter(|used| matches!(used.owner, FileOwner::Grader));
    let graders: BTreeSet<PathBuf> = graders.flat_map(|used| used.paths()).collect();
    files.extend(graders);
    files
}

/// A file by its name and by its real place, as texts.
fn both(file: &Path) -> Vec<String> {
    let file = absolute(file);
    let mut places = vec![text(&file)];
    places.extend(real(&file).filter(|real| *real != text(&file)));
    places
}

/// The real place of a file, which may not exist yet.
fn real(file: &Path) -> Option<String> {
    resolve_links(&absolute(file))
        .ok()?
        .into_os_string()
        .into_string()
        .ok()
}

/// An absolute path without `..`.
fn absolute(path: &Path) -> PathBuf {
    // The folder of `agent.yaml` has an empty name.
    let whole = std::path::absolute(Path::new(".").join(path)).unwrap_or_else(|_| path.to_owned());
    PathBuf::from(holodeck_model::join_path("/", &text(&whole)))
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}

/// Decides by the policy alone, for runs without a person to ask.
#[derive(Clone, Debug)]
pub struct PolicyApprover {
    policy: ApprovalPolicy,
    context: ApprovalContext,
}

impl PolicyApprover {
    /// An approver for `occasion`. `side_effects` applies only in tests.
    pub fn new(policy: ApprovalPolicy, occasion: Occasion, side_effects: SideEffectGate) -> Self {
        Self {
            policy,
            context: ApprovalContext {
                occasion,
                presence: Presence::None,
                side_effects,
            },
        }
    }

    /// Leaves to a person what the policy does not decide.
    pub fn with_person(mut self) -> Self {
        self.context.presence = Presence::Person;
        self
    }

    fn rule(&self, ask: &ApprovalAsk) -> PolicyRuling {
        let call = PolicyCall {
            tool: &ask.tool_name,
            arguments: &ask.arguments,
            paths: &ask.paths,
            reason: ask.reason.as_ref(),
        };
        self.policy.decide_call(&call, self.context)
    }

    /// The policy.
    pub fn policy(&self) -> &ApprovalPolicy {
        &self.policy
    }
}

#[async_trait]
impl Approver for PolicyApprover {
    fn decide(&self, ask: &ApprovalAsk) -> Option<Ruling> {
        let ruling = self.rule(ask);
        let decision = match ruling.decision {
            PolicyDecision::Approve => ApprovalDecision::approve(),
            PolicyDecision::Reject { reason } => ApprovalDecision::Reject { reason },
            PolicyDecision::AskPerson { .. } => return None,
        };
        let by = match ruling.basis {
            RulingBasis::Rule => DecidedBy::Rule,
            RulingBasis::Mode => DecidedBy::Mode,
            RulingBasis::NonInteractive => DecidedBy::NonInteractive,
            RulingBasis::Folders => DecidedBy::Folders,
        };
        Some(Ruling {
            decision,
            by,
            rule: ruling.rule,
        })
    }

    fn zone(&self, ask: &ApprovalAsk) -> Zone {
        self.rule(ask).zone
    }

    fn has_person(&self) -> bool {
        self.context.presence == Presence::Person
    }
}

#[cfg(test)]
mod tests {
    use holodeck_model::{Env, MemoryFiles};
    use holodeck_yaml::load_agent;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn decisions(provider: &str, block: &str, tools: &[&str]) -> Vec<Option<(ApprovalDecision, DecidedBy)>> {
        let text = format!(
            "name: a\nmodel: {{provider: {provider}, name: m}}\ninstructions: {{inline: Hi}}\n\
             tools: [{{type: function, name: echo, description: E., command: cat, parameters: {{}}}}]\n{block}\n"
        );
        let files = MemoryFiles::new().with("agent.yaml", text);
        let load = load_agent("agent.yaml".as_ref(), &Env::empty(), &files);
        let policy = approval_policy(&load.agent.unwrap(), &[], &Env::empty());
        let approver = PolicyApprover::new(policy, Occasion::Chat, SideEffectGate::Open);
        let decide = |tool: &&str| {
            let ruling = approver.decide(&ApprovalAsk {
                tool_name: (*tool).to_owned(),
                arguments: json!({}),
                call_id: "1".to_owned(),
                description: None,
                agent_id: None,
                answer_schema: None,
                paths: Vec::new(),
                reason: None,
                zone: Zone::Inside,
                tool_digest: None,
                scopes: None,
                is_followed: false,
            });
            ruling.map(|ruling| (ruling.decision, ruling.by))
        };
        tools.iter().map(decide).collect()
    }

    #[test]
    fn a_decision_names_what_made_it() {
        let rejects = "approvals: {rules: [{tools: echo, decision: reject}]}";
        assert_eq!(
            decisions("ollama", rejects, &["echo"]),
            [Some((
                ApprovalDecision::reject("a rule of this agent rejects `echo`"),
                DecidedBy::Rule
            ))]
        );
        let manual = "claude: {permission_mode: manual}";
        assert_eq!(
            decisions("anthropic", manual, &["mcp__holodeck_tools__echo", "Bash"]),
            [
                Some((ApprovalDecision::approve(), DecidedBy::Mode)),
                Some((
                    ApprovalDecision::reject("`Bash` needs approval, and no person is available to give it"),
                    DecidedBy::NonInteractive
                ))
            ]
        );
    }

    #[test]
    fn what_needs_a_person_is_decided_by_the_yaml() {
        for (answer, runs) in [("reject", false), ("approve", true)] {
            let block =
                format!("approvals: {{non_interactive: {answer}, rules: [{{tools: '*', approver: human}}]}}");
            let [Some((decision, DecidedBy::NonInteractive))] = &decisions("openai", &block, &["echo"])[..]
            else {
                panic!("{answer}");
            };
            assert_eq!(decision.is_approved(), runs, "{answer}");
        }
    }
}
