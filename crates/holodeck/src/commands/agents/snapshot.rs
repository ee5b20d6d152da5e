//! The files of a working directory, for the `globs` of agents.

use std::{collections::VecDeque, fs, path::Path};

/// At most this number of files.
const MAX_FILES: usize = 2_000;

/// At most this number of folders is read.
const MAX_FOLDERS: usize = 2_000;

/// Folders that tools fill.
const LEFT_OUT: &[&str] = &["node_modules", "target", "__pycache__", "venv"];

/// The files of a folder and those below it, relative and sorted; if there are more than 2,000, those nearest to the top.
/// Hidden files, links and folders that tools fill are left out.
pub fn snapshot_files(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = VecDeque::from([String::new()]);
    let mut read = 0;
    while let Some(prefix) = folders.pop_front() {
        read += 1;
        if read > MAX_FOLDERS {
            break;
        }
        let Ok(listed) = fs::read_dir(folder.join(&prefix)) else {
            continue;
        };
        let mut entries: Vec<_> = listed
            .flatten()
            .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.file_type().ok()?)))
            .collect();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, kind) in entries {
            if name.starts_with('.') {
                continue;
            }
            let path = if prefix.is_empty() {
                name.clone()
            } else {
                format!("{prefix}/{name}")
            };
            if kind.is_dir() && !LEFT_OUT.contains(&name.as_str()) {
                folders.push_back(path);
            } else if kind.is_file() {
                files.push(path);
                if files.len() == MAX_FILES {
                    files.sort();
                    return files;
                }
            }
        }
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_near_the_top_come_first() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/deep")).unwrap();
        fs::create_dir_all(dir.path().join("target")).unwrap();
        for at in 0..MAX_FILES {
            fs::write(dir.path().join(format!("a/deep/{at}.rs")), "").unwrap();
        }
        for name in ["z.tf", ".env", "target/x.rs", "a/b.rs"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("z.tf", dir.path().join("y.tf")).unwrap();
        let files = snapshot_files(dir.path());
        assert_eq!(files.len(), MAX_FILES);
        assert!(files.is_sorted());
        assert!(files.contains(&"z.tf".to_owned()) && files.contains(&"a/b.rs".to_owned()));
        for absent in [".env", "target/x.rs", "y.tf"] {
            assert!(!files.contains(&absent.to_owned()), "{absent}");
        }
    }
}
