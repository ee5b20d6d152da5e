//! Replaces files of users atomically after an edit.

use std::{
    fs, io,
    io::{Read as _, Write as _},
    path::Path,
};

/// The mark before the text of some files in UTF-8, which is no part of the text.
const MARK: &str = "\u{feff}";

/// Replaces the text of a file atomically: readers find the old text or the new one. Creates its folder. A byte order mark
/// stays, and a file in UTF-16 is not changed, as every byte of it would be another.
pub(crate) fn replace_text(path: &Path, text: &str) -> io::Result<()> {
    let mark = mark_of(path)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    // Links are kept.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let result = (|| {
        let mut file = fs::File::create(&new)?;
        if let Ok(old) = fs::metadata(&path) {
            file.set_permissions(old.permissions())?;
        }
        if !text.starts_with(MARK) {
            file.write_all(mark.as_bytes())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)
    })();
    if result.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&new);
    }
    result
}

/// The byte order mark of a file that is there; none of one that is not.
fn mark_of(path: &Path) -> io::Result<&'static str> {
    let mut begin = Vec::new();
    match fs::File::open(path) {
        Ok(file) => file.take(3).read_to_end(&mut begin)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(""),
        Err(error) => return Err(error),
    };
    if begin.starts_with(b"\xFF\xFE") || begin.starts_with(b"\xFE\xFF") {
        return Err(io::Error::other("it is in UTF-16; save it in UTF-8 first"));
    }
    Ok(if begin == MARK.as_bytes() { MARK } else { "" })
}
