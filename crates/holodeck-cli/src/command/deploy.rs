//! `holodeck deploy`: makes an image of an agent, and the manifests that run it.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use holodeck::{
    deploy::{
        BUILDERS, BuildContext, ContextOptions, DeployError, KubernetesOptions, OutputError, ShardedTest,
        build_context, build_image, compose, find_builder, image_name, kubernetes_server, kubernetes_test,
        new_run_name, write_folder, write_tar,
    },
    model::{Env, shell_word, shown_path},
    reports::format::count,
    runs::ExitCode,
    yaml::LoadedAgent,
};
use serde_json::json;

use super::{build_runtime, load};
use crate::{
    args::AgentArg,
    failure::{Failure, Problem},
    interrupt::Interrupts,
    render,
    terminal::{Terminal, Verbosity, set_redactor},
};

/// Flags of `holodeck deploy`.
#[derive(Debug, clap::Args)]
pub(crate) struct DeployArgs {
    #[command(subcommand)]
    command: DeployCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DeployCommand {
    /// Write the build context of the agent's image, and build it with docker, podman or buildah.
    Build(BuildArgs),
    /// Write the file of Compose that serves the agent.
    Compose(ComposeArgs),
    /// Write the objects of Kubernetes that serve the agent, or run its test in shards.
    Kubernetes(KubernetesArgs),
    #[command(hide = true)]
    Run(NotDoneArgs),
    #[command(hide = true)]
    Status(NotDoneArgs),
    #[command(hide = true)]
    Destroy(NotDoneArgs),
}

#[derive(Debug, clap::Args)]
struct BuildArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// Tag the image with this, in the place of what `deployment.registry` says.
    #[arg(long)]
    tag: Option<String>,
    /// Write the context to this folder, or to this file if its name ends with `.tar`. Default: `.holodeck/deploy`
    /// beside the agent file.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Show the files and the `Containerfile`, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Write the context, and do not build it.
    #[arg(long)]
    context_only: bool,
    /// Put this `holodeck` into the image, in the place of the running one. It must be static, except with `--base`.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Begin with this image, in the place of the one that the tools need.
    #[arg(long, value_name = "IMAGE")]
    base: Option<String>,
    /// Take this file although it looks as if it held a key. May be repeated.
    #[arg(long, value_name = "FILE")]
    allow: Vec<PathBuf>,
    /// Build with this program. Default: the first of docker, podman and buildah that is installed.
    #[arg(long, value_name = "PROGRAM")]
    builder: Option<String>,
    /// Build every layer again.
    #[arg(long)]
    no_cache: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ComposeArgs {
    #[command(flatten)]
    agent: AgentArg,
    #[command(flatten)]
    written: WrittenArgs,
}

#[derive(Debug, clap::Args)]
struct KubernetesArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// The secret that has the variables of the agent. Default: `NAME-secrets`.
    #[arg(long, value_name = "NAME")]
    secret: Option<String>,
    /// Write the objects that run the agent's test cases.
    #[arg(long)]
    test: bool,
    /// Run the test in this many shards.
    #[arg(long, value_name = "N", default_value = "4", requires = "test", value_parser = clap::value_parser!(u32).range(1..=1000))]
    shards: u32,
    /// Name the run. Default: a name that no earlier run has.
    #[arg(long, value_name = "NAME", requires = "test")]
    run: Option<String>,
    /// Stop the test after this many minutes.
    #[arg(long, value_name = "N", default_value = "60", requires = "test", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    minutes: u32,
    #[command(flatten)]
    written: WrittenArgs,
}

#[derive(Debug, clap::Args)]
struct WrittenArgs {
    /// The image. Default: the name that `holodeck deploy build` gives it.
    #[arg(long)]
    image: Option<String>,
    /// Write to this file, in the place of stdout.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
}

/// Any arguments of a command of HoloDeck 0.7.
#[derive(Debug, clap::Args)]
struct NotDoneArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: &DeployArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    match &args.command {
        DeployCommand::Build(args) => build(args, terminal),
        DeployCommand::Compose(args) => {
            let (agent, env) = open(&args.agent, terminal)?;
            let image = image(&agent, &args.written)?;
            let text = compose(&agent, &env, &image).map_err(problem)?;
            args.written.write(&text, terminal)
        }
        DeployCommand::Kubernetes(args) => kubernetes(args, terminal),
        DeployCommand::Run(args) => Err(not_done("run", args)),
        DeployCommand::Status(args) => Err(not_done("status", args)),
        DeployCommand::Destroy(args) => Err(not_done("destroy", args)),
    }
}

