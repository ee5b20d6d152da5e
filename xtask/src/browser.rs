//! A headless Chromium, driven over its debugging pipe.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::host;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// How often a page is asked before what is waited for counts as missing: half a minute.
const ASKED: u32 = 1_500;
const PAUSE: Duration = Duration::from_millis(20);

/// A browser on PATH, or one that a test runner installed for this user.
pub(crate) fn find() -> Result<PathBuf> {
    let path = host::env("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = path.split(':').map(PathBuf::from).collect();
    let on_path = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let home = host::env("HOME").unwrap_or_default();
    let versions = fs::read_dir(Path::new(&home).join(".cache/ms-playwright"));
    let installed = versions.into_iter().flatten().flatten().flat_map(|version| {
        ["chrome-linux/chrome", "chrome-linux/headless_shell"].map(|program| version.path().join(program))
    });
    let Some(found) = on_path.chain(installed).find(|path| path.is_file()) else {
        bail!(
            "no browser: none of {} is on PATH, and ~/.cache/ms-playwright has none",
            NAMES.join(", ")
        );
    };
    Ok(found)
}

/// A running browser. It ends with the value.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    calls: u64,
    /// Events that no call was waiting for.
    events: VecDeque<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn start() -> Result<Self> {
        let profile = tempfile::Builder::new().prefix("holodeck-browser-").tempdir()?;
        // The browser reads commands from descriptor 3 and writes to 4.
        let mut child = host::command("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(find()?)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--no-first-run", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start the browser")?;
        let input = child.stdin.take().context("the browser has no input")?;
        let output = child.stdout.take().context("the browser has no output")?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
            calls: 0,
            events: VecDeque::new(),
            _profile: profile,
        })
    }

    /// Opens a window at this address.
    pub(crate) fn open(&mut self, url: &str) -> Result<Page> {
        let target = self.call(
            None,
            "Target.createTarget",
            &json!({ "url": "about:blank", "newWindow": true }),
        )?;
        let target = json!({ "targetId": target.get("targetId"), "flatten": true });
        let attached = self.call(None, "Target.attachToTarget", &target)?;
        let session = attached.get("sessionId").and_then(Value::as_str);
        let page = Page(session.context("the browser gave no session")?.to_owned());
        for domain in ["Page", "Runtime", "Log", "DOM"] {
            self.call(Some(&page), &format!("{domain}.enable"), &json!({}))?;
        }
        self.go(&page, url)?;
        Ok(page)
    }

    pub(crate) fn go(&mut self, page: &Page, url: &str) -> Result<()> {
        self.call(Some(page), "Page.navigate", &json!({ "url": url }))?;
        self.wait_for(
            page,
            "document.readyState === 'complete' && location.href !== 'about:blank'",
        )
    }

    /// Leaves a page, so that it asks a server no more.
    pub(crate) fn leave(&mut self, page: &Page) -> Result<()> {
        self.call(Some(page), "Page.navigate", &json!({ "url": "about:blank" }))?;
        self.wait_for(page, "location.href === 'about:blank'")
    }

    fn call(&mut self, page: Option<&Page>, method: &str, params: &Value) -> Result<Value> {
        let id = self.send(page, method, params)?;
        loop {
            let mut message = self.receive()?;
            if message.get("id").and_then(Value::as_u64) != Some(id) {
                self.take_event(message)?;
                continue;
            }
            if let Some(error) = message.get("error") {
                bail!("{method}: {error}");
            }
            return Ok(message.get_mut("result").map(Value::take).unwrap_or_default());
        }
    }

    fn send(&mut self, page: Option<&Page>, method: &str, params: &Value) -> Result<u64> {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if let (Some(Page(session)), Some(fields)) = (page, message.as_object_mut()) {
            fields.insert("sessionId".to_owned(), session.as_str().into());
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes)?;
        Ok(self.calls)
    }

    fn receive(&mut self) -> Result<Value> {
        let mut bytes = Vec::new();
        self.output.read_until(0, &mut bytes)?;
        if bytes.pop() != Some(0) {
            bail!("the browser ended");
        }
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Keeps an event. A question of a page is answered with yes: it waits otherwise.
    fn take_event(&mut self, event: Value) -> Result<()> {
        let is_question = event
            .get("method")
            .is_some_and(|method| method == "Page.javascriptDialogOpening");
        if is_question {
            let session = event.get("sessionId").and_then(Value::as_str).unwrap_or_default();
            let page = Page(session.to_owned());
            self.send(
                Some(&page),
                "Page.handleJavaScriptDialog",
                &json!({ "accept": true }),
            )?;
        }
        self.events.push_back(event);
        Ok(())
    }

    /// The value of an expression in a page.
    pub(crate) fn evaluate(&mut self, page: &Page, expression: &str) -> Result<Value> {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut found = self.call(Some(page), "Runtime.evaluate", &params)?;
        if let Some(details) = found.get("exceptionDetails") {
            bail!("`{expression}`: {details}");
        }
        Ok(found
            .pointer_mut("/result/value")
            .map(Value::take)
            .unwrap_or_default())
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, page: &Page, expression: &str) -> Result<()> {
        for _ in 0..ASKED {
            if self.evaluate(page, &format!("Boolean({expression})"))? == Value::Bool(true) {
                return Ok(());
            }
            sleep(PAUSE);
        }
        let text = self.evaluate(page, "document.body.innerText")?;
        bail!("waited for `{expression}`; the page says: {text}")
    }

    /// Clicks on the middle of an element, with the mouse; an error if something else is there.
    pub(crate) fn click(&mut self, page: &Page, element: &str) -> Result<()> {
        let place = self.evaluate(
            page,
            &format!(
                "(() => {{ const element = {element}; element.scrollIntoView({{ block: 'nearest' }});
                const box = element.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
                const top = document.elementFromPoint(x, y);
                return {{ x, y, hit: element === top || element.contains(top), over: top?.outerHTML.slice(0, 80) }}; }})()"
            ),
        )?;
        if place.get("hit") != Some(&Value::Bool(true)) {
            bail!("{element} is covered or outside the window: {place}");
        }
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({
                "type": kind, "x": place.get("x"), "y": place.get("y"), "button": "left", "clickCount": 1,
            });
            self.call(Some(page), "Input.dispatchMouseEvent", &params)?;
        }
        Ok(())
    }

    /// Types into what has the focus.
    pub(crate) fn insert(&mut self, page: &Page, text: &str) -> Result<()> {
        self.call(Some(page), "Input.insertText", &json!({ "text": text }))?;
        Ok(())
    }

    pub(crate) fn press_enter(&mut self, page: &Page) -> Result<()> {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { "\r" } else { "" };
            let params = json!({
                "type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": text,
            });
            self.call(Some(page), "Input.dispatchKeyEvent", &params)?;
        }
        Ok(())
    }

    /// Chooses files for an `<input type=file>`.
    pub(crate) fn choose_files(&mut self, page: &Page, selector: &str, files: &[&Path]) -> Result<()> {
        let document = self.call(Some(page), "DOM.getDocument", &json!({}))?;
        let node = document.get("root").and_then(|root| root.get("nodeId"));
        let query = json!({ "nodeId": node, "selector": selector });
        let node = self.call(Some(page), "DOM.querySelector", &query)?;
        let params = json!({ "nodeId": node.get("nodeId"), "files": files });
        self.call(Some(page), "DOM.setFileInputFiles", &params)?;
        Ok(())
    }

    /// Sets the size of the window, and whether the person prefers dark pages.
    pub(crate) fn show_at(&mut self, page: &Page, width: u32, height: u32, dark: bool) -> Result<()> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call(Some(page), "Emulation.setDeviceMetricsOverride", &size)?;
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call(Some(page), "Emulation.setEmulatedMedia", &media)?;
        // What a page does after a change of its size, it does before the next frame. A window behind another has none.
        self.call(Some(page), "Page.bringToFront", &json!({}))?;
        self.evaluate(
            page,
            "new Promise(done => { requestAnimationFrame(() => requestAnimationFrame(done)); setTimeout(done, 500); })",
        )?;
        Ok(())
    }

    pub(crate) fn picture(&mut self, page: &Page, file: &Path) -> Result<()> {
        let taken = self.call(Some(page), "Page.captureScreenshot", &json!({ "format": "png" }))?;
        let data = taken.get("data").and_then(Value::as_str).context("no picture")?;
        fs::write(file, base64::engine::general_purpose::STANDARD.decode(data)?)?;
        Ok(())
    }

    /// What pages complained about since the last time: exceptions, errors on the console, and what a policy blocked.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        let events = std::mem::take(&mut self.events);
        let complaint = |event: Value| {
            let method = event.get("method")?.as_str()?.to_owned();
            let params = event.get("params")?;
            let level = |pointer: &str| params.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            match method.as_str() {
                "Runtime.exceptionThrown" => Some(params.to_string()),
                "Log.entryAdded" if level("/entry/level").as_deref() == Some("error") => {
                    Some(params.get("entry")?.to_string())
                }
                "Runtime.consoleAPICalled" if level("/type").as_deref() == Some("error") => {
                    Some(params.to_string())
                }
                _ => None,
            }
        };
        events.into_iter().filter_map(complaint).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A window of a browser: the session of its commands.
pub(crate) struct Page(String);
