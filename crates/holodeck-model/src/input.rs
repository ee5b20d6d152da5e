//! Reads files that a user names, always with limits on size and time: a pipe may have no writer, and a device no end.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read as _},
    path::Path,
    sync::mpsc,
    thread,
    time::Duration,
};

/// How long reading anything but a regular file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the whole file; fails if it is larger than `limit` bytes. A pipe must be read within 5 s.
pub fn read_input(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let bytes = read_up_to(path, limit.saturating_add(1))?;
    if bytes.len() as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

/// As [`read_input`], for UTF-8 text.
pub fn read_text_input(path: &Path, limit: u64) -> io::Result<String> {
    let bytes = read_input(path, limit)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Opens a regular file of at most `limit` bytes, to read it piece by piece in any order.
pub fn open_input(path: &Path, limit: u64) -> io::Result<File> {
    // Checked before opening: opening a pipe waits for its writer.
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    if metadata.len() > limit {
        return Err(too_large(limit));
    }
    File::open(path)
}

/// Reads at most the first `limit` bytes.
pub(crate) fn read_up_to(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() {
        return read(path, limit);
    }
    let (sender, receiver) = mpsc::channel();
    let file = path.to_owned();
    // A thread that is blocked in the system cannot be stopped; it ends with the process.
    thread::Builder::new().name("input".to_owned()).spawn(move || {
        let _ = sender.send(read(&file, limit));
    })?;
    receiver.recv_timeout(READ_TIMEOUT).unwrap_or_else(|_| {
        let limit = READ_TIMEOUT.as_secs();
        Err(io::Error::new(
            ErrorKind::TimedOut,
            format!("it is not a regular file, and reading it took more than {limit} s"),
        ))
    })
}

fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(
        ErrorKind::FileTooLarge,
        format!("it is larger than the {limit} bytes allowed"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_input(&path, 5).unwrap(), b"12345");
        assert_eq!(read_text_input(&path, 5).unwrap(), "12345");
        let error = read_input(&path, 4).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than the 4 bytes allowed");
        assert_eq!(open_input(&path, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        open_input(&path, 5).unwrap();
    }

    #[test]
    fn a_device_without_an_end_is_rejected() {
        let zeros = Path::new("/dev/zero");
        let error = read_input(zeros, 1_000).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than the 1000 bytes allowed");
        assert_eq!(read_up_to(zeros, 1_000).unwrap().len(), 1_000);
        let error = open_input(zeros, u64::MAX).unwrap_err();
        assert_eq!(error.to_string(), "it is not a regular file");
    }
}
