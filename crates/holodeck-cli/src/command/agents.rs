//! `holodeck agents`: lists, shows, selects, checks and creates specialist agents. No network and no backend, unless
//! `--live` lets an algorithm ask its model.

mod create;
mod eval;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use holodeck::{
    AgentFolder, LoadedAgents, TaskRouting, agent_folders, definition, load_agents, load_own_agents,
    missing_agent_folders,
    model::{AgentDoc, AgentsConfig, Env, SelectionAlgorithm, closest, io_reason},
    orchestrator::{SelectionQuestion, SelectionTask},
    runs::ExitCode,
    snapshot_files,
    yaml::LoadedAgent,
};
use serde_json::{Value, json};

use super::{as_argument, build_runtime, fixes};
use crate::{
    failure::{Failure, Problem, Subject},
    render::{self, DiagnosticFilter},
    terminal::{Terminal, Verbosity},
};

/// Flags of `holodeck agents`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    command: AgentsCommand,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Where the agents are.
#[derive(Debug, clap::Args)]
struct PlaceArgs {
    /// The agent file whose `routing.agents` is used.
    #[arg(long, global = true, value_name = "AGENT", default_value = "agent.yaml")]
    agent: PathBuf,
    /// A folder of agents, instead of an agent file (repeatable).
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "agent")]
    dir: Vec<PathBuf>,
    /// Write one JSON object instead of text.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum AgentsCommand {
    /// List the agents, sorted by name.
    List {
        /// Exit with 2 if a file cannot be used.
        #[arg(long)]
        strict: bool,
    },
    /// Show an agent as it is executed: its tools, its model and its prompt.
    Show {
        /// The agent.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Select the agent for a task, and tell whether it would execute it.
    Select(SelectArgs),
    /// Check the files of the agents, and find agents that are never selected and near ties.
    Validate {
        /// Exit with 2 also if there is a warning.
        #[arg(long)]
        strict: bool,
        /// First put texts of front matter that need quotes in quotes, in their files.
        #[arg(long)]
        fix: bool,
    },
    /// Create the file of a new agent.
    New {
        /// The agent's name, also that of its file.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Route each task of a file and compare the agent with the expected one.
    Eval(eval::EvalArgs),
}

#[derive(Debug, clap::Args)]
struct SelectArgs {
    /// The task.
    #[arg(value_name = "TASK")]
    task: String,
    /// The name of the command.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    command: String,
    /// The working directory, for agents with `globs`.
    #[arg(long, value_name = "DIR", default_value = ".")]
    cwd: PathBuf,
    /// Show how the best agents are scored.
    #[arg(long)]
    explain: bool,
    /// Ask the model that selects, if the algorithm asks one.
    #[arg(long)]
    live: bool,
    /// With `--explain` or `--json`: show at most N agents.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    top: u16,
}

/// The agents of a command, with the agent that they work for if there is one.
struct Found {
    own: Option<LoadedAgent>,
    agents: LoadedAgents,
    /// The agent file or the folders, for messages.
    shown: PathBuf,
}

pub(crate) fn run(args: &AgentsArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    match &args.command {
        AgentsCommand::List { strict } => list(&args.place, *strict, terminal),
        AgentsCommand::Show { name } => show(&args.place, name, terminal),
        AgentsCommand::Select(select_args) => select(&args.place, select_args, terminal),
        AgentsCommand::Validate { strict, fix } => validate(&args.place, *strict, *fix, terminal),
        AgentsCommand::New { name } => {
            create::check_name(name)?;
            let (folder, own) = args.place.target(terminal)?;
            create::run(&folder, own.as_ref(), name, terminal)
        }
        AgentsCommand::Eval(eval_args) => eval::run(&args.place, eval_args, terminal),
    }
}

impl PlaceArgs {
    /// The agents; their problems are not shown yet.
    fn load(&self, terminal: &mut Terminal) -> Result<Found, Failure> {
        if let Some(first) = self.dir.first() {
            if let Some(missing) = self.dir.iter().find(|folder| !folder.is_dir()) {
                return Err(no_folder(missing).into());
            }
            return Ok(Found {
                own: None,
                agents: load_agents(&self.folders(), AgentsConfig::default()),
                shown: first.clone(),
            });
        }
        let own = self.own_agent(terminal)?;
        let agents = load_own_agents(&own).ok_or_else(|| no_agents(&self.agent))?;
        Ok(Found {
            own: Some(own),
            agents,
            shown: self.agent.clone(),
        })
    }

    fn folders(&self) -> Vec<AgentFolder> {
        let folders = self.dir.iter().map(|path| AgentFolder {
            path: path.clone(),
            core: false,
        });
        folders.collect()
    }

    fn subject(&self) -> Subject {
        Subject {
            argument: as_argument(&self.agent),
        }
    }

    /// The error that a model would have to be asked, with the command that asks it.
    fn refuse_question(&self, question: &SelectionQuestion, words: &str) -> Problem {
        let agent = self.agent.display();
        let file = if self.agent == Path::new("agent.yaml") {
            String::new()
        } else {
            format!(" --agent {agent}")
        };
        let message = format!(
            "`{}` is the model that decides here, and nothing was asked: `holodeck agents` asks a model only with `--live`",
            question.model
        );
        let hint = format!("`holodeck agents {words}{file} --live` asks it");
        Problem::config(message).with_hint(hint)
    }

    fn own_agent(&self, terminal: &mut Terminal) -> Result<LoadedAgent, Failure> {
        if !self.agent.exists() {
            let message = format!("`{}` does not exist", self.agent.display());
            let hint = "`--dir DIR` names a folder of agents, such as `.claude/agents`";
            return Err(Problem::config(message).with_hint(hint).into());
        }
        let env = holodeck::environment(&self.agent).map_err(Problem::from)?;
        super::load(&self.agent, &env, terminal)
    }

    /// Makes the folders that the agent file names, whose absence is an error everywhere else.
    fn make_folders(&self) -> Result<(), Failure> {
        let env = holodeck::environment(&self.agent).map_err(Problem::from)?;
        for folder in missing_agent_folders(&self.agent, &env) {
            std::fs::create_dir_all(&folder).map_err(|error| {
                Problem::config(format!(
                    "`{}` cannot be created: {}",
                    folder.display(),
                    io_reason(&error)
                ))
            })?;
        }
        Ok(())
    }

    /// The folder for a new agent, and the agent that it works for if there is one.
    fn target(&self, terminal: &mut Terminal) -> Result<(PathBuf, Option<LoadedAgent>), Failure> {
        if let Some(first) = self.dir.first() {
            return Ok((first.clone(), None));
        }
        if self.agent.exists() {
            self.make_folders()?;
        }
        let own = self.own_agent(terminal)?;
        let folders = agent_folders(&own).ok_or_else(|| no_agents(&self.agent))?;
        let first = folders.into_iter().next().ok_or_else(|| no_agents(&self.agent))?;
        Ok((first.path, Some(own)))
    }
}

impl Found {
    /// Routes tasks to these agents under an algorithm.
    fn routing<'a>(&self, place: &PlaceArgs, agents: &'a LoadedAgents) -> Result<TaskRouting<'a>, Problem> {
        if agents.config.algorithm.asks() && self.own.is_none() {
            let message = format!(
                "`algorithm: {}` asks the model of an agent file, and `--dir` has none",
                agents.config.algorithm.as_str()
            );
            return Err(Problem::config(message).with_hint("name an agent file with `--agent` instead"));
        }
        let env = match &self.own {
            Some(_) => holodeck::environment(&place.agent).map_err(Problem::from)?,
            None => Env::empty(),
        };
        TaskRouting::new(agents, self.own.as_ref(), &env).map_err(|error| place.subject().open(error))
    }

    /// Shows what is wrong with the files, as a message.
    fn warn(&self, terminal: &mut Terminal) {
        let load = &self.agents.load;
        if !load.diagnostics.is_empty() && terminal.verbosity() > Verbosity::Quiet {
            let text = render::diagnostics(load, &self.shown, DiagnosticFilter::Important, terminal.width());
            terminal.write_message(&text);
        }
    }

    fn diagnostics_json(&self) -> Value {
        json!(self.agents.load.diagnostics)
    }

    fn find(&self, name: &str) -> Result<&AgentDoc, Problem> {
        let registry = &self.agents.registry;
        registry.get(name).ok_or_else(|| {
            let names = registry.agents().iter().map(|agent| agent.name.as_str());
            let problem = Problem::config(format!("there is no agent `{name}`"));
            match closest(name, names) {
                Some(meant) => problem.with_hint(format!("did you mean `{meant}`?")),
                None => problem.with_hint("`holodeck agents list` shows the agents"),
            }
        })
    }
}

