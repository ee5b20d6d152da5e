//! Opens every page of `holodeck view` in a browser, over runs of every kind, hostile ones too: windows, contrast and keyboard.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use serde_json::json;

use super::view::{journals, launch};
use crate::browser::Browser;
use crate::served::{Profile, build};
use crate::{host, workspace};

/// Runs with the recording of the quickstart: more than a page of the list has.
const RECORDED: usize = 104;

/// Must be shown, and not run.
const SCRIPT: &str = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>";

/// Questions that a person could have asked.
const CASES: &str = "
  - {name: where is my parcel, tags: [delivery], input: Where is order 1042?, ground_truth: It arrives on Friday.}
  - {name: refund after the deadline, tags: [refund, policy], input: I bought the lamp 45 days ago. Can I return it?, ground_truth: Lamps can be returned within 30 days.}
  - {name: opening hours, input: When do you open on Saturdays?, ground_truth: We open at nine.}
  - {name: a discount, tags: [policy], input: Is there a discount for students?, ground_truth: Students pay ten percent less.}
  - {name: broken in transit, tags: [delivery, refund], input: The vase arrived in pieces. What now?, ground_truth: We send a new one.}
  - {name: no checks, input: Thanks!, evaluations: []}
";

/// Makes the runs, and opens the pages. Pictures are in `target/view-pages/pictures`.
pub(super) fn check() -> Result<()> {
    let browser = Browser::install()?;
    let program = build(Profile::Dev)?;
    let folder = workspace::root().join("target/view-pages");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let runs = folder.join("runs");
    fs::create_dir_all(&runs)?;
    let pictures = folder.join("pictures");
    fs::create_dir_all(&pictures)?;
    let model = ModelServer::answering(answer);
    store(&program, &runs, &model.url())?;
    let running = Running::start(&program, &runs, &model.url())?;
    let (mut view, link) = launch(&program, &runs, &["--conversations"])?;
    let options = json!({ "url": link, "pictures": pictures });
    let looked = browser.run("view.mjs", &[], options);
    let _ = view.kill();
    let _ = view.wait();
    drop(running);
    looked?;
    println!("pictures: {}", pictures.display());
    Ok(())
}

