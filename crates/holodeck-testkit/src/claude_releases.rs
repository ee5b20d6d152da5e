//! The releases of the real Claude Code CLI that are installed for tests. The one place that knows where they are.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test cannot continue without its CLI"
)]

use std::path::{Path, PathBuf};

use holodeck_model::CliVersion;

/// The release that the product is built for.
pub const PINNED_CLAUDE: CliVersion = CliVersion::new(2, 1, 330);
/// An older release that is installed too.
pub const OLDER_CLAUDE: CliVersion = CliVersion::new(2, 1, 197);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.smoke")
}

/// A release of the CLI. Its absence is a failure: a test that cannot run has not passed.
pub fn claude_cli(version: CliVersion) -> PathBuf {
    let place = format!("claude-{version}/node_modules/@anthropic-ai/claude-code-linux-x64/claude");
    let cli = folder().join(place);
    assert!(
        cli.exists(),
        "the Claude Code CLI {version} is not installed; `cargo xtask smoke` installs it"
    );
    cli
}

/// The releases that are installed, oldest first: the pinned ones, and for long runs the oldest that works and the
/// newest.
pub fn claude_releases() -> Vec<CliVersion> {
    let folders = std::fs::read_dir(folder()).unwrap().flatten();
    let names = folders.map(|folder| folder.file_name().to_string_lossy().into_owned());
    let versions = names.filter_map(|name| CliVersion::parse(name.strip_prefix("claude-")?));
    let mut versions: Vec<_> = versions.collect();
    versions.sort();
    assert!(versions.contains(&PINNED_CLAUDE));
    versions
}
