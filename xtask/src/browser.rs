//! A headless Chromium for long runs, driven by the scripts in `xtask/browser` with Playwright.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{host, smoke, workspace};

/// The scripts, copied to where Node finds Playwright.
const SCRIPTS: [&str; 4] = ["common.mjs", "page.mjs", "report.mjs", "view.mjs"];

/// Debian's package and program.
const CHROMIUM: &str = "chromium";

/// The program that scripts start.
pub(crate) fn program() -> String {
    format!("/usr/bin/{CHROMIUM}")
}

/// Its name and version, as `Chromium 142.0.7444.162`.
pub(crate) fn version() -> Result<String> {
    let line = host::first_line(CHROMIUM, &["--version"]).context("`chromium` names no version")?;
    Ok(line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

/// Playwright without a browser of its own, and the scripts beside it.
pub(crate) struct Browser {
    folder: PathBuf,
}

impl Browser {
    /// Installs Playwright, and Chromium if the machine has none.
    pub(crate) fn install() -> Result<Self> {
        if host::first_line(CHROMIUM, &["--version"]).is_none() {
            println!("installing Chromium");
            let install = ["install", "--yes", "--quiet", CHROMIUM];
            host::run(host::command("apt-get").args(["update", "--quiet"]))
                .and_then(|()| host::run(host::command("apt-get").args(install)))
                .context("there is no `chromium`, and it cannot be installed")?;
        }
        let folder = smoke::playwright()?;
        for name in SCRIPTS {
            fs::copy(
                workspace::root().join("xtask/browser").join(name),
                folder.join(name),
            )
            .with_context(|| format!("failed to copy {name}"))?;
        }
        Ok(Self { folder })
    }

    /// The folder in which Node finds Playwright.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a script; an error if it fails.
    pub(crate) fn run(&self, script: &str, args: &[&str], mut options: Value) -> Result<()> {
        if let Some(options) = options.as_object_mut() {
            options.insert("chromium".to_owned(), program().into());
        }
        let mut node = host::command("node");
        node.arg(self.folder.join(script))
            .args(args)
            .arg(options.to_string());
        host::run(&mut node)
    }
}
