//! Replaces files of users atomically after an edit.

use std::{fs, io, io::Write as _, path::Path};

/// Replaces the text of a file atomically: readers find the old text or the new one. Creates its folder.
pub(crate) fn replace_text(path: &Path, text: &str) -> io::Result<()> {
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
