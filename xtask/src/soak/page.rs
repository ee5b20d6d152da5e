//! Talks to the built-in page of `holodeck serve`, and to the front end of docs/serving.md, in a browser.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use serde_json::{Value, json};

use crate::browser::{Browser, Page};
use crate::served::{Profile, Served, build};
use crate::{host, workspace};

/// Widths of the window in pixels, and whether it is dark.
const WINDOWS: [(u32, bool); 6] = [
    (360, false),
    (360, true),
    (768, false),
    (768, true),
    (1600, false),
    (1600, true),
];
const HEIGHT: u32 = 900;

const TOKEN: &str = "soak-0123456789";

/// Must be shown, and not run.
const HOSTILE: &str = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>";

const LIST: &str = "Here is what I found about order 1042:\n\n- It was shipped on Monday.\n- It arrives tomorrow.\n- It can be \
                    returned within 30 days of delivery, unopened, with the receipt, to any of our shops.\n\nA long word: \
                    Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaftsvorsitzendenkandidat.";

/// Talks to the pages and leaves pictures in `target/page`.
pub(super) fn check() -> Result<()> {
    let program = build(Profile::Dev)?;
    let pictures = workspace::root().join("target/page");
    fs::create_dir_all(&pictures)?;
    let mut browser = Browser::start()?;
    own_page(&program, &mut browser, &pictures)?;
    recorded(&program, &mut browser, &pictures)?;
    documented(&program, &mut browser, &pictures)?;
    println!("pictures: {}", pictures.display());
    Ok(())
}

/// What the model answers to each message.
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

/// A window with the page.
struct Window<'a> {
    browser: &'a mut Browser,
    page: Page,
    pictures: &'a Path,
}

impl Window<'_> {
    fn wait_for(&mut self, expression: &str) -> Result<()> {
        self.browser.wait_for(&self.page, expression)
    }

    /// Types a message and sends it with the Enter key.
    fn say(&mut self, message: &str) -> Result<()> {
        self.browser
            .click(&self.page, "document.getElementById('message')")?;
        self.browser.insert(&self.page, message)?;
        self.browser.press_enter(&self.page)
    }

    fn click(&mut self, label: &str) -> Result<()> {
        let button = format!(
            "[...document.querySelectorAll('button')].find(button => button.checkVisibility() && button.textContent === {label:?})"
        );
        self.wait_for(&button)?;
        self.browser.click(&self.page, &button)
    }

    fn log(&mut self) -> Result<String> {
        let text = self
            .browser
            .evaluate(&self.page, "document.getElementById('log').textContent")?;
        Ok(text.as_str().context("the page has no log")?.to_owned())
    }

    fn wait_for_text(&mut self, text: &str) -> Result<()> {
        self.wait_for(&format!(
            "document.getElementById('log').innerText.includes({})",
            json!(text)
        ))
    }

    /// Until no answer is being written.
    fn wait_for_end(&mut self) -> Result<()> {
        self.wait_for("document.getElementById('stop').hidden")
    }

    /// At each width, light and dark: nothing is wider than the window, or hidden below it.
    fn look(&mut self, name: &str) -> Result<()> {
        for (width, dark) in WINDOWS {
            self.browser.show_at(&self.page, width, HEIGHT, dark)?;
            let found = self.browser.evaluate(
                &self.page,
                "(() => { const wide = [...document.querySelectorAll('body *')].filter(element => element.checkVisibility()
                   && element.getBoundingClientRect().right > innerWidth + 0.5).map(element => element.outerHTML.slice(0, 80));
                 const form = document.getElementById('form').getBoundingClientRect();
                 const hidden = [...document.querySelectorAll('.ask button')].filter(button =>
                   button.getBoundingClientRect().bottom > form.top);
                 return { wide, hidden: hidden.length, follows, scroll: document.getElementById('log').scrollTop, page: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight,
                   bottom: form.bottom }; })()",
            )?;
            let number = |name: &str| found.get(name).and_then(Value::as_f64).unwrap_or(f64::MAX);
            ensure!(
                found.get("wide") == Some(&json!([]))
                    && found.get("hidden") == Some(&json!(0))
                    && number("page") <= f64::from(width)
                    && number("height") <= f64::from(HEIGHT)
                    && number("bottom") <= f64::from(HEIGHT),
                "{name} at {width} px: {found}"
            );
            let shade = if dark { "dark" } else { "light" };
            let picture = self.pictures.join(format!("{name}-{width}-{shade}.png"));
            self.browser.picture(&self.page, &picture)?;
        }
        self.browser.show_at(&self.page, 768, HEIGHT, false)
    }

    fn complains_of_nothing(&mut self, expected: &[&str]) -> Result<()> {
        let mut complaints = self.browser.complaints();
        complaints.retain(|text| !expected.iter().any(|expected| text.contains(expected)));
        ensure!(
            complaints.is_empty(),
            "the page complains: {}",
            complaints.join("\n")
        );
        Ok(())
    }
}

