//! Long runs: what is too slow for every change and still has to hold.

use std::time::Instant;

use anyhow::{Result, bail};

use crate::{host, services, smoke};

mod child;
mod clients;
mod deaths;
mod editor;
mod field;
mod import;
mod install;
pub(crate) mod load;
mod outcomes;
mod page;
mod report;
mod view;
mod view_pages;

/// A long run.
struct Run {
    name: &'static str,
    planned_minutes: u32,
    /// Arguments to `cargo`.
    cargo: &'static [&'static str],
}

impl Run {
    /// Whether a person means it: by its name, or by the part before a `-`.
    fn is_meant(&self, name: &str) -> bool {
        self.name
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

const RUNS: &[Run] = &[
    Run {
        name: "readme",
        planned_minutes: 3,
        // The README's first command, word for word, in a fresh clone.
        cargo: &[
            "run",
            "-p",
            "holodeck-cli",
            "--",
            "test",
            "fixtures/quickstart/agent.yaml",
        ],
    },
    Run {
        name: "resume",
        planned_minutes: 4,
        // Not through nextest, which ends a test that takes long.
        cargo: &[
            "test",
            "-p",
            "holodeck-cli",
            "--test",
            "it",
            "resume",
            "--",
            "--nocapture",
        ],
    },
    Run {
        name: "ingest",
        planned_minutes: 3,
        cargo: &[
            "test",
            "-p",
            "holodeck-retrieval",
            "--test",
            "it",
            "kill::",
            "--",
            "--nocapture",
        ],
    },
    Run {
        name: "events",
        planned_minutes: 4,
        cargo: &[
            "test",
            "-p",
            "holodeck-events",
            "--test",
            "it",
            "kill::what_was_delivered_survives_kills",
            "--",
            "--nocapture",
        ],
    },
    Run {
        name: "survivors",
        planned_minutes: 4,
        // Every kind of child with every ending; CI has a sample. It prints how long each takes.
        cargo: &[
            "test",
            "-p",
            "holodeck-cli",
            "--test",
            "it",
            "nothing_below_any_child_survives_any_ending",
            "--",
            "--ignored",
            "--nocapture",
        ],
    },
    Run {
        name: "approval",
        planned_minutes: 11,
        // The real CLI waits ten minutes for an answer.
        cargo: &[
            "test",
            "-p",
            "holodeck-backend-claude",
            "--test",
            "it",
            "ten_minutes",
            "--",
            "--ignored",
        ],
    },
    Run {
        name: "files",
        planned_minutes: 40,
        // Four releases of the real CLI open files: every place, tool, mode and person, also in a sub-agent; and every pattern.
        cargo: &[
            "test",
            "-p",
            "holodeck",
            "--lib",
            "the_whole",
            "--",
            "--ignored",
            "--nocapture",
        ],
    },
    Run {
        name: "claude",
        planned_minutes: 5,
        // What the product assumes, on every installed release, and every model of the list on the pinned one.
        cargo: &[
            "test",
            "-p",
            "holodeck-backend-claude",
            "--test",
            "it",
            "every_",
            "--",
            "--ignored",
            // One kills children by their name.
            "--test-threads=1",
            "--nocapture",
        ],
    },
    Run {
        name: "clients-files",
        planned_minutes: 2,
        // Every answer of a client to a question over every route; CI has a sample.
        cargo: &[
            "test",
            "-p",
            "holodeck-cli",
            "--test",
            "it",
            "no_answer_of_a_client_opens_a_file_outside",
            "--",
            "--ignored",
            "--nocapture",
        ],
    },
    Run {
        name: "install",
        planned_minutes: 25,
        // The packages that people install, in clean systems. The completions come from this program.
        cargo: &["build", "-p", "holodeck-cli"],
    },
    Run {
        name: "editor",
        planned_minutes: 2,
        // The language server that editors use, with the schema of the language.
        cargo: &["build", "-p", "holodeck-cli"],
    },
    Run {
        name: "import",
        planned_minutes: 6,
        // The tool that configurations are imported from, and ours, on the same scripted model.
        cargo: &["build", "-p", "holodeck-cli"],
    },
    Run {
        name: "chroma",
        planned_minutes: 5,
        // The real server; its answers are compared with the recorded ones.
        cargo: &[
            "test",
            "-p",
            "holodeck-retrieval",
            "--test",
            "it",
            "chroma::",
            "--",
            "--ignored",
            "--test-threads=1",
        ],
    },
    Run {
        name: "postgres",
        planned_minutes: 12,
        // Prints how long search among many takes.
        cargo: &[
            "test",
            "-p",
            "holodeck-retrieval",
            "--test",
            "it",
            "postgres::measured",
            "--",
            "--ignored",
            "--nocapture",
        ],
    },
    Run {
        name: "report",
        planned_minutes: 3,
        // Writes the pages that a browser then opens.
        cargo: &[
            "test",
            "-p",
            "holodeck-reports",
            "--lib",
            "pages_for_a_browser",
            "--",
            "--ignored",
        ],
    },
    Run {
        name: "kills",
        planned_minutes: 5,
        // The process of a server, while clients read.
        cargo: &[
            "test",
            "-p",
            "holodeck-cli",
            "--test",
            "it",
            "serve_faults::what_clients_were_given_survives_kills",
            "--",
            "--nocapture",
        ],
    },
    Run {
        name: "field-models",
        planned_minutes: 8,
        // A real proxy, which is 900 MB with its packages, and a real model.
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "field-servers",
        planned_minutes: 5,
        // MCP servers on old and new SDKs, which are 500 MB.
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "field-logins",
        planned_minutes: 2,
        // An authorization server of npm.
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "field-collectors",
        planned_minutes: 1,
        // A collector of PyPI, which is 30 MB.
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "field-clis",
        planned_minutes: 2,
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "clients-openai",
        planned_minutes: 4,
        // Two releases each of OpenAI's libraries in Python, Node and a page.
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "clients-agui",
        planned_minutes: 3,
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "clients-proxies",
        planned_minutes: 2,
        // A real nginx in front, below a path.
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "clients-sockets",
        planned_minutes: 2,
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "deaths",
        planned_minutes: 9,
        // Several processes on one store, killed and frozen.
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "page",
        planned_minutes: 3,
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "serve",
        planned_minutes: 12,
        cargo: &["build", "--locked", "--release", "-p", "holodeck-cli"],
    },
    Run {
        name: "view",
        planned_minutes: 12,
        // A thousand runs of a thousand cases, which are 4 GB for this time.
        cargo: &["build", "--locked", "--release", "-p", "holodeck-cli"],
    },
    Run {
        name: "view-pages",
        planned_minutes: 8,
        // Every page in every window, with a real browser.
        cargo: &["build", "--locked", "-p", "holodeck-cli"],
    },
    Run {
        name: "fuzz",
        planned_minutes: 10,
        cargo: &["xtask", "fuzz", "--seconds", "30"],
    },
];

/// Options of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these runs; `field` is all whose names begin with it.
    runs: Vec<String>,
    /// How often `resume` begins a run, `ingest` an index and `events` two writers, and kills them; `resume`, `events`
    /// and `kills` twice as often.
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    #[command(flatten)]
    deaths: deaths::Faults,
    #[command(flatten)]
    view: view::Size,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted: Vec<_> = RUNS
        .iter()
        .filter(|run| args.runs.is_empty() || args.runs.iter().any(|name| run.is_meant(name)))
        .collect();
    if wanted.is_empty() {
        let names: Vec<&str> = RUNS.iter().map(|run| run.name).collect();
        bail!(
            "nothing to run; long runs listed in xtask/src/soak.rs: [{}]",
            names.join(", ")
        );
    }
    for run in wanted {
        println!("\n== {} (planned {} min)", run.name, run.planned_minutes);
        let started = Instant::now();
        match run.name {
            "chroma" => drop(services::chroma()?),
            "files" | "claude" => drop(smoke::every_cli()?),
            _ => {}
        }
        let rounds = if matches!(run.name, "events" | "resume") {
            2 * args.rounds
        } else {
            args.rounds
        };
        let rounds = rounds.to_string();
        let mut cargo = host::cargo(run.cargo);
        cargo.env("HOLODECK_KILL_ROUNDS", rounds);
        let clone = (run.name == "readme").then(fresh_clone).transpose()?;
        if let Some(clone) = &clone {
            cargo.current_dir(clone.path());
        }
        if run.cargo.first() == Some(&"test") {
            ensure_some_test(run)?;
        }
        host::run(&mut cargo)?;
        match run.name {
            "report" => report::check()?,
            "field-models" => field::models()?,
            "field-servers" => field::servers()?,
            "field-logins" => field::logins()?,
            "field-collectors" => field::collectors()?,
            "field-clis" => field::clis()?,
            "clients-agui" => clients::agui()?,
            "clients-proxies" => clients::proxies()?,
            "clients-sockets" => clients::sockets()?,
            "clients-openai" => clients::openai()?,
            "deaths" => deaths::check(&args.deaths)?,
            "editor" => editor::check()?,
            "import" => import::check()?,
            "install" => install::check()?,
            "page" => page::check()?,
            "serve" => load::check()?,
            "view" => view::check(&args.view)?,
            "view-pages" => view_pages::check()?,
            _ => {}
        }
        println!("{}: took {} s", run.name, started.elapsed().as_secs());
    }
    Ok(())
}

/// Fails if no test has the name: `cargo test` would run none and succeed.
fn ensure_some_test(run: &Run) -> Result<()> {
    let listing = run
        .cargo
        .iter()
        .copied()
        .filter(|argument| *argument != "--nocapture");
    let mut cargo = host::cargo(listing.chain(["--list"]));
    let output = cargo.stderr(std::process::Stdio::inherit()).output()?;
    let listed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && listed.lines().any(|line| line.ends_with(": test")) {
        return Ok(());
    }
    bail!(
        "the long run `{}` has no test: {:?} names none",
        run.name,
        run.cargo
    )
}

/// A clone of what is committed, with nothing built.
fn fresh_clone() -> Result<tempfile::TempDir> {
    let dir = tempfile::tempdir()?;
    let mut git = host::command("git");
    host::run(git.args(["clone", "--quiet", "."]).arg(dir.path()))?;
    Ok(dir)
}
