//! Writes a build context to a folder or a tar file, the same bytes each time.

use std::{
    fs::{self, File, FileTimes},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{BuildContext, ContextFile, containerfile::MARK};

/// The size of a block of a tar file.
const BLOCK: usize = 512;

/// Why a context could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// Something else is there.
    #[error("`{}` is there, and is no build context of `holodeck deploy build`", .0.display())]
    Foreign(PathBuf),
    /// A name is too long for a tar file.
    #[error("the name of `{0}` is too long for a tar file")]
    Name(String),
    /// It cannot be written.
    #[error("cannot write `{}`: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

fn failed(path: &Path) -> impl Fn(io::Error) -> OutputError {
    move |error| OutputError::Io {
        path: path.to_owned(),
        error,
    }
}

/// Writes a context to a folder that is missing, empty, or holds an earlier context.
pub fn write_folder(context: &BuildContext, folder: &Path) -> Result<(), OutputError> {
    clear(folder)?;
    for file in &context.files {
        let path = folder.join(&file.name);
        write(&path, file).map_err(failed(&path))?;
    }
    Ok(())
}

/// Removes an earlier context. Nothing else is ever removed.
fn clear(folder: &Path) -> Result<(), OutputError> {
    let foreign = || Err(OutputError::Foreign(folder.to_owned()));
    let about = match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(failed(folder))?,
    };
    if !about.is_dir() {
        return foreign();
    }
    let mut entries = fs::read_dir(folder).map_err(failed(folder))?;
    if entries.next().is_none() {
        return Ok(());
    }
    let text = fs::read_to_string(folder.join("Containerfile")).unwrap_or_default();
    if !text.starts_with(MARK) {
        return foreign();
    }
    fs::remove_dir_all(folder).map_err(failed(folder))
}

fn write(path: &Path, file: &ContextFile) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut written = File::options()
        .write(true)
        .create_new(true)
        .mode(mode(file))
        .open(path)?;
    written.write_all(&file.bytes)?;
    // Whatever the user's mask is.
    written.set_permissions(fs::Permissions::from_mode(mode(file)))?;
    written.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH))
}

fn mode(file: &ContextFile) -> u32 {
    if file.executable { 0o755 } else { 0o644 }
}

/// Writes a context as a tar file, which builders also read from stdin.
pub fn write_tar(context: &BuildContext, path: &Path) -> Result<(), OutputError> {
    let mut bytes = Vec::new();
    for file in &context.files {
        bytes.extend(header(file)?);
        bytes.extend(&file.bytes);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    // The end of a tar file.
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    fs::write(path, bytes).map_err(failed(path))
}

/// The header of a file in the format `ustar`.
fn header(file: &ContextFile) -> Result<Vec<u8>, OutputError> {
    let too_long = || OutputError::Name(file.name.clone());
    let (prefix, name) = split(&file.name).ok_or_else(too_long)?;
    let size = format!("{:011o}\0", file.bytes.len());
    if size.len() > 12 {
        return Err(too_long());
    }
    let mut header = Vec::with_capacity(BLOCK);
    let mut field = |text: &str, width: usize| {
        header.extend(text.as_bytes());
        header.resize(header.len() + width - text.len(), 0);
    };
    field(name, 100);
    field(&format!("{:07o}", mode(file)), 8);
    // The user, the group.
    field("0000000", 8);
    field("0000000", 8);
    field(&size, 12);
    field("00000000000", 12);
    // The sum counts as spaces in the sum itself.
    field("        ", 8);
    field("0", 1);
    field("", 100);
    field("ustar\u{0}00", 8);
    field("root", 32);
    field("root", 32);
    field("0000000", 8);
    field("0000000", 8);
    field(prefix, 155);
    field("", 12);
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header.splice(148..156, format!("{sum:06o}\0 ").into_bytes());
    Ok(header)
}

/// A name in the two parts that a header has room for.
fn split(name: &str) -> Option<(&str, &str)> {
    if name.len() <= 100 {
        return Some(("", name));
    }
    let mut slashes = name.match_indices('/').map(|(at, _)| at);
    let at = slashes.find(|at| name.len() - at - 1 <= 100 && *at <= 155)?;
    Some((name.get(..at)?, name.get(at + 1..)?))
}
