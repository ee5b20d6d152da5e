//! Talks to the built-in page of `holodeck serve`, and to the front end of docs/serving.md, in a browser.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use serde_json::json;

use crate::browser::Browser;
use crate::served::{Profile, Served, build};
use crate::{host, workspace};

const TOKEN: &str = "soak-0123456789abcdef";

/// Must be shown, and not run.
const HOSTILE: &str = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>";

const LIST: &str = "Here is what I found about order 1042:\n\n- It was shipped on Monday.\n- It arrives tomorrow.\n- It can be \
                    returned within 30 days of delivery, unopened, with the receipt, to any of our shops.\n\nA long word: \
                    Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaftsvorsitzendenkandidat.";

/// Talks to the pages and leaves pictures in `target/page`.
pub(super) fn check() -> Result<()> {
    let browser = Browser::install()?;
    let program = build(Profile::Dev)?;
    let pictures = workspace::root().join("target/page");
    fs::create_dir_all(&pictures)?;
    own_page(&program, &browser, &pictures)?;
    recorded(&program, &browser, &pictures)?;
    documented(&program, &browser, &pictures)?;
    println!("pictures: {}", pictures.display());
    Ok(())
}

/// The model's answer to each message.
fn answer(request: &ReceivedRequest) -> Reply {
    let asked = request
        .texts("user")
        .last()
        .map(ToString::to_string)
        .unwrap_or_default();
    let messages = request.messages();
    let is_result = messages
        .last()
        .is_some_and(|last| last.get("role").is_some_and(|role| role == "tool"));
    let slowly = |reply: Reply| reply.in_pieces(40).between_pieces(Duration::from_millis(20));
    match asked.as_str() {
        text if text.starts_with("Where") && !is_result => Reply::nothing()
            .and_reasoning("The person asks about an order. I look it up first.")
            .and_tool_call(
                "call-1",
                "look_up",
                r#"{"order": "1042", "fields": ["status", "shipped_at"]}"#,
            ),
        text if text.starts_with("Where") => slowly(Reply::text(LIST)),
        text if text.starts_with("Refund") && !is_result => Reply::tool_call(
            "call-2",
            "refund",
            &json!({ "order": "1042", "reason": "It came too late." }),
        ),
        text if text.starts_with("Refund") => slowly(Reply::text("The refund is on its way.")),
        text if text.contains("report.txt") => {
            slowly(Reply::text("According to report.txt, sales rose by 12 %."))
        }
        text if text.starts_with("Talk") => Reply::text("word ".repeat(2_000))
            .in_pieces(2_000)
            .between_pieces(Duration::from_millis(20)),
        text if text.starts_with("Fail") => Reply::openai_error(400, "the model refuses this", None, None),
        _ => Reply::text(HOSTILE),
    }
}

fn agent(model: &ModelServer, more: &str) -> String {
    let url = model.url();
    format!(
        "name: support-desk
description: Answers questions about orders.
model: {{provider: openai, name: gpt-4o-mini, endpoint: \"{url}\"}}
instructions: {{inline: Answer briefly.}}
tools:
  - {{type: function, name: look_up, description: Looks up an order., command: cat, parameters: {{order: {{type: string, description: Its number.}}, fields: {{type: array, items: {{type: string}}, description: What.}}}}}}
  - {{type: function, name: refund, description: Refunds an order., command: cat, parameters: {{order: {{type: string, description: Its number.}}, reason: {{type: string, description: Why.}}}}}}
approvals:
  rules:
    - {{tools: look_up, decision: approve}}
    - {{tools: '*', approver: human}}
{more}"
    )
}

fn own_page(program: &Path, browser: &Browser, pictures: &Path) -> Result<()> {
    let model = ModelServer::answering(answer);
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("agent.yaml"), agent(&model, ""))?;
    let file = folder.path().join("report.txt");
    fs::write(&file, "Sales rose by 12 % in May.\n")?;
    let served = Served::start_in(program, folder, &[], &[("HOLODECK_TOKEN", TOKEN)])?;
    let options =
        json!({ "url": served.url(), "token": TOKEN, "list": LIST, "file": file, "pictures": pictures });
    browser.run("page.mjs", &["own"], options)?;
    served.end()
}

/// `serve --replay`, with the recording of the quickstart.
fn recorded(program: &Path, browser: &Browser, pictures: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let fixture = workspace::root().join("fixtures/quickstart");
    host::run(
        host::command("cp")
            .arg("-r")
            .arg(fixture.join("."))
            .arg(folder.path()),
    )?;
    let args = ["--replay", "cassettes/quickstart.jsonl"];
    let served = Served::start_in(program, folder, &args, &[])?;
    let options = json!({ "url": served.url(), "pictures": pictures });
    browser.run("page.mjs", &["recorded"], options)?;
    served.end()
}

/// The front end of docs/serving.md, word for word but for the address, from another origin.
fn documented(program: &Path, browser: &Browser, pictures: &Path) -> Result<()> {
    let document = fs::read_to_string(workspace::root().join("docs/serving.md"))?;
    let html = document
        .split_once("```html\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .context("docs/serving.md has no front end")?
        .0;
    ensure!(html.lines().count() <= 30, "the front end has more than 30 lines");
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let origin = format!("http://{}", listener.local_addr()?);
    let model = ModelServer::answering(answer);
    let more = format!("serve: {{cors_origins: [\"{origin}\"]}}\n");
    let served = Served::start(program, &agent(&model, &more))?;
    ensure!(
        html.contains("http://127.0.0.1:8000"),
        "the front end has another address"
    );
    let html = html.replace("http://127.0.0.1:8000", &served.url());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let length = html.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(html.as_bytes());
        }
    });
    let options = json!({ "url": origin, "list": LIST, "pictures": pictures });
    browser.run("page.mjs", &["documented"], options)?;
    served.end()
}
