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

/// A server of the Model Context Protocol that is not ours, for tests.
const MCP_VERSION: &str = "2026.8.31";

/// The bare binary: what the package for people links to, which an older Node silently gets an older release of.
const CLI_PACKAGE: &str = "@anthropic-ai/claude-code-linux-x64";
const SDK_PACKAGE: &str = "@anthropic-ai/claude-agent-sdk";
const MCP_PACKAGE: &str = "@modelcontextprotocol/server-everything";

/// Where everything is; git ignores it.
const FOLDER: &str = ".smoke";

/// What is installed.
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
    let sdk = package(
        "sdk",
        SDK_PACKAGE,
        SDK_VERSION,
        &["--omit=optional", "--omit=peer"],
    )?;
    let mcp = package("mcp", MCP_PACKAGE, MCP_VERSION, &[])?;
    Ok(Installed { clis, sdk, mcp })
}

fn cli(pin: &CliPin) -> Result<PathBuf> {
    let folder = format!("claude-{}", pin.version);
    let binary = package(&folder, CLI_PACKAGE, pin.version, &[])?.join("claude");
    if size(&binary) != Some(pin.size) {
        // A download that was broken off; npm itself would not look again.
        fs::remove_dir_all(workspace::root().join(FOLDER).join(&folder))?;
        package(&folder, CLI_PACKAGE, pin.version, &[])?;
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

/// The folder of a package in exactly this version.
fn package(folder: &str, name: &str, version: &str, omit: &[&str]) -> Result<PathBuf> {
    let dir = workspace::root().join(FOLDER).join(folder);
    let installed = dir.join("node_modules").join(name);
    if installed_version(&installed).as_deref() == Some(version) {
        return Ok(installed);
    }
    println!("installing {name} {version}");
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
    npm.args(args)
        .args(omit)
        .arg(format!("{name}@{version}"))
        .current_dir(&dir);
    host::run(&mut npm)?;
    match installed_version(&installed) {
        Some(found) if found == version => Ok(installed),
        Some(found) => bail!("npm installed {name} {found} instead of {version}"),
        None => bail!("npm installed no {name}"),
    }
}

fn installed_version(package: &Path) -> Option<String> {
    let text = fs::read_to_string(package.join("package.json")).ok()?;
    let manifest: Value = serde_json::from_str(&text).ok()?;
    manifest.get("version")?.as_str().map(str::to_owned)
}
