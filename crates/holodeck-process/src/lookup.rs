//! Finds executables, by path or in a given `PATH`. Must not read the `PATH` of this process.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Finds an executable: at its path if `program` has a slash, else in the folders of `path` (a `PATH` value).
pub fn which(program: impl AsRef<Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let program = program.as_ref();
    if program.as_os_str().is_empty() {
        return None;
    }
    if has_folder(program) {
        return is_executable(program).then(|| program.to_owned());
    }
    // An empty entry would mean the working directory, whose files must not be found as programs.
    std::env::split_paths(path?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(|candidate| is_executable(candidate))
}

pub(crate) fn has_folder(program: &Path) -> bool {
    program.components().count() > 1 || program.is_absolute()
}

pub(crate) fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (tool, data) = (file("tool", 0o755), file("data", 0o644));
        fs::create_dir(folder.path().join("sub")).unwrap();
        let path = std::env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        let find = |program: &str| which(program, Some(&path));
        assert_eq!(find("tool"), Some(tool.clone()));
        assert_eq!(find("data"), None);
        assert_eq!(find("sub"), None);
        assert_eq!(find(""), None);
        assert_eq!(which(&tool, None), Some(tool));
        assert_eq!(which(data, Some(&path)), None);
        assert_eq!(which("tool", None), None);
        assert_eq!(which("tool", Some(OsStr::new("::."))), None);
    }
}
