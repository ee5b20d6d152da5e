//! Where the conversations with an agent are kept.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use holodeck_backend_api::Occasion;
use holodeck_events::{
    EventStore, MemoryStore, PostgresOptions, PostgresStore, Retention, SqliteOptions, SqliteStore,
    StoreError,
};
use holodeck_model::{Agent, Env, EventStoreKind, EventsConfig, Survives, io_reason};
use holodeck_yaml::LoadedAgent;

use crate::agent::targets::{RefusedTarget, check_yaml_targets};

/// Space that a server keeps free for deletions on a full disk.
const RESERVE: u64 = 8 << 20;

/// The file with the conversations of the agent in this file: as its `events:` block says, or beside its runs.
pub fn event_store_path(agent_file: &Path, agent: Option<&Agent>) -> PathBuf {
    let folder = agent_file.parent().map(Path::to_path_buf).unwrap_or_default();
    let events = agent.and_then(|agent| agent.events.as_ref());
    match events {
        Some(events) => folder.join(&events.path),
        None => folder.join(EventsConfig::default().path),
    }
}

/// Why the conversations with an agent cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenEventsError {
    /// The YAML names a file that must not be written.
    #[error(transparent)]
    Target(#[from] RefusedTarget),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Opens what keeps the conversations with an agent: a file, a database, or nothing but memory. A file of the YAML that
/// holds something else is refused.
pub async fn open_events(
    agent_file: &Path,
    agent: &LoadedAgent,
    env: &Env,
    occasion: Occasion,
) -> Result<Arc<dyn EventStore>, OpenEventsError> {
    check_yaml_targets(agent, env)?;
    let agent = &agent.config;
    let events = agent.events.clone().unwrap_or_default();
    Ok(match events.store {
        EventStoreKind::Memory => Arc::new(MemoryStore::new()),
        EventStoreKind::Sqlite => {
            let path = event_store_path(agent_file, Some(agent));
            let mut options = sqlite_options(&events);
            if occasion == Occasion::Serve {
                options.reserve_bytes = RESERVE;
            }
            Arc::new(open_with(&path, options).await?)
        }
        EventStoreKind::Postgres => {
            let url = env.get(&events.url_env).filter(|url| !url.trim().is_empty());
            let url = url.ok_or_else(|| StoreError::Failed {
                reason: format!(
                    "the variable `{}` has no URL of a PostgreSQL database",
                    events.url_env
                ),
            })?;
            Arc::new(PostgresStore::open(url, PostgresOptions::default()).await?)
        }
    })
}

/// How long events are kept.
pub(crate) fn retention(agent: &Agent) -> Retention {
    let events = agent.events.clone().unwrap_or_default();
    let days = events
        .retention_days
        .map(|days| Duration::from_hours(24 * u64::from(days)));
    Retention {
        resume_window: Duration::from_secs(events.resume_window_seconds.into()),
        sessions: days,
    }
}

/// Opens the store, or creates it readable only by its owner, and ends the runs whose processes are gone.
pub async fn open_event_store(path: &Path) -> Result<SqliteStore, StoreError> {
    open_with(path, SqliteOptions::default()).await
}

fn sqlite_options(events: &EventsConfig) -> SqliteOptions {
    let durability = events.durability;
    let mut options = SqliteOptions::default();
    options.durable_content = durability.content == Survives::Power;
    options.durable_chunks = durability.chunks == Survives::Power;
    options.free_space = Some(holodeck_process::free_space);
    options
}

async fn open_with(path: &Path, options: SqliteOptions) -> Result<SqliteStore, StoreError> {
    create_private(path).map_err(|error| StoreError::Failed {
        reason: format!("{}: {}", path.display(), io_reason(&error)),
    })?;
    SqliteStore::open(path, options).await
}

/// Creates the file. SQLite gives the files beside it the same mode.
fn create_private(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
    {
        Ok(file) => file.sync_all(),
        Err(_) if fs::metadata(path).is_ok() => Ok(()),
        Err(error) => Err(error),
    }
}