fn own_page(program: &Path, browser: &mut Browser, pictures: &Path) -> Result<()> {
    let model = ModelServer::answering(answer);
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("agent.yaml"), agent(&model, ""))?;
    let report = folder.path().join("report.txt");
    fs::write(&report, "Sales rose by 12 % in May.\n")?;
    let served = Served::start_in(program, folder, &[], &[("HOLODECK_TOKEN", TOKEN)])?;
    let page = browser.open(&served.url())?;
    browser.show_at(&page, 768, HEIGHT, false)?;
    let mut window = Window {
        browser,
        page,
        pictures,
    };
    println!("the token");
    window.wait_for("document.querySelector('dialog').open")?;
    for (token, is_right) in [("wrong", false), (TOKEN, true)] {
        window.look("token")?;
        window
            .browser
            .click(&window.page, "document.getElementById('token')")?;
        window
            .browser
            .evaluate(&window.page, "document.getElementById('token').select()")?;
        window.browser.insert(&window.page, token)?;
        window.browser.press_enter(&window.page)?;
        if is_right {
            window.wait_for("document.title === 'support-desk' && !document.querySelector('dialog').open")?;
        } else {
            window.wait_for(
                "document.getElementById('token').value === '' && document.querySelector('dialog').open",
            )?;
        }
    }
    // A refused token is an error for the browser, too.
    window.complains_of_nothing(&["401"])?;
    window.look("empty")?;

    println!("a streamed answer with a tool call");
    window.say("Where is order 1042?")?;
    window.wait_for("document.querySelector('.text')?.textContent.length > 20")?;
    let early = window
        .browser
        .evaluate(&window.page, "document.querySelector('.text').textContent.length")?;
    ensure!(
        early.as_u64() < Some(LIST.len() as u64 / 2),
        "the answer was not streamed: {early}"
    );
    window.look("streaming")?;
    window.wait_for_text("kandidat.")?;
    window.wait_for_end()?;
    let answer = window
        .browser
        .evaluate(&window.page, "document.querySelector('.text').textContent")?;
    ensure!(answer == LIST, "the answer is {answer}");
    let tool = window.browser.evaluate(
        &window.page,
        "document.querySelector('.tool summary').textContent",
    )?;
    ensure!(
        tool.as_str().is_some_and(|text| text.contains("look_up")),
        "the tool call is {tool}"
    );
    window
        .browser
        .click(&window.page, "document.querySelector('.tool summary')")?;
    window.wait_for_text("shipped_at")?;
    window.look("answered")?;

    println!("a question, and its answer");
    window.say("Refund it, please.")?;
    window.wait_for("document.querySelector('.ask button')")?;
    window.wait_for_text("It came too late.")?;
    window.look("asked")?;
    // A second window sees the same conversation, and its answer counts for both.
    let second = window.browser.open(&served.url())?;
    window
        .browser
        .wait_for(&second, "document.querySelector('dialog').open")?;
    window
        .browser
        .evaluate(&second, "document.getElementById('token').focus()")?;
    window.browser.insert(&second, TOKEN)?;
    window.browser.press_enter(&second)?;
    window
        .browser
        .wait_for(&second, "document.getElementById('sessions').options.length > 1")?;
    window.browser.evaluate(
        &second,
        "(() => { const list = document.getElementById('sessions'); list.selectedIndex = 1; list.onchange({ target: list }); })()",
    )?;
    let yes = "[...document.querySelectorAll('.ask button')].find(button => button.textContent === 'Yes')";
    window.browser.wait_for(&second, yes)?;
    window.browser.click(&second, yes)?;
    window.wait_for_text("The refund is on its way.")?;
    window.wait_for_end()?;
    window.wait_for("!document.querySelector('.ask button')")?;
    window.browser.wait_for(
        &second,
        "document.getElementById('log').innerText.includes('on its way.')",
    )?;
    window
        .browser
        .wait_for(&second, "document.getElementById('stop').hidden")?;
    let texts =
        "[...document.querySelectorAll('.user, .text')].map(element => element.textContent).join('|')";
    let both = [
        window.browser.evaluate(&window.page, texts)?,
        window.browser.evaluate(&second, texts)?,
    ];
    ensure!(both[0] == both[1], "two windows show {both:?}");
    window.complains_of_nothing(&["401"])?;

    println!("a file");
    window.browser.choose_files(&window.page, "#files", &[&report])?;
    window.wait_for("document.getElementById('attached').textContent.includes('report.txt')")?;
    window.look("attached")?;
    window.say("What does report.txt say?")?;
    window.wait_for_text("sales rose by 12 %.")?;
    window.wait_for_end()?;
    window.wait_for("document.getElementById('attached').textContent === ''")?;

    println!("a stop, an error, and what must not run");
    window.say("Talk without end.")?;
    window.wait_for_text("word word")?;
    window.click("Stop")?;
    window.wait_for_end()?;
    window.say("Fail, please.")?;
    window.wait_for("document.querySelector('.error')")?;
    window.wait_for_end()?;
    window.say("Say something hostile.")?;
    window.wait_for_text("<script>")?;
    window.wait_for_end()?;
    let title = window.browser.evaluate(
        &window.page,
        "document.title + document.querySelectorAll('#log img, #log script').length",
    )?;
    ensure!(title == "support-desk0", "{title}");
    window.look("ended")?;
    let before = window.log()?;
    window.complains_of_nothing(&[])?;

    println!("the same conversation after the page is loaded again");
    window.browser.go(&window.page, &served.url())?;
    window.wait_for(
        "document.title === 'support-desk' && document.getElementById('sessions').options.length > 1",
    )?;
    window.browser.evaluate(
        &window.page,
        "(() => { const list = document.getElementById('sessions'); list.selectedIndex = 1; list.onchange({ target: list }); })()",
    )?;
    window.wait_for_text("<script>")?;
    window.wait_for_end()?;
    let after = window.log()?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    window.complains_of_nothing(&[])?;
    window.browser.leave(&second)?;
    window.browser.leave(&window.page)?;
    served.end()
}

