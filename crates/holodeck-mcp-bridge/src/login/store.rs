//! Logins in the user's folder: one file each, named after the server's address and the authorization server, which only
//! its owner can read. A link in their place is refused.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use holodeck_http::HttpUrl;
use holodeck_model::{create_private_folder, hex_prefix, io_reason, private_file};
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};

use crate::login::address::server_url;
use crate::login::error::StoreError;
use crate::login::saved::Saved;

/// The largest file that is read.
const MAX_BYTES: u64 = 256 * 1024;

/// The permissions of the group and of others.
const OTHERS: u32 = 0o077;

/// How long another process may hold the lock; it renews a token meanwhile.
const LOCK_LIMIT: Duration = Duration::from_mins(1);

/// How often the lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The logins of a user.
#[derive(Clone, Debug)]
pub struct Logins {
    folder: PathBuf,
}

/// A login, without its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    /// The server's address.
    pub server: String,
    /// The authorization server.
    pub issuer: String,
    /// The scopes that were granted.
    pub scopes: Vec<String>,
    /// Seconds since 1970 at which the access token ends; `None` if the authorization server did not say.
    pub expires_at: Option<u64>,
    /// Whether a token that ends is renewed.
    pub renews: bool,
    /// The file with the tokens.
    pub path: PathBuf,
}

