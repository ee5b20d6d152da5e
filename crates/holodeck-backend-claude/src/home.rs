use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
};

use secrecy::ExposeSecret as _;
use tempfile::TempDir;

use crate::ClaudeOptions;

/// The private folder of one process: its home, its settings, and the files that are too secret or too long to be
/// arguments. Deleted when dropped.
#[derive(Debug)]
pub(crate) struct Home {
    folder: TempDir,
    system_prompt: PathBuf,
    mcp_config: PathBuf,
    working_directory: PathBuf,
}

impl Home {
    pub(crate) fn create(options: &ClaudeOptions) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("holodeck-claude-").tempdir()?;
        let at = |name: &str| folder.path().join(name);
        for part in ["home", "config", "tmp", "work"] {
            fs::DirBuilder::new().mode(0o700).create(at(part))?;
        }
        let (system_prompt, mcp_config) = (at("system-prompt.md"), at("mcp.json"));
        write_private(&system_prompt, options.system_prompt.as_bytes())?;
        if let Some(document) = &options.mcp_servers.document {
            write_private(&mcp_config, document.expose_secret().as_bytes())?;
        }
        for (below, real) in &options.home_links {
            let link = at("home").join(below);
            if let Some(parent) = link.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            }
            symlink(real, link)?;
        }
        let working_directory = match &options.working_directory {
            // The folder of `agent.yaml` has an empty name.
            Some(folder) => std::path::absolute(Path::new(".").join(folder))?,
            None => at("work"),
        };
        Ok(Self {
            folder,
            system_prompt,
            mcp_config,
            working_directory,
        })
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    pub(crate) fn system_prompt(&self) -> &Path {
        &self.system_prompt
    }

    pub(crate) fn mcp_config(&self) -> &Path {
        &self.mcp_config
    }

    pub(crate) fn working_directory(&self) -> &Path {
        &self.working_directory
    }

    /// Puts a conversation where the CLI looks for those it kept.
    pub(crate) fn keep_conversation(&self, id: &str, lines: &str) -> io::Result<()> {
        let folder = self.config().join("projects").join(self.slug());
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        write_private(&folder.join(format!("{id}.jsonl")), lines.as_bytes())
    }

    /// The CLI's name for the working directory.
    fn slug(&self) -> String {
        let real = fs::canonicalize(&self.working_directory);
        let folder = real.as_deref().unwrap_or(&self.working_directory);
        let sign = |sign: char| if sign.is_ascii_alphanumeric() { sign } else { '-' };
        folder.to_string_lossy().chars().map(sign).collect()
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}