/// `serve --replay`, with the recording of the quickstart.
fn recorded(program: &Path, browser: &mut Browser, pictures: &Path) -> Result<()> {
    println!("a recording");
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
    let page = browser.open(&served.url())?;
    browser.show_at(&page, 768, HEIGHT, false)?;
    let mut window = Window {
        browser,
        page,
        pictures,
    };
    window.wait_for("document.title === 'quickstart'")?;
    window.say("What is the capital of France?")?;
    window.wait_for_text("Paris")?;
    window.wait_for_end()?;
    window.look("replayed")?;
    window.say("What is not recorded?")?;
    window.wait_for("document.querySelector('.error')")?;
    window.complains_of_nothing(&[])?;
    window.browser.leave(&window.page)?;
    served.end()
}

/// The front end of docs/serving.md, word for word but for the address, from another origin.
fn documented(program: &Path, browser: &mut Browser, pictures: &Path) -> Result<()> {
    println!("the front end of docs/serving.md");
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
    let page = browser.open(&origin)?;
    browser.show_at(&page, 768, HEIGHT, false)?;
    for (message, shown) in [
        ("Where is order 1042?", "kandidat."),
        // It asks with `confirm`, which is answered with yes.
        ("Refund it, please.", "The refund is on its way."),
    ] {
        browser.wait_for(&page, "text.value === ''")?;
        browser.click(&page, "text")?;
        browser.insert(&page, message)?;
        browser.press_enter(&page)?;
        browser.wait_for(
            &page,
            &format!("log.textContent.includes({})", json!(format!("› {message}"))),
        )?;
        browser.wait_for(&page, &format!("log.textContent.includes({})", json!(shown)))?;
    }
    browser.picture(&page, &pictures.join("documented.png"))?;
    let complaints = browser.complaints();
    let is_icon = |text: &String| text.contains("favicon.ico");
    ensure!(
        complaints.iter().all(is_icon),
        "the page complains: {complaints:?}"
    );
    served.end()
}
