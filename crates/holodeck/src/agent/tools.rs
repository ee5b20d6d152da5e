//! Prepares the tools of an agent: functions, prompts, searches with their indexes, and MCP servers.

use std::{collections::BTreeMap, sync::Arc};

use holodeck_backend_api::{BackendError, Explanation, NoTools, Occasion, ToolHost};
use holodeck_cassette::{ToolFiles, ToolSet};
use holodeck_model::{ServerAccess, ToolAccess, ToolConfig, ToolNames, UnresolvedName, mcp_tool_name};
use holodeck_tools::{PromptTool, Search, SearchTool, SetupError, Toolbox};
use holodeck_yaml::LoadedAgent;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{
        backends::BackendSelector,
        fingerprint::{IdentityError, file_digests},
        inventory::{FileOwner, reranker},
        mcp::{McpServers, McpSetup},
        prompts,
    },
    index::{IndexError, IndexSink, Indexes, Rebuild},
    test::trial_tools::TrialTools,
};

/// How much is prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preparing {
    /// Everything a run needs.
    #[default]
    Run,
    /// For showing a plan: no server is started and no index is built.
    Plan,
}

/// The parts that are needed to prepare the tools of an agent.
pub(crate) struct ToolSetup<'a> {
    pub(crate) agent: &'a LoadedAgent,
    /// For tools that ask a model.
    pub(crate) backends: &'a BackendSelector,
    pub(crate) occasion: Occasion,
    pub(crate) preparing: Preparing,
    /// Whether indexes are rebuilt completely.
    pub(crate) rebuild: Rebuild,
    pub(crate) on_index: &'a IndexSink,
}

/// The tools of an agent, ready to be called.
pub(crate) struct ReadyTools {
    pub(crate) tools: Arc<dyn ToolHost>,
    /// The servers behind them.
    pub(crate) servers: McpServers,
    /// The same tools for all trials of a test, if trials have servers of their own.
    pub(crate) trials: Option<Arc<TrialTools>>,
    /// Warnings about the answers.
    pub(crate) warnings: Vec<String>,
}

/// Prepares the tools of an agent, except those that a recording answers.
pub(crate) async fn prepare_tools(setup: &ToolSetup<'_>) -> Result<ReadyTools, ToolSetupError> {
    let ToolSetup { agent, backends, .. } = setup;
    let (env, answers) = (backends.env(), backends.answers());
    let by_turn = agent.config.is_claude();
    if by_turn && answers.replayed().is_some() {
        // A recorded turn contains the answers of its tools.
        return Ok(ReadyTools {
            tools: Arc::new(NoTools),
            servers: McpServers::default(),
            trials: None,
            warnings: Vec::new(),
        });
    }
    let mut names = ToolNames::of(&agent.config);
    let access = ToolAccess::of(&agent.config).with_places(|field| agent.locate(field));
    let mut toolbox = Toolbox::new();
    toolbox
        .add_mocks(&agent.config.tools, &names)
        .map_err(|errors| ToolSetupError::all(&errors))?;
    let real = || agent.config.real_tools().map(|(_, tool)| tool);
    let mut declared = serde_json::to_value(real().collect::<Vec<_>>()).unwrap_or_default();
    answers.redactor().configuration(&mut declared);
    let set = ToolSet {
        declared,
        own: toolbox.specs().iter().map(|spec| spec.name.clone()).collect(),
        files: if answers.are_live() || by_turn {
            Vec::new()
        } else {
            file_digests(agent, |owner| matches!(owner, FileOwner::Tool(_)))
                .map_err(|error| error.located(|field| agent.locate(field)))?
                .into_iter()
                .filter_map(|(owner, digests)| match owner {
                    FileOwner::Tool(tool) => Some(recorded_files(tool, digests)),
                    _ => None,
                })
                .collect()
        },
        models: real()
            .filter_map(|tool| Some((tool.model_name()?, recorded_reranker(tool)?)))
            .collect(),
    };
    let mut servers = McpServers::default();
    let mut trials = None;
    let mut warnings = Vec::new();
    answers.check_files(&set)?;
    if !answers.can_replay_tools(&set) {
        let functions: Vec<_> = real()
            .filter_map(|tool| match tool {
                ToolConfig::Function(tool) => Some(tool),
                _ => None,
            })
            .collect();
        toolbox
            .add_functions(&functions, env, &CancellationToken::new())
            .await
            .map_err(|errors| ToolSetupError::all(&errors))?;
        add_prompts(&mut toolbox, setup).await?;
        warnings = add_searches(&mut toolbox, setup).await?;
        if setup.preparing == Preparing::Run {
            let mcp = McpSetup::new(agent, backends, setup.occasion, |server| {
                access.of_server(&names, server) != ServerAccess::None
            });
            servers = mcp.connect().await.map_err(ToolSetupError::Tools)?;
            if setup.occasion == Occasion::Test {
                trials = TrialTools::new(mcp, &servers, toolbox.clone()).map(Arc::new);
            }
            servers.add_to(&mut toolbox);
        }
    }
    // The Claude CLI connects to its own servers; their tools are listed later.
    if !by_turn && setup.preparing == Preparing::Run && answers.replayed().is_none() {
        let shown = toolbox.specs().iter().map(|spec| spec.name.as_str());
        names.list_shown(&servers.names(), &shown);
        let unresolved = access.unresolved(&names);
        if !unresolved.is_empty() {
            servers.close().await;
            return Err(ToolSetupError::names(&unresolved));
        }
    }
    let mut tools = match &trials {
        Some(trials) => Arc::clone(trials) as Arc<dyn ToolHost>,
        None => Arc::new(toolbox),
    };
    if !by_turn {
        let result = answers.tools(tools, set);
        tools = result.map_err(|error| ToolSetupError::Tools(error.to_string().into()))?;
    }
    Ok(ReadyTools {
        tools,
        servers,
        trials,
        warnings,
    })
}

