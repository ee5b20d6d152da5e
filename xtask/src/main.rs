//! Automation of the workspace: `cargo xtask <verb>`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool talks"
)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod browser;
mod ci;
mod codegen;
mod corpus;
mod dist;
mod fixtures;
mod fuzz;
mod host;
mod local_model;
mod measure;
mod product;
mod publish;
mod served;
mod services;
mod smoke;
mod soak;
mod standalone;
mod table;
mod tidy;
mod workload;
mod workspace;

/// Automation of the HoloDeck workspace.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run everything a change must pass, in order, and print the time of each part.
    Ci(ci::Args),
    /// Check the programs around the product, and every name we rely on of the real Claude Code CLI.
    Smoke(smoke::Args),
    /// Install the real servers that tests start.
    Services(services::Args),
    /// Check the rules of the house: crate edges, sole importers, file sizes, licences, secrets.
    Tidy(tidy::Args),
    /// Check every library crate by itself.
    Standalone,
    /// Write the files that the product generates.
    Codegen,
    /// Check a folder of agent files against its expected.tsv.
    Corpus(corpus::Args),
    /// Serve a small real model on loopback, OpenAI-compatibly.
    LocalModel(local_model::Args),
    /// Record fixtures from the local model.
    Fixtures(fixtures::Args),
    /// Do the long runs that are not part of `ci`.
    Soak(soak::Args),
    /// Feed random inputs to everything that reads what others wrote.
    Fuzz(fuzz::Args),
    /// Measure CPU, wall and peak memory of the product beside a floor.
    Bench(bench::Args),
    /// Run one command and report its cost: for `bench` and `fuzz`.
    #[command(hide = true)]
    Measure(measure::Args),
    /// Build the packages that people install, and check their program: it is static and not too large.
    Dist(dist::Args),
    /// List the functions that the main commands use, which `dist` places together; needs Valgrind.
    DistProfile(dist::profile::Args),
    /// Link the distributed program: for `dist`.
    #[command(hide = true)]
    DistLink(dist::link::Args),
    /// Publish every library crate, in order.
    Publish(publish::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Ci(args) => ci::run(&args),
        Verb::Smoke(args) => smoke::run(&args),
        Verb::Services(args) => services::run(&args),
        Verb::Tidy(args) => tidy::run(&args),
        Verb::Standalone => standalone::run(),
        Verb::Codegen => codegen::run(),
        Verb::Corpus(args) => corpus::run(&args),
        Verb::LocalModel(args) => local_model::run(&args),
        Verb::Fixtures(args) => fixtures::run(&args),
        Verb::Soak(args) => soak::run(&args),
        Verb::Fuzz(args) => fuzz::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Measure(args) => measure::run(&args),
        Verb::Dist(args) => dist::run(&args),
        Verb::DistProfile(args) => dist::profile::run(&args),
        Verb::DistLink(args) => dist::link::run(&args),
        Verb::Publish(args) => publish::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