/// Held while the login of a server is renewed or written.
#[derive(Debug)]
pub(crate) struct LoginLock(#[expect(dead_code, reason = "unlocked when it is dropped")] File);

impl Logins {
    /// The logins in a folder, which need not exist.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Whether there is a login for a server's address. One that can't be read counts: the reason is said when it is used.
    pub fn has(&self, url: &str) -> bool {
        match server_url(url) {
            Ok(server) => !matches!(self.find(&server), Ok(None)),
            Err(_not_an_address) => false,
        }
    }

    /// The login for a server's address.
    pub fn of(&self, url: &str) -> Result<Option<LoggedIn>, StoreError> {
        let server = server_url(url).map_err(|error| error_at(&self.folder, error.to_string()))?;
        let saved = self.find(&server)?;
        Ok(saved.map(|saved| self.describe(&saved)))
    }

    /// The secrets of the login for a server's address, for masking; none if it can't be read.
    pub fn secrets(&self, url: &str) -> Vec<SecretString> {
        let saved = server_url(url)
            .ok()
            .and_then(|server| self.find(&server).ok().flatten());
        saved.map(|saved| saved.secrets().collect()).unwrap_or_default()
    }

    pub(crate) fn describe(&self, saved: &Saved) -> LoggedIn {
        LoggedIn {
            server: saved.server.clone(),
            issuer: saved.issuer.clone(),
            scopes: saved.scopes.clone(),
            expires_at: saved.expires_at,
            renews: saved.refresh_token.is_some(),
            path: self.path(&saved.server, &saved.issuer),
        }
    }

    /// The newest login for a server.
    pub(crate) fn find(&self, server: &HttpUrl) -> Result<Option<Saved>, StoreError> {
        let mut found: Option<Saved> = None;
        for path in self.paths(server)? {
            let Some(saved) = Self::read(&path)? else { continue };
            // A file under the name of another server would send it a foreign token.
            if saved.server != server.exposed() || self.path(&saved.server, &saved.issuer) != path {
                return Err(error_at(&path, "it belongs to another server"));
            }
            if found.as_ref().is_none_or(|other| other.since <= saved.since) {
                found = Some(saved);
            }
        }
        Ok(found)
    }

    /// Writes a login; the caller holds its lock. Logins to the same server by other authorization servers are removed.
    pub(crate) fn write(&self, server: &HttpUrl, saved: &Saved) -> Result<(), StoreError> {
        let path = self.path(&saved.server, &saved.issuer);
        self.prepare()?;
        let others = self.paths(server)?.into_iter().filter(|other| *other != path);
        let io = |error: io::Error| error_at(&path, io_reason(&error));
        let text = serde_json::to_vec_pretty(saved).map_err(|error| error_at(&path, error.to_string()))?;
        let temporary = path.with_extension("new");
        let written = (|| {
            // The lock is held, so that a file from before is of a process that was killed.
            remove(&temporary)?;
            let mut file = private_file().create_new(true).open(&temporary)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&self.folder)?.sync_all()
        })();
        written.map_err(|error| {
            let _ = fs::remove_file(&temporary);
            io(error)
        })?;
        for other in others {
            remove(&other).map_err(|error| error_at(&other, io_reason(&error)))?;
        }
        Ok(())
    }

    /// Removes the logins for a server; the caller holds its lock. Says how many there were.
    pub(crate) fn remove(&self, server: &HttpUrl) -> Result<usize, StoreError> {
        let paths = self.paths(server)?;
        for path in &paths {
            remove(path).map_err(|error| error_at(path, io_reason(&error)))?;
        }
        Ok(paths.len())
    }

    /// Waits until no other process, and no other server of this one, renews or writes the login of a server.
    pub(crate) async fn lock(&self, server: &HttpUrl) -> Result<LoginLock, StoreError> {
        self.prepare()?;
        let path = self.folder.join(format!("{}.lock", key(server.exposed())));
        let io = |error: io::Error| error_at(&path, io_reason(&error));
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.is_file() => return Err(error_at(&path, "it is not a regular file")),
            _ => {}
        }
        let file = private_file().open(&path).map_err(io)?;
        let deadline = Instant::now() + LOCK_LIMIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(LoginLock(file)),
                Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => sleep(LOCK_PAUSE).await,
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(error_at(&path, "another process holds it for more than a minute"));
                }
                Err(fs::TryLockError::Error(error)) => return Err(io(error)),
            }
        }
    }

    /// The files of a server, by any authorization server.
    fn paths(&self, server: &HttpUrl) -> Result<Vec<PathBuf>, StoreError> {
        if !self.check_folder()? {
            return Ok(Vec::new());
        }
        let io = |error: io::Error| error_at(&self.folder, io_reason(&error));
        let prefix = format!("{}-", key(server.exposed()));
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(&prefix) && Path::new(&*name).extension().is_some_and(|end| end == "json") {
                paths.push(self.folder.join(&*name));
            }
        }
        paths.sort();
        Ok(paths)
    }

    fn path(&self, server: &str, issuer: &str) -> PathBuf {
        self.folder.join(format!("{}-{}.json", key(server), key(issuer)))
    }

    fn prepare(&self) -> Result<(), StoreError> {
        if self.check_folder()? {
            return Ok(());
        }
        create_private_folder(&self.folder).map_err(|error| error_at(&self.folder, io_reason(&error)))?;
        self.check_folder().map(|_exists| ())
    }

    /// Whether the folder exists. One that others can read, or that leads elsewhere, is an error.
    fn check_folder(&self) -> Result<bool, StoreError> {
        let found = match fs::symlink_metadata(&self.folder) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error_at(&self.folder, io_reason(&error))),
        };
        if !found.is_dir() {
            return Err(error_at(
                &self.folder,
                "it is not a folder; a link is not followed",
            ));
        }
        check_mode(&self.folder, found.permissions().mode())?;
        Ok(true)
    }

    /// The login in a file; `None` if it was removed meanwhile.
    fn read(path: &Path) -> Result<Option<Saved>, StoreError> {
        let io = |error: io::Error| error_at(path, io_reason(&error));
        let named = match fs::symlink_metadata(path) {
            Ok(named) => named,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        if !named.is_file() {
            return Err(error_at(path, "it is not a regular file; a link is not followed"));
        }
        let file = File::open(path).map_err(io)?;
        let opened = file.metadata().map_err(io)?;
        if (named.dev(), named.ino()) != (opened.dev(), opened.ino()) {
            // Another process has written it meanwhile.
            return Self::read(path);
        }
        check_mode(path, opened.permissions().mode())?;
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text).map_err(io)?;
        // The reason of the parser could quote a token.
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|_error| error_at(path, "it is damaged; log in again to replace it"))
    }
}

fn error_at(path: &Path, reason: impl Into<String>) -> StoreError {
    StoreError::new(path, reason)
}

fn check_mode(path: &Path, mode: u32) -> Result<(), StoreError> {
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let reason = format!(
        "others can read it (mode {:o}); `chmod go= {}` takes that away",
        mode & 0o777,
        path.display()
    );
    Err(error_at(path, reason))
}

fn key(of: &str) -> String {
    hex_prefix(&Sha256::digest(of.as_bytes()), 16)
}

/// Removes a file, which need not exist.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