/// The files of a tool, as recordings identify it.
fn recorded_files(tool: &ToolConfig, digests: BTreeMap<String, String>) -> ToolFiles {
    ToolFiles {
        tool: tool.name().to_owned(),
        // The names of a server's tools begin with the name of the server.
        shown: tool
            .model_name()
            .unwrap_or_else(|| mcp_tool_name(tool.name(), "")),
        digests,
        declare: match tool {
            ToolConfig::Mcp(_) => true,
            ToolConfig::Function(tool) => tool.parameters.is_none(),
            _ => false,
        },
    }
}

/// The model that reranks the results of a tool, as recordings identify it: by what they have of every other model.
fn recorded_reranker(tool: &ToolConfig) -> Option<Value> {
    let mut value = serde_json::to_value(reranker(tool)?).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        let is_elsewhere = |name: &str| ["api_key", "endpoint", "api_version", "rpm"].contains(&name);
        fields.retain(|name, value| !is_elsewhere(name) && !value.is_null());
    }
    Some(value)
}

/// Adds the tools that ask a model.
async fn add_prompts(toolbox: &mut Toolbox, setup: &ToolSetup<'_>) -> Result<(), ToolSetupError> {
    let limit = setup.agent.execution.llm_timeout.value;
    for (_, tool) in setup.agent.config.real_tools() {
        let ToolConfig::Prompt(config) = tool else {
            continue;
        };
        let model = prompts::model(setup.agent, config, setup.backends).await;
        let model = model.map_err(|error| {
            let explanation = error.explanation();
            ToolSetupError::Tools(explanation.within(format!("the model of tool `{}`", config.name)))
        })?;
        PromptTool::prepare(config, model)
            .and_then(|tool| toolbox.add(Arc::new(tool), limit))
            .map_err(|error| ToolSetupError::all(&[error]))?;
    }
    Ok(())
}

/// Adds the search tools and brings their indexes up to date first. Returns warnings about incomplete indexes.
async fn add_searches(toolbox: &mut Toolbox, setup: &ToolSetup<'_>) -> Result<Vec<String>, ToolSetupError> {
    let mut warnings = Vec::new();
    for index in Indexes::of_agent(setup.agent, setup.backends).iter() {
        if setup.preparing == Preparing::Run {
            // Callers cancel by dropping the future; finished sources stay indexed.
            let never = CancellationToken::new();
            let built = index.build(setup.rebuild, setup.on_index, &never).await?;
            built.refuse_empty()?;
            warnings.extend(built.warning());
        }
        let limit = index.call_limit();
        let tool = SearchTool::new(index.spec(), Arc::clone(index) as Arc<dyn Search>);
        toolbox
            .add(Arc::new(tool), limit)
            .map_err(|error| ToolSetupError::all(&[error]))?;
    }
    Ok(warnings)
}

/// Why the tools of an agent can't be prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolSetupError {
    /// Tools that can't be offered to the model, one per line.
    #[error("{0}")]
    Tools(Explanation),
    /// Names in allow and deny lists that match no tool, one per line.
    #[error("{0}")]
    Names(String),
    /// An index that can't be searched.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A file of a tool cannot be read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The recording was made with different files.
    #[error(transparent)]
    Replay(#[from] BackendError),
}

impl ToolSetupError {
    fn names(unresolved: &[UnresolvedName]) -> Self {
        let lines: Vec<String> = unresolved.iter().map(ToString::to_string).collect();
        Self::Names(lines.join("\n"))
    }

    fn all(errors: &[SetupError]) -> Self {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Self::Tools(errors.join("\n").into())
    }
}
