//! A login at an authorization server that others wrote, `oidc-provider`: a person agrees, the token is used, renewed and revoked.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use holodeck_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use super::Tested;
use super::child::{Listening, free_port};
use crate::served::{Profile, build};
use crate::{host, smoke, workspace};

const PACKAGE: &str = "oidc-provider";
const VERSION: &str = "9.13.3";

/// An interpreter with its packages may be slow to load.
const PATIENCE: Duration = Duration::from_mins(1);

/// Logs in, tests an agent with the token and with a renewed one, and logs out.
pub(in crate::soak) fn check() -> Result<()> {
    let program = build(Profile::Dev)?;
    let folder = smoke::node_package(PACKAGE, VERSION)?;
    let script = folder.join("oauth.mjs");
    fs::copy(workspace::root().join("xtask/servers/oauth.mjs"), &script)?;
    // The MCP server has the next port; both are asked for until they are free.
    let port = free_port()?;
    let mut command = host::command("node");
    command.arg(&script).arg(port.to_string());
    let servers = Listening::start(command, tempfile::tempdir()?, port, PATIENCE)?;
    let checked = log_in_and_out(&program, port + 1);
    checked.with_context(|| format!("{PACKAGE} {VERSION} said:\n{}", servers.log()))?;
    println!("ok    a login at {PACKAGE} {VERSION}: used, renewed and revoked");
    Ok(())
}

fn log_in_and_out(program: &Path, port: u16) -> Result<()> {
    let place = tempfile::tempdir()?;
    let home = place.path().join("home");
    let model = ModelServer::answering(|request| match request.texts("tool").first() {
        Some(result) => Reply::text(*result),
        None => Reply::tool_call("c1", "mcp__weather__sun", &json!({ "city": "Rome" })),
    });
    let agent = format!(
        "name: weather\nmodel: {{provider: openai, name: m, endpoint: \"{}/v1\", api_key: sk-field}}\n\
         instructions: {{inline: Answer briefly.}}\n\
         tools:\n  - {{type: mcp, name: weather, description: The weather., transport: http, \
         url: \"http://127.0.0.1:{port}/mcp\"}}\n\
         test_cases:\n  - {{name: sun, input: How is it?, evaluations: [{{metric: contains, value: sun in Rome}}]}}\n",
        model.url()
    );
    let holodeck = |folder: &Path, args: &[&str]| {
        let mut command = host::command(program);
        command
            .args(args)
            .current_dir(folder)
            .env("HOME", &home)
            .stdin(Stdio::null());
        command
    };
    let logged_in = place.path().join("login");
    fs::create_dir_all(&logged_in)?;
    fs::write(logged_in.join("agent.yaml"), &agent)?;
    agree(
        holodeck(&logged_in, &["mcp", "login", "weather", "--no-browser"]),
        place.path(),
    )?;
    let file = only_login(&home)?;
    for renewed in [false, true] {
        let before = token(&file)?;
        if renewed {
            let mut saved: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
            saved["expires_at"] = 1.into();
            fs::write(&file, saved.to_string())?;
        }
        let folder = place.path().join(format!("renewed-{renewed}"));
        fs::create_dir_all(&folder)?;
        let home = home.display().to_string();
        Tested::new(program, &folder, &agent, &[("HOME", &home)])?.ensure_passed()?;
        ensure!(
            (token(&file)? != before) == renewed,
            "the token was not renewed when it ended"
        );
    }
    let said = host::output(&mut holodeck(&logged_in, &["mcp", "logout", "weather"]))?;
    ensure!(
        !said.contains("may still be valid"),
        "the token was not revoked: {said}"
    );
    ensure!(!file.exists(), "{} is still there", file.display());
    drop(model);
    Ok(())
}

/// Logs in as a person whose browser keeps cookies and follows every redirect.
fn agree(mut login: Command, folder: &Path) -> Result<()> {
    let mut login = login.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut page = String::new();
    let stdout = login.stdout.as_mut().context("the login has no output")?;
    BufReader::new(stdout).read_line(&mut page)?;
    let cookies = folder.join("cookies");
    if !page.trim().is_empty() {
        let mut browser = host::command("curl");
        browser.args([
            "--silent",
            "--show-error",
            "--location",
            "--max-redirs",
            "10",
            "--cookie-jar",
        ]);
        host::output(
            browser
                .arg(&cookies)
                .arg("--cookie")
                .arg(&cookies)
                .arg(page.trim()),
        )?;
    }
    let done = login.wait_with_output()?;
    ensure!(
        done.status.success(),
        "the login failed: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(())
}

fn only_login(home: &Path) -> Result<std::path::PathBuf> {
    let folder = home.join(".holodeck/mcp-logins");
    let files = fs::read_dir(&folder)?.filter_map(|file| Some(file.ok()?.path()));
    let mut files = files.filter(|file| file.extension().is_some_and(|end| end == "json"));
    files
        .next()
        .with_context(|| format!("no login in {}", folder.display()))
}

fn token(file: &Path) -> Result<String> {
    let saved: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    Ok(saved["access_token"].as_str().context("no token")?.to_owned())
}
