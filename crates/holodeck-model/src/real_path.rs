//! The place that a path really names, also where nothing exists yet.

use std::{
    collections::VecDeque,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// The system follows no more links for one path.
const MOST_LINKS: usize = 40;

/// An absolute path with all links resolved and without `..`. What does not exist yet counts as what it will be: a link
/// to a missing file is the place of that file. What `/proc` has for a process is an error: its links name other files for
/// each reader, such as `/proc/self/root`.
pub fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    if !path.is_absolute() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path is not absolute",
        ));
    }
    let mut real = PathBuf::from("/");
    let mut rest: VecDeque<PathBuf> = path.components().map(|part| part.as_os_str().into()).collect();
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        match part.components().next() {
            None | Some(Component::CurDir | Component::Prefix(_)) => {}
            Some(Component::RootDir) => real = PathBuf::from("/"),
            Some(Component::ParentDir) => {
                real.pop();
            }
            Some(Component::Normal(name)) => {
                let next = real.join(name);
                if is_of_process(&next) {
                    return Err(io::Error::other("it depends on the process that opens it"));
                }
                match fs::symlink_metadata(&next) {
                    Ok(found) if found.is_symlink() => {
                        links += 1;
                        if links > MOST_LINKS {
                            return Err(io::Error::other("too many links"));
                        }
                        let target = fs::read_link(&next)?;
                        for part in target.components().rev() {
                            rest.push_front(part.as_os_str().into());
                        }
                    }
                    Ok(_) => real = next,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => real = next,
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(real)
}

/// Whether a path is the folder of a process.
fn is_of_process(path: &Path) -> bool {
    let Ok(name) = path.strip_prefix("/proc") else {
        return false;
    };
    let name = name.to_string_lossy();
    matches!(&*name, "self" | "thread-self")
        || !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn links_are_resolved_also_where_nothing_exists() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("in/deep")).unwrap();
        fs::create_dir(root.join("out")).unwrap();
        fs::write(root.join("in/file"), "").unwrap();
        symlink(root.join("out"), root.join("in/folder")).unwrap();
        symlink("../out/new", root.join("in/dangling")).unwrap();
        symlink("loop", root.join("in/loop")).unwrap();
        symlink("/proc/self", root.join("in/process")).unwrap();
        for (path, expected) in [
            ("in/file", Some("in/file")),
            ("in/new", Some("in/new")),
            ("in/new/a/b", Some("in/new/a/b")),
            ("in/folder/new", Some("out/new")),
            ("in/folder/../x", Some("x")),
            ("in/dangling", Some("out/new")),
            ("in/dangling/below", Some("out/new/below")),
            ("in/../in/./deep", Some("in/deep")),
            ("in/loop", None),
            ("in/file/below", None),
        ] {
            let found = resolve_links(&root.join(path)).ok();
            assert_eq!(found, expected.map(|path| root.join(path)), "{path}");
        }
        assert!(resolve_links(Path::new("relative")).is_err());
    }

    #[test]
    fn files_of_a_process_have_no_place() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("process");
        symlink("/proc/self/root", &link).unwrap();
        for path in [
            "/proc/self",
            "/proc/self/root/etc/passwd",
            "/proc/thread-self/cwd/x",
            "/proc/1/environ",
            "/proc/1/task/1/root",
            "/dev/fd/0",
            "/proc/./self/../self/cwd",
        ] {
            assert!(resolve_links(Path::new(path)).is_err(), "{path}");
        }
        assert!(resolve_links(&link.join("etc/passwd")).is_err());
        let cpu = resolve_links(Path::new("/proc/cpuinfo")).unwrap();
        assert_eq!(cpu, Path::new("/proc/cpuinfo"));
    }
}