fn not_done(command: &str, args: &NotDoneArgs) -> Failure {
    let rest = if args.rest.is_empty() { "" } else { " …" };
    Problem::config(format!(
        "`holodeck deploy {command}{rest}` of HoloDeck 0.7 is not done"
    ))
    .with_hint("`holodeck deploy compose` and `holodeck deploy kubernetes` write what runs the image")
    .into()
}

fn open(args: &AgentArg, terminal: &mut Terminal) -> Result<(LoadedAgent, Env), Failure> {
    let env = holodeck::environment(&args.agent).map_err(Problem::from)?;
    let agent = load(&args.agent, &env, terminal)?;
    set_redactor(holodeck::redactor(&agent, &env));
    Ok((agent, env))
}

fn image(agent: &LoadedAgent, args: &WrittenArgs) -> Result<String, Problem> {
    match &args.image {
        Some(image) => Ok(image.clone()),
        None => image_name(agent, None).map_err(problem),
    }
}

fn kubernetes(args: &KubernetesArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let (agent, env) = open(&args.agent, terminal)?;
    let options = KubernetesOptions {
        image: image(&agent, &args.written)?,
        secret: args.secret.clone(),
    };
    let text = if args.test {
        if agent.config.test_cases.is_empty() {
            return Err(Problem::new(ExitCode::Nothing, "the agent has no test cases").into());
        }
        let test = ShardedTest {
            run: args.run.clone().unwrap_or_else(new_run_name),
            shards: args.shards,
            minutes: args.minutes,
        };
        kubernetes_test(&agent, &env, &options, &test)
    } else {
        kubernetes_server(&agent, &env, &options)
    };
    args.written.write(&text.map_err(problem)?, terminal)
}

impl WrittenArgs {
    fn write(&self, text: &str, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
        let Some(path) = &self.output else {
            terminal.write_data(text)?;
            terminal.flush()?;
            return Ok(ExitCode::Passed);
        };
        let is_other = fs::read(path).map_or_else(|_| path.exists(), |there| there != text.as_bytes());
        if is_other && !self.force {
            return Err(Problem::config(format!("`{}` exists", path.display()))
                .with_hint("choose another file with `-o`, or overwrite it with `--force`")
                .into());
        }
        fs::write(path, text)
            .map_err(|error| Problem::execution(format!("cannot write `{}`: {error}", path.display())))?;
        terminal.write_data(&format!("{}\n", path.display()))?;
        terminal.flush()?;
        Ok(ExitCode::Passed)
    }
}

fn build(args: &BuildArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let (agent, env) = open(&args.agent, terminal)?;
    let program = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()
            .map_err(|error| Problem::execution(format!("this program cannot be found: {error}")))?,
    };
    let options = ContextOptions {
        program,
        base: args.base.clone(),
        tag: args.tag.clone(),
        allowed: args.allow.clone(),
    };
    let context = build_context(&agent, &env, &options).map_err(problem)?;
    if terminal.verbosity() > Verbosity::Quiet {
        for note in &context.notes {
            terminal.write_message(&format!("note: {note}\n"));
        }
    }
    if args.dry_run {
        let text = if args.json {
            format!("{}\n", as_json(&context, None, None))
        } else {
            dry_run(&context)
        };
        terminal.write_data(&text)?;
        terminal.flush()?;
        return Ok(ExitCode::Passed);
    }
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| agent.dir.join(".holodeck/deploy"));
    let is_tar = output.extension().is_some_and(|extension| extension == "tar");
    let written = if is_tar {
        write_tar(&context, &output)
    } else {
        write_folder(&context, &output)
    };
    written.map_err(|error| {
        let message = error.to_string();
        match error {
            OutputError::Foreign(_) => Problem::config(message).with_hint("choose another place with `-o`"),
            _ => Problem::execution(message),
        }
    })?;
    let built = if is_tar || args.context_only {
        None
    } else {
        Some(build_in(args, &context, &output, &env, terminal)?)
    };
    let shown = shown_path(&output);
    let text = if args.json {
        format!("{}\n", as_json(&context, Some(&shown), built.as_deref()))
    } else {
        match &built {
            Some(builder) => format!("built {} ({}) with {builder}\n", context.image, context.platform),
            None => format!("{}: {}\n", shown.display(), size_of(&context)),
        }
    };
    terminal.write_data(&text)?;
    terminal.flush()?;
    if built.is_none() && !args.json && terminal.verbosity() > Verbosity::Quiet {
        terminal.write_message(&render::hint(&by_hand(&context, &shown, is_tar)));
    }
    Ok(ExitCode::Passed)
}