fn no_folder(folder: &Path) -> Problem {
    let state = if folder.exists() {
        "is not a folder"
    } else {
        "does not exist"
    };
    Problem::config(format!("`{}` {state}", folder.display()))
}

fn no_agents(agent: &Path) -> Problem {
    Problem::config(format!("`{}` has no `routing.agents`", agent.display()))
        .with_hint("add `routing: {agents: {directories: [{path: agents}]}}`, or name a folder with `--dir`")
}

fn list(place: &PlaceArgs, strict: bool, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let found = place.load(terminal)?;
    let agents = found.agents.registry.agents();
    if place.json {
        let listed: Vec<Value> = agents.iter().map(listed_json).collect();
        terminal.write_indented_json(json!({
            "agents": listed,
            "skipped": found.agents.skipped,
            "diagnostics": found.diagnostics_json(),
        }))?;
    } else {
        found.warn(terminal);
        terminal.write_data(&render::agent_list(agents))?;
        if agents.is_empty() {
            terminal.write_message("no agents\n");
        }
    }
    Ok(exit(strict && found.agents.load.has_errors()))
}

fn exit(is_wrong: bool) -> ExitCode {
    if is_wrong {
        ExitCode::Config
    } else {
        ExitCode::Passed
    }
}

fn listed_json(agent: &AgentDoc) -> Value {
    json!({
        "name": agent.name,
        "description": agent.description,
        "path": render::shown_path(&agent.path),
        "category": agent.category,
        "tier": agent.tier,
        "core": agent.core,
        "tools": agent.tools,
        "model": agent.model,
        "triggers": agent.triggers,
        "commands": agent.commands,
        "globs": agent.globs,
    })
}

