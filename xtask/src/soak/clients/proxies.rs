//! A real nginx in front of a server, below a path, with and without its buffering, as docs/serving.md writes its configuration.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::super::child::{Listening, free_port};
use super::{Client, Desk, merge, node_script, program, try_all};
use crate::{host, services, smoke, workspace};

const CHECKS: &[&str] = &[
    "streams arrive in pieces",
    "a client that leaves is noticed",
    "a WebSocket",
    "a stream that continues after the last event",
    "a file of 5 MB",
    "AG-UI's client",
];

/// With what a proxy that speaks HTTP/1.0 passes on, and one that buffers whatever the server says.
const BUFFERED: &[&str] = &[
    "streams arrive in pieces",
    "a client that leaves is noticed",
    "a WebSocket",
    "a stream that continues after the last event",
    "a file of 5 MB",
    "AG-UI's client",
    "also over HTTP/1.0",
    "nothing in pieces where buffering is forced",
];

const SETTINGS: &[(&str, &[&str])] = &[("on", BUFFERED), ("off", CHECKS)];

fn title(buffering: &str) -> String {
    format!("nginx, `proxy_buffering {buffering}`")
}

/// The rows of the table.
#[cfg(test)]
pub(super) fn rows() -> Vec<(String, String)> {
    let each = SETTINGS.iter();
    each.map(|(buffering, _)| (title(buffering), String::new()))
        .collect()
}

/// Tries clients through each.
pub(in crate::soak) fn check() -> Result<()> {
    let nginx = services::nginx()?;
    let version = version(&nginx)?;
    let node = smoke::clients()?;
    let desk = Desk::open(&program()?, "")?;
    let (mut clients, mut running) = (Vec::new(), Vec::new());
    for (buffering, checks) in SETTINGS {
        let [port, old, forced] = [free_port()?, free_port()?, free_port()?];
        let folder = tempfile::tempdir()?;
        let address = desk.served.address();
        fs::write(
            folder.path().join("nginx.conf"),
            configuration(address, buffering, [port, old, forced])?,
        )?;
        let mut command = host::command(&nginx);
        command
            .args(["-e", "stderr", "-c", "nginx.conf", "-p"])
            .arg(folder.path());
        running.push(Listening::start(command, folder, port, Duration::from_secs(20))?);
        let mut given = desk.given();
        let [url, old, forced] = [port, old, forced].map(|port| format!("http://127.0.0.1:{port}/desk"));
        let more = json!({ "url": url, "direct": desk.served.url(), "old": old, "forced": forced, "checks": checks });
        merge(&mut given, more)?;
        let mut command = host::command("node");
        command
            .arg(node_script(&node, "proxy.mjs")?)
            .arg(given.to_string());
        clients.push(Client {
            program: title(buffering),
            over: "",
            on: version.clone(),
            command,
            checks,
        });
    }
    let tried = try_all("proxies", clients);
    for proxy in &running {
        if tried.is_err() {
            println!("the proxy said:\n{}", proxy.log());
        }
    }
    tried
}

fn version(nginx: &Path) -> Result<String> {
    // It names its version on standard error.
    let output = host::command(nginx).arg("-v").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let version = said.trim().rsplit('/').next().unwrap_or_default();
    ensure!(!version.is_empty(), "nginx names no version: {said}");
    Ok(format!("nginx {version}"))
}

/// The configuration of docs/serving.md, word for word but for the address.
fn configuration(address: &str, buffering: &str, ports: [u16; 3]) -> Result<String> {
    let document = fs::read_to_string(workspace::root().join("docs/serving.md"))?;
    let block = document
        .split_once("```nginx\n")
        .and_then(|(_, rest)| rest.split_once("```"));
    let (location, rest) = block.context("docs/serving.md has no configuration of nginx")?;
    ensure!(
        location.contains("127.0.0.1:8000"),
        "the configuration has another address"
    );
    let location = location.replace("127.0.0.1:8000", address);
    let map = rest
        .split_once("`map ")
        .and_then(|(_, rest)| rest.split_once('`'));
    let (map, _) = map.context("docs/serving.md has no map for WebSockets")?;
    let [port, old, forced] = ports;
    // Of chunks nginx sends each on; of HTTP/1.0, its default, it fills its buffers first.
    let before = location.replace("proxy_http_version 1.1;", "proxy_http_version 1.0;");
    ensure!(
        before != location,
        "the configuration has another version of HTTP"
    );
    let servers = [
        (port, &location, ""),
        (old, &before, ""),
        (forced, &before, "proxy_ignore_headers X-Accel-Buffering;"),
    ];
    let servers = servers.map(|(port, location, more)| {
        format!("  server {{\n    listen 127.0.0.1:{port};\n    proxy_buffering {buffering};\n    {more}\n{location}  }}\n")
    });
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path {kind};\n"));
    Ok(format!(
        "daemon off;\npid nginx.pid;\nerror_log stderr;\nuser root;\nevents {{}}\nhttp {{\n  access_log off;\n{}  map {map}\n{}}}\n",
        temporary.concat(),
        servers.concat()
    ))
}
