//! Reads the current commit from the files of a git repository, for the metadata of a run.
//!
//! Must not run `git`: it may be missing, and its configuration can run other programs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use holodeck_model::read_text_input;

/// The size limit of a file: larger than the packed references of a large repository.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The current commit of the folder's repository, read from its files without running a program.
pub(crate) fn commit(dir: &Path) -> Option<String> {
    let start = fs::canonicalize(if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    })
    .ok()?;
    let git = start
        .ancestors()
        .map(|dir| dir.join(".git"))
        .find(|git| git.exists())?;
    let git = if git.is_dir() { git } else { read_gitdir(&git)? };
    let head = read(git.join("HEAD")).ok()?;
    let Some(reference) = head.trim().strip_prefix("ref: ") else {
        return parse_commit(head.trim());
    };
    let common = read(git.join("commondir")).map_or_else(|_| git.clone(), |path| git.join(path.trim()));
    if let Ok(commit) = read(git.join(reference)).or_else(|_| read(common.join(reference))) {
        return parse_commit(commit.trim());
    }
    let packed = read(common.join("packed-refs")).ok()?;
    packed.lines().find_map(|line| {
        line.strip_suffix(reference)
            .and_then(|commit| parse_commit(commit.trim()))
    })
}

fn read(file: impl AsRef<Path>) -> io::Result<String> {
    read_text_input(file.as_ref(), MAX_BYTES)
}

/// A worktree's `.git` is a file that names the real folder.
fn read_gitdir(file: &Path) -> Option<PathBuf> {
    let text = read(file).ok()?;
    let path = text.trim().strip_prefix("gitdir: ")?;
    Some(file.parent()?.join(path))
}

fn parse_commit(text: &str) -> Option<String> {
    (text.len() >= 40 && text.chars().all(|character| character.is_ascii_hexdigit())).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_found_from_a_folder_below() {
        let dir = tempfile::tempdir().unwrap();
        let commit_id = "0123456789abcdef0123456789abcdef01234567";
        let git = dir.path().join(".git");
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        fs::create_dir_all(dir.path().join("deep/er")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(commit(&dir.path().join("deep/er")), None);
        fs::write(
            git.join("packed-refs"),
            format!("# pack-refs\n{commit_id} refs/heads/main\n"),
        )
        .unwrap();
        assert_eq!(commit(&dir.path().join("deep/er")).as_deref(), Some(commit_id));
        fs::write(
            git.join("refs/heads/main"),
            format!("{}\n", commit_id.replace('0', "1")),
        )
        .unwrap();
        assert_eq!(commit(dir.path()), Some(commit_id.replace('0', "1")));
    }
}
