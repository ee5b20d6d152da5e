//! The components the product is built against, at the versions it is built against: the one place that names them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{host, workspace};

/// A release of the CLI that the table is made for.
pub(super) struct CliPin {
    pub(super) version: &'static str,
    /// Bytes of the binary.
    pub(super) size: u64,
}

/// The newest first: it is what the rows assume.
pub(super) const CLIS: [CliPin; 2] = [
    CliPin {
        version: "2.1.330",
        size: 381_121_040,
    },
    CliPin {
        version: "2.1.197",
        size: 245_517_112,
    },
];

/// The release of the SDK whose types the table is held against.
pub(super) const SDK_VERSION: &str = "0.3.330";

/// The release of the reference server of the Model Context Protocol.
pub(crate) const EVERYTHING_VERSION: &str = "2026.8.31";

/// Servers of the Model Context Protocol that are not ours, and its suite that judges clients, for tests. The first is
/// what the CLI talks to here.
const MCP: [Pin<'_>; 4] = [
    Pin::new("@modelcontextprotocol/server-everything", EVERYTHING_VERSION),
    Pin::new("@modelcontextprotocol/server-filesystem", "2026.8.31"),
    Pin::new("@modelcontextprotocol/server-memory", "2026.8.31"),
    Pin::new("@modelcontextprotocol/conformance", "0.1.16"),
];

/// Drives a browser that the machine has, and checks a page by the rules of accessibility.
const BROWSER: [Pin<'_>; 2] = [
    Pin::new("playwright-core", "1.65.1"),
    Pin::new("axe-core", "4.14.1"),
];

/// Clients that this project did not write, pinned by a lock file, and the scripts that run them for tests.
const CLIENTS: [&str; 5] = [
    "package.json",
    "package-lock.json",
    "agui.mjs",
    "talk.mjs",
    "change.mjs",
];

/// The oldest release that the product accepts.
const OLDEST: &str = "2.1.113";

/// The bare binary: what the package for people links to, which an older Node silently gets an older release of.
const CLI_PACKAGE: &str = "@anthropic-ai/claude-code-linux-x64";
const SDK_PACKAGE: &str = "@anthropic-ai/claude-agent-sdk";

/// A package in one version.
struct Pin<'a> {
    name: &'static str,
    version: &'a str,
}

impl<'a> Pin<'a> {
    const fn new(name: &'static str, version: &'a str) -> Self {
        Self { name, version }
    }
}

/// Where everything is; git ignores it.
const FOLDER: &str = ".smoke";

/// The installed programs.
pub(super) struct Installed {
    /// One per entry of [`CLIS`].
    pub(super) clis: Vec<PathBuf>,
    pub(super) sdk: PathBuf,
    pub(super) mcp: PathBuf,
}

/// Installs what is not there yet. What this machine can't have is an error.
pub(super) fn install() -> Result<Installed> {
    if !cfg!(all(
        target_os = "linux",
        target_arch = "x86_64",
        target_env = "gnu"
    )) {
        bail!("the pinned CLI is the one for Linux on x86-64");
    }
    let clis = CLIS.iter().map(cli).collect::<Result<_>>()?;
    // Its optional packages are more copies of the binary, its peers are for who runs it; only its types are read.
    let sdk = packages(
        "sdk",
        &[Pin::new(SDK_PACKAGE, SDK_VERSION)],
        &["--omit=optional", "--omit=peer"],
    )?;
    let mcp = packages("mcp", &MCP, &[])?;
    Ok(Installed { clis, sdk, mcp })
}

/// The folder in which Node finds Playwright and axe, which only long runs need.
pub(super) fn playwright() -> Result<PathBuf> {
    packages("browser", &BROWSER, &[])?;
    Ok(workspace::root().join(FOLDER).join("browser"))
}

pub(super) fn newest_cli() -> Result<PathBuf> {
    let [newest, ..] = &CLIS;
    cli(newest)
}

/// The releases of the CLI that the project names, the oldest first.
pub(super) fn named_clis() -> Vec<&'static str> {
    let pinned = CLIS.iter().rev().map(|pin| pin.version);
    std::iter::once(OLDEST).chain(pinned).collect()
}

/// Those releases and the newest that the registry serves, installed: for long runs.
pub(super) fn every_cli() -> Result<Vec<(String, PathBuf)>> {
    let view = ["view", CLI_PACKAGE, "version"];
    let newest = host::first_line("npm", &view).context("npm does not name the newest release of the CLI")?;
    let mut versions = named_clis();
    if !versions.contains(&newest.trim()) {
        versions.push(newest.trim());
    }
    let install = |version: &&str| {
        let pinned = CLIS.iter().find(|pin| pin.version == *version);
        let binary = if let Some(pin) = pinned {
            cli(pin)?
        } else {
            let package = [Pin::new(CLI_PACKAGE, version)];
            packages(&format!("claude-{version}"), &package, &[])?.join("claude")
        };
        Ok(((*version).to_owned(), binary))
    };
    versions.iter().map(install).collect()
}

/// The tool that configurations are imported from: the newest release for Node 20. Its native part for SQLite is an
/// optional package; the others, such as browsers and clouds, are not needed.
const PROMPTFOO: [Pin<'_>; 2] = [
    Pin::new("promptfoo", "0.121.20"),
    Pin::new("@libsql/linux-x64-gnu", "0.5.29"),
];

