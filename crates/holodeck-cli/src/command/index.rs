//! `holodeck index`: what an agent's tools that search have to search in.

use std::{path::Path, sync::Arc};

use clap::Subcommand;
use holodeck::{
    index::{Build, Index, IndexError, IndexSink, Indexes, Migration, Rebuild, StatusState},
    model::{Env, LoadedAgent},
    runner::ExitCode,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{as_argument, load, runtime};
use crate::{
    args::AgentArg,
    failure::{Failure, Problem, Subject},
    interrupt::{Ask, Interrupts},
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
    /// Bring the indexes up to date: only what is new or changed is read and embedded.
    Build(BuildArgs),
    /// Tell how the indexes stand. Exit code 1: one is not up to date.
    Status(StatusArgs),
    /// Search as the agent does, and show what it would see.
    Search(SearchArgs),
    /// Copy an index into another store, without embedding anything again.
    Migrate(MigrateArgs),
}

#[derive(Debug, clap::Args)]
struct BuildArgs {
    #[command(flatten)]
    agent: AgentArg,
    #[command(flatten)]
    which: WhichArgs,
    /// Build them anew, whatever they hold.
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
    /// What to search for.
    query: String,
    /// The tool to search with; needed when there are several.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// How many hits at most; the tool's `top_k` if not given.
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
    /// The tool whose index it is; needed when there are several.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// The store to copy from: a name under `vectorstores` in `config.yaml`, or `in-memory` for the embedded index.
    /// The tool's own if not given.
    #[arg(long, value_name = "STORE")]
    from: Option<String>,
    /// The store to copy to, named likewise. The tool's own if not given.
    #[arg(long, value_name = "STORE", required_unless_present = "from")]
    to: Option<String>,
    /// Write one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Which of an agent's indexes.
#[derive(Debug, clap::Args)]
struct WhichArgs {
    /// Only the index of this tool. May be given more than once.
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
    let bench = Bench::open(&args.agent.agent, terminal)?;
    let rebuild = if args.force {
        Rebuild::Everything
    } else {
        Rebuild::Changed
    };
    let built = runtime()?.block_on(async {
        let indexes = bench.indexes(&args.which.tool)?;
        bench.build(indexes.iter(), rebuild, terminal).await
    })?;
    if args.json {
        terminal.json(json!({ "indexes": built }))?;
    } else {
        terminal.data(&render::built(&built, terminal.width()))?;
    }
    // What could not be read is missing from every answer.
    let whole = built.iter().all(|build| build.failed.is_empty());
    Ok(if whole {
        ExitCode::Passed
    } else {
        ExitCode::Execution
    })
}

fn status(args: &StatusArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let bench = Bench::open(&args.agent.agent, terminal)?;
    let status = runtime()?.block_on(async {
        let indexes = bench.indexes(&args.which.tool)?;
        let mut all = Vec::new();
        for index in indexes.iter() {
            all.push(index.status().await);
        }
        Ok::<_, Failure>(all)
    })?;
    if args.json {
        terminal.json(json!({ "indexes": status }))?;
    } else {
        terminal.data(&render::index_status(&status, terminal.width()))?;
    }
    let ready = status.iter().all(|status| status.state == StatusState::Ready);
    if !args.json {
        let behind = |state| matches!(state, StatusState::NotBuilt | StatusState::Stale);
        if status.iter().any(|status| behind(status.state)) {
            let argument = &bench.subject.argument;
            terminal.talk(&render::hint(&format!(
                "`holodeck index build{argument}` brings them up to date; a test or a run does so too"
            )));
        }
        for hint in status.iter().filter_map(|status| status.hint.as_ref()) {
            terminal.talk(&render::hint(hint));
        }
    }
    Ok(if ready { ExitCode::Passed } else { ExitCode::Failed })
}

fn search(args: &SearchArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    if args.query.trim().is_empty() {
        return Err(Problem::config("the query is empty").into());
    }
    let bench = Bench::open(&args.agent.agent, terminal)?;
    let found = runtime()?.block_on(async {
        let indexes = bench.indexes(args.tool.as_slice())?;
        let index = indexes.single().map_err(|error| bench.subject.index(&error))?;
        bench
            .build(std::iter::once(index), Rebuild::Changed, terminal)
            .await?;
        let limit = args.top_k.and_then(|top_k| usize::try_from(top_k).ok());
        index
            .search(&args.query, limit)
            .await
            .map_err(|error| Failure::from(bench.subject.index(&error)))
    })?;
    if args.json {
        terminal.json(json!(found))?;
    } else {
        terminal.data(&render::found(&found, terminal.width()))?;
    }
    Ok(ExitCode::Passed)
}

fn migrate(args: &MigrateArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let bench = Bench::open(&args.agent.agent, terminal)?;
    let moved: Migration = runtime()?.block_on(async {
        let indexes = bench.indexes(args.tool.as_slice())?;
        let index = indexes.single().map_err(|error| bench.subject.index(&error))?;
        let (from, to) = (args.from.as_deref(), args.to.as_deref());
        bench
            .while_uninterrupted(terminal, |sink, cancel| async move {
                index.migrate(from, to, &sink, &cancel).await
            })
            .await
    })?;
    if args.json {
        terminal.json(json!(moved))?;
    } else {
        terminal.data(&render::migrated(&moved))?;
    }
    Ok(ExitCode::Passed)
}

/// What every command here begins with.
struct Bench {
    agent: LoadedAgent,
    env: Env,
    subject: Subject,
}

impl Bench {
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

    /// Those of the named tools; of all that search, if none is named.
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
            let mut built = Vec::new();
            for index in indexes {
                built.push(index.build(rebuild, &sink, &cancel).await?);
            }
            Ok(built)
        })
        .await
    }

    /// Shows how long work goes on. The first interrupt lets it end in order, the second does not wait.
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
        let on = Arc::clone(&progress);
        let work = work(IndexSink::new(move |event| on.on(event)), cancel.clone());
        let mut work = std::pin::pin!(work);
        let mut asked: Option<Ask> = None;
        loop {
            tokio::select! {
                ended = &mut work => {
                    progress.end();
                    return Ok(ended.map_err(|error| {
                        let mut problem = self.subject.index(&error);
                        if problem.exit == ExitCode::Interrupted && asked == Some(Ask::Terminate) {
                            problem.exit = ExitCode::Terminated;
                        }
                        problem
                    })?);
                }
                ask = interrupts.next() => {
                    if asked.is_some() {
                        progress.end();
                        return Err(ask.problem().into());
                    }
                    asked = Some(ask);
                    cancel.cancel();
                }
            }
        }
    }
}
