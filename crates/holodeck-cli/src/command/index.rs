//! `holodeck index`: builds, inspects, searches and copies the indexes of an agent's tools.

use std::{path::Path, sync::Arc};

use clap::Subcommand;
use holodeck::{
    index::{Build, Index, IndexError, IndexSink, Indexes, Migration, Rebuild, StatusState},
    model::Env,
    runs::ExitCode,
    yaml::LoadedAgent,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{as_argument, build_runtime, load};
use crate::{
    args::AgentArg,
    failure::{Failure, Problem, Subject},
    interrupt::{Interrupts, StopRequest},
    render::{self, IndexProgress, ProgressStyle},
    terminal::Terminal,
};

/// Flags of `holodeck index`.
#[derive(Debug, clap::Args)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    command: IndexCommand,
}

#[derive(Debug, Subcommand)]
enum IndexCommand {
    /// Update the indexes; only new and changed sources are read and embedded.
    Build(BuildArgs),
    /// Show index status; exit 1 if an index is out of date.
    Status(StatusArgs),
    /// Search an index and show what the agent would see.
    Search(SearchArgs),
    /// Copy an index to another store without embedding anything again.
    Migrate(MigrateArgs),
}

#[derive(Debug, clap::Args)]
struct BuildArgs {
    #[command(flatten)]
    agent: AgentArg,
    #[command(flatten)]
    which: WhichArgs,
    /// Rebuild the indexes even if they are up to date.
    #[arg(long)]
    force: bool,
    /// Write one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    #[command(flatten)]
    agent: AgentArg,
    #[command(flatten)]
    which: WhichArgs,
    /// Write one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(allow_missing_positional = true)]
struct SearchArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// The query to search for.
    query: String,
    /// The tool to search with; required if there are several.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Return at most N hits. Default: the tool's `top_k`.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    top_k: Option<u32>,
    /// Write one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct MigrateArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// The tool whose index to copy; required if there are several.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// The store to copy from: a name under `vectorstores` in `config.yaml`, or `in-memory` for the embedded index.
    /// Default: the tool's own store.
    #[arg(long, value_name = "STORE")]
    from: Option<String>,
    /// The store to copy to, named in the same way. Default: the tool's own store.
    #[arg(long, value_name = "STORE", required_unless_present = "from")]
    to: Option<String>,
    /// Write one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Selects indexes of an agent.
#[derive(Debug, clap::Args)]
struct WhichArgs {
    /// Use only the index of this tool; can be repeated.
    #[arg(long, value_name = "NAME")]
    tool: Vec<String>,
}

pub(crate) fn run(args: &IndexArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    match &args.command {
        IndexCommand::Build(args) => build(args, terminal),
        IndexCommand::Status(args) => status(args, terminal),
        IndexCommand::Search(args) => search(args, terminal),
        IndexCommand::Migrate(args) => migrate(args, terminal),
    }
}

fn build(args: &BuildArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let context = IndexCommandContext::open(&args.agent.agent, terminal)?;
    let rebuild = if args.force {
        Rebuild::Everything
    } else {
        Rebuild::Changed
    };
    let builds = build_runtime()?.block_on(async {
        let indexes = context.indexes(&args.which.tool)?;
        context.build(indexes.iter(), rebuild, terminal).await
    })?;
    if args.json {
        terminal.write_json(json!({ "indexes": builds }))?;
    } else {
        terminal.write_data(&render::index_builds(&builds, terminal.width()))?;
    }
    // Sources that could not be read are missing from every search.
    let is_complete = builds.iter().all(|build| build.failed.is_empty());
    Ok(if is_complete {
        ExitCode::Passed
    } else {
        ExitCode::Execution
    })
}

fn status(args: &StatusArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let context = IndexCommandContext::open(&args.agent.agent, terminal)?;
    let status = build_runtime()?.block_on(async {
        let indexes = context.indexes(&args.which.tool)?;
        let mut all = Vec::new();
        for index in indexes.iter() {
            all.push(index.status().await);
        }
        Ok::<_, Failure>(all)
    })?;
    if args.json {
        terminal.write_json(json!({ "indexes": status }))?;
    } else {
        terminal.write_data(&render::index_status(&status, terminal.width()))?;
    }
    let ready = status.iter().all(|status| status.state == StatusState::Ready);
    if !args.json {
        let is_outdated = |state| matches!(state, StatusState::NotBuilt | StatusState::Stale);
        if status.iter().any(|status| is_outdated(status.state)) {
            let argument = &context.subject.argument;
            terminal.write_message(&render::hint(&format!(
                "`holodeck index build{argument}` updates them; a test or a run does so too"
            )));
        }
        for hint in status.iter().filter_map(|status| status.hint.as_ref()) {
            terminal.write_message(&render::hint(hint));
        }
    }
    Ok(if ready { ExitCode::Passed } else { ExitCode::Failed })
}

fn search(args: &SearchArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    if args.query.trim().is_empty() {
        return Err(Problem::config("the query is empty").into());
    }
    let context = IndexCommandContext::open(&args.agent.agent, terminal)?;
    let results = build_runtime()?.block_on(async {
        let indexes = context.indexes(args.tool.as_slice())?;
        let index = indexes.single().map_err(|error| context.subject.index(&error))?;
        context
            .build(std::iter::once(index), Rebuild::Changed, terminal)
            .await?;
        let limit = args.top_k.and_then(|top_k| usize::try_from(top_k).ok());
        index
            .search(&args.query, limit)
            .await
            .map_err(|error| Failure::from(context.subject.index(&error)))
    })?;
    if args.json {
        terminal.write_json(json!(results))?;
    } else {
        terminal.write_data(&render::search_results(&results, terminal.width()))?;
    }
    Ok(ExitCode::Passed)
}

fn migrate(args: &MigrateArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let context = IndexCommandContext::open(&args.agent.agent, terminal)?;
    let migration: Migration = build_runtime()?.block_on(async {
        let indexes = context.indexes(args.tool.as_slice())?;
        let index = indexes.single().map_err(|error| context.subject.index(&error))?;
        let (from, to) = (args.from.as_deref(), args.to.as_deref());
        context
            .while_uninterrupted(terminal, |sink, cancel| async move {
                index.migrate(from, to, &sink, &cancel).await
            })
            .await
    })?;
    if args.json {
        terminal.write_json(json!(migration))?;
    } else {
        terminal.write_data(&render::migration(&migration))?;
    }
    Ok(ExitCode::Passed)
}

/// The loaded agent and its environment, needed by every command of this module.
struct IndexCommandContext {
    agent: LoadedAgent,
    env: Env,
    subject: Subject,
}

impl IndexCommandContext {
    fn open(path: &Path, terminal: &mut Terminal) -> Result<Self, Failure> {
        let env = holodeck::environment(path).map_err(Problem::from)?;
        let agent = load(path, &env, terminal)?;
        Ok(Self {
            agent,
            env,
            subject: Subject {
                argument: as_argument(path),
            },
        })
    }