/// The model of all agents; the name of the model, the question and the instructions decide.
fn answer(request: &ReceivedRequest) -> Reply {
    let text = |role| {
        request
            .texts(role)
            .last()
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    let (question, instructions) = (text("user"), text("system"));
    let body = request.body.to_string();
    if body.contains("judge-model") {
        let good = question.contains("Friday") || question.contains("nine");
        let (reason, score) = if good {
            ("It answers the question in one sentence.", 5)
        } else {
            ("It evades the question, and names no date.", 2)
        };
        return Reply::text(json!({ "reason": reason, "score": score }).to_string());
    }
    let has_result = body.contains("\"role\":\"tool\"");
    let is_better = instructions.contains("politely");
    let is_large = body.contains("large-model");
    match question.as_str() {
        "wait" => Reply::hang(),
        "fail" => Reply::openai_error(400, "the model refuses this", None, None),
        "script" => Reply::text(format!(
            "{SCRIPT}\u{1b}[31mred\u{7}\u{202e}desrever\u{2066} {}",
            "w".repeat(400)
        )),
        "long" => {
            Reply::text("The parcel left the warehouse, and it is not known where it is now. ".repeat(16_000))
        }
        text if text.contains("1042") && !has_result => Reply::nothing()
            .and_reasoning("An order is named, so I look it up before I answer.")
            .and_tool_call(
                "call-1",
                "look_up",
                r#"{"order": "1042", "fields": ["status", "shipped_at"]}"#,
            ),
        text if text.contains("1042") => Reply::text("It arrives on Friday."),
        text if text.contains("lamp") && (is_better || is_large) => {
            Reply::text("Lamps can be returned within 30 days.")
        }
        text if text.contains("lamp") => {
            Reply::text("Yes, lamps can be returned within 60 days, opened or not.")
        }
        text if text.contains("open") => Reply::text("We open at nine."),
        text if text.contains("students") && is_large => Reply::text("Students pay ten percent less."),
        text if text.contains("students") => Reply::text("There is no discount, I am afraid."),
        text if text.contains("vase") => Reply::text("We send a new one."),
        _ => Reply::text("You are welcome."),
    }
}

fn agent(name: &str, url: &str, more: &str) -> String {
    format!(
        "name: {name}
description: Answers questions about orders.
model: {{provider: openai, name: gpt-4o-mini, endpoint: \"{url}\"}}
instructions: {{inline: Answer briefly.}}
{more}"
    )
}

/// Runs of several agents, a matrix, trials, an old file, hostile texts and a damaged journal.
fn store(program: &Path, runs: &Path, url: &str) -> Result<()> {
    let test = |folder: &str, args: &[&str]| test(program, &runs.join(folder), args);
    let write = |file: &str, text: String| -> Result<()> {
        let path = runs.join(file);
        fs::create_dir_all(path.parent().context("a file at the root")?)?;
        Ok(fs::write(path, text)?)
    };
    let quickstart = workspace::root().join("fixtures/quickstart");
    write(
        "quickstart/agent.yaml",
        fs::read_to_string(quickstart.join("agent.yaml"))?,
    )?;
    write(
        "quickstart/instructions.md",
        fs::read_to_string(quickstart.join("instructions.md"))?,
    )?;
    let cassette = fs::read_to_string(quickstart.join("cassettes/quickstart.jsonl"))?;
    write("quickstart/cassettes/quickstart.jsonl", cassette)?;
    for _ in 0..RECORDED {
        test("quickstart", &[])?;
    }

    let legacy = workspace::root().join("fixtures/pages/legacy/results/support");
    for file in fs::read_dir(legacy)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        write(
            &format!("legacy/results/support/{name}"),
            fs::read_to_string(file.path())?,
        )?;
    }

    let tools = "tools:\n  - {type: function, name: look_up, description: Looks up an order., command: cat, parameters: \
                 {order: {type: string, description: Its number.}, fields: {type: array, items: {type: string}, \
                 description: What.}}}\n";
    let judge = format!("{{provider: openai, name: judge-model, endpoint: \"{url}\"}}");
    let metrics = format!(
        "evaluations:\n  metrics:\n    - {{type: standard, metric: contains}}\n    - {{type: standard, metric: rouge, \
         threshold: 0.5}}\n    - {{type: standard, metric: relevance, threshold: 0.6, model: {judge}}}\n"
    );
    let desk = agent(
        "support-desk",
        url,
        &format!("{tools}{metrics}test_cases:{CASES}"),
    );
    for change in ["Answer briefly.", "Answer briefly and politely."] {
        write("desk/agent.yaml", desk.replace("Answer briefly.", change))?;
        for _ in 0..3 {
            test("desk", &[])?;
        }
    }
    for (session, message) in [
        ("a-visitor", "Where is order 1042?"),
        ("a-visitor", "fail"),
        ("a-visitor", "I bought the lamp 45 days ago. Can I return it?"),
        ("another-visitor", "When do you open on Saturdays?"),
        ("hostile-visitor", "script"),
    ] {
        let args = ["--session", session, "--once", message];
        run(program, &runs.join("desk"), "chat", &args)?;
    }
    write(
        "trials/agent.yaml",
        agent(
            "trials-of-an-agent-with-a-long-name",
            url,
            &format!("{metrics}test_cases:{CASES}"),
        ),
    )?;
    test("trials", &["--trials", "3"])?;

    let matrix = "matrix:\n  model.name: [gpt-4o-mini, large-model]\n  instructions.inline: [Answer briefly., Answer \
                  politely.]\n";
    write(
        "matrix/agent.yaml",
        agent("matrix", url, &format!("{matrix}{metrics}test_cases:{CASES}")),
    )?;
    test("matrix", &[])?;

    let contains = "evaluations: {metrics: [{type: standard, metric: contains}]}\n";
    let cases = [
        ("script", SCRIPT),
        ("long", "It is on the way."),
        ("fail", "Never asked."),
    ]
    .map(|(question, truth)| {
        let name = json!(format!("{question} {SCRIPT} \u{1b}[2J\u{202e}name"));
        format!(
            "  - {{name: {name}, input: {question}, ground_truth: {}}}\n",
            json!(truth)
        )
    });
    let hostile = agent(
        "hostile",
        url,
        &format!("{contains}test_cases:\n{}", cases.concat()),
    );
    write("hostile/agent.yaml", hostile)?;
    test("hostile", &[])?;

    // The first lines of a journal, and then one that is none.
    let journal = newest(&runs.join("desk"))?;
    let text = fs::read_to_string(&journal)?;
    let half: Vec<&str> = text.split_inclusive('\n').take(4).collect();
    let half = half.concat();
    write(
        "damaged/.holodeck/runs/20261127T101112Z-damaged.jsonl",
        format!("{half}{{\"what\": \n{half}"),
    )?;
    Ok(())
}

/// Runs the tests of a folder, which may fail.
fn test(program: &Path, folder: &Path, args: &[&str]) -> Result<()> {
    run(program, folder, "test", args)
}

/// Runs the command of a folder, whose verdict does not matter.
fn run(program: &Path, folder: &Path, verb: &str, args: &[&str]) -> Result<()> {
    let mut command = host::command(program);
    command
        .args([verb, "--quiet"])
        .args(args)
        .env("OPENAI_API_KEY", "dummy")
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        matches!(output.status.code(), Some(0 | 1 | 3)),
        "{}: `holodeck {verb}` ended with {}: {said}",
        folder.display(),
        output.status
    );
    Ok(())
}

fn newest(folder: &Path) -> Result<PathBuf> {
    journals(folder)?.pop().context("no run was stored")
}

/// A run whose second case gets no answer, until it is dropped.
struct Running(Child);

impl Running {
    fn start(program: &Path, runs: &Path, url: &str) -> Result<Self> {
        let folder = runs.join("running");
        fs::create_dir_all(&folder)?;
        let cases = "execution: {parallel_test_cases: 1}\ntest_cases:\n  - {name: done, input: Thanks!, ground_truth: You are \
                     welcome.}\n  - {name: without an answer, input: wait, ground_truth: None.}\n";
        let metrics = "evaluations: {metrics: [{type: standard, metric: contains}]}\n";
        fs::write(
            folder.join("agent.yaml"),
            agent("running", url, &format!("{metrics}{cases}")),
        )?;
        let child = host::command(program)
            .args(["test", "--quiet"])
            .env("OPENAI_API_KEY", "dummy")
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut running = Self(child);
        let is_graded = || -> Result<bool> {
            // There is no folder before the run begins.
            let journal = journals(&folder).unwrap_or_default().pop();
            let text = journal.map(fs::read_to_string).transpose()?.unwrap_or_default();
            Ok(text.contains("\"graded\""))
        };
        while !is_graded()? {
            ensure!(running.0.try_wait()?.is_none(), "the run that waits has ended");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
