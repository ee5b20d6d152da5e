//! `holodeck explain`: prints the reference of a diagnostic code, a metric or a field, without a network.

use clap::Subcommand;
use holodeck::{
    model::{Code, closest},
    runs::ExitCode,
    yaml,
};

use crate::{
    failure::{Failure, Problem},
    render,
    terminal::Terminal,
};

/// Arguments of `holodeck explain`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct ExplainArgs {
    /// The code of a diagnostic, as `HD0101`, or its name.
    code: Option<String>,
    #[command(subcommand)]
    topic: Option<Topic>,
}

#[derive(Debug, Subcommand)]
enum Topic {
    /// Explain a metric: its meaning and its options.
    Metric {
        /// The name of the metric, as `rouge` or `faithfulness`.
        name: String,
    },
    /// Explain a field of `agent.yaml` or `config.yaml`.
    Field {
        /// The path of the field, as `model.name` or `tools.mcp.url`; its end is enough.
        path: String,
    },
}

pub(crate) fn run(args: &ExplainArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let text = match (&args.topic, &args.code) {
        (Some(Topic::Metric { name }), _) => metric(name)?,
        (Some(Topic::Field { path }), _) => field(path)?,
        (None, code) => diagnostic(code.as_deref().unwrap_or_default())?,
    };
    terminal.write_data(&text)?;
    Ok(ExitCode::Passed)
}

fn diagnostic(wanted: &str) -> Result<String, Problem> {
    let is_it =
        |code: &&Code| code.id().eq_ignore_ascii_case(wanted) || code.name().eq_ignore_ascii_case(wanted);
    if let Some(code) = Code::ALL.iter().find(is_it) {
        return Ok(format!("{} {}\n  {}\n", code.id(), code.name(), code.summary()));
    }
    let near = closest(wanted, Code::ALL.iter().flat_map(|code| [code.id(), code.name()]));
    Err(unknown(
        "code",
        wanted,
        near,
        "`docs/diagnostics.md` lists the codes",
    ))
}

fn metric(wanted: &str) -> Result<String, Problem> {
    let schema = yaml::json_schema();
    render::explain_metric(&schema, wanted).map_err(|near| {
        unknown(
            "metric",
            wanted,
            near.as_deref(),
            "`docs/metrics.md` lists the metrics",
        )
    })
}

fn field(wanted: &str) -> Result<String, Problem> {
    let (agent, config) = (yaml::json_schema(), yaml::config_json_schema());
    render::explain_field(&agent, wanted)
        .or_else(|near| render::explain_field(&config, wanted).map_err(|other| near.or(other)))
        .map_err(|near| {
            unknown(
                "field",
                wanted,
                near.as_deref(),
                "`docs/agent-yaml.md` lists the fields",
            )
        })
}

fn unknown(kind: &str, wanted: &str, near: Option<&str>, list: &str) -> Problem {
    let problem = Problem::config(format!("unknown {kind} `{wanted}`"));
    match near {
        Some(near) => problem.with_hint(format!("did you mean `{near}`? {list}")),
        None => problem.with_hint(list),
    }
}
