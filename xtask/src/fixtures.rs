//! Records the fixtures that come from a real model.

use anyhow::{Context as _, Result, bail};

use crate::local_model::{self, Server};
use crate::{host, workspace};

/// Options of `cargo xtask fixtures`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which fixtures to record.
    #[arg(value_parser = ["quickstart"])]
    what: String,
}

struct Recording {
    agent: &'static str,
    cassette: &'static str,
    /// The expected exit code of `holodeck test`: the failing agent is there to show a failure.
    exit: i32,
}

const QUICKSTART: &[Recording] = &[
    Recording {
        agent: "fixtures/quickstart/agent.yaml",
        cassette: "fixtures/quickstart/cassettes/quickstart.jsonl",
        exit: 0,
    },
    Recording {
        agent: "fixtures/quickstart/failing.yaml",
        cassette: "fixtures/quickstart/cassettes/failing.jsonl",
        exit: 1,
    },
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let recordings = match args.what.as_str() {
        "quickstart" => QUICKSTART,
        other => bail!("unknown fixtures `{other}`"),
    };
    host::run(&mut host::cargo(["build", "-p", "holodeck-cli"]))?;
    let server = Server::start(local_model::PORT)?;
    println!("local model: {}", server.endpoint);
    for recording in recordings {
        record(recording)?;
    }
    Ok(())
}

fn record(recording: &Recording) -> Result<()> {
    let cassette = workspace::root().join(recording.cassette);
    if cassette.exists() {
        std::fs::remove_file(&cassette)
            .with_context(|| format!("failed to remove {}", recording.cassette))?;
    }
    if let Some(folder) = cassette.parent() {
        std::fs::create_dir_all(folder)?;
    }
    println!("recording {} into {}", recording.agent, recording.cassette);
    let args = [
        "run",
        "-q",
        "-p",
        "holodeck-cli",
        "--",
        "test",
        recording.agent,
        "--live",
    ];
    let mut test = host::cargo(args);
    test.args(["--record", recording.cassette]);
    let line = host::show(&test);
    let status = test
        .status()
        .with_context(|| format!("failed to start `{line}`"))?;
    if status.code() != Some(recording.exit) {
        bail!(
            "`{line}` ended with {status}, expected exit code {}",
            recording.exit
        );
    }
    Ok(())
}
