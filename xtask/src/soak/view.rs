//! Opens `holodeck view` over many long runs, with and without their summaries: pages must be fast, and memory bounded.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use holodeck_testkit::{ModelServer, Reply};
use serde_json::Value;

use crate::served::{Profile, build};
use crate::{host, table, workspace};

/// Options of the run.
#[derive(clap::Args)]
pub(crate) struct Size {
    /// Stored runs below the folder of `view`.
    #[arg(long, default_value_t = 1_000)]
    stored_runs: usize,
    /// Cases of each of them.
    #[arg(long, default_value_t = 1_000)]
    stored_cases: usize,
    /// Measure this program instead of building it.
    #[arg(long, value_name = "FILE")]
    view_program: Option<PathBuf>,
}

/// The goals for the whole size.
const FIRST_PAGE: Duration = Duration::from_millis(300);
const ANY_PAGE: Duration = Duration::from_millis(500);
const ALL_READ: Duration = Duration::from_mins(1);
const MEMORY: u64 = 150_000_000;

/// Runs that ask the model; the others are copies with the same answers.
const ASKED: usize = 4;

/// Makes the runs, and measures the pages.
pub(super) fn check(size: &Size) -> Result<()> {
    let program = match &size.view_program {
        Some(program) => std::path::absolute(program)?,
        None => build(Profile::Release)?,
    };
    let folder = workspace::root().join("target/view");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    store(&program, &folder, size)?;
    let measured = measure(&program, &folder);
    fs::remove_dir_all(&folder)?;
    measured
}

/// A verbose answer, wrong in one case of ten, and in others in each run.
fn answer(question: &str, turn: usize) -> String {
    let number: usize = question
        .bytes()
        .filter(u8::is_ascii_digit)
        .fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    let right = if (number + turn).is_multiple_of(10) {
        number + 1
    } else {
        number
    };
    format!(
        "The number of the order is {right}. {}",
        "It was packed on Monday, left the warehouse on Tuesday, and arrives by Friday. ".repeat(12)
    )
}

fn store(program: &Path, folder: &Path, size: &Size) -> Result<()> {
    let started = Instant::now();
    let mut originals = Vec::new();
    // One agent for all of them: a merge refuses another.
    let turn = Arc::new(AtomicUsize::new(0));
    let model = ModelServer::answering({
        let turn = Arc::clone(&turn);
        move |request| {
            let question = request.texts("user").last().map(ToString::to_string);
            let turn = turn.load(Ordering::Relaxed);
            Reply::text(answer(&question.unwrap_or_default(), turn))
        }
    });
    let cases: Vec<String> = (0..size.stored_cases)
        .map(|number| {
            format!(
                "  - name: order {number}\n    input: What is the number of order {number}?\n    ground_truth: The number \
                 of the order is {number}.\n    tags: [t{}]\n",
                number % 7
            )
        })
        .collect();
    let cases = cases.concat();
    let yaml = format!(
        "name: support\nmodel: {{provider: openai, name: test-model, endpoint: \"{}\"}}\ninstructions: {{inline: Be \
         brief.}}\nevaluations:\n  metrics:\n    - {{type: standard, metric: contains}}\n    - {{type: standard, \
         metric: rouge, threshold: 0.01}}\ntest_cases:\n{cases}",
        model.url()
    );
    fs::write(folder.join("agent.yaml"), yaml)?;
    for number in 0..ASKED.min(size.stored_runs) {
        turn.store(number, Ordering::Relaxed);
        // A failed case is exit 1.
        let test = ["test", "--quiet", "--shard", "1/1"];
        let _ = host::command(program)
            .args(test)
            .env("OPENAI_API_KEY", "dummy")
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        let newest = journals(folder)?.pop().context("no run was stored")?;
        originals.push(id_of(&newest));
    }
    let runs = folder.join(".holodeck/runs");
    for number in ASKED..size.stored_runs {
        let original = originals
            .get(number % originals.len())
            .context("no run was stored")?;
        let shard = runs.join(format!("{original}.jsonl"));
        let merge = host::command(program)
            .args(["test", "merge", "--quiet"])
            .arg(&shard)
            .env("OPENAI_API_KEY", "dummy")
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()?;
        let text = String::from_utf8_lossy(&merge.stderr);
        ensure!(
            matches!(merge.status.code(), Some(0 | 1)),
            "`holodeck test merge` ended with {}: {text}",
            merge.status
        );
    }
    let journals = journals(folder)?;
    ensure!(
        journals.len() == size.stored_runs,
        "{} runs were stored",
        journals.len()
    );
    let bytes: u64 = journals
        .iter()
        .filter_map(|path| Some(fs::metadata(path).ok()?.len()))
        .sum();
    println!(
        "{} runs of {} cases: {:.1} GB of journals, made in {} s",
        size.stored_runs,
        size.stored_cases,
        bytes as f64 / 1e9,
        started.elapsed().as_secs()
    );
    Ok(())
}