fn show(place: &PlaceArgs, name: &str, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let found = place.load(terminal)?;
    let doc = found.find(name)?;
    let (definition, diagnostics) = definition(doc, found.own.as_ref().map(|own| &*own.agent));
    if place.json {
        let mut shown = listed_json(doc);
        if let Some(shown) = shown.as_object_mut() {
            shown.insert("definition".to_owned(), json!(definition));
            shown.insert("diagnostics".to_owned(), json!(diagnostics));
        }
        terminal.write_indented_json(shown)?;
    } else {
        let mut load = found.agents.load.clone();
        load.diagnostics = diagnostics;
        if !load.diagnostics.is_empty() {
            let text =
                render::diagnostics(&load, &found.shown, DiagnosticFilter::Important, terminal.width());
            terminal.write_message(&text);
        }
        terminal.write_data(&render::agent(doc, &definition))?;
    }
    Ok(ExitCode::Passed)
}

fn select(place: &PlaceArgs, args: &SelectArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let found = place.load(terminal)?;
    if !args.cwd.is_dir() {
        return Err(no_folder(&args.cwd).into());
    }
    let selector = found.agents.selector();
    let files = if selector.uses_files() {
        snapshot_files(&args.cwd)
    } else {
        Vec::new()
    };
    let task = SelectionTask {
        text: args.task.clone(),
        command: args.command.clone(),
        cwd: Some(args.cwd.clone()),
        files,
        category: None,
    };
    let routing = found.routing(place, &found.agents)?;
    if let Some(question) = routing.question(&task).filter(|_| !args.live) {
        return Err(place
            .refuse_question(&question, &format!("select {:?}", args.task))
            .into());
    }
    if routing.question(&task).is_some() {
        routing.check().map_err(|error| place.subject().open(error))?;
    }
    let route = build_runtime()?.block_on(async {
        let route = routing.route(&task).await;
        let closed = routing.close().await;
        let route = route.map_err(|error| Problem::execution(error.to_string()))?;
        closed.map_err(|error| Problem::execution(error.to_string()))?;
        Ok::<_, Problem>(route)
    })?;
    // A model has no scores, and those of words are none of meaning.
    let by_words = match &route.selection.asked {
        Some(asked) => asked.problem.is_some(),
        None => found.agents.config.algorithm != SelectionAlgorithm::Embedding,
    };
    let mut ranking = if by_words {
        selector.rank(&task)
    } else {
        Vec::new()
    };
    ranking.truncate(args.top.into());
    if place.json {
        let mut value = json!(route.selection);
        if let Some(value) = value.as_object_mut() {
            value.insert("routed".to_owned(), json!(route.agent()));
            value.insert("decision".to_owned(), json!(route.decision));
            if let Some(refusal) = &route.refusal {
                value.insert("refusal".to_owned(), json!(refusal));
            }
            value.insert("ranking".to_owned(), json!(ranking));
        }
        terminal.write_indented_json(value)?;
    } else {
        found.warn(terminal);
        terminal.write_data(&render::route(&route))?;
        if args.explain {
            let config = &found.agents.config;
            let floor = (config.algorithm == SelectionAlgorithm::KeywordV1).then_some(config.candidate_floor);
            terminal.write_data(&render::ranking(&ranking, floor))?;
        }
    }
    Ok(if route.agent().is_none() {
        ExitCode::Failed
    } else {
        ExitCode::Passed
    })
}

fn validate(
    place: &PlaceArgs,
    strict: bool,
    fix: bool,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let mut found = place.load(terminal)?;
    if fix && fixes::apply(&found.agents.load.diagnostics, terminal)? {
        found = place.load(terminal)?;
    }
    found.agents.review(found.own.as_ref());
    let load = &found.agents.load;
    if place.json {
        terminal.write_json(render::diagnostics_json(load, &found.shown))?;
    } else {
        let filter = if terminal.verbosity() == Verbosity::Quiet {
            DiagnosticFilter::Important
        } else {
            DiagnosticFilter::All
        };
        terminal.write_data(&render::diagnostics(load, &found.shown, filter, terminal.width()))?;
    }
    Ok(exit(load.has_errors() || strict && !load.diagnostics.is_empty()))
}