/// Builds the image of a context that is written; returns the name of the builder.
fn build_in(
    args: &BuildArgs,
    context: &BuildContext,
    folder: &Path,
    env: &Env,
    terminal: &mut Terminal,
) -> Result<String, Failure> {
    let shown = shown_path(folder);
    let Some(builder) = find_builder(args.builder.as_deref(), env) else {
        let looked_for = match &args.builder {
            Some(name) => format!("`{name}` was not found"),
            None => format!(
                "no builder of images was found: {} were looked for",
                BUILDERS.join(", ")
            ),
        };
        return Err(
            Problem::execution(format!("{looked_for}; the context is in `{}`", shown.display()))
                .with_hint(by_hand(context, &shown, false))
                .into(),
        );
    };
    let name = builder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if terminal.verbosity() > Verbosity::Quiet {
        terminal.write_message(&format!("building {} with {name}\n", context.image));
    }
    let output = build_runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        tokio::select! {
            output = build_image(&builder, context, folder, args.no_cache, env) => Ok(output.map_err(problem)?),
            request = interrupts.next() => Err(Failure::from(request.problem())),
        }
    })?;
    if terminal.verbosity() > Verbosity::Normal {
        terminal.write_message(&output);
    }
    Ok(name)
}

/// How a person builds a context.
fn by_hand(context: &BuildContext, place: &Path, is_tar: bool) -> String {
    let (image, place) = (
        shell_word(&context.image),
        shell_word(&place.display().to_string()),
    );
    if is_tar {
        format!("`docker build --file Containerfile --tag {image} - < {place}` builds it")
    } else {
        format!("`docker build --file {place}/Containerfile --tag {image} {place}` builds it")
    }
}

fn size_of(context: &BuildContext) -> String {
    let bytes: usize = context.files.iter().map(|file| file.bytes.len()).sum();
    format!("{}, {bytes} bytes", count(context.files.len(), "file"))
}

fn dry_run(context: &BuildContext) -> String {
    let mut text = format!("{} ({})\n\n", context.image, context.platform);
    for file in &context.files {
        let _ = writeln!(text, "{:>10}  {}", file.bytes.len(), file.name);
    }
    let _ = write!(text, "\n{}\n\n{}", size_of(context), context.containerfile);
    text
}

fn as_json(context: &BuildContext, place: Option<&Path>, builder: Option<&str>) -> serde_json::Value {
    let files = context
        .files
        .iter()
        .map(|file| json!({"name": file.name, "size": file.bytes.len()}));
    json!({
        "image": context.image,
        "platform": context.platform,
        "context": place,
        "built_with": builder,
        "files": files.collect::<Vec<_>>(),
        "containerfile": context.containerfile,
        "notes": context.notes,
    })
}

fn problem(error: DeployError) -> Problem {
    let message = error.to_string();
    match error {
        DeployError::Refused { hint, .. } => Problem::config(message).with_hint(hint),
        DeployError::Secrets(places) => {
            let problem = Problem::config(message).with_hint(
                "write `${NAME}` in the place of a key, and set the variable where the container runs; `--allow FILE` takes a \
                 file of which you know that it holds none",
            );
            places
                .iter()
                .fold(problem, |problem, place| problem.with_detail(place.to_string()))
        }
        DeployError::File(error) => {
            let problem = Problem::config(message);
            match error.explanation().hint {
                Some(hint) => problem.with_hint(hint),
                None => problem,
            }
        }
        DeployError::Unreadable { .. } => Problem::config(message),
        DeployError::Builder { builder, reason } => {
            let mut problem = Problem::execution(format!("`{builder}` could not build the image"));
            problem.details = reason.lines().map(str::to_owned).collect();
            problem
        }
        _ => Problem::execution(message),
    }
}