fn id_of(journal: &Path) -> String {
    journal
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The journals, oldest first.
pub(super) fn journals(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder.join(".holodeck/runs"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    found.sort();
    Ok(found)
}

fn measure(program: &Path, folder: &Path) -> Result<()> {
    let mut rows: Vec<[String; 4]> = Vec::new();
    let mut missed = Vec::new();
    let mut row = |what: &str, value: String, goal: String, is_met: bool| {
        if !is_met {
            missed.push(what.to_owned());
        }
        let met = if is_met { "yes" } else { "no" };
        rows.push([what.to_owned(), value, goal, met.to_owned()]);
    };
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let millis = |time: Duration| format!("{} ms", time.as_millis());
    let megabytes = |bytes: u64| format!("{} MB", bytes / 1_000_000);

    let view = View::start(program, folder)?;
    let started = Instant::now();
    let mut list = view.get("/")?;
    println!(
        "without summaries: the first page after {}",
        millis(started.elapsed())
    );
    while is_reading(&list) {
        list = view.get("/")?;
    }
    let all = started.elapsed();
    row(
        "all runs, without summaries",
        seconds(all),
        seconds(ALL_READ),
        all <= ALL_READ,
    );
    let memory = view.memory()?;
    row(
        "memory meanwhile",
        megabytes(memory),
        megabytes(MEMORY),
        memory <= MEMORY,
    );
    drop(view);

    let view = View::start(program, folder)?;
    let started = Instant::now();
    let list = view.get("/")?;
    let first = started.elapsed();
    ensure!(!is_reading(&list), "a run with a summary was not read at once");
    row(
        "first page, with summaries",
        millis(first),
        millis(FIRST_PAGE),
        first <= FIRST_PAGE,
    );
    let ids = runs_of(&list);
    let (Some(newest), Some(older)) = (ids.first(), ids.get(1)) else {
        bail!("the list has no two runs: {list}");
    };
    let six: Vec<String> = ids.iter().take(6).map(|id| format!("run={id}")).collect();
    let pages = [
        ("the list again", "/".to_owned()),
        ("the list, page 2", "/?page=2".to_owned()),
        ("the list, search", "/?q=nothing".to_owned()),
        ("a run", format!("/run/{newest}")),
        ("a run, page 5", format!("/run/{newest}?page=5")),
        ("a run, failed cases", format!("/run/{newest}?state=failed")),
        ("a run, cases that differ", format!("/run/{newest}?changed=1")),
        (
            "a run, regular expression",
            format!("/run/{newest}?re=order+%5Cd7"),
        ),
        ("a case", format!("/run/{newest}/case/7")),
        ("two runs", format!("/compare?run={newest}&run={older}")),
        ("six runs", format!("/compare?{}&table=1", six.join("&"))),
    ];
    for (what, path) in pages {
        let started = Instant::now();
        view.get(&path)?;
        let time = started.elapsed();
        row(what, millis(time), millis(ANY_PAGE), time <= ANY_PAGE);
    }
    let memory = view.memory()?;
    row("memory", megabytes(memory), megabytes(MEMORY), memory <= MEMORY);
    table::print(["", "measured", "goal", "met"], &rows);
    ensure!(missed.is_empty(), "not met: {}", missed.join(", "));
    Ok(())
}

/// Whether a list says that runs are still being read.
fn is_reading(list: &str) -> bool {
    list.contains("more being read")
}

fn runs_of(list: &str) -> Vec<String> {
    let links = list.split("<a href=\"/run/").skip(1);
    links
        .filter_map(|link| Some(link.split('"').next()?.to_owned()))
        .collect()
}

/// A view that runs until it is dropped.
struct View {
    child: Child,
    address: String,
    cookie: String,
}

/// Starts the view of a folder. With the link that it prints.
pub(super) fn launch(program: &Path, folder: &Path, more: &[&str]) -> Result<(Child, String)> {
    let mut child = host::command(program)
        .args(["view", "--json"])
        .args(more)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().context("the view has no output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let line: Value = serde_json::from_str(&line)?;
    let link = line.get("url").and_then(Value::as_str).unwrap_or_default();
    Ok((child, link.to_owned()))
}

impl View {
    fn start(program: &Path, folder: &Path) -> Result<Self> {
        let (child, link) = launch(program, folder, &[])?;
        let mut view = Self {
            child,
            address: String::new(),
            cookie: String::new(),
        };
        let (address, token) = link
            .strip_prefix("http://")
            .and_then(|link| link.split_once('/'))
            .context("`holodeck view` printed no link")?;
        address.clone_into(&mut view.address);
        let answer = view.ask(&format!("/{token}"))?;
        let cookie = answer
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "))
            .and_then(|cookie| cookie.split(';').next())
            .context("the link gave no cookie")?;
        cookie.clone_into(&mut view.cookie);
        Ok(view)
    }

    fn ask(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        let (host, cookie) = (&self.address, &self.cookie);
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn get(&self, path: &str) -> Result<String> {
        let answer = self.ask(path)?;
        ensure!(
            answer.starts_with("HTTP/1.1 200"),
            "{path}: {}",
            answer.lines().next().unwrap_or_default()
        );
        Ok(answer)
    }

    /// The most memory that it had, in bytes.
    fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kib.context("the kernel names no memory")? * 1024)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