/// The script of promptfoo.
pub(super) fn promptfoo() -> Result<PathBuf> {
    Ok(packages("promptfoo", &PROMPTFOO, &["--omit=optional"])?.join("dist/src/entrypoint.js"))
}

/// The language server with which editors check YAML: the newest release for Node 20.
const YAML_SERVER: [Pin<'_>; 1] = [Pin::new("yaml-language-server", "1.23.0")];

/// The script of the YAML language server.
pub(super) fn yaml_server() -> Result<PathBuf> {
    Ok(packages("editor", &YAML_SERVER, &[])?.join("bin/yaml-language-server"))
}

/// A folder in which Node finds these packages and no other releases of them. It is named after the first.
pub(super) fn node_packages(pins: &[(&'static str, &str)]) -> Result<PathBuf> {
    let (name, version) = pins.first().context("no package to install")?;
    let folder = format!("field/node/{}-{version}", name.rsplit('/').next().unwrap_or(name));
    let pins: Vec<_> = pins
        .iter()
        .map(|(name, version)| Pin::new(name, version))
        .collect();
    packages(&folder, &pins, &[])?;
    Ok(workspace::root().join(FOLDER).join(folder))
}

/// The script of the reference server.
pub(super) fn everything() -> Result<PathBuf> {
    Ok(packages("mcp", &MCP, &[])?.join("dist/index.js"))
}

fn cli(pin: &CliPin) -> Result<PathBuf> {
    let folder = format!("claude-{}", pin.version);
    let package = [Pin::new(CLI_PACKAGE, pin.version)];
    let binary = packages(&folder, &package, &[])?.join("claude");
    if size(&binary) != Some(pin.size) {
        // An interrupted download; npm itself would not look again.
        fs::remove_dir_all(workspace::root().join(FOLDER).join(&folder))?;
        packages(&folder, &package, &[])?;
    }
    match size(&binary) {
        Some(size) if size == pin.size => Ok(binary),
        found => bail!(
            "claude {} has {} bytes instead of {}",
            pin.version,
            found.map_or_else(|| "no".to_owned(), |size| size.to_string()),
            pin.size
        ),
    }
}

pub(super) fn size(file: &Path) -> Option<u64> {
    fs::metadata(file).ok().map(|data| data.len())
}

/// Installs the clients. The lock file is copied last, so that an interrupted installation is repeated.
pub(super) fn clients() -> Result<()> {
    let from = workspace::root().join("fixtures/clients");
    let dir = workspace::root().join(FOLDER).join("clients");
    fs::create_dir_all(&dir).with_context(|| format!("failed to make {}", dir.display()))?;
    let wanted =
        CLIENTS.map(|name| fs::read(from.join(name)).with_context(|| format!("failed to read {name}")));
    let [manifest, lock, agui, talk, change] = wanted;
    let (manifest, lock) = (manifest?, lock?);
    fs::write(dir.join("agui.mjs"), agui?)?;
    fs::write(dir.join("talk.mjs"), talk?)?;
    fs::write(dir.join("change.mjs"), change?)?;
    let done = dir.join("installed-lock.json");
    if fs::read(&done).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    println!("installing clients of other projects");
    fs::write(dir.join("package.json"), manifest)?;
    fs::write(dir.join("package-lock.json"), &lock)?;
    let args = [
        "ci",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--loglevel=error",
    ];
    host::run(host::command("npm").args(args).current_dir(&dir))?;
    fs::write(&done, lock)?;
    Ok(())
}

/// The folder of the first of these packages, all of them in exactly these versions. Together, since npm removes what
/// it is not asked for.
fn packages(folder: &str, pins: &[Pin<'_>], omit: &[&str]) -> Result<PathBuf> {
    let dir = workspace::root().join(FOLDER).join(folder);
    let place = |pin: &Pin<'_>| dir.join("node_modules").join(pin.name);
    let first = pins.first().context("no package to install")?;
    let is_there = |pin: &Pin<'_>| installed_version(&place(pin)).as_deref() == Some(pin.version);
    if pins.iter().all(is_there) {
        return Ok(place(first));
    }
    let wanted: Vec<String> = pins
        .iter()
        .map(|pin| format!("{}@{}", pin.name, pin.version))
        .collect();
    println!("installing {}", wanted.join(" "));
    fs::create_dir_all(&dir).with_context(|| format!("failed to make {}", dir.display()))?;
    // Without a manifest here npm would take the next one above.
    let manifest = dir.join("package.json");
    if !manifest.exists() {
        fs::write(&manifest, "{\"private\": true}\n")?;
    }
    let args = [
        "install",
        "--no-save",
        "--no-package-lock",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--loglevel=error",
    ];
    let mut npm = host::command("npm");
    npm.args(args).args(omit).args(wanted).current_dir(&dir);
    host::run(&mut npm)?;
    for pin in pins {
        let name = pin.name;
        match installed_version(&place(pin)) {
            Some(found) if found == pin.version => {}
            Some(found) => bail!("npm installed {name} {found} instead of {}", pin.version),
            None => bail!("npm installed no {name}"),
        }
    }
    Ok(place(first))
}

fn installed_version(package: &Path) -> Option<String> {
    let text = fs::read_to_string(package.join("package.json")).ok()?;
    let manifest: Value = serde_json::from_str(&text).ok()?;
    manifest.get("version")?.as_str().map(str::to_owned)
}