    /// The indexes of the named tools, or of all tools if none is named.
    fn indexes(&self, tools: &[String]) -> Result<Indexes, Failure> {
        let indexes = Indexes::of(&self.agent, &self.env, tools);
        Ok(indexes.map_err(|error| self.subject.index(&error))?)
    }

    async fn build<'i>(
        &self,
        indexes: impl Iterator<Item = &'i Arc<Index>>,
        rebuild: Rebuild,
        terminal: &Terminal,
    ) -> Result<Vec<Build>, Failure> {
        self.while_uninterrupted(terminal, |sink, cancel| async move {
            let mut builds = Vec::new();
            for index in indexes {
                builds.push(index.build(rebuild, &sink, &cancel).await?);
            }
            Ok(builds)
        })
        .await
    }

    /// Shows progress while `work` runs. The first interrupt cancels the work and waits for it, the second does not
    /// wait.
    async fn while_uninterrupted<T, F>(
        &self,
        terminal: &Terminal,
        work: impl FnOnce(IndexSink, CancellationToken) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, IndexError>>,
    {
        let mut interrupts = Interrupts::listen()?;
        let style = ProgressStyle::fitting(terminal, self.env.get("TERM"));
        let progress = Arc::new(IndexProgress::new(style, terminal));
        let cancel = CancellationToken::new();
        let listener = Arc::clone(&progress);
        let work = work(IndexSink::new(move |event| listener.on(event)), cancel.clone());
        let mut work = std::pin::pin!(work);
        let mut stop_request: Option<StopRequest> = None;
        loop {
            tokio::select! {
                result = &mut work => {
                    progress.end();
                    return Ok(result.map_err(|error| {
                        let mut problem = self.subject.index(&error);
                        if problem.exit == ExitCode::Interrupted && stop_request == Some(StopRequest::Terminate) {
                            problem.exit = ExitCode::Terminated;
                        }
                        problem
                    })?);
                }
                request = interrupts.next() => {
                    if stop_request.is_some() {
                        progress.end();
                        return Err(request.problem().into());
                    }
                    stop_request = Some(request);
                    cancel.cancel();
                }
            }
        }
    }
}
